//! The Durable Streams protocol. Every thread is a stream of JSON messages, its AG-UI events, and every run is a stream that the end of
//! the run closes: these are read-only, because events are written by runs. Plain streams are created and written by clients. Version 1.0 of the protocol:
//! <https://github.com/durable-streams/durable-streams/blob/main/PROTOCOL.md>.

mod headers;
mod live;
mod offset;
mod page;
mod plain;
mod read;

pub use headers::{CLOSED, CURSOR, NEXT_OFFSET, UP_TO_DATE};
pub use plain::{DATA_ENCODING, EXPECTED_SEQ, EXPIRES_AT, PRODUCER_EPOCH, PRODUCER_SEQ, RECEIVED_SEQ, TTL};
use threadline_http::routes::{Access, Routes};
use utoipa_axum::routes;

use crate::api::ApiState;

/// Adds the routes of this API.
pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    let routes = routes.route(Access::READ, routes!(read::thread)).route(Access::READ, routes!(read::run));
    plain::routes(routes)
}
