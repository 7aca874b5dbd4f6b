//! States of a thread: now, after an event, and after each of its runs.

use axum::{
    Json as Answer,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};
use threadline_core::{
    Principal, ReadFrom, Run, Seq, Thread, Timestamp,
    limits::{MAX_LANGGRAPH_PAGE, MAX_PAGE, MAX_PAGE_BYTES},
    projection::langgraph::{NODE, checkpoint_id, interrupts_of, seq_of_checkpoint, values_of},
};
use threadline_engine::{PageRequest, Projected};
use threadline_http::{
    extract::{Caller, InCheckpoint, InThread, Json, Params},
    problem::{Problem, ProblemDocument, ProblemType},
};
use utoipa::{IntoParams, ToSchema};

use super::view::metadata_of;
use crate::{agents::input::base_of, api::ApiState};

/// State of a thread after an event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphState)]
pub struct StateView {
    /// Members of the state, and `messages` as LangChain has them.
    #[schema(value_type = Object)]
    pub values: Box<RawValue>,
    /// `agent` while a run is active or an interrupt is open, otherwise empty.
    next: Vec<&'static str>,
    #[schema(value_type = Vec<Object>)]
    tasks: Vec<Value>,
    #[schema(value_type = Object)]
    metadata: Value,
    /// Time of the newest event that the state includes.
    created_at: String,
    #[schema(value_type = Object)]
    checkpoint: Value,
    #[schema(required, value_type = Option<Object>)]
    parent_checkpoint: Option<Value>,
    #[schema(value_type = Vec<Object>)]
    pub interrupts: Vec<Box<RawValue>>,
}

/// Values after the event `at`, and the interrupts that are open there.
pub async fn values_at(
    state: &ApiState,
    principal: &Principal,
    thread: &Thread,
    at: Seq,
) -> Result<(Box<RawValue>, Vec<Box<RawValue>>), Problem> {
    let make = |projected: &Projected| (values_of(&projected.conversation), interrupts_of(&projected.conversation));
    let projections = &state.service.projections;
    let (values, open) = projections.read(principal, &thread.id, Some(at), Some(thread.epoch), make).await?;
    Ok((RawValue::from_string(values).unwrap_or_default(), open))
}

/// Newest event that the state of a thread includes: while a run is active, the first event of the run. Clients leave out events
/// that are older than the state, and read the rest of the run from its stream.
pub fn newest(thread: &Thread) -> Seq {
    match &thread.active_run {
        Some(run) if run.producer_seq > 0 => run.first_seq,
        Some(run) => run.first_seq - 1,
        None => thread.tail,
    }
}

/// Run of the event with this seq; `None` if no run had an event by then.
pub async fn run_of(state: &ApiState, principal: &Principal, thread: &Thread, at: Seq) -> Result<Option<Run>, Problem> {
    let mut before = None;
    loop {
        let page = state.service.runs.list(principal, &thread.id, before, MAX_PAGE, Some(at)).await?;
        // A run that was abandoned has no event.
        if let Some(run) = page.items.into_iter().find(|run| run.producer_seq > 0) {
            return Ok(Some(run));
        }
        match page.next {
            Some(next) => before = Some(next),
            None => return Ok(None),
        }
    }
}

/// Time of the event with this seq.
async fn time_of(state: &ApiState, principal: &Principal, thread: &Thread, at: Seq) -> Result<Timestamp, Problem> {
    if at == 0 {
        return Ok(thread.created_at);
    }
    let (from, epoch) = (ReadFrom::After(at - 1), Some(thread.epoch));
    let request = PageRequest { from, limit: 1, epoch, run: None, wait: None };
    let page = state.service.events.page(principal, &thread.id, request).await?;
    Ok(page.slice.0.first().map_or(thread.created_at, |batch| batch.at))
}

/// Event that a run continues: the one before its first event, or the earlier one that it went back to.
async fn parent_of(state: &ApiState, principal: &Principal, thread: &Thread, run: &Run) -> Result<Seq, Problem> {
    let first = state.service.events.first_of(principal, &thread.id, run, thread.epoch).await?;
    Ok(first.and_then(|event| base_of(&[&event])).unwrap_or(run.first_seq - 1))
}

