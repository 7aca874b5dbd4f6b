//! Threads over REST, for the Node runtime.

use axum::{
    Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use threadline_core::{AgentId, ThreadId, UserId};
use threadline_engine::{CreateThread, CreatedThread, EditThread, ServiceError};
use threadline_http::{
    extract::{Caller, InThread, Json, Params},
    problem::{Problem, ProblemDocument},
};
use utoipa::{IntoParams, ToSchema};

use super::acting;
use crate::api::{
    ApiState,
    copilotkit::{
        listing::{Asked, ThreadList, page},
        view::ThreadRecord,
    },
};

/// Filters and position of a page of threads.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// The user.
    #[param(value_type = String)]
    user_id: Option<UserId>,
    /// Only threads of this agent; of all agents if absent.
    #[param(value_type = Option<String>)]
    agent_id: Option<AgentId>,
    #[serde(default)]
    include_archived: bool,
    /// 1 to 500. Default 50.
    limit: Option<usize>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
}

/// A thread.
#[derive(Debug, Serialize, ToSchema)]
pub struct OneThread {
    thread: ThreadRecord,
}

impl From<&threadline_core::Thread> for OneThread {
    fn from(thread: &threadline_core::Thread) -> Self {
        Self { thread: thread.into() }
    }
}

/// Lists a user's threads, the newest first.
#[utoipa::path(get, path = "/api/threads", tag = "copilotkit", params(ListParams), responses(
    (status = 200, description = "A page", body = ThreadList),
    (status = 400, description = "Invalid request", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(params): Params<ListParams>,
) -> Result<Answer<ThreadList>, Problem> {
    let principal = acting::user(principal, params.user_id)?;
    let ListParams { agent_id: agent, include_archived, limit, cursor, .. } = params;
    Ok(Answer(page(&state, &principal, Asked { agent, include_archived, limit, cursor }).await?))
}

/// A request to create a thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NewThreadBody {
    #[schema(value_type = Option<String>)]
    thread_id: Option<ThreadId>,
    #[schema(value_type = String)]
    user_id: Option<UserId>,
    #[schema(value_type = Option<String>)]
    agent_id: Option<AgentId>,
    name: Option<String>,
}

/// Creates a thread. A thread that exists is a conflict, also for its creator: the client then reads it.
#[utoipa::path(post, path = "/api/threads", tag = "copilotkit", request_body = NewThreadBody, responses(
    (status = 201, description = "Created", body = OneThread),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 409, description = "ID already in use", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument)))]
pub async fn create(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Json(body): Json<NewThreadBody>,
) -> Result<Response, Problem> {
    let principal = acting::user(principal, body.user_id)?;
    let create = CreateThread {
        id: body.thread_id,
        agent: body.agent_id,
        name: body.name.filter(|name| !name.is_empty()),
        ..CreateThread::default()
    };
    match state.service.threads.create(&principal, create).await? {
        CreatedThread { thread, created: true } => {
            Ok((StatusCode::CREATED, Answer(OneThread::from(&thread))).into_response())
        }
        CreatedThread { created: false, .. } => Err(ServiceError::ThreadExists.into()),
    }
}

/// Shows a thread.
#[utoipa::path(get, path = "/api/threads/{threadId}", tag = "copilotkit",
    params(("threadId" = String, Path), acting::ForUser), responses(
    (status = 200, description = "The thread", body = OneThread),
    (status = 403, description = "Thread of another user", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument)))]
pub async fn get(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
    Params(asked): Params<acting::ForUser>,
) -> Result<Answer<OneThread>, Problem> {
    let (thread, _) = acting::thread(&state, principal, asked.user_id, &id).await?;
    Ok(Answer(OneThread::from(&thread)))
}

/// A change of a thread; other members are ignored.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ChangeThreadBody {
    #[schema(value_type = Option<String>)]
    user_id: Option<UserId>,
    name: Option<String>,
    archived: Option<bool>,
}

/// Renames, archives or unarchives a thread.
#[utoipa::path(patch, path = "/api/threads/{threadId}", tag = "copilotkit", params(("threadId" = String, Path)),
    request_body = ChangeThreadBody, responses(
    (status = 200, description = "The thread after the change", body = OneThread),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 403, description = "Thread of another user", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn edit(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
    Json(body): Json<ChangeThreadBody>,
) -> Result<Answer<OneThread>, Problem> {
    let (_, principal) = acting::thread(&state, principal, body.user_id, &id).await?;
    let name = body.name.map(|name| Some(name).filter(|name| !name.is_empty()));
    let edit = EditThread { name, archived: body.archived, metadata: None };
    let thread = state.service.threads.edit(&principal, &id, edit).await?;
    Ok(Answer(OneThread::from(&thread)))
}

/// Deletes a thread and all of its log.
#[utoipa::path(delete, path = "/api/threads/{threadId}", tag = "copilotkit", params(("threadId" = String, Path)),
    request_body = acting::ForUser, responses(
    (status = 204, description = "Deleted"),
    (status = 403, description = "Thread of another user", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn delete(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
    Json(body): Json<acting::ForUser>,
) -> Result<StatusCode, Problem> {
    // A second delete is an error for the clients of this API, unlike for those of other APIs.
    let (_, principal) = acting::thread(&state, principal, body.user_id, &id).await?;
    state.service.threads.delete(&principal, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
