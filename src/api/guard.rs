//! Development mode is for this machine only: any web page can reach localhost, so Host and Origin are checked.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{
    ApiState,
    problem::{Problem, ProblemType},
};

/// Refuses requests of foreign pages in development mode. With API keys the key is the check.
pub async fn loopback_only(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    if state.auth.is_development()
        && let Err(problem) = check(request.headers())
    {
        return problem.into_response();
    }
    next.run(request).await
}

fn check(headers: &HeaderMap) -> Result<(), Problem> {
    let refuse = |what: &str| Err(Problem::new(ProblemType::ForbiddenOrigin, format!("{what} is not this machine")));
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    // A page that has its own name resolve to 127.0.0.1 still sends that name as Host.
    if !text(header::HOST).is_some_and(is_loopback_authority) {
        return refuse("the Host");
    }
    match text(header::ORIGIN) {
        Some(origin) if !is_loopback_origin(origin) => refuse("the Origin"),
        _ => Ok(()),
    }
}

/// Whether an `Origin` is a page of this machine.
pub fn is_loopback_origin(origin: &str) -> bool {
    origin
        .parse::<Uri>()
        .ok()
        .and_then(|uri| uri.authority().map(|it| is_loopback_authority(it.as_str())))
        .unwrap_or(false)
}

fn is_loopback_authority(authority: &str) -> bool {
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
