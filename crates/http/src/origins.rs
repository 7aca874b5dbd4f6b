//! Pages that may send requests. In development mode only pages of this machine may: any web page can reach localhost,
//! so Host and Origin are checked, and so are the header fields in which proxies name other machines.
//!
//! With API keys the credential is the check. An Origin protects credentials that a browser sends by itself, and
//! Threadline has none: a page must hold a key, token or ticket. Pages of all origins may call, unless the operator lists
//! those that may.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, HeaderName, Method, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use serde_json::json;
use threadline_core::{
    AllowedOrigins, Origin,
    limits::{ORIGIN_SHOWN, REFUSED_MESSAGE_BYTES, REFUSED_ORIGIN_QUIET, REFUSED_ORIGINS},
};
use threadline_engine::limits::BudgetOwner;
use tokio::time::Instant;

use crate::{
    HttpState,
    forwarded::another_machine,
    problem::{Problem, ProblemType},
    ws::{Terms, Upgrade, close::CloseCode},
};

/// State of the layer [`origins`].
#[derive(Clone)]
pub struct OriginCheck {
    pub http: HttpState,
    /// Path and subprotocol of the socket at which a page is refused by a close frame: scripts and developer tools show its
    /// reason, and no status of a handshake. Clients of other sockets would connect again at once after a close.
    pub socket: (&'static str, &'static str),
}

/// Refuses requests of pages that are not allowed.
pub async fn origins(State(check): State<OriginCheck>, request: Request, next: Next) -> Response {
    let state = &check.http;
    let headers = request.headers();
    let development = state.auth.is_development();
    let checked =
        if development { check_development(request.method(), headers) } else { check_listed(headers, &state.origins) };
    let (origin, detail) = match checked {
        Ok(()) => return next.run(request).await,
        Err(Refused::Forwarded(detail)) => {
            return Problem::new(ProblemType::DevelopmentOnly, detail).into_response();
        }
        Err(Refused::Page { origin, detail }) => (origin.map(|origin| shown(origin).to_owned()), detail),
    };
    if let Some(origin) = &origin
        && state.refused_origins.is_news(origin)
    {
        let path = request.uri().path();
        if development {
            tracing::warn!(origin, path, "rejected a page: {detail}");
        } else {
            tracing::warn!(origin, path, "rejected a page: {detail}; to allow it, add --allowed-origins {origin}");
        }
    }
    let (path, protocol) = check.socket;
    if !development && request.uri().path() == path && request.headers().contains_key(header::UPGRADE) {
        return close(state, request, protocol, &detail).await;
    }
    Problem::new(ProblemType::ForbiddenOrigin, detail).with(json!({ "origin": origin })).into_response()
}

/// Completes the handshake of a refused page, without authenticating it, and closes the socket with the reason.
async fn close(state: &HttpState, request: Request, protocol: &'static str, detail: &str) -> Response {
    let (mut parts, _) = request.into_parts();
    let upgrade = match Upgrade::from_request_parts(&mut parts, state).await {
        Ok(upgrade) => upgrade,
        Err(problem) => return problem.into_response(),
    };
    let code = CloseCode::ForbiddenOrigin;
    state.metrics.socket_closed(code.reason());
    let memory = state.bodies.of_socket(&BudgetOwner::default());
    let terms = Terms { protocol, largest: REFUSED_MESSAGE_BYTES, message: state.close, memory };
    let reason = code.reason_with(detail);
    let (alive, patience) = (state.connections.token(), state.close);
    upgrade.open(terms, async move |mut socket| {
        let _held = alive;
        socket.close(code, reason, patience).await;
    })
}

/// Pages that were refused recently: the log names each page once in [`REFUSED_ORIGIN_QUIET`], and of very many pages
/// the first [`REFUSED_ORIGINS`].
#[derive(Debug, Default)]
pub struct RefusedOrigins(Mutex<HashMap<String, Instant>>);

