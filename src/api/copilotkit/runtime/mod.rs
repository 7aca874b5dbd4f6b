//! API that stands in for the Node runtime of CopilotKit's browser packages: `runtimeUrl` is
//! `http://HOST:PORT/copilotkit`.
//!
//! Runs are streamed over HTTP. A client that reconnects receives the thread so far, and the active run. Changes of
//! thread lists are pushed over the socket of the `intelligence` API, whose address `info` returns.

mod acceptable;
mod info;
mod opening;
mod past;
mod runs;
mod single;
mod stream;
mod suggest;
mod threads;

use threadline_http::routes::{Access, Routes};
use utoipa_axum::routes;

use crate::api::ApiState;

/// Registers the routes of this API.
pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    routes
        .delegate(Access::Delegated, routes!(single::call))
        .route(Access::READ, routes!(info::info))
        .route(Access::CONVERSE, routes!(runs::run))
        .route(Access::READ, routes!(runs::connect))
        .route(Access::CHAT, routes!(runs::stop))
        .route(Access::CONVERSE, routes!(suggest::suggest))
        .route(Access::READ, routes!(threads::list))
        .route(Access::READ, routes!(threads::subscribe))
        .route(Access::CONVERSE, routes!(threads::edit))
        .route(Access::CHAT, routes!(threads::delete))
        .route(Access::CHAT, routes!(threads::archive))
        .route(Access::READ, routes!(threads::messages))
        .route(Access::READ, routes!(threads::events))
        .route(Access::READ, routes!(threads::state))
}
