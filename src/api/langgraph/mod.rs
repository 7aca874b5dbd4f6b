//! API of LangGraph's agent server, for clients of its streaming protocol, version 2: `useStream` with `apiUrl` set to
//! `http://HOST:PORT/langgraph`.
//!
//! An assistant is an agent, a thread is a thread, and a checkpoint is the log up to an event: its id is that event's seq. The graph
//! of every assistant has one node, the agent. Protocol: <https://docs.langchain.com/langsmith/agent-server>.

mod assistants;
mod commands;
mod events;
mod pump;
mod refusals;
mod runs;
mod search;
mod socket;
mod start;
mod states;
mod threads;
mod view;

pub use assistants::NEXT_HEADER;
use threadline_http::routes::{Access, Routes};
use utoipa_axum::routes;

use crate::api::ApiState;

/// Adds the routes of this API.
pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    routes
        .route(Access::Public, routes!(assistants::ok))
        .route(Access::Public, routes!(assistants::info))
        .route(Access::READ, routes!(assistants::get))
        .route(Access::READ, routes!(assistants::search))
        .route(Access::READ, routes!(assistants::count))
        .route(Access::CONVERSE, routes!(threads::create))
        .route(Access::READ, routes!(search::search))
        .route(Access::READ, routes!(search::count))
        .route(Access::READ, routes!(threads::get))
        .route(Access::CONVERSE, routes!(threads::edit, threads::delete))
        .route(Access::READ, routes!(states::state))
        .route(Access::READ, routes!(states::checkpoint))
        .route(Access::READ, routes!(states::named))
        .route(Access::READ, routes!(states::history))
        .route(Access::CONVERSE, routes!(commands::command))
        .route(Access::READ, routes!(events::follow))
        .delegate(Access::TicketOrKey(Access::CHATS), routes!(socket::connect))
        .frames(socket::PATH, socket::CLIENT_FRAMES)
        .route(Access::READ, routes!(runs::list))
        .route(Access::CONVERSE, routes!(runs::create))
        .route(Access::READ, routes!(runs::get))
        .route(Access::READ, routes!(runs::join))
        .route(Access::CONVERSE, routes!(runs::cancel))
}
