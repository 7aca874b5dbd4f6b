//! Endpoints in the shape of OpenAI's chat completions, as AG-UI agents.
//!
//! One run is one completion. The endpoint's tools are those of the frontend: a run that ends in calls names them in
//! its outcome, the frontend answers with tool messages, and the next run goes on from there.
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
use super::{
    http::{self, Call, Piece},
    source::{AgentFailure, EventStream, RunInput},
};
use crate::{domain::agent::Secret, egress::Outbound};

/// Runs a model: asks for a streamed completion of the conversation, and gives a whole AG-UI run, from RUN_STARTED to
/// RUN_FINISHED or RUN_ERROR, or a failure.
///
/// `base_url` is what stands before `/chat/completions`; its query is kept. Nothing is sent before the stream is
/// polled. An answer counts as complete with a `finish_reason` or `[DONE]`, whatever becomes of the connection then. Some
/// endpoints cannot stream and answer with the whole completion as JSON: then that is what was said, in one piece.
pub fn run(
    outbound: &Outbound,
    base_url: &str,
    model: &str,
    api_key: Option<&Secret>,
    instructions: Option<&str>,
    input: &RunInput,
    idle: Duration,
) -> EventStream {
    let Some(url) = address(base_url) else {
        tracing::warn!("the address of a model's endpoint cannot be read: write it like https://host/v1");
        return http::failed(AgentFailure::Unreachable);
    };
    let (body, calls) = request::body(model, instructions, input);
    let mut request = match http::post(outbound, url.as_str()) {
        Ok(request) => request.body(body),
        Err(failure) => return http::failed(failure),
    };
    if let Some(key) = api_key {
        let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", key.reveal())) else {
            tracing::warn!("a model's API key cannot be sent: it must be visible ASCII");
            return http::failed(AgentFailure::Unreachable);
        };
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
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

/// The events that these chunks of an answer amount to, up to the first that is nonsense: for fuzzers.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn events_of(input: &RunInput, chunks: &[&[u8]]) -> Vec<bytes::Bytes> {
    use memchr::memmem;
    let mut answer = Answer::new(input, "m", Vec::new(), vec![Secret::new("secret")]);
    // What looks like a whole completion is read as one.
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

/// What the endpoint is sent, for fuzzers.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn body_of(input: &RunInput) -> String {
    request::body("m", None, input).0
}

/// Where the completions are asked for; the query of the base stays.
pub(super) fn address(base_url: &str) -> Option<Url> {
    let mut url = Url::parse(base_url).ok()?;
    url.path_segments_mut().ok()?.pop_if_empty().extend(["chat", "completions"]);
    Some(url)
}
