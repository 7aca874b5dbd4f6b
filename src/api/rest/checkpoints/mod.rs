//! REST routes of checkpoints.

mod bodies;
pub(super) mod parts;
pub(super) mod removal;
mod views;

use std::collections::BTreeMap;

use axum::{
    Json as Answer,
    extract::{Request, State},
    response::Response,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{
    Principal, ThreadId,
    checkpoints::{CheckpointId, CheckpointNs, CheckpointPosition, MetadataFilter},
    limits::{DEFAULT_CHECKPOINT_PAGE, MAX_CHECKPOINT_PAGE},
};
use threadline_engine::ListCheckpoints;
use threadline_http::{
    cursor::read_checkpoint,
    extract::{Caller, InThread, Params},
    problem::{Problem, ProblemDocument},
};
use utoipa::{IntoParams, IntoResponses, ToSchema};

use self::{
    bodies::CheckpointBody,
    views::{CheckpointView, CheckpointsView, StoredView},
};
use super::agent_data::{body, invalid};
use crate::api::ApiState;

/// A checkpoint, or the newest one.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PlaceParams {
    /// The namespace, up to 1,024 bytes. Default: the empty one.
    #[param(value_type = Option<String>)]
    ns: Option<CheckpointNs>,
    /// The ID, 1 to 256 bytes. Reading: the newest checkpoint by default.
    #[param(value_type = Option<String>)]
    id: Option<CheckpointId>,
}

impl PlaceParams {
    fn ns(&mut self) -> Result<CheckpointNs, Problem> {
        self.ns.take().map_or_else(|| CheckpointNs::new("").map_err(invalid), Ok)
    }

    /// The place of a checkpoint, whose ID must be named.
    fn place(mut self) -> Result<(CheckpointNs, CheckpointId), Problem> {
        let ns = self.ns()?;
        Ok((ns, self.id.ok_or_else(|| Problem::invalid("id is missing: the ID of the checkpoint"))?))
    }
}

/// Members of each checkpoint in a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Fields {
    /// All members, with bytes.
    #[default]
    All,
    /// All members, without bytes.
    Head,
}

/// Checkpoints that are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// The namespace; all namespaces by default.
    #[param(value_type = Option<String>)]
    ns: Option<CheckpointNs>,
    /// The ID that the listed ones are less than, by bytes.
    #[param(value_type = Option<String>)]
    before: Option<CheckpointId>,
    /// 1 to 1,000. Default 100.
    limit: Option<usize>,
    /// A JSON object: members that `metadata` has, equal as JSON. At most 64.
    filter: Option<String>,
    /// `head` leaves out all bytes.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    fields: Fields,
    /// The cursor of the page before.
    cursor: Option<String>,
}

const _: () = assert!(DEFAULT_CHECKPOINT_PAGE == 100 && MAX_CHECKPOINT_PAGE == 1_000, "the API description says so");

impl ListParams {
    fn list(self, thread: Option<ThreadId>) -> Result<ListCheckpoints, Problem> {
        let limit = self.limit.unwrap_or(DEFAULT_CHECKPOINT_PAGE);
        if !(1..=MAX_CHECKPOINT_PAGE).contains(&limit) {
            return Err(Problem::invalid(format!("limit is {limit}, but must be from 1 to {MAX_CHECKPOINT_PAGE}")));
        }
        let filter = self.filter.as_deref().map(serde_json::from_str::<BTreeMap<String, Box<RawValue>>>).transpose();
        let filter = filter.map_err(|error| Problem::invalid(format!("filter is not a JSON object: {error}")))?;
        // A cursor is behind the checkpoints of its list, so that `before` says nothing more.
        let from = match (&self.cursor, &self.before) {
            (Some(cursor), _) => read_checkpoint(cursor)?,
            (None, Some(id)) => CheckpointPosition::before(id.as_str().to_owned()),
            (None, None) => CheckpointPosition::newest(),
        };
        let filter = MetadataFilter::new(filter.unwrap_or_default());
        let filter = filter.map_err(|error| Problem::invalid(error.to_string()))?;
        let data = self.fields == Fields::All;
        Ok(ListCheckpoints { thread, ns: self.ns, from, filter, limit, data })
    }
}

