//! The native door: REST under `/v1`, SSE and long-poll on the same cursor, and the socket.

mod envelope;
mod events;
mod feed;
mod meta;
mod runs;
pub mod socket;
mod sse;
mod threads;
pub mod view;

use axum::{
    Router,
    http::{HeaderName, HeaderValue, Method, header},
    middleware,
};
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowOrigin, CorsLayer},
};
use utoipa::openapi::OpenApi;
use utoipa_axum::routes;

use super::{
    ApiState,
    doors::{Access, Doors, Entry},
    guard,
};

fn doors() -> Doors {
    Doors::default()
        .route(Access::Public, routes!(meta::health))
        .route(Access::Public, routes!(meta::openapi))
        .route(Access::Public, routes!(meta::problem))
        .route(Access::Principal, routes!(threads::list, threads::create))
        .route(Access::Principal, routes!(threads::get, threads::edit, threads::delete))
        .route(Access::Principal, routes!(events::read))
        .route(Access::Principal, routes!(runs::list, runs::start))
        .route(Access::Principal, routes!(runs::get, runs::append_whole))
        .route(Access::Principal, routes!(runs::append))
        .route(Access::Principal, routes!(runs::heartbeat))
        .route(Access::Principal, routes!(runs::finish))
        .route(Access::Principal, routes!(runs::fail))
        .route(Access::Principal, routes!(runs::stop))
        .route(Access::Principal, routes!(runs::release))
        .route(Access::Principal, routes!(feed::read))
        .route(Access::Principal, routes!(socket::open))
        .frames("/v1/socket", socket::CLIENT_FRAMES)
}

/// The router of this door.
pub fn router(state: ApiState) -> Router {
    let (router, _, _) = doors().finish();
    let router = router
        .fallback(meta::not_found)
        .method_not_allowed_fallback(meta::method_not_allowed)
        .layer(middleware::from_fn_with_state(state.clone(), guard::loopback_only))
        .layer(CatchPanicLayer::custom(meta::panicked));
    let router = if state.auth.is_development() { router.layer(loopback_cors()) } else { router };
    router.with_state(state)
}

/// The OpenAPI description of this door.
pub fn openapi() -> OpenApi {
    doors().finish().1
}

/// [`openapi`] as it is published.
pub fn openapi_text() -> String {
    openapi().to_pretty_json().unwrap_or_default()
}

/// Everything registered at this door.
pub fn entries() -> Vec<Entry> {
    doors().finish().2
}

/// In development, pages of this machine may call from another port.
fn loopback_cors() -> CorsLayer {
    let loopback = |origin: &HeaderValue, _: &_| origin.to_str().is_ok_and(guard::is_loopback_origin);
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(loopback))
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers([
            header::ACCEPT,
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            HeaderName::from_static("last-event-id"),
            HeaderName::from_static(super::extract::USER_HEADER),
        ])
        .expose_headers([
            header::RETRY_AFTER,
            HeaderName::from_static(envelope::EPOCH_HEADER),
            HeaderName::from_static(envelope::TAIL_HEADER),
        ])
}
