//! API that stands in for the platform of CopilotKit's Node runtime. Threads, locks and history are served over REST
//! under `/api`; runs and live data over the topics of `/runner` and `/client`.
//!
//! The caller has an API key of the project and names the user. The API is described in `docs/copilotkit.md`.

pub mod acks;
mod acting;
mod annotations;
pub mod event_id;
pub mod joining;
pub mod legacy;
pub mod list_positions;
mod lock;
pub mod reading;
pub mod scanned_cursors;
mod sockets;
mod threads;
pub mod topics;

use threadline_http::routes::{Access, Routes};
use utoipa_axum::routes;

use crate::api::ApiState;

pub use joining::{feed_token, join_code};

pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    routes
        .route(Access::READ, routes!(threads::list))
        .route(Access::CONVERSE, routes!(threads::create))
        .route(Access::READ, routes!(joining::subscribe))
        .route(Access::READ, routes!(threads::get))
        .route(Access::CONVERSE, routes!(threads::edit))
        .route(Access::CHAT, routes!(threads::delete))
        .route(Access::READ, routes!(reading::messages))
        .route(Access::READ, routes!(joining::connect))
        .route(Access::READ, routes!(joining::code))
        .route(Access::PRODUCE, routes!(lock::acquire, lock::renew, lock::release))
        .route(Access::READ, routes!(reading::events))
        .route(Access::READ, routes!(reading::state))
        .route(Access::SignedUrl, routes!(sockets::client_socket))
        .frames("/client/websocket", topics::CLIENT_PUSHES)
        .route(Access::SignedUrl, routes!(sockets::client_poll, sockets::client_send))
        .route(Access::PRODUCE, routes!(sockets::runner_socket))
        .route(Access::PRODUCE, routes!(sockets::runner_poll))
        .route(Access::SignedUrl, routes!(sockets::runner_send))
        .route(Access::PRODUCE, routes!(annotations::annotate))
}
