//! Threads, for thread lists and inspectors of the browser packages.

use axum::{Json as Answer, extract::State, response::Response};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use threadline_core::{AgentId, Principal, ThreadId, limits::MAX_INSPECTED_BYTES};
use threadline_engine::{EditThread, Projected};
use threadline_http::{
    extract::{Caller, InThread, Json, Params},
    problem::{Problem, ProblemDocument},
};
use utoipa::{IntoParams, ToSchema};

use crate::api::{
    ApiState,
    copilotkit::{
        intelligence::{feed_token, reading},
        listing::{self, Asked, ThreadList},
        view::ThreadRecord,
    },
};

/// Filters and position of a page of threads.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Only threads of this agent.
    #[param(value_type = Option<String>)]
    agent_id: Option<AgentId>,
    /// If true, the list includes archived threads.
    #[serde(default)]
    include_archived: bool,
    /// 1 to 500. Default 50.
    limit: Option<usize>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
}

/// Lists the user's threads, the newest first.
#[utoipa::path(get, path = "/copilotkit/threads", tag = "copilotkit", params(ListParams), responses(
    (status = 200, description = "A page", body = ThreadList),
    (status = 400, description = "Invalid request", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(params): Params<ListParams>,
) -> Result<Answer<ThreadList>, Problem> {
    let ListParams { agent_id: agent, include_archived, limit, cursor } = params;
    Ok(Answer(listing::page(&state, &principal, Asked { agent, include_archived, limit, cursor }).await?))
}

/// A body whose members are ignored.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct AnyBody {}

/// Issues a token with which the page joins the topic of its user's list, any number of times.
#[utoipa::path(post, path = "/copilotkit/threads/subscribe", tag = "copilotkit", request_body = AnyBody, responses(
    (status = 200, description = "A token for the topic", body = serde_json::Value, example = json!({ "joinToken": "…" })),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn subscribe(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Json(_body): Json<AnyBody>,
) -> Result<Answer<Value>, Problem> {
    Ok(Answer(json!({ "joinToken": feed_token(&state, &principal).await? })))
}

/// A change of a thread; other members are ignored.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RenameBody {
    name: Option<String>,
    archived: Option<bool>,
}

/// Renames, archives or unarchives a thread.
#[utoipa::path(patch, path = "/copilotkit/threads/{threadId}", tag = "copilotkit", params(("threadId" = String, Path)),
    request_body = RenameBody, responses(
    (status = 200, description = "The thread after the change", body = ThreadRecord),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn edit(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Json(body): Json<RenameBody>,
) -> Result<Answer<ThreadRecord>, Problem> {
    let name = body.name.map(|name| Some(name).filter(|name| !name.is_empty()));
    let edit = EditThread { name, archived: body.archived, metadata: None };
    Ok(Answer(ThreadRecord::from(&state.service.threads.edit(&principal, &thread, edit).await?)))
}

/// Archives a thread.
#[utoipa::path(post, path = "/copilotkit/threads/{threadId}/archive", tag = "copilotkit",
    params(("threadId" = String, Path)), request_body = AnyBody, responses(
    (status = 200, description = "Thread archived", body = serde_json::Value, example = json!({ "threadId": "demo", "archived": true })),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn archive(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Json(_body): Json<AnyBody>,
) -> Result<Answer<Value>, Problem> {
    let edit = EditThread { name: None, archived: Some(true), metadata: None };
    state.service.threads.edit(&principal, &thread, edit).await?;
    Ok(Answer(json!({ "threadId": thread.as_str(), "archived": true })))
}

/// Deletes a thread and all of its log permanently.
#[utoipa::path(delete, path = "/copilotkit/threads/{threadId}", tag = "copilotkit", params(("threadId" = String, Path)),
    request_body = AnyBody, responses(
    (status = 200, description = "Deleted", body = serde_json::Value, example = json!({ "threadId": "demo", "deleted": true })),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn delete(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Json(_body): Json<AnyBody>,
) -> Result<Answer<Value>, Problem> {
    state.service.threads.delete(&principal, &thread).await?;
    Ok(Answer(json!({ "threadId": thread.as_str(), "deleted": true })))
}

/// Returns all messages of a thread, oldest first.
#[utoipa::path(get, path = "/copilotkit/threads/{threadId}/messages", tag = "copilotkit",
    params(("threadId" = String, Path)), responses(
    (status = 200, description = "The messages", body = serde_json::Value, example = json!({
        "messages": [{ "id": "m1", "role": "user", "content": "Hello" }]
    })),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 422, description = "Conversation too large", body = ProblemDocument),
    (status = 503, description = "Server at capacity, or store unavailable", body = ProblemDocument)))]
pub async fn messages(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
) -> Result<Response, Problem> {
    show(&state, &principal, &thread, Part::Messages).await
}

/// Returns the events of a thread, for the inspector: all runs, oldest first; of a long log only the newest.
#[utoipa::path(get, path = "/copilotkit/threads/{threadId}/events", tag = "copilotkit",
    params(("threadId" = String, Path)), responses(
    (status = 200, description = "The events", body = serde_json::Value, example = json!({ "events": [{ "type": "RUN_STARTED" }] })),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 503, description = "Server at capacity, or store unavailable", body = ProblemDocument)))]
pub async fn events(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
) -> Result<Response, Problem> {
    show(&state, &principal, &thread, Part::Events).await
}

/// Returns the state of a thread, for the inspector; null if it has no snapshot.
#[utoipa::path(get, path = "/copilotkit/threads/{threadId}/state", tag = "copilotkit",
    params(("threadId" = String, Path)), responses(
    (status = 200, description = "The state", body = serde_json::Value, example = json!({ "state": { "step": 2 } })),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 503, description = "Server at capacity, or store unavailable", body = ProblemDocument)))]
pub async fn state(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
) -> Result<Response, Problem> {
    show(&state, &principal, &thread, Part::State).await
}

/// Part of a thread that a request reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Messages,
    Events,
    State,
}

/// Responds with one part of a thread.
async fn show(state: &ApiState, principal: &Principal, thread: &ThreadId, part: Part) -> Result<Response, Problem> {
    // The reads below do not distinguish a missing thread from an empty one.
    state.service.threads.get(principal, thread).await?;
    let make = || async {
        let document = match part {
            Part::Messages => {
                let document = |projected: &Projected| reading::messages_document(&projected.conversation);
                state.service.projections.read(principal, thread, None, None, document).await?
            }
            Part::Events => reading::events_document(state, principal, thread).await?,
            Part::State => {
                #[derive(Deserialize)]
                struct Shown {
                    state: Option<Box<RawValue>>,
                }
                let shown = reading::state_document(state, principal, thread).await?;
                let shown = serde_json::from_str::<Shown>(shown.get()).ok().and_then(|shown| shown.state);
                format!("{{\"state\":{}}}", shown.as_ref().map_or("null", |shown| shown.get())).into_bytes()
            }
        };
        Ok(document)
    };
    let most = if matches!(part, Part::Events) { MAX_INSPECTED_BYTES } else { 0 };
    state.http.responses.page(principal, most, make).await
}
