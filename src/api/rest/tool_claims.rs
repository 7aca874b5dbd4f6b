//! REST routes of claims of tool calls.

use axum::{Json as Answer, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use threadline_core::{
    ClientId, Timestamp, ToolCallId, ToolClaim,
    limits::{DEFAULT_CLAIM_LEASE, MAX_CLAIM_LEASE, MIN_CLAIM_LEASE},
};
use threadline_http::{
    extract::{Caller, InToolCall, Json, Params, lease_between},
    problem::{Problem, ProblemDocument},
};
use utoipa::{IntoParams, ToSchema};

use crate::api::ApiState;

/// A claim of a tool call, as a start names it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedClaim {
    #[schema(value_type = String)]
    tool_call_id: ToolCallId,
    /// The client that holds the call.
    #[schema(value_type = String)]
    client_id: ClientId,
}

impl From<NamedClaim> for ToolClaim {
    fn from(named: NamedClaim) -> Self {
        Self { call: named.tool_call_id, holder: named.client_id }
    }
}

/// A request to claim a tool call.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClaimBody {
    /// The client, by an ID of its choice that no other client knows: 1 to 256 bytes.
    #[schema(required, value_type = String, example = "0198c1c0-6c3e-7d53-b2a4-0f6f1c1f9f0e")]
    client_id: Option<ClientId>,
    /// The lease in seconds, 1 to 300. Default 30.
    lease_seconds: Option<u64>,
}

const _: () = assert!(
    MIN_CLAIM_LEASE.as_secs() == 1 && MAX_CLAIM_LEASE.as_secs() == 300 && DEFAULT_CLAIM_LEASE.as_secs() == 30,
    "the API description says so"
);

/// A claim that the client holds.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimView {
    tool_call_id: String,
    client_id: String,
    /// The end of the lease, by the clock of the store.
    #[schema(value_type = String, example = "2026-11-21T10:11:15.123Z")]
    until: Timestamp,
}

/// Claims a tool call that waits for a result, or renews the claim: of several clients, one runs the tool.
///
/// Until the lease is over, no other client gets the call. Results that name the claim (`claims` of `POST …/runs`) start a run only if
/// no other client has taken the call; results that name none are taken in any case.
#[utoipa::path(post, path = "/v1/threads/{threadId}/tool-calls/{toolCallId}/claim", tag = "tool calls",
    params(("threadId" = String, Path), ("toolCallId" = String, Path)), request_body = ClaimBody, responses(
    (status = 200, description = "The client holds the call", body = ClaimView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 409, description = "Claimed by another client, with the end of its lease; or no call that waits for a result", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn claim(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InToolCall(thread, call): InToolCall,
    Json(body): Json<ClaimBody>,
) -> Result<Answer<ClaimView>, Problem> {
    let holder =
        body.client_id.ok_or_else(|| Problem::invalid("clientId is missing: the client that claims the call"))?;
    let lease = lease_between(
        "leaseSeconds",
        body.lease_seconds.map(|seconds| seconds as f64),
        MIN_CLAIM_LEASE..=MAX_CLAIM_LEASE,
    )?;
    let claim = ToolClaim { call, holder };
    let until = state.service.tool_claims.claim(&principal, &thread, &claim, lease).await?;
    Ok(Answer(ClaimView { tool_call_id: claim.call.to_string(), client_id: claim.holder.to_string(), until }))
}

/// Client whose claim ends.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GiveUpParams {
    /// The client that gives the claim up.
    #[param(value_type = Option<String>, required = true)]
    client_id: Option<ClientId>,
}

/// Gives up the claim of a tool call. Without effect if the client does not hold the call.
#[utoipa::path(delete, path = "/v1/threads/{threadId}/tool-calls/{toolCallId}/claim", tag = "tool calls",
    params(("threadId" = String, Path), ("toolCallId" = String, Path), GiveUpParams), responses(
    (status = 204, description = "The client does not hold the call"),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument)))]
pub async fn give_up(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InToolCall(thread, call): InToolCall,
    Params(params): Params<GiveUpParams>,
) -> Result<StatusCode, Problem> {
    let Some(holder) = params.client_id else {
        // Of a thread that the caller does not have, nothing else is said.
        state.service.threads.get(&principal, &thread).await?;
        return Err(Problem::invalid("clientId is missing: the client that gives the claim up"));
    };
    let claim = ToolClaim { call, holder };
    state.service.tool_claims.give_up(&principal, &thread, &claim).await?;
    Ok(StatusCode::NO_CONTENT)
}
