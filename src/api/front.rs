//! All APIs together: one router, one description, one list.

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::Response,
};
use tokio_util::sync::CancellationToken;
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowHeaders, AllowOrigin, CorsLayer},
};
use utoipa::openapi::OpenApi;

use super::{
    ApiState, agui, console, conversations, copilotkit,
    doors::{Doors, Entry},
    guard,
    native::{self, envelope, meta, socket::CloseCode},
    observe::{self, REQUEST_ID_HEADER},
};
use crate::domain::{AllowedOrigins, limits::PREFLIGHT_AGE};

fn doors() -> Doors {
    let native = native::register(Doors::default());
    console::register(copilotkit::register(conversations::register(agui::register(native))))
}

/// Router of all APIs, with all middleware.
pub fn router(state: ApiState) -> Router {
    let (router, _, entries) = doors().finish();
    let metrics = state.service.metrics().clone();
    metrics.know_socket_closes(CloseCode::ALL.map(CloseCode::reason));
    metrics.http.know(entries.into_iter().map(|entry| entry.path));
    let router = router
        .fallback(meta::not_found)
        .method_not_allowed_fallback(meta::method_not_allowed)
        .layer(middleware::from_fn_with_state(state.clone(), guard::origins))
        .layer(CatchPanicLayer::custom(meta::panicked));
    let router = match pages(&state) {
        // Some pages send cookies with their requests. Threadline has no cookies; with any origin allowed, browsers
        // would refuse the permission.
        Some(pages) if !state.origins.is_any() => router.layer(cors(pages).allow_credentials(true)),
        Some(pages) => router.layer(cors(pages)),
        None => router,
    };
    let router = router.layer(middleware::from_fn_with_state(state.service.leaving(), close_while_leaving));
    // Outermost, so that every response is counted.
    router.layer(middleware::from_fn_with_state(metrics, observe::observe)).with_state(state)
}

/// Closes connections of a node that is leaving, so that clients reconnect and a balancer can route them elsewhere.
async fn close_while_leaving(State(leaving): State<CancellationToken>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    // A response that switches protocols has `upgrade` in this header.
    if leaving.is_cancelled() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The OpenAPI description of all APIs.
pub fn openapi() -> OpenApi {
    doors().finish().1
}

/// [`openapi`] as it is published.
pub fn openapi_text() -> String {
    openapi().to_pretty_json().unwrap_or_default()
}

pub fn entries() -> Vec<Entry> {
    doors().finish().2
}

/// Pages of other origins that may send requests: in development mode pages of this machine, from any port; else the
/// pages that the operator has named.
fn pages(state: &ApiState) -> Option<AllowOrigin> {
    let listed = |allows: fn(&AllowedOrigins, &str) -> bool| {
        let origins = state.origins.clone();
        AllowOrigin::predicate(move |origin, _| origin.to_str().is_ok_and(|origin| allows(&origins, origin)))
    };
    match &state.origins {
        _ if state.auth.is_development() => Some(listed(|_, origin| guard::is_loopback_origin(origin))),
        origins if origins.is_any() => Some(AllowOrigin::any()),
        origins if origins.is_empty() => None,
        _ => Some(listed(AllowedOrigins::contains)),
    }
}

fn cors(pages: AllowOrigin) -> CorsLayer {
    CorsLayer::new()
        .max_age(PREFLIGHT_AGE)
        .allow_origin(pages)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        // Applications send headers of their own. The credential decides what a request may do, not the headers.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([
            header::ETAG,
            header::RETRY_AFTER,
            HeaderName::from_static(REQUEST_ID_HEADER),
            HeaderName::from_static(envelope::EPOCH_HEADER),
            HeaderName::from_static(envelope::TAIL_HEADER),
            HeaderName::from_static(agui::THREAD_HEADER),
            HeaderName::from_static(agui::RUN_HEADER),
        ])
}
