//! REST routes that delete and copy checkpoints.

use axum::{
    Json as Answer,
    extract::{Request, State},
};
use serde::Deserialize;
use threadline_core::RunId;
use threadline_http::{
    extract::{Caller, InThread, Params},
    problem::{Problem, ProblemDocument},
};
use utoipa::IntoParams;

use super::{
    super::agent_data::body,
    Refused,
    bodies::{CopyCheckpointsBody, DeleteBody},
    views::{CopiedView, DeletedView},
};
use crate::api::ApiState;

/// Run that has made checkpoints.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunParams {
    /// The run whose checkpoints are deleted.
    #[param(value_type = String)]
    run_id: RunId,
}

/// Deletes checkpoints of a thread with their writes, and the blobs that no other checkpoint has.
#[utoipa::path(post, path = "/v1/threads/{threadId}/checkpoints/delete", tag = "agent data",
    params(("threadId" = String, Path)), request_body = DeleteBody, responses(
    (status = 200, description = "The checkpoints are deleted", body = DeletedView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 413, description = "Request too large", body = ProblemDocument)))]
pub async fn delete_some(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    request: Request,
) -> Result<Answer<DeletedView>, Problem> {
    let which = body::<DeleteBody>(&state, &principal, request).await?.which()?;
    let deleted = state.service.checkpoints.delete(&principal, &thread, &which).await?;
    Ok(Answer(DeletedView { deleted }))
}

/// Deletes the checkpoints of a run in all threads of the project, or of the user whom `Threadline-User` names.
#[utoipa::path(delete, path = "/v1/checkpoints", tag = "agent data", params(RunParams), responses(
    (status = 200, description = "The checkpoints are deleted", body = DeletedView),
    (status = 400, description = "Invalid request", body = ProblemDocument)))]
pub async fn delete_run(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(params): Params<RunParams>,
) -> Result<Answer<DeletedView>, Problem> {
    let deleted = state.service.checkpoints.delete_run(&principal, &params.run_id).await?;
    Ok(Answer(DeletedView { deleted }))
}

/// Copies all checkpoints of another thread of the same user, each with its parts. What is there stays, so that the request can be repeated.
#[utoipa::path(post, path = "/v1/threads/{threadId}/checkpoints/copy", tag = "agent data",
    params(("threadId" = String, Path)), request_body = CopyCheckpointsBody, responses(
    (status = 200, description = "The checkpoints are copied", body = CopiedView), Refused))]
pub async fn copy(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    request: Request,
) -> Result<Answer<CopiedView>, Problem> {
    let from = body::<CopyCheckpointsBody>(&state, &principal, request).await?.source()?;
    let copied = state.service.checkpoints.copy(&principal, &thread, &from).await?;
    Ok(Answer(CopiedView { copied }))
}
