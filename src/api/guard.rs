//! Which pages may ask. In development mode only those of this machine: any web page can reach localhost, so Host and
//! Origin are checked, and so is what proxies say of where a request has been. With API keys the key is the check, and browsers keep foreign pages from reading answers; but a
//! socket can be opened by any page, so its Origin is checked here.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{
    ApiState,
    forwarded::another_machine,
    problem::{Problem, ProblemType},
};
use crate::domain::{AllowedOrigins, Origin};

/// Refuses requests of pages that are not let in.
pub async fn origins(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let checked =
        if state.auth.is_development() { check_development(headers) } else { check_handshake(headers, &state.origins) };
    match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

fn check_development(headers: &HeaderMap) -> Result<(), Problem> {
    let refuse = |what: &str| Err(Problem::new(ProblemType::ForbiddenOrigin, format!("{what} is not this machine")));
    // A page that has its own name resolve to 127.0.0.1 still sends that name as Host.
    if !text(headers, header::HOST).is_some_and(is_loopback_authority) {
        return refuse("the Host");
    }
    if text(headers, header::ORIGIN).is_some_and(|origin| !is_loopback_origin(origin)) {
        return refuse("the Origin");
    }
    // A proxy in front, or a tunnel, speaks from this machine for all that it lets through.
    match another_machine(headers) {
        Some((name, node)) => {
            let detail = format!("{name} names {node:?}, which is not this machine");
            Err(Problem::new(ProblemType::DevelopmentOnly, detail))
        }
        None => Ok(()),
    }
}

/// Only browsers send an Origin, and they always do so with a handshake.
fn check_handshake(headers: &HeaderMap, allowed: &AllowedOrigins) -> Result<(), Problem> {
    if !headers.contains_key(header::UPGRADE) {
        return Ok(());
    }
    let Some(origin) = text(headers, header::ORIGIN) else { return Ok(()) };
    let host = text(headers, header::HOST).unwrap_or_default();
    let same_host = origin.parse::<Origin>().is_ok_and(|origin| origin.is_at(host));
    if same_host || allowed.contains(origin) {
        return Ok(());
    }
    Err(Problem::new(ProblemType::ForbiddenOrigin, "pages of this Origin may not open a socket here"))
}

/// Whether an `Origin` is a page of this machine.
pub fn is_loopback_origin(origin: &str) -> bool {
    origin
        .parse::<Uri>()
        .ok()
        .and_then(|uri| uri.authority().map(|it| is_loopback_authority(it.as_str())))
        .unwrap_or(false)
}

/// Whether a host, with or without a port, is a name or address of this machine.
pub fn is_loopback_authority(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<axum::http::uri::Authority>() else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine() {
        for good in ["localhost", "localhost:7420", "127.0.0.1:80", "[::1]:7420", "app.localhost:3000", "LOCALHOST"] {
            assert!(is_loopback_authority(good), "{good}");
        }
        for bad in ["example.com", "localhost.example.com", "10.0.0.1", "127.0.0.1.nip.io", "", "notlocalhost"] {
            assert!(!is_loopback_authority(bad), "{bad}");
        }
        assert!(is_loopback_origin("http://localhost:5173"));
        assert!(!is_loopback_origin("null") && !is_loopback_origin("https://evil.example"));
    }
}
