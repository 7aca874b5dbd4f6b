//! Threads over REST.

use axum::{
    Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::view::ThreadView;
use crate::{
    api::{
        ApiState,
        extract::{Caller, InThread, Json, Params},
        problem::{Problem, ProblemDocument},
    },
    domain::{
        AgentId, NameSearch, Seq, ThreadId, Timestamp, UserId,
        limits::{DEFAULT_PAGE, MAX_NAME_BYTES},
    },
    service::{CreateThread, EditThread, ListRequest},
    store::{ListOrder, ListPosition},
};

/// A thread to be made.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CreateBody {
    /// Made up (UUIDv7) if absent.
    #[schema(value_type = Option<String>)]
    thread_id: Option<ThreadId>,
    name: Option<String>,
    /// The agent it is made for.
    #[schema(value_type = Option<String>)]
    agent_id: Option<AgentId>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// The owner, if the API key is used without a user.
    #[schema(value_type = Option<String>)]
    user_id: Option<UserId>,
}

/// Makes a thread. The same create again is the same thread.
#[utoipa::path(post, path = "/v1/threads", tag = "threads", request_body = CreateBody, responses(
    (status = 201, description = "Made", body = ThreadView),
    (status = 200, description = "Was made before by the same request", body = ThreadView),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 409, description = "The id is taken", body = ProblemDocument),
    (status = 413, description = "Too large", body = ProblemDocument)))]
pub async fn create(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Json(body): Json<CreateBody>,
) -> Result<Response, Problem> {
    let create = CreateThread {
        id: body.thread_id,
        user: body.user_id,
        agent: body.agent_id,
        name: body.name,
        metadata: body.metadata,
    };
    let (thread, created) = state.service.threads.create(&principal, create).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Answer(ThreadView::new(&thread))).into_response())
}

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    #[default]
    Recent,
    Created,
}

/// Which threads.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Whether archived threads are shown too.
    #[serde(default)]
    include_archived: bool,
    /// Only threads of this agent.
    #[param(value_type = Option<String>)]
    agent_id: Option<AgentId>,
    /// Only threads whose name has this text in it, whatever the case and the accents of its letters: 1 to 1024 bytes beside
    /// white space around it. A page may be short or empty, and yet have a `nextCursor`: one request looks at 10,000 names.
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
    /// Whose threads, if the API key is used without a user.
    #[param(value_type = Option<String>)]
    user_id: Option<UserId>,
}

/// A page of a thread list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadPageView {
    threads: Vec<ThreadView>,
    /// Where the next page begins; null at the end.
    #[schema(required)]
    next_cursor: Option<String>,
    /// The list plus the feed after this cursor is complete.
    feed_cursor: u64,
}

/// Lists a user's threads.
#[utoipa::path(get, path = "/v1/threads", tag = "threads", params(ListParams), responses(
    (status = 200, description = "A page", body = ThreadPageView),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 401, description = "Not let in", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(params): Params<ListParams>,
) -> Result<Answer<ThreadPageView>, Problem> {
    let order = match params.order {
        Order::Recent => ListOrder::Recent,
        Order::Created => ListOrder::Created,
    };
    let after = params.cursor.as_deref().map(read_position).transpose()?;
    let search = params.search.as_deref().map(read_search).transpose()?;
    let request = ListRequest {
        user: params.user_id,
        include_archived: params.include_archived,
        agent: params.agent_id,
        search,
        order,
        after,
        limit: params.limit.unwrap_or(DEFAULT_PAGE),
    };
    let page = state.service.threads.list(&principal, request).await?;
    Ok(Answer(ThreadPageView {
        threads: page.threads.iter().map(ThreadView::new).collect(),
        next_cursor: page.next.as_ref().map(write_position),
        feed_cursor: page.feed_cursor,
    }))
}

fn read_search(text: &str) -> Result<NameSearch, Problem> {
    let refused = || Problem::invalid(format!("search has 1 to {MAX_NAME_BYTES} bytes beside white space around it"));
    NameSearch::new(text).ok_or_else(refused)
}

pub(crate) fn write_position(position: &ListPosition) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{}:{}", position.at.0, position.id))
}

pub(crate) fn read_position(cursor: &str) -> Result<ListPosition, Problem> {
    let position = || {
        let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let (at, id) = text.split_once(':')?;
        Some(ListPosition { at: Timestamp(at.parse().ok()?), id: ThreadId::new(id).ok()? })
    };
    position().ok_or_else(|| Problem::invalid("cursor is not the nextCursor of a page"))
}

/// Shows a thread.
#[utoipa::path(get, path = "/v1/threads/{threadId}", tag = "threads", params(("threadId" = String, Path)), responses(
    (status = 200, description = "The thread", body = ThreadView),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 404, description = "No such thread", body = ProblemDocument)))]
pub async fn get(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
) -> Result<Answer<ThreadView>, Problem> {
    Ok(Answer(ThreadView::new(&state.service.threads.get(&principal, &thread).await?)))
}

/// A change of a thread. A member left out leaves its field alone.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EditBody {
    /// A new name; null takes the name away.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    name: Option<Option<String>>,
    /// A merge patch (RFC 7396).
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    archived: Option<bool>,
}

/// Tells `null` from absence.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Renames, archives or unarchives a thread, or changes its metadata.
#[utoipa::path(patch, path = "/v1/threads/{threadId}", tag = "threads", params(("threadId" = String, Path)),
    request_body = EditBody, responses(
    (status = 200, description = "The thread as it is now", body = ThreadView),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 404, description = "No such thread", body = ProblemDocument),
    (status = 413, description = "Too large", body = ProblemDocument)))]
pub async fn edit(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Json(body): Json<EditBody>,
) -> Result<Answer<ThreadView>, Problem> {
    let edit = EditThread { name: body.name, metadata: body.metadata, archived: body.archived };
    Ok(Answer(ThreadView::new(&state.service.threads.edit(&principal, &thread, edit).await?)))
}

/// Up to where a thread was read.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadBody {
    /// Seq of the newest event that was read, at most the tail.
    #[schema(required, value_type = u64)]
    seq: Option<Seq>,
}

/// Says up to where the thread's user has read it. The mark only moves forward, and the feed tells of it.
#[utoipa::path(put, path = "/v1/threads/{threadId}/read", tag = "threads", params(("threadId" = String, Path)),
    request_body = ReadBody, responses(
    (status = 200, description = "The thread as it is now", body = ThreadView),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 404, description = "No such thread", body = ProblemDocument),
    (status = 413, description = "Too large", body = ProblemDocument),
    (status = 416, description = "`seq` is beyond the tail", body = ProblemDocument)))]
pub async fn mark_read(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Json(body): Json<ReadBody>,
) -> Result<Answer<ThreadView>, Problem> {
    let seq = body.seq.ok_or_else(|| Problem::invalid("say up to which event it was read: seq"))?;
    Ok(Answer(ThreadView::new(&state.service.threads.mark_read(&principal, &thread, seq).await?)))
}

/// Deletes a thread and all of its log, for ever. An active run is over. Sent again by its user: the same answer.
#[utoipa::path(delete, path = "/v1/threads/{threadId}", tag = "threads", params(("threadId" = String, Path)), responses(
    (status = 204, description = "Deleted"),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 404, description = "No such thread", body = ProblemDocument)))]
pub async fn delete(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
) -> Result<StatusCode, Problem> {
    state.service.threads.delete(&principal, &thread).await?;
    Ok(StatusCode::NO_CONTENT)
}
