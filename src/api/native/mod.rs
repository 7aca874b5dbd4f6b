//! The native door: REST under `/v1`, SSE and long-poll on the same cursor, and the socket.

mod agents;
pub mod envelope;
pub mod events;
pub(super) mod feed;
pub mod meta;
pub(super) mod projections;
pub mod runs;
pub mod socket;
pub(super) mod threads;
pub mod view;

use utoipa_axum::routes;

use super::doors::{Access, Doors};

/// Adds the routes and frames of this door.
pub fn register(doors: Doors) -> Doors {
    doors
        .route(Access::Public, routes!(meta::health))
        .route(Access::Public, routes!(meta::openapi))
        .route(Access::Public, routes!(meta::problem))
        .route(Access::Principal, routes!(threads::list, threads::create))
        .route(Access::Principal, routes!(threads::get, threads::edit, threads::delete))
        .route(Access::Principal, routes!(events::read))
        .route(Access::Principal, routes!(projections::messages))
        .route(Access::Principal, routes!(projections::state))
        .route(Access::Principal, routes!(runs::list, runs::start))
        .route(Access::Principal, routes!(runs::get, runs::append_whole))
        .route(Access::Principal, routes!(runs::append))
        .route(Access::Principal, routes!(runs::heartbeat))
        .route(Access::Principal, routes!(runs::finish))
        .route(Access::Principal, routes!(runs::fail))
        .route(Access::Principal, routes!(runs::stop))
        .route(Access::Principal, routes!(runs::release))
        .route(Access::Principal, routes!(agents::list))
        .route(Access::Principal, routes!(agents::get, agents::put, agents::delete))
        .route(Access::Principal, routes!(feed::read))
        .route(Access::Principal, routes!(socket::open))
        .frames("/v1/socket", socket::CLIENT_FRAMES)
}
