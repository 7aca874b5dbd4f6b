//! Common parts of the REST routes of agent data.

use axum::extract::Request;
use serde::de::DeserializeOwned;
use threadline_core::{Principal, limits::MAX_AGENT_DATA_BYTES};
use threadline_http::{extract::parse_json, problem::Problem};

use crate::api::ApiState;

/// Problem of a part of a request that is refused.
pub(super) fn invalid(error: impl std::fmt::Display) -> Problem {
    Problem::invalid(error.to_string())
}

/// Reads a body of agent data.
pub(super) async fn body<T: DeserializeOwned + Default>(
    state: &ApiState,
    principal: &Principal,
    request: Request,
) -> Result<T, Problem> {
    let body = state.http.body(request, MAX_AGENT_DATA_BYTES).await?;
    state.service.queue.process(principal, body.len(), || parse_json(&body)).await?
}