impl RefusedOrigins {
    /// True if the log must name this origin.
    fn is_news(&self, origin: &str) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, at| at.elapsed() < REFUSED_ORIGIN_QUIET);
        if seen.len() >= REFUSED_ORIGINS || seen.contains_key(origin) {
            return false;
        }
        seen.insert(origin.to_owned(), Instant::now());
        true
    }
}

/// A request that is refused because of its origin.
#[derive(Debug, PartialEq, Eq)]
enum Refused<'a> {
    /// Page that is refused because of its Host, Origin or Sec-Fetch-Site.
    Page { origin: Option<&'a str>, detail: String },
    /// Refused because of the machines that a proxy or a tunnel on this machine names.
    Forwarded(String),
}

fn shown(origin: &str) -> &str {
    &origin[..origin.floor_char_boundary(ORIGIN_SHOWN)]
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

fn check_development<'a>(method: &Method, headers: &'a HeaderMap) -> Result<(), Refused<'a>> {
    let origin = text(headers, header::ORIGIN);
    let refuse = |what: String| Err(Refused::Page { origin, detail: format!("{what} is not a loopback address") });
    // A page whose own name resolves to 127.0.0.1 still sends that name as Host.
    if !text(headers, header::HOST).is_some_and(is_loopback_authority) {
        return refuse("the Host".to_owned());
    }
    if let Some(origin) = origin.filter(|origin| !is_loopback_origin(origin)) {
        return refuse(format!("the Origin {}", shown(origin)));
    }
    if origin.is_none() && is_cross_site(headers) && !is_opened(method, headers) {
        let detail = "the request comes from a page of another site (Sec-Fetch-Site), and has no Origin".to_owned();
        return Err(Refused::Page { origin, detail });
    }
    match another_machine(headers) {
        Some((name, node)) => {
            Err(Refused::Forwarded(format!("{name} names {node:?}, which is not a loopback address")))
        }
        None => Ok(()),
    }
}

/// True if a browser says that a page of another site sends this request. Images, scripts and plain links have no Origin.
fn is_cross_site(headers: &HeaderMap) -> bool {
    text(headers, HeaderName::from_static("sec-fetch-site")) == Some("cross-site")
}

/// True if someone follows a link to this server: the browser shows the response, and no page can read it.
fn is_opened(method: &Method, headers: &HeaderMap) -> bool {
    let is = |name, value| text(headers, HeaderName::from_static(name)) == Some(value);
    matches!(*method, Method::GET | Method::HEAD)
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document")
}

/// Without a list, pages of all origins may call. Only browsers send an Origin.
fn check_listed<'a>(headers: &'a HeaderMap, allowed: &AllowedOrigins) -> Result<(), Refused<'a>> {
    let Some(origin) = text(headers, header::ORIGIN).filter(|_| !allowed.is_empty()) else { return Ok(()) };
    let host = text(headers, header::HOST).unwrap_or_default();
    let same_host = origin.parse::<Origin>().is_ok_and(|origin| origin.is_at(host));
    if same_host || allowed.contains(origin) {
        return Ok(());
    }
    let detail = format!("origin {} is not in --allowed-origins", shown(origin));
    Err(Refused::Page { origin: Some(origin), detail })
}

/// True if an `Origin` is a page of this machine.
pub fn is_loopback_origin(origin: &str) -> bool {
    origin
        .parse::<Uri>()
        .ok()
        .and_then(|uri| uri.authority().map(|it| is_loopback_authority(it.as_str())))
        .unwrap_or(false)
}

/// True if a host, with or without a port, is a name or address of this machine.
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

    #[tokio::test(start_paused = true)]
    async fn a_refused_page_is_named_once_in_a_while_and_of_very_many_a_few() {
        let refused = RefusedOrigins::default();
        assert!(refused.is_news("https://a.example") && !refused.is_news("https://a.example"));
        assert!(refused.is_news("https://b.example"));
        let many = (0..1_000).filter(|at| refused.is_news(&format!("https://{at}.example"))).count();
        assert_eq!(many, REFUSED_ORIGINS - 2);
        tokio::time::advance(REFUSED_ORIGIN_QUIET).await;
        assert!(refused.is_news("https://a.example") && !refused.is_news("https://a.example"));
    }
}
