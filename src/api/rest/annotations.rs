//! REST route of a thread's annotations.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{Annotation, ThreadId, Timestamp, limits::MAX_ANNOTATION_PAGE};
use threadline_http::{
    cursor::{CursorKind, read_beside, write_beside},
    extract::{Caller, InThread, Params},
    problem::{Problem, ProblemDocument},
};
use utoipa::{IntoParams, ToSchema};

use crate::api::ApiState;

/// Page of a thread's annotations.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AnnotationsParams {
    /// 1 to 50. Default 50.
    limit: Option<usize>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
}

/// An annotation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationView {
    annotation_id: String,
    /// The type, as its author set it.
    #[schema(example = "user_action")]
    r#type: String,
    /// The payload, byte for byte; null if it has none.
    #[schema(value_type = serde_json::Value, required)]
    payload: Box<RawValue>,
    /// The time of the event, as its author set it.
    #[schema(required, value_type = Option<String>)]
    occurred_at: Option<Timestamp>,
    /// The time at which it was stored.
    #[schema(value_type = String, example = "2026-11-21T10:11:15.123Z")]
    at: Timestamp,
}

impl From<Annotation> for AnnotationView {
    fn from(annotation: Annotation) -> Self {
        Self {
            annotation_id: annotation.id.into(),
            r#type: annotation.kind,
            // The store holds a payload that was JSON on arrival; any other value reads as null.
            payload: RawValue::from_string(annotation.payload).unwrap_or_default(),
            occurred_at: annotation.occurred_at,
            at: annotation.at,
        }
    }
}

/// A page of annotations.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationPageView {
    annotations: Vec<AnnotationView>,
    /// Cursor of the next page; null on the last page.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Lists the annotations of a thread, in the order of their arrival.
///
/// Annotations are stored next to the log: they are neither events nor parts of messages.
#[utoipa::path(get, path = "/v1/threads/{threadId}/annotations", tag = "threads",
    params(("threadId" = String, Path), AnnotationsParams), responses(
    (status = 200, description = "A page", body = AnnotationPageView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 410, description = "Log replaced: the cursor belongs to another thread, or the store has lost data since", body = ProblemDocument),
    (status = 503, description = "Server at capacity, or store unavailable", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    InThread(thread): InThread,
    Params(params): Params<AnnotationsParams>,
) -> Result<Response, Problem> {
    state.http.responses.json(&caller.0, || page(&state, &caller, &thread, &params)).await
}

async fn page(
    state: &ApiState,
    caller: &Caller,
    thread: &ThreadId,
    params: &AnnotationsParams,
) -> Result<Vec<u8>, Problem> {
    let after = params.cursor.as_deref().map(|cursor| read_beside(cursor, CursorKind::Annotations)).transpose()?;
    let limit = params.limit.unwrap_or(MAX_ANNOTATION_PAGE);
    let page = state.service.annotations.list(&caller.0, thread, after, limit).await?;
    let next_cursor = page.next.map(|next| write_beside(CursorKind::Annotations, next));
    let annotations = page.items.into_iter().map(|(_, annotation)| annotation.into()).collect();
    // Serialization fails only for keys that are not strings, and no view has such keys.
    Ok(serde_json::to_vec(&AnnotationPageView { annotations, next_cursor }).unwrap_or_default())
}
