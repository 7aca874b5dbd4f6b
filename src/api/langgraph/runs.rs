//! Runs: list, show, create, wait for and cancel.

use axum::{
    Json as Answer,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use threadline_core::{Principal, Run, RunId, Thread, ThreadId, limits::MAX_PAGE, projection::langgraph::message_of};
use threadline_engine::{
    QueueError, QueuedTurn, RunLookupError, ServiceError, StopError, ThreadAt, subscription::FollowMethod,
};
use threadline_http::{
    auth::AuthError,
    extract::{Caller, InRun, InThread, Params},
    problem::{Problem, ProblemDocument, ProblemType},
};
use utoipa::IntoParams;

use super::{
    assistants::page_of,
    start::StartParams,
    states::{newest, values_at},
    view::RunView,
};
use crate::{agents::queued, api::ApiState};

/// Page and filter of a list of runs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RunsParams {
    /// 1 to 1000. Default 10.
    limit: Option<usize>,
    offset: Option<usize>,
    /// `pending`, `running`, `success`, `error` or `interrupted`.
    status: Option<String>,
}

fn of_queue(thread: &Thread, turn: &QueuedTurn) -> RunView {
    let messages = turn.input.as_deref().map(queued::messages).unwrap_or_default();
    let messages =
        messages.iter().filter_map(|message| serde_json::value::RawValue::from_string(message_of(message.get())?).ok());
    RunView::queued(thread, turn, &messages.collect::<Vec<_>>())
}

fn of_run(thread: &Thread, run: &Run) -> RunView {
    let is_newest = thread.last_run.as_ref().is_some_and(|last| last.id == run.id);
    RunView::new(thread, run, is_newest && thread.open_interrupts > 0)
}

/// Lists the runs of a thread, newest first, and before them those that wait in the queue, the next one first.
#[utoipa::path(get, path = "/langgraph/threads/{threadId}/runs", tag = "langgraph",
    params(("threadId" = String, Path), RunsParams,
        ("select" = Option<Vec<String>>, Query, description = "Ignored: all members are returned")), responses(
    (status = 200, description = "The runs", body = Vec<RunView>),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Params(params): Params<RunsParams>,
) -> Result<Answer<Vec<RunView>>, Problem> {
    let (limit, offset) = page_of(params.limit, params.offset, 10)?;
    let known = ["pending", "running", "success", "error", "interrupted", "timeout"];
    if let Some(status) = params.status.as_deref().filter(|status| !known.contains(status)) {
        return Err(Problem::invalid(format!("status {status:?} is none of {}", known.join(", "))));
    }
    let runs = &state.service.runs;
    let thread = state.service.threads.get(&principal, &thread).await?;
    let queue = runs.queue(&principal, &thread.id).await?;
    let fits = |view: &RunView| params.status.as_deref().is_none_or(|status| status == view.status());
    let mut found: Vec<RunView> = queue.turns.iter().map(|turn| of_queue(&thread, turn)).filter(fits).collect();
    let mut before = None;
    // Runs that wait are only in the queue.
    while params.status.as_deref() != Some("pending") && found.len() < offset.saturating_add(limit) {
        let page = runs.list(&principal, &thread.id, before, MAX_PAGE, None).await?;
        found.extend(page.items.iter().map(|run| of_run(&thread, run)).filter(fits));
        match page.next {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    Ok(Answer(found.into_iter().skip(offset).take(limit).collect()))
}

/// Starts a run, or queues it while another one is active.
#[utoipa::path(post, path = "/langgraph/threads/{threadId}/runs", tag = "langgraph",
    params(("threadId" = String, Path)),
    request_body(content((serde_json::Value = "application/json"))), responses(
    (status = 200, description = "The run, or the turn that waits", body = RunView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Agent, thread or checkpoint not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 409, description = "Active run conflict, run ID already in use, or unanswered interrupt", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 415, description = "Unsupported media type", body = ProblemDocument),
    (status = 422, description = "Invalid messages or state, or conversation too large", body = ProblemDocument),
    (status = 429, description = "Too many active runs", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument)))]
pub async fn create(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    request: Request,
) -> Result<Response, Problem> {
    let (params, room): (StartParams, _) = state.read_values(&principal, request).await?;
    if !params.makes_thread() {
        // A missing thread is created only if the client asks for it.
        state.service.threads.get(&principal, &thread).await?;
    }
    let asked = params.start(&state, &principal, &thread, room).await?;
    let view = look(&state, &principal, &thread, &asked.run).await?;
    let place = format!("/threads/{}/runs/{}", thread.as_str(), asked.run.as_str());
    Ok(([(header::CONTENT_LOCATION, place)], Answer(view)).into_response())
}

/// A run, or a turn that waits.
async fn look(state: &ApiState, principal: &Principal, thread: &ThreadId, run: &RunId) -> Result<RunView, Problem> {
    let runs = &state.service.runs;
    let thread = state.service.threads.get(principal, thread).await?;
    match runs.get(principal, &thread.id, run).await {
        Ok(run) => Ok(of_run(&thread, &run)),
        Err(RunLookupError::RunNotFound) => match runs.queued_turn(principal, &thread.id, run).await? {
            Some(placed) => Ok(of_queue(&thread, &placed.turn)),
            // The turn may have begun between the two reads.
            None => Ok(of_run(&thread, &runs.get(principal, &thread.id, run).await?)),
        },
        Err(error) => Err(error.into()),
    }
}

