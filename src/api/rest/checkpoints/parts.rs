//! REST routes of the parts of checkpoints: values of channels, and writes of tasks.

use axum::{
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use serde::Deserialize;
use threadline_core::checkpoints::FoundBlob;
use threadline_core::checkpoints::{Channel, ChannelAt, ChannelVersion, CheckpointId, CheckpointNs, TaskId};
use threadline_http::{
    extract::{Caller, InThread, Params},
    problem::{Problem, ProblemDocument},
};
use utoipa::IntoParams;

use super::{
    super::agent_data::{body, invalid},
    PlaceParams, Refused,
    bodies::{BlobsBody, WritesBody},
    json,
    views::{BlobView, WriteView},
};
use crate::api::ApiState;

/// Namespace in which blobs are stored.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NsParams {
    /// The namespace, up to 1,024 bytes. Default: the empty one.
    #[param(value_type = Option<String>)]
    ns: Option<CheckpointNs>,
}

/// Place of a blob.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BlobParams {
    /// The namespace. Default: the empty one.
    #[param(value_type = Option<String>)]
    ns: Option<CheckpointNs>,
    /// The channel that has the value.
    #[param(value_type = String)]
    channel: Channel,
    /// The version of the channel.
    #[param(value_type = String)]
    version: ChannelVersion,
}

/// A write of a task.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WriteParams {
    /// The namespace. Default: the empty one.
    #[param(value_type = Option<String>)]
    ns: Option<CheckpointNs>,
    /// The ID of the checkpoint.
    #[param(value_type = String)]
    id: CheckpointId,
    /// The task that has written.
    #[param(value_type = String)]
    task_id: TaskId,
    /// The number of the write.
    idx: i64,
}

fn named(ns: Option<CheckpointNs>) -> Result<CheckpointNs, Problem> {
    ns.map_or_else(|| CheckpointNs::new("").map_err(invalid), Ok)
}

/// Stores values of channels, before the checkpoints that have them. One that is there stays as it is.
#[utoipa::path(post, path = "/v1/threads/{threadId}/checkpoints/blobs", tag = "agent data",
    params(("threadId" = String, Path), NsParams), request_body = BlobsBody, responses(
    (status = 204, description = "The blobs are stored"), Refused))]
pub async fn put_blobs(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Params(params): Params<NsParams>,
    request: Request,
) -> Result<StatusCode, Problem> {
    let ns = named(params.ns)?;
    let blobs = body::<BlobsBody>(&state, &principal, request).await?.blobs()?;
    state.service.checkpoints.put_blobs(&principal, &thread, &ns, &blobs).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reads the value of a channel, for which an answer had no room.
#[utoipa::path(get, path = "/v1/threads/{threadId}/checkpoints/blobs", tag = "agent data",
    params(("threadId" = String, Path), BlobParams), responses(
    (status = 200, description = "The blob", body = BlobView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread or blob not found", body = ProblemDocument)))]
pub async fn blob(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Params(params): Params<BlobParams>,
) -> Result<Response, Problem> {
    let ns = named(params.ns)?;
    let at = ChannelAt { channel: params.channel, version: params.version };
    let make = async || {
        let data = state.service.checkpoints.blob(&principal, &thread, &ns, &at).await?;
        let blob = FoundBlob { at: at.clone(), kind: data.kind, body: Some(data.body) };
        Ok::<_, Problem>(json(&BlobView::from(blob)))
    };
    state.http.responses.json(&principal, make).await
}

/// Stores what a task has written beside a checkpoint, all or nothing. The checkpoint may come later, or never.
#[utoipa::path(put, path = "/v1/threads/{threadId}/checkpoints/writes", tag = "agent data",
    params(("threadId" = String, Path), PlaceParams), request_body = WritesBody, responses(
    (status = 204, description = "The writes are stored"), Refused))]
pub async fn put_writes(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Params(place): Params<PlaceParams>,
    request: Request,
) -> Result<StatusCode, Problem> {
    let (ns, id) = place.place()?;
    let writes = body::<WritesBody>(&state, &principal, request).await?.writes()?;
    state.service.checkpoints.put_writes(&principal, &thread, &ns, &id, &writes).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reads a write of a task, for which an answer had no room.
#[utoipa::path(get, path = "/v1/threads/{threadId}/checkpoints/writes", tag = "agent data",
    params(("threadId" = String, Path), WriteParams), responses(
    (status = 200, description = "The write", body = WriteView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread or write not found", body = ProblemDocument)))]
pub async fn write(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Params(params): Params<WriteParams>,
) -> Result<Response, Problem> {
    let ns = named(params.ns)?;
    let WriteParams { id, task_id, idx, .. } = params;
    let make = async || {
        let place = (&ns, &id);
        let write = state.service.checkpoints.task_write(&principal, &thread, place, &task_id, idx).await?;
        Ok::<_, Problem>(json(&WriteView::from(write)))
    };
    state.http.responses.json(&principal, make).await
}
