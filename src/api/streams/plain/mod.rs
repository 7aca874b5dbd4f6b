//! Plain streams: logs of bytes or JSON messages that clients create, write and read.

mod answers;
mod live;
mod read;
mod requests;
mod write;

use threadline_http::routes::{Access, Routes};
use utoipa_axum::routes;

pub use answers::{DATA_ENCODING, EXPECTED_SEQ, EXPIRES_AT, PRODUCER_EPOCH, PRODUCER_SEQ, RECEIVED_SEQ, TTL};

use crate::api::ApiState;

/// Adds the routes of plain streams. The protocol has clients of shared caches add parameters to the query, which servers ignore.
pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    routes
        .route_of_any_query(Access::READ, routes!(read::read))
        .route_of_any_query(Access::PRODUCE, routes!(write::create, write::append, write::delete))
}
