//! Annotations: what an app's users did, noted about a thread.

use axum::{Json as Answer, extract::State};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::acting;
use crate::{
    api::{
        ApiState,
        extract::{Caller, InAnnotation, Json},
        problem::{Problem, ProblemDocument},
    },
    domain::{NewAnnotation, ThreadId, Timestamp, UserId},
};

/// What is noted, and about which thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AnnotateBody {
    /// What it is, such as `user_action`. At most 256 bytes.
    r#type: String,
    /// The thread's user.
    #[schema(value_type = Option<String>)]
    user_id: Option<UserId>,
    #[schema(value_type = String)]
    thread_id: Option<ThreadId>,
    /// What it says: any JSON of at most 64 KiB.
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    /// When it happened, as RFC 3339 writes it.
    occurred_at: Option<String>,
}

/// That it is stored.
#[derive(Debug, Serialize, ToSchema)]
pub struct Annotated {
    /// The id that it was sent with.
    id: String,
    /// Whether it was stored before; then nothing was changed.
    duplicate: bool,
}

/// Stores an annotation of a thread. Sent again under its id it is stored once.
#[utoipa::path(put, path = "/connector/annotate/{clientEventId}", tag = "copilotkit",
    params(("clientEventId" = String, Path)), request_body = AnnotateBody, responses(
    (status = 200, description = "It is stored", body = Annotated),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 403, description = "Another user's thread", body = ProblemDocument),
    (status = 404, description = "No such thread", body = ProblemDocument),
    (status = 413, description = "Too large", body = ProblemDocument)))]
pub async fn annotate(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAnnotation(id): InAnnotation,
    Json(body): Json<AnnotateBody>,
) -> Result<Answer<Annotated>, Problem> {
    let thread = body.thread_id.ok_or_else(|| Problem::invalid("say about which thread: threadId"))?;
    let occurred_at = body.occurred_at.as_deref().map(moment).transpose()?;
    let annotation = NewAnnotation::new(id.clone(), body.r#type, body.payload.as_deref(), occurred_at)
        .map_err(|error| Problem::invalid(error.to_string()))?;
    let (_, principal) = acting::thread(&state, principal, body.user_id, &thread).await?;
    // They gather as events do, and count as such.
    state.quota.append(&principal, annotation.payload.len())?;
    let new = state.service.annotations.put(&principal, &thread, annotation).await?;
    Ok(Answer(Annotated { id: id.into(), duplicate: !new }))
}

fn moment(text: &str) -> Result<Timestamp, Problem> {
    Timestamp::from_rfc3339(text).ok_or_else(|| Problem::invalid("occurredAt is no time like 2026-11-21T10:11:15.123Z"))
}
