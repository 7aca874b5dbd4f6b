//! Endpoints in the shape of OpenAI's chat completions, as AG-UI agents.
//!
//! One run is one completion. The tools are those of the frontend: a run that ends in tool calls names them in its
//! outcome, the frontend answers with tool messages, and the next run continues from there.
//! Sources: <https://platform.openai.com/docs/api-reference/chat/create> and `…/chat/streaming`.

mod answer;
mod request;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::{StreamExt, stream, stream::BoxStream};
use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderValue},
};

use self::answer::Answer;
use threadline_core::agent::Secret;
use threadline_http::egress::EgressClient;

use super::{
    http::{self, Call, IDEMPOTENCY_KEY, Piece},
    source::{AgentFailure, EventStream, RunInput},
};

/// Runs a model: requests a streamed completion of the conversation, and returns a complete AG-UI run, from RUN_STARTED
/// to RUN_FINISHED or RUN_ERROR, or a failure.
///
/// `base_url` is the URL before `/chat/completions`; its query is kept. The request is sent at the first poll. An
/// answer is complete with a `finish_reason` or `[DONE]`, even if the connection breaks afterwards. Some endpoints
/// cannot stream and answer with the complete completion as JSON, which becomes one piece of text.
pub fn run(
    outbound: &EgressClient,
    base_url: &str,
    model: &str,
    api_key: Option<&Secret>,
    instructions: Option<&str>,
    input: &RunInput,
    idle: Duration,
) -> EventStream {
    let Some(url) = address(base_url) else {
        tracing::warn!("invalid URL of a model's endpoint: write it like https://host/v1");
        return http::failed(AgentFailure::Unreachable);
    };
    let (body, calls) = request::body(model, instructions, input);
    let mut request = match http::post(outbound, url.as_str()) {
        Ok(request) => request.body(body),
        Err(failure) => return http::failed(failure),
    };
    if let Some(key) = api_key {
        let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", key.reveal())) else {
            tracing::warn!("invalid API key of a model: it must be visible ASCII");
            return http::failed(AgentFailure::Unreachable);
        };
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    if let Some(call) = &input.call {
        request = request.header(IDEMPOTENCY_KEY, &call.key);
    }
    let secrets: Vec<_> = api_key.cloned().into_iter().collect();
    let answer = Answer::new(input, model, calls, secrets.clone());
    let source = Call { request, secrets, idle }.pieces();
    let state = (Some(source), answer);
    let next = |(mut source, mut answer): (Option<BoxStream<'static, _>>, Answer)| async move {
        loop {
            if let Some(event) = answer.next() {
                return Ok(Some((event, (source, answer))));
            }
            let Some(pieces) = &mut source else { return Ok(None) };
            let ended = match pieces.next().await {
                Some(Ok(Piece::Event(chunk))) => answer.read(&chunk)?,
                Some(Ok(Piece::Json(completion))) => answer.read_whole(&completion)?,
                Some(Err(failure)) => answer.end(Some(failure))?,
                None => answer.end(None)?,
            };
            if ended {
                source = None;
            }
        }
    };
    stream::try_unfold(state, next).boxed()
}

/// Events that result from these chunks of an answer, up to the first invalid one: for fuzzers.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn events_of(input: &RunInput, chunks: &[&[u8]]) -> Vec<bytes::Bytes> {
    use memchr::memmem;
    let mut answer = Answer::new(input, "m", Vec::new(), vec![Secret::new("secret")]);
    // A chunk that looks like a complete completion is read as one.
    let read = |answer: &mut Answer, chunk: &[u8]| match memmem::find(chunk, b"\"message\":{\"") {
        Some(_) => answer.read_whole(chunk),
        None => answer.read(chunk),
    };
    let ended = chunks.iter().any(|chunk| !matches!(read(&mut answer, chunk), Ok(false)));
    if !ended {
        let _ = answer.end(None);
    }
    std::iter::from_fn(|| answer.next()).collect()
}

/// Request body for the endpoint: for fuzzers.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn body_of(input: &RunInput) -> String {
    request::body("m", None, input).0
}

/// URL of the completions; the query of the base URL is kept.
pub(super) fn address(base_url: &str) -> Option<Url> {
    let mut url = Url::parse(base_url).ok()?;
    url.path_segments_mut().ok()?.pop_if_empty().extend(["chat", "completions"]);
    Some(url)
}
