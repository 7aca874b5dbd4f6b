//! REST routes of runs: start, append, complete runs, lists and records.

use std::sync::OnceLock;

use axum::{
    Json as Answer,
    extract::{Request, State},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use threadline_core::{
    AgentId, NewEvents, RunId, ToolClaim,
    agent::Busy,
    limits::{DEFAULT_PAGE, MAX_BATCH_BYTES},
};
use threadline_engine::{AttemptRequest, Opening, RunLookupError, ServiceError, StartRequest, ThreadAt};
use threadline_http::{
    auth::AuthError,
    body::{self, Whole},
    cursor::{CursorKind, read_beside, write_beside},
    extract::{Caller, InRun, InThread, Params, lease_seconds},
    idempotency::{IdempotencyKey, fork_of},
    negotiation::{Representation, StreamFormat},
    precondition::Precondition,
    problem::{Problem, ProblemDocument, ProblemType},
    view::{ReceiptView, RunView, StartedView},
};
use utoipa::{IntoParams, ToSchema};

use crate::api::{
    ApiState,
    rest::{
        attempts::run_at,
        queue::{self, QueuedView},
        starting::{AgentRequest, StartBody, answer, answer_attempt, hand_over},
    },
    validating::{AppendAt, Validate, check_append, check_run, of_stream},
};

/// The events, and the body that they came in.
async fn read_events(state: &ApiState, request: Request) -> Result<(NewEvents, Whole), Problem> {
    let content = Representation::of(request.headers())?;
    let bytes = state.http.body(request, MAX_BATCH_BYTES).await?;
    let events = match content {
        Representation::Json => NewEvents::from_array(&bytes),
        Representation::Ndjson => NewEvents::from_ndjson(&bytes),
    };
    Ok((events.map_err(ServiceError::from)?, bytes))
}

/// Parameters of a streamed run, whose body is its events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct StreamParams {
    /// Streamed runs: the ID of the run. Generated if absent.
    #[param(value_type = Option<String>)]
    run_id: Option<RunId>,
    /// Streamed runs: the run's agent.
    #[param(value_type = Option<String>)]
    agent_id: Option<AgentId>,
    /// Streamed runs: the lease in seconds, 1 to 3600. The server ends the run if its producer sends no byte for this long, even
    /// if the connection stays open; a blank line renews the lease. Default: 600 s while the connection is open, 20 s after the
    /// stream breaks.
    lease_seconds: Option<u64>,
    /// Streamed runs: producerSeq of the first line, to continue where a broken stream ended. Default 1.
    producer_seq: Option<u64>,
    /// `ag-ui`: the events must be as AG-UI 1.0 defines them. A line that is not ends the run, as any invalid line does: 422
    /// `invalid-event`. Not with `input`.
    #[param(value_type = Option<String>, example = "ag-ui")]
    validate: Option<Validate>,
}

/// Starts a run. With `input` an agent produces it; with `application/x-ndjson` the body is the run, one event per
/// line.
///
/// With `agentId` and `input` the response is immediate and the agent's events are stored in the log. With `Accept:
/// text/event-stream` the response streams them as well (as GET …/events does), and `onDisconnect` applies when the
/// client disconnects. Parts of an untrusted client's input that the agent is not given are named in
/// `Threadline-Ignored`.
///
/// After a JSON start the producer appends, sends heartbeats and finishes. With `attemptId` and `onExisting` another process of
/// the producer takes the run up, and names its `attempt` in each request. In a streamed run every byte renews the
/// lease (also blank lines), and the end of the body finishes the run. The response follows then, or earlier if a
/// stop was requested, the terminal event was received, or the run ended otherwise. If the stream breaks, the run
/// continues until its lease expires: send it again with the same runId. With `leaseSeconds` the run ends after that
/// long without a byte, also on an open connection.
#[utoipa::path(post, path = "/v1/threads/{threadId}/runs", tag = "runs",
    params(("threadId" = String, Path), StreamParams, Precondition, IdempotencyKey),
    request_body(content((StartBody = "application/json"), (String = "application/x-ndjson"))), responses(
    (status = 201, description = "Run started; a streamed run has ended", body = StartedView),
    (status = 200, description = "The run existed before: the same response again", body = StartedView),
    (status = 202, description = "Queued, now or before", body = QueuedView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread or agent not found", body = ProblemDocument),
    (status = 406, description = "Not acceptable", body = ProblemDocument),
    (status = 409, description = "Active run conflict, with the run, its start and its lease; unanswered interrupt; queue full; claim lost; or run that cannot be taken up",
        body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 415, description = "Unsupported media type", body = ProblemDocument),
    (status = 422, description = "Invalid event; the run was ended", body = ProblemDocument),
    (status = 429, description = "Too many active runs", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument)))]
