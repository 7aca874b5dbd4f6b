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

use axum::extract::Request;
use threadline_core::{Principal, limits::MAX_BATCH_BYTES};
use threadline_http::{
    negotiation::Representation,
    problem::{Problem, ProblemType},
    routes::{Access, Routes},
};
use utoipa_axum::routes;

use crate::{agents::ClientInput, api::ApiState};

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

/// Reads a RunAgentInput from the body. Fails if the content type is not JSON.
async fn read(state: &ApiState, principal: &Principal, request: Request) -> Result<ClientInput, Problem> {
    if Representation::of(request.headers())? != Representation::Json {
        return Err(Problem::new(ProblemType::UnsupportedMediaType, "send a RunAgentInput as application/json"));
    }
    let bytes = state.http.body(request, MAX_BATCH_BYTES).await?;
    let (mut input, room): (ClientInput, _) = state.parse_input(principal, &bytes).await?;
    input.room = Some(room);
    Ok(input)
}