/// Responses of a request that stores.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only a description")]
pub enum Refused {
    #[response(status = 400, description = "Invalid request")]
    Invalid(ProblemDocument),
    #[response(status = 404, description = "Thread not found")]
    NotFound(ProblemDocument),
    #[response(status = 413, description = "Too large: the request, a part of it, or the data of the thread")]
    TooLarge(ProblemDocument),
    #[response(status = 507, description = "Storage full")]
    Full(ProblemDocument),
}

/// Serialization fails only for keys that are not strings, and no view has such keys.
fn json(view: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(view).unwrap_or_default()
}

/// Stores a checkpoint, whole or not at all: 422 `blob-missing` if a channel has no value. One that is there is replaced.
#[utoipa::path(put, path = "/v1/threads/{threadId}/checkpoints", tag = "agent data",
    params(("threadId" = String, Path), PlaceParams), request_body = CheckpointBody, responses(
    (status = 200, description = "The checkpoint is stored", body = StoredView),
    (status = 422, description = "A channel has no blob", body = ProblemDocument), Refused))]
pub async fn put(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Params(place): Params<PlaceParams>,
    request: Request,
) -> Result<Answer<StoredView>, Problem> {
    let (ns, id) = place.place()?;
    let asked: CheckpointBody = body(&state, &principal, request).await?;
    let (checkpoint, blobs) = asked.checkpoint(ns, id)?;
    state.service.checkpoints.put(&principal, &thread, &checkpoint, &blobs).await?;
    let (ns, id) = (checkpoint.ns.into(), checkpoint.id.into());
    Ok(Answer(StoredView { thread_id: thread.to_string(), ns, id }))
}

/// Reads a checkpoint with its blobs and writes, or the newest one of a namespace. For API keys with the scope `produce`.
#[utoipa::path(get, path = "/v1/threads/{threadId}/checkpoints", tag = "agent data",
    params(("threadId" = String, Path), PlaceParams), responses(
    (status = 200, description = "The checkpoint", body = CheckpointView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread or checkpoint not found", body = ProblemDocument)))]
pub async fn get(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Params(mut place): Params<PlaceParams>,
) -> Result<Response, Problem> {
    let ns = place.ns()?;
    let make = async || {
        let whole = state.service.checkpoints.get(&principal, &thread, &ns, place.id.as_ref()).await?;
        Ok::<_, Problem>(json(&CheckpointView::of(whole, true)))
    };
    state.http.responses.json(&principal, make).await
}

async fn listed(state: &ApiState, principal: &Principal, list: &ListCheckpoints) -> Result<Response, Problem> {
    let make = async || {
        let page = state.service.checkpoints.list(principal, list).await?;
        Ok::<_, Problem>(json(&CheckpointsView::of(page, list.data)))
    };
    state.http.responses.json(principal, make).await
}

/// Lists the checkpoints of a thread, the newest first.
#[utoipa::path(get, path = "/v1/threads/{threadId}/checkpoints/list", tag = "agent data",
    params(("threadId" = String, Path), ListParams), responses(
    (status = 200, description = "A page", body = CheckpointsView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Params(params): Params<ListParams>,
) -> Result<Response, Problem> {
    listed(&state, &principal, &params.list(Some(thread))?).await
}

/// Lists the checkpoints of all threads of the project, or of the user whom `Threadline-User` names, the newest first.
#[utoipa::path(get, path = "/v1/checkpoints/list", tag = "agent data", params(ListParams), responses(
    (status = 200, description = "A page", body = CheckpointsView),
    (status = 400, description = "Invalid request", body = ProblemDocument)))]
pub async fn list_all(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(params): Params<ListParams>,
) -> Result<Response, Problem> {
    listed(&state, &principal, &params.list(None)?).await
}