pub async fn start(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Precondition(epoch): Precondition,
    key: IdempotencyKey,
    Params(mut params): Params<StreamParams>,
    request: Request,
) -> Result<Response, Problem> {
    let runs = &state.service.runs;
    let derived = key.run(&principal);
    if Representation::of(request.headers())? == Representation::Json {
        let form = StreamFormat::accepted(request.headers())?;
        let bytes = state.http.body(request, MAX_BATCH_BYTES).await?;
        let (mut start, room): (StartBody, _) = state.parse_input(&principal, &bytes).await?;
        if let Some(input) = &mut start.input {
            input.room = Some(room);
        }
        let named = start.run_id.take().or(params.run_id.take());
        let in_input = start.input.as_ref().is_some_and(|input| input.run_id.is_some());
        start.run_id = if in_input { named } else { named.or(derived) };
        if start.input.is_some() {
            start.refuse_attempt()?;
            if params.validate.is_some() {
                return Err(Problem::invalid("validate is not available with input: the agent writes the events"));
            }
            if start.lease_seconds.or(params.lease_seconds).is_some() {
                return Err(Problem::invalid(
                    "leaseSeconds is not available with input: the server drives the run, and keeps it",
                ));
            }
            let claims: Vec<ToolClaim> = start.claims.into_iter().map(ToolClaim::from).collect();
            if !claims.is_empty() && (start.fork.is_some() || start.busy.is_some_and(|busy| busy != Busy::Reject)) {
                return Err(Problem::invalid(
                    "claims is not available with fork, or with a busy that queues: a claim is of one thread, and ends while a turn waits",
                ));
            }
            let made_for = || start.run_id.as_ref().and_then(|run| fork_of(&principal, &thread, run));
            let fork = start.fork.map(|fork| fork.start(made_for)).transpose()?;
            let request = AgentRequest {
                fork,
                agent: start.agent_id.or(params.agent_id),
                run: start.run_id,
                epoch,
                input: start.input.unwrap_or_default(),
                busy: start.busy,
                claims,
            };
            return hand_over(&state, &principal, thread, request, form).await;
        }
        if start.fork.is_some() {
            return Err(Problem::invalid("fork requires input: an agent produces the run that begins in a fork"));
        }
        if start.busy.is_some() {
            return Err(Problem::invalid("busy requires input: only runs that the server drives can be queued"));
        }
        if !start.claims.is_empty() {
            return Err(Problem::invalid("claims requires input: it names the claims of the results there"));
        }
        let opening = start.opening()?;
        if let Opening::Begun(events) = &opening {
            check_run(&state, &principal, params.validate, events).await?;
        }
        let run = start.run_id;
        let named = run.is_some();
        let request = AttemptRequest {
            on_existing: start.on_existing.unwrap_or_default(),
            tools_repeatable: start.tools_repeatable.unwrap_or_default(),
            start: StartRequest {
                run,
                agent: start.agent_id.or(params.agent_id),
                lease: lease_seconds(start.lease_seconds.or(params.lease_seconds))?,
                epoch,
                attempt_id: start.attempt_id,
                opening,
            },
        };
        let attempted = state.service.attempts.start(&principal, &thread, request).await.map_err(Problem::from);
        return Ok(answer_attempt(&thread, &attempted.map_err(|problem| problem.of_request(named))?, &principal));
    }
    let lease = lease_seconds(params.lease_seconds)?;
    let run = params.run_id.or(derived);
    let named = run.is_some();
    let start = StartRequest { run, agent: params.agent_id, lease, epoch, ..StartRequest::default() };
    let from = params.producer_seq.unwrap_or(1);
    let validation = of_stream(&state, &principal, params.validate, &thread, start.run.as_ref(), from).await?;
    let mut place = state.http.bodies.place(&request);
    let mut data = request.into_body().into_data_stream();
    let refused = OnceLock::new();
    // Borrowed, so that the rest can be read after the run has taken the lines that it needs.
    let chunks = state.http.bodies.lines(&mut place, &mut data, &refused);
    let chunks = state.http.auth.checks(&principal).guard(chunks, &refused);
    let mut credential = state.http.auth.watch(&principal);
    let result = tokio::select! {
        result = runs.stream(&principal, &thread, start, from, validation, chunks) => result,
        // The run keeps its lease, and another stream may continue it.
        () = credential.expired() => {
            body::discard(data);
            return Err(AuthError::Over.into());
        }
    };
    match result {
        Ok(streamed) => {
            let mut response = answer(&thread, &streamed.run, &principal);
            if streamed.early {
                body::discard(data);
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        }
        Err(error) => {
            body::discard(data);
            let problem = refused.into_inner().unwrap_or_else(|| error.into());
            Err(if named { problem } else { of_unnamed_stream(problem) })
        }
    }
}

/// Problem of a streamed run that the client did not name. The run may have begun, and the same stream again would begin
/// another one.
fn of_unnamed_stream(problem: Problem) -> Problem {
    match problem.kind {
        ProblemType::StoreUnavailable
        | ProblemType::LineageChanging
        | ProblemType::Draining
        | ProblemType::Busy
        | ProblemType::BodyTimeout => Problem::outcome_unknown(problem.detail),
        _ => problem,
    }
}

/// Agent of a complete run.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct WholeParams {
    #[param(value_type = Option<String>)]
    agent_id: Option<AgentId>,
    /// `ag-ui`: the events must be as AG-UI 1.0 defines them. Otherwise 422 `invalid-event`, and nothing is stored.
    #[param(value_type = Option<String>, example = "ag-ui")]
    validate: Option<Validate>,
}

