//! The event stream of a thread, as server-sent events.

use axum::{body::Bytes, extract::State, response::Response};
use serde::{Deserialize, Serialize};
use threadline_core::projection::langgraph::{Channels, seq_of_number};
use threadline_engine::{ReadError, StoreError};
use threadline_http::{
    extract::{Caller, InThread, Json},
    problem::{Problem, ProblemDocument},
    sse::{self, EventSource, Farewell},
};
use utoipa::ToSchema;

use super::pump::Pump;
use crate::api::ApiState;

/// Events that a reader wants.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LangGraphFollow)]
pub struct FollowBody {
    /// `values`, `updates`, `messages`, `tools`, `lifecycle`, `input`, `checkpoints`, `tasks`, `custom` or `custom:NAME`.
    channels: Vec<String>,
    /// Only events below these namespaces. All events are in the root namespace, `[]`.
    namespaces: Option<Vec<Vec<String>>>,
    /// Ignored: there is no other namespace than the root.
    depth: Option<u64>,
    /// Only events with a larger `seq`. Without it, the newest run is replayed from its beginning.
    since: Option<u64>,
}

impl FollowBody {
    /// Channels of the reader; none if it wants events of other namespaces than the root only.
    pub fn channels(&self) -> Result<Channels, Problem> {
        let channels = Channels::of(&self.channels).map_err(|unknown| {
            Problem::invalid(format!("channels has {unknown:?}, which is none of {}", Channels::names()))
        })?;
        let is_elsewhere = |namespaces: &Vec<Vec<String>>| namespaces.iter().all(|namespace| !namespace.is_empty());
        Ok(if self.namespaces.as_ref().is_some_and(is_elsewhere) { Channels::default() } else { channels })
    }
}

/// Streams the events of a thread. The stream stays open after the end of a run, and continues with the next one.
#[utoipa::path(post, path = "/langgraph/threads/{threadId}/stream/events", tag = "langgraph",
    params(("threadId" = String, Path)), request_body = FollowBody, responses(
    (status = 200, description = "The events", content((String = "text/event-stream"))),
    (status = 400, description = "Unknown channel", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 416, description = "`since` is beyond the end of the log", body = ProblemDocument)))]
pub async fn follow(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Json(body): Json<FollowBody>,
) -> Result<Response, Problem> {
    let channels = body.channels()?;
    let place = state.http.quota.open(&principal)?;
    let thread = state.service.threads.get(&principal, &thread).await?;
    let at = body.since.map(seq_of_number);
    if at.is_some_and(|at| at > thread.tail) {
        return Err(ReadError::CursorAhead { epoch: Some(thread.epoch), tail: thread.tail }.into());
    }
    let mut pump = Pump::open(&state, &principal, &thread, channels, at).await?;
    if let Some(since) = body.since {
        pump.leave_out(since);
    }
    Ok(sse::response(Events(pump), None, place, &state.http, &principal))
}

/// The events as an event stream.
struct Events(Pump);

impl EventSource for Events {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        let Some(frames) = self.0.next().await? else { return Ok(None) };
        let mut out = Vec::new();
        for frame in frames {
            frame.write_sse(&mut out);
        }
        Ok(Some(out.into()))
    }

    fn tail(&self) -> u64 {
        self.0.tail()
    }

    /// Sends no last frame: the protocol has none for failures, and clients connect again.
    fn failed(&mut self, _: StoreError) -> Option<Bytes> {
        None
    }

    fn goodbye(&mut self, _: Farewell) -> Option<Bytes> {
        None
    }
}
