//! Server-sent events (WHATWG HTML, section 9.2): what is followed, as a response that does not end.

use std::{io, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::{Stream, stream};
use serde_json::Value;
use tokio::time::{self, Instant};
use tokio_util::sync::CancellationToken;

use super::{ApiState, problem::Problem};
use crate::{domain::limits::DRAIN_RETRY_AFTER, quota::Place, service::ServiceError, store::StoreError};

/// Something that can be followed as SSE.
pub trait Followed: Send + 'static {
    /// The next piece of the stream; `None` at its end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, StoreError>> + Send;

    /// What a heartbeat says: where the end is now.
    fn tail(&self) -> u64;

    /// The last words when the store cannot be read. Readers come again from their cursor. Without last words the
    /// connection is cut: a client that knows no others would take a clean end for the end of what it follows.
    fn failed(&mut self, error: StoreError) -> Option<Bytes> {
        Some(failure(error))
    }

    /// How long a server that shuts down goes on with it, in case its end is near.
    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    /// The last words of a server that shuts down; the same without.
    fn goodbye(&mut self) -> Option<Bytes> {
        Some(farewell())
    }
}

/// What is said of a store that cannot be read.
pub fn failure(error: StoreError) -> Bytes {
    let problem = Problem::from(ServiceError::Store(error)).document();
    named("error", &serde_json::to_value(problem).unwrap_or_default()).into()
}

/// What is said by a server that shuts down. The field `retry` tells a browser when to come again.
pub fn farewell() -> Bytes {
    let wait = Duration::as_millis(&DRAIN_RETRY_AFTER);
    format!("retry: {wait}\nevent: closing\ndata: {{\"code\":4000,\"reason\":\"draining\"}}\n\n").into()
}

/// A named event without an id, so that it does not move `Last-Event-ID`.
pub fn named(event: &str, data: &Value) -> String {
    format!("event: {event}\ndata: {data}\n\n")
}

/// The response; `hello`, if there is one, is sent first. The stream holds its `place` to its end.
pub fn response(followed: impl Followed, hello: Option<String>, place: Place, api: &ApiState) -> Response {
    let mut response = Response::new(Body::from_stream(body(followed, hello, place, api)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Asks proxies (nginx) not to gather what should arrive at once.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct State<F> {
    followed: F,
    first: Option<String>,
    beat: Instant,
    every: Duration,
    draining: CancellationToken,
    ended: bool,
    _place: Place,
}

fn body<F: Followed>(
    followed: F,
    hello: Option<String>,
    place: Place,
    api: &ApiState,
) -> impl Stream<Item = Result<Bytes, io::Error>> + use<F> {
    let (every, draining) = (api.heartbeat, api.draining.clone());
    let state =
        State { followed, first: hello, beat: Instant::now() + every, every, draining, ended: false, _place: place };
    stream::unfold(state, async |mut state| {
        if let Some(first) = state.first.take() {
            return Some((Ok(first.into()), state));
        }
        if state.ended {
            return None;
        }
        let grace = state.followed.grace();
        let piece = tokio::select! {
            piece = state.followed.next() => match piece {
                Ok(Some(piece)) => Ok(piece),
                Ok(None) => return None,
                Err(error) => {
                    state.ended = true;
                    state.followed.failed(error).ok_or_else(cut)
                }
            },
            () = time::sleep_until(state.beat) => {
                state.beat = Instant::now() + state.every;
                Ok(format!(": tail {}\n\n", state.followed.tail()).into())
            }
            () = async { state.draining.cancelled().await; time::sleep(grace).await } => {
                state.ended = true;
                state.followed.goodbye().ok_or_else(cut)
            }
        };
        Some((piece, state))
    })
}

fn cut() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}
