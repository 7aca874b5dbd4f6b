//! Join tokens: the runtime requests a token for a topic, and passes it on to the page.

use axum::{
    Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use threadline_core::{FeedCursor, Principal, UserId, limits::FEED_LOOK_BACK};
use threadline_http::{
    auth::AuthError,
    extract::{Caller, InThread, Json, Params},
    problem::{Problem, ProblemDocument},
};
use utoipa::ToSchema;

use super::acting::{self, ForUser};
use crate::api::ApiState;

fn acts_for(principal: &Principal) -> Result<&UserId, Problem> {
    principal.user.as_ref().ok_or_else(|| Problem::invalid("userId is missing"))
}

/// Name of the topic of a user's list, which is `user_meta:` and this code. The code is the same for all lists of the
/// user, regardless of their filters.
pub async fn join_code(state: &ApiState, principal: &Principal) -> Result<String, Problem> {
    let names = state.http.auth.feed_names(&principal.project, acts_for(principal)?).await?;
    names.into_iter().next().ok_or_else(|| AuthError::NoProject.into())
}

/// Issues a token for the topic of the user's list. The page then receives the changes since its list was read.
pub async fn feed_token(state: &ApiState, principal: &Principal) -> Result<String, Problem> {
    let head = state.service.feed.head(principal).await?;
    let read = state.copilotkit.lists.position(principal).filter(|read| read.epoch == head.epoch).unwrap_or(head);
    let position = head.position.saturating_sub(FEED_LOOK_BACK).min(read.position);
    let after = FeedCursor { position, ..head };
    Ok(state.http.auth.feed_token(principal, after).await?)
}

/// A token for a topic.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinToken {
    join_token: String,
}

/// Issues a token with which a page joins the topic of its user's list, any number of times.
#[utoipa::path(post, path = "/api/threads/subscribe", tag = "copilotkit", request_body = ForUser, responses(
    (status = 200, description = "The token", body = JoinToken),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn subscribe(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Json(body): Json<ForUser>,
) -> Result<Answer<JoinToken>, Problem> {
    let principal = acting::user(principal, body.user_id)?;
    Ok(Answer(JoinToken { join_token: feed_token(&state, &principal).await? }))
}

/// The topic of a list, and a token for it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinCode {
    join_token: String,
    join_code: String,
}

/// Issues the same token with the name of the topic, for the user of a thread.
#[utoipa::path(get, path = "/api/threads/{threadId}/join-code", tag = "copilotkit",
    params(("threadId" = String, Path), ForUser), responses(
    (status = 200, description = "The topic, and a token for it", body = JoinCode),
    (status = 403, description = "Thread of another user", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument)))]
pub async fn code(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
    Params(asked): Params<ForUser>,
) -> Result<Answer<JoinCode>, Problem> {
    let (thread, principal) = acting::thread(&state, principal, asked.user_id, &id).await?;
    let principal = principal.for_user(thread.user);
    let join_token = feed_token(&state, &principal).await?;
    Ok(Answer(JoinCode { join_token, join_code: join_code(&state, &principal).await? }))
}

/// The token with which a page follows a thread.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connected {
    thread_id: String,
    join_token: String,
    /// The run that is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
}

/// Issues a token with which a page joins the topic of a thread, once. The response is 204 if the thread is empty.
#[utoipa::path(post, path = "/api/threads/{threadId}/connect", tag = "copilotkit", params(("threadId" = String, Path)),
    request_body = ForUser, responses(
    (status = 200, description = "The token", body = Connected),
    (status = 204, description = "Thread not found, or empty"),
    (status = 403, description = "Thread of another user", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn connect(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
    Json(body): Json<ForUser>,
) -> Result<Response, Problem> {
    let found = acting::existing(&state, principal, body.user_id, &id).await?;
    let Some((thread, principal)) = found.filter(|(thread, _)| thread.tail > 0 || thread.active_run.is_some()) else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let principal = principal.for_user(thread.user);
    Ok(Answer(Connected {
        join_token: state.http.auth.thread_token(&principal, &thread.id).await?,
        thread_id: thread.id.to_string(),
        run_id: thread.active_run.map(|run| run.id.to_string()),
    })
    .into_response())
}
