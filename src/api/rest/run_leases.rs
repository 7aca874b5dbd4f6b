//! REST routes of the lease of a run and of its end: heartbeat, finish, fail, stop and release.

use axum::{
    Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use threadline_engine::ThreadAt;
use threadline_http::{
    extract::{Caller, InRun, Json, Params, lease_seconds},
    precondition::Precondition,
    problem::{Problem, ProblemDocument},
    view::RunView,
};
use utoipa::{IntoParams, ToSchema};

use crate::api::{
    ApiState,
    rest::attempts::{AttemptParams, run_at},
};

/// A heartbeat.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HeartbeatBody {
    /// A new lease length, 1 to 3600.
    lease_seconds: Option<u64>,
}

/// Renews the lease of a run. Every append does so, too.
#[utoipa::path(post, path = "/v1/threads/{threadId}/runs/{runId}/heartbeat", tag = "runs",
    params(("threadId" = String, Path), ("runId" = String, Path), AttemptParams, Precondition), request_body = HeartbeatBody, responses(
    (status = 200, description = "The run", body = RunView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread or run not found", body = ProblemDocument),
    (status = 409, description = "Run already ended, taken up by another attempt, or driven by the server", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn heartbeat(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
    Precondition(epoch): Precondition,
    Params(params): Params<AttemptParams>,
    Json(body): Json<HeartbeatBody>,
) -> Result<Answer<RunView>, Problem> {
    let at = ThreadAt { id: &thread, epoch };
    let lease = lease_seconds(body.lease_seconds)?;
    let beaten = state.service.runs.heartbeat(&principal, at, run_at(&run, params.attempt)?, lease).await?;
    Ok(Answer(RunView::new(&beaten).seen_by(&principal)))
}

/// Parameters of the end of a run.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct FinishParams {
    /// producerSeq of the last event that the producer knows to be stored. A run that has stored fewer, because the store has
    /// lost events, does not end: 409 `producer-seq-gap`.
    #[serde(default)]
    producer_seq: u64,
    /// The number of the attempt that the request speaks for, as its start returned it. Without it, the first attempt. Another
    /// attempt than the present one is refused: 409 `run-fenced`.
    attempt: Option<u64>,
}

/// Ends a run with RUN_FINISHED, after closing its open messages, tool calls and steps.
#[utoipa::path(post, path = "/v1/threads/{threadId}/runs/{runId}/finish", tag = "runs",
    params(("threadId" = String, Path), ("runId" = String, Path), FinishParams, Precondition), responses(
    (status = 200, description = "The ended run", body = RunView),
    (status = 400, description = "Invalid parameters", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread or run not found", body = ProblemDocument),
    (status = 409, description = "Run driven by the server, taken up by another attempt, or events lost", body = ProblemDocument)))]
pub async fn finish(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
    Precondition(epoch): Precondition,
    Params(params): Params<FinishParams>,
) -> Result<Answer<RunView>, Problem> {
    let (at, run) = (ThreadAt { id: &thread, epoch }, run_at(&run, params.attempt)?);
    let finished = state.service.runs.finish(&principal, at, run, params.producer_seq).await?;
    Ok(Answer(RunView::new(&finished).seen_by(&principal)))
}

/// The error of a failed run.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FailBody {
    /// `code` of the RUN_ERROR.
    code: Option<String>,
    /// `message` of the RUN_ERROR.
    message: Option<String>,
}

/// Ends a run with RUN_ERROR, after closing its open messages, tool calls and steps.
#[utoipa::path(post, path = "/v1/threads/{threadId}/runs/{runId}/fail", tag = "runs",
    params(("threadId" = String, Path), ("runId" = String, Path), AttemptParams, Precondition), request_body = FailBody, responses(
    (status = 200, description = "The ended run", body = RunView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread or run not found", body = ProblemDocument),
    (status = 409, description = "Run driven by the server, or taken up by another attempt", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn fail(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
    Params(params): Params<AttemptParams>,
    Precondition(epoch): Precondition,
    Json(body): Json<FailBody>,
) -> Result<Answer<RunView>, Problem> {
    let (at, run) = (ThreadAt { id: &thread, epoch }, run_at(&run, params.attempt)?);
    let failed = state.service.runs.fail(&principal, at, run, body.code, body.message).await?;
    Ok(Answer(RunView::new(&failed).seen_by(&principal)))
}

/// Requests that a run stops. Its producer has 10 s to end it; then the server does.
#[utoipa::path(post, path = "/v1/threads/{threadId}/runs/{runId}/stop", tag = "runs",
    params(("threadId" = String, Path), ("runId" = String, Path), Precondition), responses(
    (status = 202, description = "Stop requested", body = RunView),
    (status = 200, description = "The run has ended", body = RunView),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread or run not found", body = ProblemDocument)))]
pub async fn stop(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
    Precondition(epoch): Precondition,
) -> Result<Response, Problem> {
    let run = state.service.runs.stop(&principal, ThreadAt { id: &thread, epoch }, &run).await?;
    let status = if run.status.is_active() { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Answer(RunView::new(&run).seen_by(&principal))).into_response())
}

/// Releases the lock before the last events: the run may append until its terminal event or the next start.
#[utoipa::path(post, path = "/v1/threads/{threadId}/runs/{runId}/release", tag = "runs",
    params(("threadId" = String, Path), ("runId" = String, Path), Precondition), responses(
    (status = 200, description = "The run", body = RunView),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread or run not found", body = ProblemDocument),
    (status = 409, description = "Run driven by the server", body = ProblemDocument)))]
pub async fn release(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
    Precondition(epoch): Precondition,
) -> Result<Answer<RunView>, Problem> {
    let at = ThreadAt { id: &thread, epoch };
    Ok(Answer(RunView::new(&state.service.runs.release(&principal, at, &run).await?).seen_by(&principal)))
}
