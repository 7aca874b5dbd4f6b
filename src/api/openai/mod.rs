//! The Responses and Conversations APIs, for OpenAI's clients with `base_url` set to `http://HOST:PORT/openai/v1`.
//!
//! A conversation is a thread, a response is a run of it, and a model is an agent. The ids encode those of the thread and the run,
//! so threads and runs of every API are conversations and responses. Protocol: <https://platform.openai.com/docs/api-reference>.

mod conversations;
mod create;
pub mod errors;
mod forgetting;
mod ids;
mod items;
mod list;
mod models;
mod object;
mod parameters;
mod plan;
mod record;
mod request;
mod responses;
mod retries;
mod stream;
mod unsupported;

use threadline_http::routes::{Access, Routes};
use utoipa_axum::routes;

use crate::api::ApiState;

/// Adds the routes of this API.
pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    routes
        .route(Access::READ, routes!(models::list))
        .route(Access::READ, routes!(models::get))
        .route(Access::CONVERSE, routes!(create::create))
        .route(Access::READ, routes!(unsupported::input_tokens))
        .route(Access::READ, routes!(unsupported::compact))
        .route(Access::READ, routes!(responses::get))
        .route(Access::CHAT, routes!(responses::delete))
        .route(Access::CONVERSE, routes!(responses::cancel))
        .route(Access::READ, routes!(responses::input_items))
        .route(Access::CHAT, routes!(conversations::create))
        .route(Access::READ, routes!(conversations::get))
        .route(Access::CHAT, routes!(conversations::update, conversations::delete))
        .route(Access::READ, routes!(items::list))
        .route(Access::SAY_OR_PRODUCE, routes!(items::add))
        .route(Access::READ, routes!(items::get))
        .route(Access::PRODUCE, routes!(items::remove))
}