/// State of a thread after the event `at`.
pub async fn state_at(state: &ApiState, principal: &Principal, thread: &Thread, at: Seq) -> Result<StateView, Problem> {
    let (values, mut interrupts) = values_at(state, principal, thread, at).await?;
    let run = run_of(state, principal, thread, at).await?;
    let is_active = thread.active_run.is_some() && at == newest(thread);
    if is_active {
        // The active run answers the open interrupts.
        interrupts.clear();
    }
    let is_next = is_active || !interrupts.is_empty();
    let created_at = time_of(state, principal, thread, at).await?;
    let checkpoint =
        |seq: Seq| json!({ "thread_id": thread.id.as_str(), "checkpoint_ns": "", "checkpoint_id": checkpoint_id(seq) });
    let parent = match &run {
        Some(run) => parent_of(state, principal, thread, run).await?,
        None => 0,
    };
    let parent = (parent > 0).then_some(parent);
    let mut metadata = metadata_of(thread);
    metadata.insert("step".to_owned(), at.into());
    metadata.insert("source".to_owned(), "loop".into());
    metadata.insert("thread_id".to_owned(), thread.id.as_str().into());
    if let Some(run) = &run {
        metadata.insert("run_id".to_owned(), run.id.as_str().into());
    }
    let task = || {
        json!({ "id": checkpoint_id(at), "name": NODE, "path": [], "error": null, "interrupts": interrupts,
            "checkpoint": null, "state": null, "result": null })
    };
    Ok(StateView {
        values,
        next: if is_next { vec![NODE] } else { Vec::new() },
        tasks: if is_next { vec![task()] } else { Vec::new() },
        metadata: metadata.into(),
        created_at: created_at.to_string(),
        checkpoint: checkpoint(at),
        parent_checkpoint: parent.map(checkpoint),
        interrupts,
    })
}

async fn answer(state: &ApiState, principal: &Principal, thread: &Thread, at: Seq) -> Result<Response, Problem> {
    let make = || async {
        let view = state_at(state, principal, thread, at).await?;
        Ok(serde_json::to_vec(&view).unwrap_or_default())
    };
    state.http.responses.json(principal, make).await
}

/// Extent of a state.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StateParams {
    /// Ignored: a thread has no subgraphs.
    subgraphs: Option<bool>,
}

impl StateParams {
    /// Ignores the value, which is parsed only so that a wrong one is refused.
    fn ignore(self) {
        let _ = self.subgraphs;
    }
}

/// Returns the state of a thread: that of its newest event, or, while a run is active, of the run's first one.
#[utoipa::path(get, path = "/langgraph/threads/{threadId}/state", tag = "langgraph",
    params(("threadId" = String, Path),
        StateParams,
        ("select" = Option<Vec<String>>, Query, description = "Ignored: all members are returned")), responses(
    (status = 200, description = "The state", body = StateView),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 503, description = "Server at capacity, or store unavailable", body = ProblemDocument),
    (status = 422, description = "Conversation too large", body = ProblemDocument)))]
pub async fn state(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Params(params): Params<StateParams>,
) -> Result<Response, Problem> {
    params.ignore();
    let thread = state.service.threads.get(&principal, &thread).await?;
    answer(&state, &principal, &thread, newest(&thread)).await
}

/// Seq of the event that the id of a checkpoint names.
pub fn named_seq(id: &str) -> Result<Seq, Problem> {
    seq_of_checkpoint(id).ok_or_else(|| no_checkpoint(id))
}

/// Refusal of a checkpoint that the thread does not have.
pub fn no_checkpoint(id: &str) -> Problem {
    Problem::new(ProblemType::CheckpointNotFound, format!("the thread has no checkpoint {id:?}"))
}

/// Returns the state of a thread at a checkpoint: after the event whose seq, in 16 digits, is the checkpoint's id.
#[utoipa::path(get, path = "/langgraph/threads/{threadId}/state/{checkpointId}", tag = "langgraph",
    params(("threadId" = String, Path), ("checkpointId" = String, Path),
        StateParams,
        ("select" = Option<Vec<String>>, Query, description = "Ignored: all members are returned")), responses(
    (status = 200, description = "The state", body = StateView),
    (status = 404, description = "Thread or checkpoint not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 416, description = "The checkpoint is beyond the end of the log", body = ProblemDocument),
    (status = 422, description = "Conversation too large", body = ProblemDocument),
    (status = 503, description = "Server at capacity, or store unavailable", body = ProblemDocument)))]
pub async fn checkpoint(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InCheckpoint(thread, id): InCheckpoint,
    Params(params): Params<StateParams>,
) -> Result<Response, Problem> {
    params.ignore();
    let thread = state.service.threads.get(&principal, &thread).await?;
    answer(&state, &principal, &thread, named_seq(&id)?).await
}

/// Checkpoint of a request.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LangGraphCheckpointBody)]
pub struct CheckpointBody {
    checkpoint: CheckpointRef,
}

