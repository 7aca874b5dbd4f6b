//! REST routes of threads: create, list, show, edit, mark as read and delete.

use axum::{
    Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use threadline_core::{
    AgentId, ListOrder, NameSearch, Seq, ThreadId, ThreadStatus, UserId,
    limits::{DEFAULT_PAGE, MAX_NAME_BYTES},
};
use threadline_engine::{CreateThread, CreatedThread, EditThread, ListRequest, ThreadAt};
use threadline_http::{
    cursor::{read_position, write_position},
    extract::{Caller, InThread, Json, Params},
    idempotency::IdempotencyKey,
    precondition::Precondition,
    problem::{Problem, ProblemDocument},
    view::ThreadView,
};
use utoipa::{IntoParams, ToSchema};

use crate::api::ApiState;

/// A request to create a thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CreateBody {
    /// Generated (UUIDv7) if absent.
    #[schema(value_type = Option<String>)]
    thread_id: Option<ThreadId>,
    name: Option<String>,
    /// The agent of the thread.
    #[schema(value_type = Option<String>)]
    agent_id: Option<AgentId>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// The owner, if the API key is used without a user.
    #[schema(value_type = Option<String>)]
    user_id: Option<UserId>,
}

/// Creates a thread. A retry returns the same thread.
#[utoipa::path(post, path = "/v1/threads", tag = "threads", params(IdempotencyKey), request_body = CreateBody, responses(
    (status = 201, description = "Created", body = ThreadView),
    (status = 200, description = "Created before by the same request", body = ThreadView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 409, description = "ID already in use", body = ProblemDocument),
    (status = 410, description = "Thread created with this Idempotency-Key and deleted", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument)))]
pub async fn create(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    key: IdempotencyKey,
    Json(body): Json<CreateBody>,
) -> Result<Response, Problem> {
    let derived = if body.thread_id.is_none() { key.thread(&principal, body.user_id.as_ref()) } else { None };
    let request = derived.is_some().then_some(key.0).flatten();
    let id = body.thread_id.or(derived);
    let named = id.is_some();
    let create = CreateThread {
        request,
        id,
        user: body.user_id,
        agent: body.agent_id,
        name: body.name,
        metadata: body.metadata,
    };
    let made = state.service.threads.create(&principal, create).await.map_err(Problem::from);
    let CreatedThread { thread, created } = made.map_err(|problem| problem.of_request(named))?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Answer(ThreadView::new(&thread).seen_by(&principal))).into_response())
}

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    #[default]
    Recent,
    Created,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Running,
    Waiting,
    Failed,
    Idle,
}

/// Filter, order and page of a thread list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// If true, the list includes archived threads.
    #[serde(default)]
    include_archived: bool,
    /// Only threads of this agent.
    #[param(value_type = Option<String>)]
    agent_id: Option<AgentId>,
    /// Only threads in this state. `running`: a run is active. `waiting`: no run is active, and an interrupt is open.
    /// `failed`: neither, and the last run ended with status `error` or `abandoned`. `idle`: all others.
    #[param(inline)]
    status: Option<Status>,
    /// Only threads whose name contains this text, ignoring case and accents: 1 to 1024 bytes, not counting
    /// surrounding white space. A page may be short or empty and still have a `nextCursor`: one request searches
    /// 10,000 names.
    search: Option<String>,
    /// `recent` (default): by last run, else last edit, newest first. `created`: oldest first; does not shift while
    /// it is paged.
    #[serde(default)]
    #[param(inline)]
    order: Order,
    /// 1 to 500. Default 50.
    limit: Option<usize>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
    /// User whose threads are listed, if the API key is used without a user.
    #[param(value_type = Option<String>)]
    user_id: Option<UserId>,
}

/// A page of a thread list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadPageView {
    threads: Vec<ThreadView>,
    /// Cursor of the next page; null on the last page.
    #[schema(required)]
    next_cursor: Option<String>,
    /// The list plus the feed after this cursor is complete.
    feed_cursor: u64,
    /// The epoch of `feedCursor`: 16 zeros if the feed has no entry yet.
    feed_epoch: String,
}

