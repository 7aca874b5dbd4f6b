//! What was noted about a thread.

use std::ops::ControlFlow;

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::{
    api::{
        ApiState,
        extract::{Caller, InThread, Params},
        problem::{Problem, ProblemDocument},
    },
    domain::{Annotation, ThreadId, Timestamp, limits::MAX_ANNOTATION_PAGE},
};

/// Which annotations.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AnnotationsParams {
    /// 1 to 50. Default 50.
    limit: Option<usize>,
    /// `nextCursor` of the page before.
    cursor: Option<u64>,
}

/// An annotation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationView {
    annotation_id: String,
    /// What it is, in the words of whoever made it.
    #[schema(example = "user_action")]
    r#type: String,
    /// What it says, as it came; null if it says nothing.
    #[schema(value_type = serde_json::Value, required)]
    payload: Box<RawValue>,
    /// When it happened, as its maker says.
    #[schema(required, value_type = Option<String>)]
    occurred_at: Option<Timestamp>,
    /// When it was stored.
    #[schema(value_type = String, example = "2026-11-21T10:11:15.123Z")]
    at: Timestamp,
}

impl From<Annotation> for AnnotationView {
    fn from(annotation: Annotation) -> Self {
        Self {
            annotation_id: annotation.id.into(),
            r#type: annotation.kind,
            // The store holds what was JSON when it came; anything else reads as nothing.
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
    /// Where the next page begins; null at the end.
    #[schema(required)]
    next_cursor: Option<u64>,
}

/// Lists what was noted about a thread, in the order in which it came.
///
/// Annotations stand beside the log: they are no events, and in no message.
#[utoipa::path(get, path = "/v1/threads/{threadId}/annotations", tag = "threads",
    params(("threadId" = String, Path), AnnotationsParams), responses(
    (status = 200, description = "A page", body = AnnotationPageView),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 404, description = "No such thread", body = ProblemDocument),
    (status = 503, description = "No room for the answer, or no store", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    InThread(thread): InThread,
    Params(params): Params<AnnotationsParams>,
) -> Result<Response, Problem> {
    let mut answer = state.answers.to(&caller.0);
    loop {
        let document = page(&state, &caller, &thread, &params).await?;
        match answer.json(document).await? {
            ControlFlow::Break(response) => return Ok(response),
            ControlFlow::Continue(again) => answer = again,
        }
    }
}

async fn page(
    state: &ApiState,
    caller: &Caller,
    thread: &ThreadId,
    params: &AnnotationsParams,
) -> Result<Vec<u8>, Problem> {
    let (after, limit) = (params.cursor.unwrap_or(0), params.limit.unwrap_or(MAX_ANNOTATION_PAGE));
    let (page, more) = state.service.annotations.list(&caller.0, thread, after, limit).await?;
    let next_cursor = page.last().filter(|_| more).map(|(number, _)| *number);
    let annotations = page.into_iter().map(|(_, annotation)| annotation.into()).collect();
    // Nothing of ours has keys that are no texts, which is all that could fail.
    Ok(serde_json::to_vec(&AnnotationPageView { annotations, next_cursor }).unwrap_or_default())
}