/// Checkpoint as clients name it.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LangGraphCheckpoint)]
pub struct CheckpointRef {
    checkpoint_id: Option<String>,
    /// Namespace of a subgraph. Threads have none.
    checkpoint_ns: Option<String>,
}

/// Returns the state of a thread at the checkpoint in the body.
#[utoipa::path(post, path = "/langgraph/threads/{threadId}/state/checkpoint", tag = "langgraph",
    params(("threadId" = String, Path)), request_body = CheckpointBody, responses(
    (status = 200, description = "The state", body = StateView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread or checkpoint not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 416, description = "The checkpoint is beyond the end of the log", body = ProblemDocument),
    (status = 422, description = "Conversation too large", body = ProblemDocument)))]
pub async fn named(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Json(body): Json<CheckpointBody>,
) -> Result<Response, Problem> {
    let thread = state.service.threads.get(&principal, &thread).await?;
    let at = match body.checkpoint.checkpoint_id {
        Some(id) => named_seq(&id)?,
        None => newest(&thread),
    };
    answer(&state, &principal, &thread, at).await
}

/// Page of a history.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LangGraphHistory)]
pub struct HistoryBody {
    /// 1 to 1000. Default 10.
    limit: Option<usize>,
    /// Only states before this checkpoint: its id, or a config that names it.
    #[schema(value_type = Option<Object>)]
    before: Option<Value>,
    /// Only states with these metadata.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// Only states of this namespace: others than the empty one have none.
    checkpoint: Option<CheckpointRef>,
}

impl HistoryBody {
    fn before(&self) -> Result<Seq, Problem> {
        let Some(before) = self.before.as_ref().filter(|before| !before.is_null()) else { return Ok(Seq::MAX) };
        let named = ["/configurable/checkpoint_id", "/checkpoint_id"].into_iter().find_map(|at| before.pointer(at));
        let id = before.as_str().or_else(|| named?.as_str());
        let id =
            id.ok_or_else(|| Problem::invalid("before is not a checkpoint: send the ID of one, or a config with it"))?;
        named_seq(id)
    }
}

/// Returns the states of a thread, newest first: the present one, and the one after each run. As many as fit into 4 MiB, at least
/// one.
#[utoipa::path(post, path = "/langgraph/threads/{threadId}/history", tag = "langgraph",
    params(("threadId" = String, Path)), request_body = HistoryBody, responses(
    (status = 200, description = "The states", body = Vec<StateView>),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread or checkpoint not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 422, description = "Conversation too large", body = ProblemDocument)))]
pub async fn history(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Json(body): Json<HistoryBody>,
) -> Result<Response, Problem> {
    let (state, principal) = (&state, &principal);
    let thread = state.service.threads.get(principal, &thread).await?;
    let limit = body.limit.unwrap_or(10);
    if !(1..=MAX_LANGGRAPH_PAGE).contains(&limit) {
        return Err(Problem::invalid(format!("limit is {limit}, but must be from 1 to {MAX_LANGGRAPH_PAGE}")));
    }
    let named = body.checkpoint.as_ref().and_then(|checkpoint| checkpoint.checkpoint_ns.as_deref());
    if named.is_some_and(|namespace| !namespace.is_empty()) {
        return Ok(Answer(Vec::<StateView>::new()).into_response());
    }
    let before = body.before()?;
    let make = || async {
        let states = states(state, principal, &thread, before, limit, body.metadata.as_ref()).await?;
        Ok((serde_json::to_vec(&states).unwrap_or_default(), ()))
    };
    let (body, ()) = state.http.responses.chunk(principal, make).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

async fn states(
    state: &ApiState,
    principal: &Principal,
    thread: &Thread,
    before: Seq,
    limit: usize,
    metadata: Option<&Map<String, Value>>,
) -> Result<Vec<StateView>, Problem> {
    let (mut states, mut bytes) = (Vec::new(), 0);
    let mut at = newest(thread);
    while at > 0 {
        if at < before {
            let view = state_at(state, principal, thread, at).await?;
            if metadata.is_none_or(|wanted| has_all(&view.metadata, wanted)) {
                bytes += view.values.get().len();
                states.push(view);
            }
        }
        if states.len() >= limit || bytes >= MAX_PAGE_BYTES {
            break;
        }
        // The state before the run that this state belongs to.
        at = run_of(state, principal, thread, at).await?.map_or(0, |run| run.first_seq - 1);
    }
    Ok(states)
}

/// True if an object has all of these members.
pub fn has_all(object: &Value, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(name, value)| object.get(name) == Some(value))
}