/// Lists a user's threads.
#[utoipa::path(get, path = "/v1/threads", tag = "threads", params(ListParams), responses(
    (status = 200, description = "A page", body = ThreadPageView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(params): Params<ListParams>,
) -> Result<Answer<ThreadPageView>, Problem> {
    let order = match params.order {
        Order::Recent => ListOrder::Recent,
        Order::Created => ListOrder::Created,
    };
    let status = params.status.map(|status| match status {
        Status::Running => ThreadStatus::Running,
        Status::Waiting => ThreadStatus::Waiting,
        Status::Failed => ThreadStatus::Failed,
        Status::Idle => ThreadStatus::Idle,
    });
    let after = params.cursor.as_deref().map(|cursor| read_position(cursor, order)).transpose()?;
    let search = params.search.as_deref().map(read_search).transpose()?;
    let request = ListRequest {
        user: params.user_id,
        include_archived: params.include_archived,
        agent: params.agent_id,
        status,
        search,
        order,
        after,
        limit: params.limit.unwrap_or(DEFAULT_PAGE),
    };
    let page = state.service.threads.list(&principal, request).await?;
    Ok(Answer(ThreadPageView {
        threads: page.threads.iter().map(ThreadView::new).collect(),
        next_cursor: page.next.as_ref().map(|next| write_position(next, order)),
        feed_cursor: page.feed_cursor.position,
        feed_epoch: page.feed_cursor.epoch.to_string(),
    }))
}

fn read_search(text: &str) -> Result<NameSearch, Problem> {
    let refused = || {
        Problem::invalid(format!("search must have 1 to {MAX_NAME_BYTES} bytes, not counting surrounding white space"))
    };
    NameSearch::new(text).ok_or_else(refused)
}

/// Shows a thread.
#[utoipa::path(get, path = "/v1/threads/{threadId}", tag = "threads", params(("threadId" = String, Path)), responses(
    (status = 200, description = "The thread", body = ThreadView),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument)))]
pub async fn get(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
) -> Result<Answer<ThreadView>, Problem> {
    Ok(Answer(ThreadView::new(&state.service.threads.get(&principal, &thread).await?)))
}

/// A change of a thread. An omitted member leaves its field unchanged.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EditBody {
    /// The new name; null removes the name.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    name: Option<Option<String>>,
    /// A merge patch (RFC 7396).
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    archived: Option<bool>,
}

/// Distinguishes `null` from absence.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Renames, archives or unarchives a thread, or changes its metadata.
#[utoipa::path(patch, path = "/v1/threads/{threadId}", tag = "threads",
    params(("threadId" = String, Path), Precondition),
    request_body = EditBody, responses(
    (status = 200, description = "The thread after the change", body = ThreadView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn edit(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Precondition(epoch): Precondition,
    Json(body): Json<EditBody>,
) -> Result<Answer<ThreadView>, Problem> {
    let edit = EditThread { name: body.name, metadata: body.metadata, archived: body.archived };
    let at = ThreadAt { id: &thread, epoch };
    Ok(Answer(ThreadView::new(&state.service.threads.edit(&principal, at, edit).await?).seen_by(&principal)))
}

/// The read position of a thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadBody {
    /// Seq of the newest event that was read, at most the tail.
    #[schema(required, value_type = u64)]
    seq: Option<Seq>,
}

/// Marks a thread as read by its user, up to an event. The mark only moves forward, and the feed reports it.
#[utoipa::path(put, path = "/v1/threads/{threadId}/read", tag = "threads",
    params(("threadId" = String, Path), Precondition),
    request_body = ReadBody, responses(
    (status = 200, description = "The thread after the change", body = ThreadView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 416, description = "`seq` is beyond the end of the log", body = ProblemDocument)))]
pub async fn mark_read(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Precondition(epoch): Precondition,
    Json(body): Json<ReadBody>,
) -> Result<Answer<ThreadView>, Problem> {
    let seq = body.seq.ok_or_else(|| Problem::invalid("seq is missing: the event up to which the thread was read"))?;
    let at = ThreadAt { id: &thread, epoch };
    Ok(Answer(ThreadView::new(&state.service.threads.mark_read(&principal, at, seq).await?).seen_by(&principal)))
}

/// Extent of a deletion.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DeleteParams {
    /// If true, all branches of the conversation are deleted.
    #[serde(default)]
    branches: bool,
}

/// Deletes a thread and all of its log permanently. An active run ends. A retry by its user gets the same response. With
/// `epoch`, a thread that was created under this ID since is not deleted. Other branches of its conversation stay, and lists show
/// the one that was used last; with `branches` they are deleted too.
#[utoipa::path(delete, path = "/v1/threads/{threadId}", tag = "threads",
    params(("threadId" = String, Path), DeleteParams, Precondition), responses(
    (status = 204, description = "Deleted"),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument)))]
pub async fn delete(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Precondition(epoch): Precondition,
    Params(params): Params<DeleteParams>,
) -> Result<StatusCode, Problem> {
    let at = ThreadAt { id: &thread, epoch };
    match params.branches {
        true => state.service.threads.delete_branches(&principal, at).await?,
        false => state.service.threads.delete(&principal, at).await?,
    }
    Ok(StatusCode::NO_CONTENT)
}