/// Appends a complete run atomically. Waits up to 10 s while another run is active.
///
/// Without a terminal event the server appends RUN_FINISHED. The same run again changes nothing.
#[utoipa::path(put, path = "/v1/threads/{threadId}/runs/{runId}", tag = "runs",
    params(("threadId" = String, Path), ("runId" = String, Path), WholeParams, Precondition),
    request_body(content((Vec<serde_json::Value> = "application/json"), (String = "application/x-ndjson"))), responses(
    (status = 201, description = "Appended", body = StartedView),
    (status = 200, description = "Appended before", body = StartedView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 409, description = "Active run conflict, or run driven by the server", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 415, description = "Unsupported media type", body = ProblemDocument),
    (status = 422, description = "Invalid event, or run stored with other events", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument)))]
pub async fn append_complete_run(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
    Precondition(epoch): Precondition,
    Params(params): Params<WholeParams>,
    request: Request,
) -> Result<Response, Problem> {
    let (events, _body) = read_events(&state, request).await?;
    check_run(&state, &principal, params.validate, &events).await?;
    let start = StartRequest { run: Some(run), agent: params.agent_id, epoch, ..StartRequest::default() };
    let started = state.service.conversations.append_run(&principal, &thread, start, events).await?;
    Ok(answer(&thread, &started, &principal))
}

/// Page and position of a list of runs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunsParams {
    /// 1 to 500. Default 50.
    limit: Option<usize>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
    /// The runs after the event with this seq: later runs are omitted, and runs that ended later are running.
    at: Option<u64>,
}

/// A page of runs.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunPageView {
    runs: Vec<RunView>,
    /// Cursor of the next page; null on the last page.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Lists a thread's runs, newest first.
