//! REST routes of the queue of a thread: turns that wait for the active run to end.

use axum::{
    Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use threadline_core::{RunId, ThreadId, limits::MAX_BATCH_BYTES};
use threadline_engine::{PlacedTurn, ThreadAt, ThreadQueue, TurnEdit};
use threadline_http::{
    extract::{Caller, InRun, InThread},
    precondition::Precondition,
    problem::{Problem, ProblemDocument},
    view::QueueView,
};
use utoipa::ToSchema;

use crate::{
    agents::{ClientInput, queued},
    api::ApiState,
};

fn view(thread: &ThreadId, queue: &ThreadQueue) -> QueueView {
    QueueView::new(thread, queue, |turn| turn.input.as_deref().map(queued::messages).unwrap_or_default())
}

/// The response to a request that waits.
#[derive(Debug, Serialize, ToSchema)]
pub struct QueuedView {
    queued: QueuedPlaceView,
}

/// The place of a turn in the queue.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct QueuedPlaceView {
    /// The ID of the run that it becomes.
    run_id: String,
    /// 1 is the next.
    place: usize,
    /// The version of the queue.
    version: u64,
}

/// The answer to a request that waits.
pub(super) fn waits(placed: &PlacedTurn) -> Response {
    let run_id = placed.turn.run.to_string();
    let queued = QueuedPlaceView { run_id, place: placed.place, version: placed.version };
    (StatusCode::ACCEPTED, Answer(QueuedView { queued })).into_response()
}

/// A queued turn, in the place of the run that it becomes.
pub(super) fn as_run(placed: &PlacedTurn) -> Value {
    let turn = &placed.turn;
    json!({
        "runId": turn.run.as_str(),
        "agentId": turn.agent.as_str(),
        "status": "queued",
        "askedBy": turn.asked_by.as_ref().map(|author| author.as_str()),
        "place": placed.place,
        "version": placed.version,
        "driven": true,
    })
}

/// Shows the queue of a thread.
#[utoipa::path(get, path = "/v1/threads/{threadId}/queue", tag = "queue",
    params(("threadId" = String, Path)), responses(
    (status = 200, description = "The queue", body = QueueView),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument)))]
pub async fn read(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
) -> Result<Answer<QueueView>, Problem> {
    let queue = state.service.runs.queue(&principal, &thread).await?;
    Ok(Answer(view(&thread, &queue)))
}

/// A change of a queued turn.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EditTurnBody {
    /// Another RunAgentInput for the agent. Its messages replace those of the turn.
    #[schema(value_type = Option<Object>, example = json!({ "messages": [{ "role": "user", "content": "Hello" }] }))]
    input: Option<ClientInput>,
    /// The turn before which this one is placed; null places it last.
    #[schema(value_type = Option<String>)]
    #[serde(deserialize_with = "present")]
    before: Option<Option<RunId>>,
    /// The version that the queue must have.
    version: Option<u64>,
}

/// Tells null from an absent member.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<RunId>>, D::Error> {
    Option::<RunId>::deserialize(deserializer).map(Some)
}

/// Changes what a queued turn asks, or its place.
#[utoipa::path(patch, path = "/v1/threads/{threadId}/queue/{runId}", tag = "queue",
    params(("threadId" = String, Path), ("runId" = String, Path), Precondition), request_body = EditTurnBody, responses(
    (status = 200, description = "The queue", body = QueueView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread or turn not found", body = ProblemDocument),
    (status = 409, description = "Turn already begun, with its run; or queue full", body = ProblemDocument),
    (status = 412, description = "Queue version mismatch", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn edit(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
    Precondition(epoch): Precondition,
    request: axum::extract::Request,
) -> Result<Answer<QueueView>, Problem> {
    let bytes = state.http.body(request, MAX_BATCH_BYTES).await?;
    let (body, _room): (EditTurnBody, _) = state.parse_input(&principal, &bytes).await?;
    let edit = TurnEdit { input: None, before: body.before, version: body.version };
    let queue =
        state.agents.edit_turn(&principal, ThreadAt { id: &thread, epoch }, &run, body.input.as_ref(), edit).await?;
    Ok(Answer(view(&thread, &queue).seen_by(&principal)))
}

/// Removes a turn from the queue. It leaves no run.
#[utoipa::path(delete, path = "/v1/threads/{threadId}/queue/{runId}", tag = "queue",
    params(("threadId" = String, Path), ("runId" = String, Path), Precondition), responses(
    (status = 204, description = "Removed, now or before"),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 409, description = "Turn already begun, with its run", body = ProblemDocument)))]
pub async fn cancel(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
    Precondition(epoch): Precondition,
) -> Result<StatusCode, Problem> {
    state.service.runs.cancel_turn(&principal, ThreadAt { id: &thread, epoch }, &run).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Holds the queue until it is released. The active run continues.
#[utoipa::path(post, path = "/v1/threads/{threadId}/queue/hold", tag = "queue",
    params(("threadId" = String, Path), Precondition), responses(
    (status = 200, description = "The queue", body = QueueView),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument)))]
pub async fn hold(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Precondition(epoch): Precondition,
) -> Result<Answer<QueueView>, Problem> {
    let queue = state.service.runs.hold_queue(&principal, ThreadAt { id: &thread, epoch }).await?;
    Ok(Answer(view(&thread, &queue).seen_by(&principal)))
}

/// Releases the queue, whatever holds it. If no run is active, the next turn begins.
#[utoipa::path(post, path = "/v1/threads/{threadId}/queue/release", tag = "queue",
    params(("threadId" = String, Path), Precondition), responses(
    (status = 200, description = "The queue", body = QueueView),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument)))]
pub async fn release(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Precondition(epoch): Precondition,
) -> Result<Answer<QueueView>, Problem> {
    let queue = state.service.runs.release_queue(&principal, ThreadAt { id: &thread, epoch }).await?;
    Ok(Answer(view(&thread, &queue).seen_by(&principal)))
}

/// Begins a queued turn as soon as possible: it becomes the first, the queue is released, and the active run is stopped.
#[utoipa::path(post, path = "/v1/threads/{threadId}/queue/{runId}/start", tag = "queue",
    params(("threadId" = String, Path), ("runId" = String, Path), Precondition), responses(
    (status = 202, description = "The queue", body = QueueView),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread or turn not found", body = ProblemDocument),
    (status = 409, description = "Turn already begun, with its run", body = ProblemDocument)))]
pub async fn start(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
    Precondition(epoch): Precondition,
) -> Result<Response, Problem> {
    let queue = state.service.runs.start_turn(&principal, ThreadAt { id: &thread, epoch }, &run).await?;
    let view = view(&thread, &queue).seen_by(&principal);
    Ok((StatusCode::ACCEPTED, Answer(view)).into_response())
}
