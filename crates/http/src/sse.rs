//! Server-sent events (WHATWG HTML, section 9.2): a response that follows a source and does not end before it.

use std::{io, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use threadline_core::{Principal, limits::DRAIN_RETRY_AFTER};
use threadline_engine::{ServiceError, StoreError, close_schedule::CloseTurn, limits::StreamPermit};
use tokio::time::{self, Instant};

use crate::{HttpState, auth::watch::CredentialWatch, problem::Problem};

/// Source that can be followed as SSE.
pub trait EventSource: Send + 'static {
    /// The next piece of the stream; `None` at its end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, StoreError>> + Send;

    /// Current end of the source, sent with each heartbeat.
    fn tail(&self) -> u64;

    /// Last event when the store cannot be read. Readers reconnect from their cursor. `None` cuts the connection: a
    /// client that knows no such event would take a clean end for the end of the source.
    fn failed(&mut self, error: StoreError) -> Option<Bytes> {
        Some(failure(error))
    }

    /// Time for which a server that shuts down continues the stream, in case the end of the source is near.
    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Last event of a server that ends the stream for this reason. `None` cuts the connection, as in `failed`.
    fn goodbye(&mut self, why: Farewell) -> Option<Bytes> {
        Some(farewell(why))
    }
}

/// Event for a store that cannot be read.
pub fn failure(error: StoreError) -> Bytes {
    let problem = Problem::from(ServiceError::Store(error)).document();
    named("error", &serde_json::to_value(problem).unwrap_or_default()).into()
}

/// Reason for which a server ends a stream that could continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// The server is shutting down.
    Draining,
    /// The key or token of the request is no longer valid.
    CredentialOver,
}

/// Event for this reason, with the close codes of the socket. The field `retry` tells a browser when to reconnect.
pub fn farewell(why: Farewell) -> Bytes {
    match why {
        Farewell::Draining => {
            let wait = DRAIN_RETRY_AFTER.as_millis();
            format!("retry: {wait}\nevent: closing\ndata: {{\"code\":4000,\"reason\":\"draining\"}}\n\n").into()
        }
        Farewell::CredentialOver => named("closing", &json!({ "code": 4501, "reason": "credential-over" })).into(),
    }
}

/// A named event without an id, so that it does not move `Last-Event-ID`.
pub fn named(event: &str, data: &Value) -> String {
    format!("event: {event}\ndata: {data}\n\n")
}

/// Makes the response; `hello`, if present, is sent first. The stream holds its `place`, a stream permit, until its
/// end, and ends once the principal's credential is no longer valid.
pub fn response(
    followed: impl EventSource,
    hello: Option<String>,
    place: StreamPermit,
    api: &HttpState,
    principal: &Principal,
) -> Response {
    let credential = api.auth.watch(principal);
    let mut response = Response::new(Body::from_stream(body(followed, hello, place, api, credential)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Tells proxies (nginx) not to buffer the response.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct State<F> {
    followed: F,
    first: Option<String>,
    beat: Instant,
    every: Duration,
    turn: CloseTurn,
    credential: CredentialWatch,
    ended: bool,
    _place: StreamPermit,
}

fn body<F: EventSource>(
    followed: F,
    hello: Option<String>,
    place: StreamPermit,
    api: &HttpState,
    credential: CredentialWatch,
) -> impl Stream<Item = Result<Bytes, io::Error>> + use<F> {
    let (every, turn) = (api.heartbeat, api.closing.turn());
    let state = State {
        followed,
        first: hello,
        beat: Instant::now() + every,
        every,
        turn,
        credential,
        ended: false,
        _place: place,
    };
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
            () = close(&mut state.turn, grace) => {
                state.ended = true;
                state.followed.goodbye(Farewell::Draining).ok_or_else(cut)
            }
            () = state.credential.expired() => {
                state.ended = true;
                state.followed.goodbye(Farewell::CredentialOver).ok_or_else(cut)
            }
        };
        Some((piece, state))
    })
}

/// Completes when the stream must end. A stream with a grace period delivers the end of a run, for which the server waits.
async fn close(turn: &mut CloseTurn, grace: Duration) {
    if grace.is_zero() {
        turn.comes().await;
    } else {
        turn.last_call().await;
        time::sleep(grace).await;
    }
}

fn cut() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}
