//! HTTP client for agents: one request, answered by an event stream, or by JSON if the caller accepts it.

use std::{future::ready, pin::Pin, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt, TryStreamExt, stream, stream::BoxStream};
use reqwest::{
    Method, RequestBuilder, Response,
    header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use threadline_core::{
    EventErrorKind::EventTooLarge,
    agent::Secret,
    limits::{AGENT_REFUSAL_BYTES, AGENT_REFUSAL_TIMEOUT, MAX_EVENT_BYTES},
};
use threadline_http::egress::{EgressClient, Refused};
use tokio::time::timeout;

use super::{
    source::{AgentFailure, EventStream},
    sse::{Decoder, TooLarge},
};

/// Header with which an agent recognises a repeated call of the same run.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Prepares a request to an agent.
pub(super) fn post(outbound: &EgressClient, url: &str) -> Result<RequestBuilder, AgentFailure> {
    outbound.request(Method::POST, url).map_err(|refused| {
        tracing::warn!("not calling an agent: {refused}");
        failure(&refused)
    })
}

fn failure(refused: &Refused) -> AgentFailure {
    match refused {
        Refused::NotAnAddress(_) | Refused::NoTls(_) => AgentFailure::Unreachable,
        Refused::Network { .. } => AgentFailure::Forbidden,
        Refused::Port(_) => AgentFailure::ForbiddenPort,
    }
}

/// Request to an agent.
pub(super) struct Call {
    /// URL and body, without the header fields about formats.
    pub(super) request: RequestBuilder,
    /// Values that must not appear in a log, even as part of an answer.
    pub(super) secrets: Vec<Secret>,
    /// Read timeout, before the answer and within it. Comments reset it. Time in which the stream is not polled does
    /// not count.
    pub(super) idle: Duration,
}

/// Piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Data of one event of a stream.
    Event(Bytes),
    /// Complete JSON body, in place of a stream.
    Json(Bytes),
}

impl Call {
    /// Sends the request on the first poll, and returns the data of the events in the answer. The stream ends after an
    /// error.
    pub(super) fn events(self) -> EventStream {
        let idle = self.idle;
        let body = move |(kind, response): (Kind, Response)| match kind {
            Kind::Events => ready(Ok(decode(chunks(response), idle))),
            Kind::Json | Kind::Other => ready(Err(not_a_stream(&response))),
        };
        stream::once(self.send()).and_then(body).try_flatten().boxed()
    }

    /// Does the same for callers that request a stream and accept a JSON body instead.
    pub(super) fn pieces(self) -> BoxStream<'static, Result<Piece, AgentFailure>> {
        let idle = self.idle;
        let body = move |(kind, response): (Kind, Response)| match kind {
            Kind::Events => ready(Ok(decode(chunks(response), idle).map_ok(Piece::Event).boxed())),
            Kind::Json => ready(Ok(stream::once(gather(chunks(response), idle)).map_ok(Piece::Json).boxed())),
            Kind::Other => ready(Err(not_a_stream(&response))),
        };
        stream::once(self.send()).and_then(body).try_flatten().boxed()
    }

    async fn send(self) -> Result<(Kind, Response), AgentFailure> {
        let Self { request, secrets, idle } = self;
        // Set last, so that they replace configured values.
        let formats = [
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ACCEPT, HeaderValue::from_static("text/event-stream")),
        ];
        let response = match timeout(idle, request.headers(HeaderMap::from_iter(formats)).send()).await {
            Err(_) => return Err(AgentFailure::Silent(idle)),
            Ok(Err(error)) => {
                if let Some(refused) = Refused::cause_of(&error) {
                    tracing::warn!("not calling an agent: {refused}");
                    return Err(failure(refused));
                }
                let unreachable = error.is_connect() || error.is_builder();
                tracing::warn!("cannot connect to an agent: {}", causes(error));
                return Err(if unreachable { AgentFailure::Unreachable } else { AgentFailure::Broken });
            }
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        if !status.is_success() {
            let body = beginning(response, idle.min(AGENT_REFUSAL_TIMEOUT)).await;
            tracing::warn!(status = status.as_u16(), body = %redact(&body, &secrets), "an agent rejected a run");
            return Err(AgentFailure::Unreachable);
        }
        Ok((Kind::of(&response), response))
    }
}

/// Stream with only this failure, for a request that cannot be sent.
pub(super) fn failed(failure: AgentFailure) -> EventStream {
    stream::iter([Err(failure)]).boxed()
}

/// Decodes the events of a body.
fn decode<S>(chunks: S, idle: Duration) -> EventStream
where
    S: Stream<Item = Result<Bytes, AgentFailure>> + Send + 'static,
{
    let state = (Box::pin(chunks), Decoder::new());
    let next = move |(mut chunks, mut decoder): (Pin<Box<S>>, Decoder)| async move {
        loop {
            match decoder.next().map_err(|TooLarge| AgentFailure::InvalidEvent(EventTooLarge.to_string()))? {
                // An event without data is a keep-alive.
                Some(event) if event.trim_ascii().is_empty() => {}
                Some(event) => return Ok(Some((event, (chunks, decoder)))),
                None => match timeout(idle, chunks.try_next()).await.map_err(|_| AgentFailure::Silent(idle))?? {
                    Some(chunk) => decoder.feed(chunk),
                    None => return Ok(None),
                },
            }
        }
    };
    stream::try_unfold(state, next).boxed()
}

