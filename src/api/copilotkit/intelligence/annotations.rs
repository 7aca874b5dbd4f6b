//! Annotations: actions of an application's users, stored with a thread.

use axum::{Json as Answer, extract::State};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{NewAnnotation, ThreadId, Timestamp, UserId};
use threadline_http::{
    extract::{Caller, InAnnotation, Json},
    problem::{Problem, ProblemDocument},
};
use utoipa::ToSchema;

use super::acting;
use crate::api::ApiState;

/// An annotation, and its thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AnnotateBody {
    /// The type, such as `user_action`. At most 256 bytes.
    r#type: String,
    /// The thread's user.
    #[schema(value_type = Option<String>)]
    user_id: Option<UserId>,
    #[schema(value_type = String)]
    thread_id: Option<ThreadId>,
    /// The payload: any JSON of at most 64 KiB.
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    /// The time of the event, as RFC 3339.
    occurred_at: Option<String>,
}

/// Confirmation that the annotation is stored.
#[derive(Debug, Serialize, ToSchema)]
pub struct Annotated {
    /// The ID of the request.
    id: String,
    /// True if it was stored before and nothing changed.
    duplicate: bool,
}

/// Stores an annotation of a thread. A retry with the same ID stores it once.
#[utoipa::path(put, path = "/connector/annotate/{clientEventId}", tag = "copilotkit",
    params(("clientEventId" = String, Path)), request_body = AnnotateBody, responses(
    (status = 200, description = "Annotation stored", body = Annotated),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 403, description = "Thread of another user", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument)))]
pub async fn annotate(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAnnotation(id): InAnnotation,
    Json(body): Json<AnnotateBody>,
) -> Result<Answer<Annotated>, Problem> {
    let thread = body.thread_id.ok_or_else(|| Problem::invalid("threadId is missing"))?;
    let occurred_at = body.occurred_at.as_deref().map(moment).transpose()?;
    let annotation = NewAnnotation::new(id.clone(), body.r#type, body.payload.as_deref(), occurred_at)
        .map_err(|error| Problem::invalid(error.to_string()))?;
    let (_, principal) = acting::thread(&state, principal, body.user_id, &thread).await?;
    // Annotations use storage as events do, so a quota of bytes that is used up refuses them. The body has paid.
    state.http.quota.append(&principal, 0)?;
    let new = state.service.annotations.put(&principal, &thread, annotation).await?;
    Ok(Answer(Annotated { id: id.into(), duplicate: !new }))
}

fn moment(text: &str) -> Result<Timestamp, Problem> {
    Timestamp::from_rfc3339(text)
        .ok_or_else(|| Problem::invalid("occurredAt is not an RFC 3339 time like 2026-11-21T10:11:15.123Z"))
}
