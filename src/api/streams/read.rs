//! Routes that read the stream of a thread or a run.

use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use threadline_core::{Epoch, Principal, Seq, limits::STREAM_WAIT};
use threadline_engine::subscription::FollowMethod;
use threadline_http::{
    etag::tags,
    extract::{Caller, InRun, InThread, Params},
    observe,
    problem::{Problem, ProblemDocument},
    sse,
};
use utoipa::IntoParams;

use super::{
    headers::{End, tagged},
    live::Live,
    offset::{From, cursor},
    page::Source,
};
use crate::api::ApiState;

/// Part of the stream that a request reads.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StreamReadParams {
    /// `-1` (default) for the beginning, `now` for the end, or a `Stream-Next-Offset`. Required with `live`.
    offset: Option<String>,
    /// Waits for messages: `long-poll` for up to 20 s, `sse` until the stream is closed or the client leaves.
    #[param(inline)]
    live: Option<LiveMode>,
    /// The `Stream-Cursor` of the response before, for shared caches.
    cursor: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LiveMode {
    LongPoll,
    Sse,
}

/// Reads a thread as a stream of the Durable Streams protocol. HEAD answers with the header fields of its end.
///
/// The messages are the thread's AG-UI events, as their producers sent them. The stream of a thread is never closed.
#[utoipa::path(get, path = "/streams/v1/stream/threads/{threadId}", tag = "durable streams",
    params(("threadId" = String, Path), StreamReadParams), responses(
    (status = 200, description = "Messages: a JSON array, or an event stream", content(
        (serde_json::Value = "application/json", example = json!([{ "type": "RUN_STARTED", "threadId": "demo", "runId": "r1" }])),
        (String = "text/event-stream"))),
    (status = 204, description = "No message came while the request waited"),
    (status = 304, description = "Not modified"),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 410, description = "Log replaced: the offset belongs to another log", body = ProblemDocument),
    (status = 416, description = "Offset beyond the end of the stream", body = ProblemDocument)))]
pub async fn thread(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Params(params): Params<StreamReadParams>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let source = Source { thread, run: None };
    respond(&state, &principal, source, params, (&method, &headers)).await
}

/// Reads a run as a stream of the Durable Streams protocol, which is closed by the end of the run. HEAD answers with the header
/// fields of its end.
#[utoipa::path(get, path = "/streams/v1/stream/threads/{threadId}/runs/{runId}", tag = "durable streams",
    params(("threadId" = String, Path), ("runId" = String, Path), StreamReadParams), responses(
    (status = 200, description = "Messages: a JSON array, or an event stream",
        content((serde_json::Value = "application/json"), (String = "text/event-stream"))),
    (status = 204, description = "No message came while the request waited, or the stream is closed"),
    (status = 404, description = "Thread or run not found", body = ProblemDocument),
    (status = 410, description = "Log replaced: the offset belongs to another log", body = ProblemDocument),
    (status = 416, description = "Offset beyond the end of the stream", body = ProblemDocument),
    (status = 304, description = "Not modified"),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument)))]
pub async fn run(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InRun(thread, run): InRun,
    Params(params): Params<StreamReadParams>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let source = Source { thread, run: Some(run) };
    respond(&state, &principal, source, params, (&method, &headers)).await
}

async fn respond(
    state: &ApiState,
    principal: &Principal,
    source: Source,
    params: StreamReadParams,
    (method, headers): (&Method, &HeaderMap),
) -> Result<Response, Problem> {
    let from = From::of(params.offset.as_deref(), params.live.is_some())?;
    if method == Method::HEAD {
        let end = source.end(state, principal).await?;
        return Ok(end.mark(([(header::CONTENT_TYPE, "application/json")], ()).into_response(), None));
    }
    let (after, epoch) = match from {
        From::Beginning => (0, None),
        From::After(offset) => (offset.seq, Some(offset.epoch)),
        From::Now => {
            let end = source.end(state, principal).await?;
            if params.live.is_none() {
                // The response has no entity tag, because the end of a stream must not be cached.
                return Ok(end.mark(([(header::CONTENT_TYPE, "application/json")], "[]").into_response(), None));
            }
            (end.next.seq, Some(end.next.epoch))
        }
    };
    let read = Read { state, principal, source: &source, after, epoch };
    match params.live {
        None => read.page(headers).await,
        Some(LiveMode::LongPoll) => {
            state.http.waiting(principal, Some(STREAM_WAIT), read.long_poll(params.cursor)).await
        }
        Some(LiveMode::Sse) => read.live(params.cursor).await,
    }
}

/// Read from a position.
struct Read<'r> {
    state: &'r ApiState,
    principal: &'r Principal,
    source: &'r Source,
    after: Seq,
    epoch: Option<Epoch>,
}

impl Read<'_> {
    async fn held_page(&self) -> Result<(Bytes, Seq, End), Problem> {
        self.source.held_page(self.state, self.principal, self.after, self.epoch).await
    }

    async fn page(&self, headers: &HeaderMap) -> Result<Response, Problem> {
        let known = tags(headers, &header::IF_NONE_MATCH)?;
        let (body, start, end) = self.held_page().await?;
        Ok(end.page(start, known, || json_body(body)))
    }

    async fn long_poll(&self, seen: Option<u64>) -> Result<Response, Problem> {
        // The wait holds no memory: the page is read once there is one.
        self.source.wait(self.state, self.principal, self.after, self.epoch).await?;
        let (body, start, end) = self.held_page().await?;
        let cursor = Some(cursor(self.state.http.clock.now(), seen));
        if end.next.seq == start {
            return Ok(end.mark(StatusCode::NO_CONTENT.into_response(), cursor));
        }
        Ok(tagged(end.mark(json_body(body), cursor), &end.etag(start)))
    }

    async fn live(&self, seen: Option<u64>) -> Result<Response, Problem> {
        let Self { state, principal, source: Source { thread, run }, after, epoch } = *self;
        let via = FollowMethod::DurableStreams;
        let subscription = state.service.events.subscribe(principal, thread, after, epoch, run.as_ref(), via).await?;
        let counted = observe::DeliveryMetrics::new(&state.http);
        let followed = Live { subscription, counted, http: state.http.clone(), seen, up_to_date: false, ended: false };
        Ok(sse::response(followed, None, state.http.quota.open(principal)?, &state.http, principal))
    }
}

fn json_body(body: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