/// Shows a run of a thread.
#[utoipa::path(get, path = "/langgraph/threads/{threadId}/runs/{runId}", tag = "langgraph",
    params(("threadId" = String, Path), ("runId" = String, Path)), responses(
    (status = 200, description = "The run, or the turn that waits", body = RunView),
    (status = 404, description = "Thread or run not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument)))]
pub async fn get(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
) -> Result<Answer<RunView>, Problem> {
    Ok(Answer(look(&state, &principal, &thread, &run).await?))
}

/// Waits until a run has ended, or a turn that waits is gone.
async fn wait(state: &ApiState, principal: &Principal, thread: &ThreadId, run: &RunId) -> Result<(), Problem> {
    let _place = state.http.quota.open(principal)?;
    let via = FollowMethod::LangGraph;
    let changes = state.service.events.subscribe(principal, thread, 0, None, None, via).await?;
    let mut watch = changes.watch();
    let mut credential = state.http.auth.watch(principal);
    let leaving = state.service.leaving();
    loop {
        // Marked as seen before the reads: a change during them wakes the loop again.
        watch.borrow_and_update();
        match state.service.runs.get(principal, thread, run).await {
            Ok(run) if !run.status.is_active() => return Ok(()),
            Ok(_) => {}
            Err(RunLookupError::RunNotFound) => {
                if state.service.runs.queued_turn(principal, thread, run).await?.is_none() {
                    // The turn may have begun between the two reads.
                    let run = state.service.runs.get(principal, thread, run).await?;
                    if !run.status.is_active() {
                        return Ok(());
                    }
                }
            }
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            changed = watch.changed() => if changed.is_err() {
                return Err(Problem::new(ProblemType::ThreadNotFound, "the thread was deleted"));
            },
            () = leaving.cancelled() => return Err(ServiceError::Draining.into()),
            () = credential.expired() => return Err(AuthError::Over.into()),
        }
    }
}

/// Fate of a run whose client disconnects.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JoinParams {
    /// `0` or `false`. A run is not cancelled when a client that waits for it disconnects.
    cancel_on_disconnect: Option<String>,
}

/// Waits until a run has ended, and returns the values of its thread.
#[utoipa::path(get, path = "/langgraph/threads/{threadId}/runs/{runId}/join", tag = "langgraph",
    params(("threadId" = String, Path), ("runId" = String, Path), JoinParams), responses(
    (status = 200, description = "The values after the run", body = Value),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread or run not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 422, description = "Conversation too large", body = ProblemDocument),
    (status = 503, description = "Server at capacity or draining, or store unavailable", body = ProblemDocument)))]
pub async fn join(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
    Params(params): Params<JoinParams>,
) -> Result<Response, Problem> {
    if params.cancel_on_disconnect.is_some_and(|value| !matches!(value.as_str(), "0" | "false")) {
        return Err(Problem::invalid("cancel_on_disconnect is not supported: cancel the run with its own request"));
    }
    wait(&state, &principal, &thread, &run).await?;
    let thread = state.service.threads.get(&principal, &thread).await?;
    let run = state.service.runs.get(&principal, &thread.id, &run).await?;
    let at = if run.producer_seq > 0 { run.last_seq() } else { newest(&thread) };
    let make = || async {
        let (values, _) = values_at(&state, &principal, &thread, at).await?;
        Ok(values.get().as_bytes().to_vec())
    };
    state.http.responses.json(&principal, make).await
}

/// Way in which a run is cancelled.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CancelParams {
    /// `1` or `true`: the response follows once the run has ended.
    wait: Option<String>,
    /// `interrupt`: what the run has said stays. `rollback` is not supported.
    action: Option<String>,
    /// Ignored: runs keep no reason. A text without control characters.
    reason: Option<String>,
}

/// Stops a run, or removes it from the queue. What the run has said so far stays.
#[utoipa::path(post, path = "/langgraph/threads/{threadId}/runs/{runId}/cancel", tag = "langgraph",
    params(("threadId" = String, Path), ("runId" = String, Path), CancelParams), responses(
    (status = 202, description = "Stop requested"),
    (status = 204, description = "The run has ended, or is removed from the queue"),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread or run not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument)))]
pub async fn cancel(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
    Params(params): Params<CancelParams>,
) -> Result<StatusCode, Problem> {
    if let Some(action) = params.action.as_deref().filter(|action| *action != "interrupt") {
        return Err(Problem::invalid(format!(
            "action {action:?} is not supported: the events of a run are never removed, so the only action is interrupt"
        )));
    }
    if params.reason.is_some_and(|reason| reason.contains(char::is_control)) {
        return Err(Problem::invalid("reason has a control character"));
    }
    let waits = match params.wait.as_deref() {
        None | Some("0" | "false") => false,
        Some("1" | "true") => true,
        Some(other) => return Err(Problem::invalid(format!("wait {other:?} is none of 0, 1, false and true"))),
    };
    match state.service.runs.stop_one(&principal, ThreadAt::from(&thread), &run).await {
        Ok(_) => {}
        Err(StopError::RunNotFound) => {
            let runs = &state.service.runs;
            if runs.queued_turn(&principal, &thread, &run).await?.is_none() {
                return Err(StopError::RunNotFound.into());
            }
            match runs.cancel_turn(&principal, ThreadAt::from(&thread), &run).await {
                Ok(()) => return Ok(StatusCode::NO_CONTENT),
                // The turn has begun meanwhile.
                Err(QueueError::TurnBegun(_)) => {
                    drop(runs.stop_one(&principal, ThreadAt::from(&thread), &run).await?);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(error) => return Err(error.into()),
    }
    if waits {
        wait(&state, &principal, &thread, &run).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    Ok(StatusCode::ACCEPTED)
}
