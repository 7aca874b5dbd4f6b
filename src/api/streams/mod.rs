//! The read path of the Durable Streams protocol: every thread is a stream of JSON messages, its AG-UI events, and every run is a
//! stream that the end of the run closes.
//!
//! The protocol allows a server to implement the read path alone: events are written by runs. Version 1.0 of the protocol:
//! <https://github.com/durable-streams/durable-streams/blob/main/PROTOCOL.md>.

mod headers;
mod live;
mod offset;
mod page;
mod read;

pub use headers::{CLOSED, CURSOR, NEXT_OFFSET, UP_TO_DATE};
use threadline_http::routes::{Access, Routes};
use utoipa_axum::routes;

use crate::api::ApiState;

/// Adds the routes of this API.
pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    routes.route(Access::READ, routes!(read::thread)).route(Access::READ, routes!(read::run))
}
