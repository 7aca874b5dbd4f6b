//! Threads: create, show, edit and delete.

use axum::{
    Json as Answer,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use threadline_core::{AgentId, Principal, Thread, ThreadId, projection::langgraph::checkpoint_id};
use threadline_engine::{CreateThread, CreateThreadError, EditThread, ThreadAt};
use threadline_http::{
    extract::{Caller, InThread, Json},
    problem::{Problem, ProblemDocument},
};
use utoipa::ToSchema;

use super::{
    states::{newest, values_at},
    view::ThreadView,
};
use crate::api::ApiState;

/// Thread to create, if it does not exist.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LangGraphThreadCreate)]
pub struct CreateBody {
    /// Generated (UUIDv7) if absent.
    #[schema(value_type = Option<String>)]
    thread_id: Option<ThreadId>,
    /// `graph_id` names the agent of the thread.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// For an id that is in use: `raise` (the default) refuses the request, `do_nothing` returns that thread.
    if_exists: Option<IfExists>,
    /// Events to begin with. Not supported: must be empty or absent.
    #[schema(value_type = Option<Vec<Object>>)]
    supersteps: Option<Vec<Value>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LangGraphIfExists)]
enum IfExists {
    Raise,
    DoNothing,
}

/// Creates a thread. A repeated equal request returns the same thread.
#[utoipa::path(post, path = "/langgraph/threads", tag = "langgraph", request_body = CreateBody, responses(
    (status = 200, description = "The thread", body = ThreadView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 409, description = "ID already in use", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn create(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Json(body): Json<CreateBody>,
) -> Result<Answer<ThreadView>, Problem> {
    if body.supersteps.is_some_and(|steps| !steps.is_empty()) {
        return Err(Problem::invalid(
            "supersteps are not supported: append the messages as runs of the thread instead",
        ));
    }
    let mut metadata = body.metadata.unwrap_or_default();
    // Clients send null for a graph that they do not name.
    metadata.retain(|name, value| !(name == "graph_id" && value.is_null()));
    let agent = metadata.get("graph_id").and_then(Value::as_str).map(AgentId::new).transpose();
    let agent = agent.map_err(|error| Problem::invalid(format!("metadata.graph_id: {error}")))?;
    let (id, named) = (body.thread_id.clone(), body.thread_id.is_some());
    let create = CreateThread { id: body.thread_id, agent, metadata: Some(metadata), ..CreateThread::default() };
    let thread = match (state.service.threads.create(&principal, create).await, id) {
        (Err(CreateThreadError::ThreadExists), Some(id)) if body.if_exists == Some(IfExists::DoNothing) => {
            state.service.threads.get(&principal, &id).await?
        }
        (made, _) => made.map_err(Problem::from).map_err(|problem| problem.of_request(named))?.thread,
    };
    Ok(Answer(ThreadView::new(&thread)))
}

/// View of a thread with its values and interrupts.
pub async fn with_values(state: &ApiState, principal: &Principal, thread: &Thread) -> Result<ThreadView, Problem> {
    let mut view = ThreadView::new(thread);
    if thread.tail > 0 {
        let at = newest(thread);
        let (values, interrupts) = values_at(state, principal, thread, at).await?;
        view.values = Some(values);
        if thread.active_run.is_none() && !interrupts.is_empty() {
            view.interrupts = json!({ checkpoint_id(at): interrupts });
        }
    }
    Ok(view)
}

/// Shows a thread, with its values.
#[utoipa::path(get, path = "/langgraph/threads/{threadId}", tag = "langgraph",
    params(("threadId" = String, Path),
        ("include" = Option<Vec<String>>, Query, description = "Ignored: all members are returned")), responses(
    (status = 200, description = "The thread", body = ThreadView),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 422, description = "Conversation too large", body = ProblemDocument),
    (status = 503, description = "Server at capacity, or store unavailable", body = ProblemDocument)))]
pub async fn get(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
) -> Result<Response, Problem> {
    let thread = state.service.threads.get(&principal, &thread).await?;
    let make = || async {
        let view = with_values(&state, &principal, &thread).await?;
        Ok(serde_json::to_vec(&view).unwrap_or_default())
    };
    state.http.responses.json(&principal, make).await
}

/// Change of a thread.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LangGraphThreadEdit)]
pub struct EditBody {
    /// Members to add or replace; null removes a member.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Changes the metadata of a thread. With `Prefer: return=minimal` the response is empty.
#[utoipa::path(patch, path = "/langgraph/threads/{threadId}", tag = "langgraph",
    params(("threadId" = String, Path)), request_body = EditBody, responses(
    (status = 200, description = "The thread, without its values", body = ThreadView),
    (status = 204, description = "Changed"),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn edit(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    headers: HeaderMap,
    Json(body): Json<EditBody>,
) -> Result<Response, Problem> {
    let edit = EditThread { metadata: body.metadata, ..EditThread::default() };
    let thread = state.service.threads.edit(&principal, &thread, edit).await?;
    let is_minimal = headers.get("prefer").is_some_and(|prefer| prefer.as_bytes() == b"return=minimal");
    Ok(if is_minimal {
        StatusCode::NO_CONTENT.into_response()
    } else {
        Answer(ThreadView::new(&thread)).into_response()
    })
}

/// Deletes a thread and all of its log permanently.
#[utoipa::path(delete, path = "/langgraph/threads/{threadId}", tag = "langgraph",
    params(("threadId" = String, Path)), responses(
    (status = 204, description = "Deleted"),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument)))]
pub async fn delete(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
) -> Result<StatusCode, Problem> {
    state.service.threads.delete(&principal, ThreadAt::from(&thread)).await?;
    Ok(StatusCode::NO_CONTENT)
}