/// Collects a complete body, at most as large as one event.
async fn gather<S>(chunks: S, idle: Duration) -> Result<Bytes, AgentFailure>
where
    S: Stream<Item = Result<Bytes, AgentFailure>> + Send + 'static,
{
    let (mut chunks, mut body) = (Box::pin(chunks), BytesMut::new());
    while let Some(chunk) = timeout(idle, chunks.try_next()).await.map_err(|_| AgentFailure::Silent(idle))?? {
        if body.len() + chunk.len() > MAX_EVENT_BYTES {
            return Err(AgentFailure::InvalidEvent(EventTooLarge.to_string()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

fn chunks(response: Response) -> impl Stream<Item = Result<Bytes, AgentFailure>> + Send + 'static {
    response.bytes_stream().map_err(|error| {
        tracing::warn!("lost the connection to an agent: {}", causes(error));
        AgentFailure::Broken
    })
}

/// Format of an answer.
#[derive(Clone, Copy)]
enum Kind {
    Events,
    Json,
    Other,
}

impl Kind {
    fn of(response: &Response) -> Self {
        let text = |name| response.headers().get(name).map(|value| value.to_str().unwrap_or_default());
        let media_type = text(CONTENT_TYPE).and_then(|value| value.split(';').next()).unwrap_or_default().trim();
        // No encoding was requested, and a compressed stream would be misread.
        let plain = text(CONTENT_ENCODING).is_none_or(|encoding| encoding.trim().eq_ignore_ascii_case("identity"));
        match media_type.to_ascii_lowercase().as_str() {
            "text/event-stream" if plain => Self::Events,
            "application/json" if plain => Self::Json,
            _ => Self::Other,
        }
    }
}

fn not_a_stream(response: &Response) -> AgentFailure {
    let kind = response.headers().get(CONTENT_TYPE);
    tracing::warn!(status = response.status().as_u16(), content_type = ?kind, "an agent's response is not an event stream");
    AgentFailure::Unreachable
}

/// Reads the beginning of a refusal, as much as a log needs.
async fn beginning(mut response: Response, time: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = AGENT_REFUSAL_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == AGENT_REFUSAL_BYTES {
                break;
            }
        }
    };
    // The part read before the timeout is used.
    let _ = timeout(time, read).await;
    body
}

/// Prepares an untrusted text for the log: on one line, and without secrets.
pub(super) fn redact(text: &[u8], secrets: &[Secret]) -> String {
    let mut text = String::from_utf8_lossy(text).into_owned();
    for secret in secrets.iter().map(Secret::reveal) {
        for secret in [secret, secret.split_whitespace().last().unwrap_or_default()] {
            if !secret.is_empty() {
                text = text.replace(secret, "(secret)");
            }
        }
    }
    text.escape_debug().to_string()
}

/// Innermost cause, without the URL, which may hold a key.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use tokio::{sync::mpsc, time::sleep};

    use super::*;

    const IDLE: Duration = Duration::from_secs(30);

    /// Chunks, each after a pause in seconds; then an open connection without data.
    fn paced(chunks: &'static [(u64, &str)]) -> EventStream {
        let chunks = stream::iter(chunks).then(|(seconds, chunk)| async move {
            sleep(Duration::from_secs(*seconds)).await;
            Ok(Bytes::from_static(chunk.as_bytes()))
        });
        decode(chunks.chain(stream::pending()), IDLE)
    }

    #[tokio::test(start_paused = true)]
    async fn any_byte_is_a_sign_of_life_and_silence_is_not() {
        let mut events = paced(&[
            (29, "data: 1\n\n"),
            (29, ":\n\n"),
            (29, ": still here\r"),
            (29, "data\n\n"),
            (29, "da"),
            (29, "ta: 2\n\ndata: 3\n\n"),
        ]);
        for expected in ["1", "2", "3"] {
            assert_eq!(events.next().await, Some(Ok(Bytes::from(expected))));
        }
        assert_eq!(events.next().await, Some(Err(AgentFailure::Silent(IDLE))));
        assert_eq!(events.next().await, None, "the end");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_of_the_reader_is_no_silence_of_the_agent() {
        let (sender, receiver) = mpsc::channel(8);
        let chunks = stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
        let mut events = decode(chunks.map(Ok), IDLE);
        let send = |text: &'static str| sender.try_send(Bytes::from_static(text.as_bytes())).expect("room");
        send("data: 1\n\n");
        assert_eq!(events.next().await, Some(Ok(Bytes::from("1"))));
        send("data: 2\n\n");
        sleep(10 * IDLE).await;
        assert_eq!(events.next().await, Some(Ok(Bytes::from("2"))));
        sleep(10 * IDLE).await;
        // A pause that begins after a pending poll is no silence of the agent either.
        assert!(timeout(Duration::ZERO, events.next()).await.is_err());
        send("data: 3\n\n");
        sleep(10 * IDLE).await;
        assert_eq!(events.next().await, Some(Ok(Bytes::from("3"))));
    }

    #[test]
    fn secrets_are_not_logged() {
        let secrets = [Secret::new("Bearer sk-1234"), Secret::new("")];
        let text = redact(b"Incorrect key sk-1234:\n Bearer sk-1234 \xff", &secrets);
        assert_eq!(text, "Incorrect key (secret):\\n (secret) \u{fffd}");
    }
}
