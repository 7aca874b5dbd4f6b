//! API of the Vercel AI SDK: `useChat` with `api` set to `http://HOST:PORT/ai/{agentId}`.
//!
//! A chat is a thread, and its id the id of the thread. A branch of the chat, which an edit or a regenerated answer begins, has a
//! thread of its own: the chat is the listed branch. Protocol: <https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol>.

mod answer;
mod chat;
mod history;
mod request;
mod runs;
mod socket;
mod stream;
mod unreadable;

use threadline_http::routes::{Access, Routes};
use utoipa_axum::routes;

use crate::api::ApiState;

/// Adds the routes of this API.
pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    routes
        .route(Access::CONVERSE, routes!(runs::send))
        .route(Access::READ, routes!(chat::load))
        .route(Access::READ, routes!(runs::resume))
        .route(Access::CHAT, routes!(runs::stop))
        .delegate(Access::TicketOrKey(Access::CHATS), routes!(socket::open))
        .frames(socket::PATH, socket::CLIENT_FRAMES)
}