#[utoipa::path(get, path = "/v1/threads/{threadId}/runs", tag = "runs",
    params(("threadId" = String, Path), RunsParams), responses(
    (status = 200, description = "A page", body = RunPageView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 410, description = "Log replaced: the cursor belongs to another thread", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Params(params): Params<RunsParams>,
) -> Result<Answer<RunPageView>, Problem> {
    let limit = params.limit.unwrap_or(DEFAULT_PAGE);
    let before = params.cursor.as_deref().map(|cursor| read_beside(cursor, CursorKind::Runs)).transpose()?;
    let page = state.service.runs.list(&principal, &thread, before, limit, params.at).await?;
    let next_cursor = page.next.map(|next| write_beside(CursorKind::Runs, next));
    Ok(Answer(RunPageView { runs: page.items.iter().map(RunView::new).collect(), next_cursor }))
}

/// Shows a run.
#[utoipa::path(get, path = "/v1/threads/{threadId}/runs/{runId}", tag = "runs",
    params(("threadId" = String, Path), ("runId" = String, Path)), responses(
    (status = 200, description = "The run; of a queued turn `runId`, `agentId`, `status` (`queued`), `askedBy`, `place`, `version` and `driven`", body = RunView),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread or run not found", body = ProblemDocument)))]
pub async fn get(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
) -> Result<Response, Problem> {
    let runs = &state.service.runs;
    match runs.get(&principal, &thread, &run).await {
        Ok(run) => Ok(Answer(RunView::new(&run)).into_response()),
        Err(RunLookupError::RunNotFound) => match runs.queued_turn(&principal, &thread, &run).await? {
            Some(placed) => Ok(Answer(queue::as_run(&placed)).into_response()),
            // The turn may have begun between the two reads.
            None => Ok(Answer(RunView::new(&runs.get(&principal, &thread, &run).await?)).into_response()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Number of an append's first event.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct AppendParams {
    /// The number of the first event of this append within the run, counted from 1. It makes a retry idempotent.
    /// Without it the events are appended at the end of the run, and a retry may append them twice.
    producer_seq: Option<u64>,
    /// The number of the attempt that the request speaks for, as its start returned it. Without it, the first attempt. Another
    /// attempt than the present one is refused: 409 `run-fenced`.
    attempt: Option<u64>,
    /// `ag-ui`: the events must be as AG-UI 1.0 defines them. Otherwise 422 `invalid-event`, and nothing is stored.
    #[param(value_type = Option<String>, example = "ag-ui")]
    validate: Option<Validate>,
}

/// Appends events of a run. The response follows once they are durable; the same append again gets the same response.
#[utoipa::path(post, path = "/v1/threads/{threadId}/runs/{runId}/events", tag = "runs",
    params(("threadId" = String, Path), ("runId" = String, Path), AppendParams, Precondition),
    request_body(content((Vec<serde_json::Value> = "application/json"), (String = "application/x-ndjson"))), responses(
    (status = 200, description = "Stored", body = ReceiptView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread or run not found", body = ProblemDocument),
    (status = 409, description = "Run already ended, taken up by another attempt, driven by the server, or gap in producerSeq", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 415, description = "Unsupported media type", body = ProblemDocument),
    (status = 422, description = "Invalid event, or conflicting producerSeq", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument)))]
pub async fn append(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
    Precondition(epoch): Precondition,
    Params(params): Params<AppendParams>,
    request: Request,
) -> Result<Answer<ReceiptView>, Problem> {
    let run_at = run_at(&run, params.attempt)?;
    let (events, _body) = read_events(&state, request).await?;
    let attempt = run_at.attempt;
    let place = || AppendAt { thread: thread.clone(), run: run.clone(), attempt, producer_seq: params.producer_seq };
    check_append(&state, &principal, params.validate, &events, place).await?;
    let at = ThreadAt { id: &thread, epoch };
    let receipt = state.service.runs.append(&principal, at, run_at, params.producer_seq, events).await?;
    Ok(Answer(ReceiptView::new(&receipt)))
}
