//! The route that reads a plain stream: pages, long-polls and server-sent events.

use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use threadline_core::{
    Principal,
    limits::{MAX_PAGE_BYTES, STREAM_WAIT},
    streams::{Stream, StreamPath, StreamRecord, array},
};
use threadline_engine::{ServiceError, StreamError, StreamPage};
use threadline_http::{
    etag::tags,
    extract::{Caller, Params},
    problem::{Problem, ProblemDocument},
    sse,
};
use tokio::time::Instant;
use utoipa::IntoParams;

use super::{
    answers::{self, DATA_ENCODING},
    live::Live,
    requests::InStream,
};
use crate::api::{
    ApiState,
    streams::{
        headers::tagged,
        offset::{From, cursor},
        read::LiveMode,
    },
};

/// Part of the stream that a request reads. Other parameters are ignored, as the protocol demands.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PlainReadParams {
    /// `-1` (default) for the beginning, `now` for the end, or a `Stream-Next-Offset`. Required with `live`.
    offset: Option<String>,
    /// Waits for data: `long-poll` for up to 20 s, `sse` until the stream is closed or the client leaves.
    #[param(inline)]
    live: Option<LiveMode>,
    /// The `Stream-Cursor` of the response before, for shared caches.
    cursor: Option<u64>,
}

/// Reads a stream. HEAD answers with the header fields of its end, and does not count as a read.
#[utoipa::path(get, path = "/streams/v1/stream/{*path}", tag = "durable streams",
    params(("path" = String, Path), PlainReadParams), responses(
    (status = 200, description = "Data in the content type of the stream, or an event stream", content(
        (Vec<u8> = "application/octet-stream"), (serde_json::Value = "application/json"), (String = "text/event-stream"))),
    (status = 204, description = "No data came while the request waited, or the stream is closed"),
    (status = 304, description = "Not modified"),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Stream not found", body = ProblemDocument),
    (status = 410, description = "Stream deleted while forks of it exist, or offset of an earlier stream", body = ProblemDocument),
    (status = 416, description = "Offset beyond the end of the stream", body = ProblemDocument)))]
pub async fn read(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InStream(path): InStream,
    Params(params): Params<PlainReadParams>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let from = From::of(params.offset.as_deref(), params.live.is_some())?;
    let read = Read { state: &state, principal: &principal, path: &path, from, seen: params.cursor };
    if method == Method::HEAD {
        return read.head().await;
    }
    match params.live {
        None => read.page(&headers).await,
        Some(LiveMode::LongPoll) => state.http.waiting(&principal, Some(STREAM_WAIT), read.long_poll()).await,
        Some(LiveMode::Sse) => read.live().await,
    }
}

/// Read of a stream.
struct Read<'r> {
    state: &'r ApiState,
    principal: &'r Principal,
    path: &'r StreamPath,
    from: From,
    /// Cursor that the client has sent.
    seen: Option<u64>,
}

/// Position at which a read begins.
fn position(record: &StreamRecord, from: From) -> Result<u64, Problem> {
    match from {
        From::Beginning => Ok(0),
        From::Now => Ok(record.tail),
        From::After(offset) if offset.seq == 0 => Ok(0),
        From::After(offset) if offset.epoch != record.epoch => Err(StreamError::Replaced(record.epoch).into()),
        From::After(offset) if offset.seq > record.tail => {
            let ahead = ServiceError::CursorAhead { epoch: Some(record.epoch), tail: record.tail };
            Err(StreamError::Service(ahead).into())
        }
        From::After(offset) => Ok(offset.seq),
    }
}

/// The body of a page: bytes, or an array of messages.
fn body(record: &StreamRecord, page: StreamPage) -> Vec<u8> {
    if !record.content_type.is_json() {
        return page.body;
    }
    let mut out = Vec::with_capacity(page.body.len() + 2);
    out.push(b'[');
    array(&page.body, &mut out);
    out.push(b']');
    out
}

impl Read<'_> {
    async fn stream(&self) -> Result<Stream, Problem> {
        Ok(self.state.service.streams.find(self.principal, self.path).await?)
    }

    async fn head(&self) -> Result<Response, Problem> {
        let record = self.stream().await?.record;
        let response = answers::typed(answers::tail(&record).mark(().into_response(), None), &record);
        Ok(answers::with_life(response, &record))
    }

    /// Reads the page after a position, within the memory for responses.
    async fn held(&self, stream: &Stream, after: u64) -> Result<(Bytes, u64), Problem> {
        let make = || async {
            let service = &self.state.service;
            let page = service.streams.page(self.principal, stream, after, MAX_PAGE_BYTES).await?;
            let (next, bytes) = (page.next, page.body.len());
            // A page may have millions of small messages.
            let work = if stream.record.content_type.is_json() { bytes } else { 0 };
            let make = || body(&stream.record, page);
            let made = service.queue.process(self.principal, work, make).await.map_err(ServiceError::from)?;
            Ok((made, next))
        };
        self.state.http.responses.page_chunk(self.principal, MAX_PAGE_BYTES, make).await
    }

    async fn page(&self, headers: &HeaderMap) -> Result<Response, Problem> {
        let known = tags(headers, &header::IF_NONE_MATCH)?;
        let stream = self.stream().await?;
        let record = &stream.record;
        let after = position(record, self.from)?;
        self.state.service.streams.touch(&stream).await?;
        let (body, next) = self.held(&stream, after).await?;
        let end = answers::end(record, next);
        if self.from == From::Now {
            // The response has no entity tag, because the end of a stream must not be cached.
            return Ok(end.mark(answers::typed(body.into_response(), record), None));
        }
        Ok(end.page(after, known, || answers::typed(body.into_response(), record)))
    }

    async fn long_poll(&self) -> Result<Response, Problem> {
        let mut follower = self.state.service.streams.follow(self.principal, self.path).await?;
        let after = position(follower.record(), self.from)?;
        self.state.service.streams.touch(follower.stream()).await?;
        follower.wait(after, Some(Instant::now() + STREAM_WAIT)).await?;
        let cursor = Some(cursor(self.state.http.clock.now(), self.seen));
        let stream = follower.stream();
        if stream.record.tail <= after {
            return Ok(answers::end(&stream.record, after).mark(StatusCode::NO_CONTENT.into_response(), cursor));
        }
        let (body, next) = self.held(stream, after).await?;
        let end = answers::end(&stream.record, next);
        let response = answers::typed(body.into_response(), &stream.record);
        Ok(tagged(end.mark(response, cursor), &end.etag(after)))
    }

    async fn live(&self) -> Result<Response, Problem> {
        let http = &self.state.http;
        let follower = self.state.service.streams.follow(self.principal, self.path).await?;
        let after = position(follower.record(), self.from)?;
        self.state.service.streams.touch(follower.stream()).await?;
        let is_text = follower.record().content_type.is_text();
        let live = Live::new(follower, self.principal.clone(), http.clone(), after, self.seen);
        let mut response = sse::response(live, None, http.quota.open(self.principal)?, http, self.principal);
        if !is_text {
            response.headers_mut().insert(DATA_ENCODING, HeaderValue::from_static("base64"));
        }
        Ok(response)
    }
}
