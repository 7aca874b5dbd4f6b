//! Fuzz targets for data from agents and their front ends.

use bytes::Bytes;
use threadline_core::{
    NewEvents, RunId, ThreadId, agent::ClientMay, json, limits::MAX_JSON_DEPTH, projection::conversation::Conversation,
};

use super::{
    ClientInput,
    input::{self, Rules},
    openai,
    source::{RunInput, Trust},
    sse::{Decoder, TooLarge},
};

fn ids() -> Option<(ThreadId, RunId)> {
    Some((ThreadId::new("t").ok()?, RunId::new("r").ok()?))
}

/// Decodes the events of a body that arrives in chunks of this size.
fn decoded(body: &[u8], chunk: usize) -> Result<Vec<Bytes>, TooLarge> {
    let (mut decoder, mut found) = (Decoder::new(), Vec::new());
    for chunk in body.chunks(chunk.max(1)) {
        decoder.feed(Bytes::copy_from_slice(chunk));
        while let Some(event) = decoder.next()? {
            found.push(event);
        }
    }
    Ok(found)
}

/// Decoding an agent's event stream does not depend on how it is cut into chunks.
pub(crate) fn agent_stream(data: &[u8]) {
    let Some((size, body)) = data.split_first() else { return };
    let whole = decoded(body, body.len());
    assert_eq!(decoded(body, usize::from(*size % 16)), whole);
    for event in whole.unwrap_or_default() {
        let _ = NewEvents::from_ndjson(&event);
    }
}

/// A model's answer, one chunk per line: every event that results can be stored.
pub(crate) fn openai_stream(data: &[u8]) {
    let Some((thread_id, run_id)) = ids() else { return };
    let input = RunInput {
        thread_id,
        run_id,
        parent_run_id: None,
        messages: "[]".to_owned(),
        state: "null".to_owned(),
        tools: "[]".to_owned(),
        context: "[]".to_owned(),
        trust: Trust::Client,
        forwarded_props: "{}".to_owned(),
        resume: None,
        rest: Vec::new(),
        thread_mark: None,
        call: None,
        continuation: None,
    };
    let chunks: Vec<_> = data.split(|byte| *byte == b'\n').collect();
    for event in openai::events_of(&input, &chunks) {
        let read = NewEvents::from_ndjson(&event).map(|read| read.count());
        assert_eq!(read, Ok(1), "{event:?}");
    }
}

/// A conversation, one event per line after the first line, which is a client's input for an agent. The input of the
/// agent is valid JSON.
pub(crate) fn agui_input(data: &[u8]) {
    let Some((thread, run)) = ids() else { return };
    let mut lines = data.split(|byte| *byte == b'\n');
    let sent = lines.next().unwrap_or_default();
    if json::depth(sent, MAX_JSON_DEPTH) > MAX_JSON_DEPTH {
        return;
    }
    let Ok(sent) = serde_json::from_slice::<ClientInput>(sent) else { return };
    let mut conversation = Conversation::default();
    lines.for_each(|event| conversation.observe(event));
    let may = ClientMay::default();
    for rules in [Rules::believed(), Rules::untrusted(&may)] {
        merged(&thread, &run, &sent, rules, &conversation);
    }
}

fn merged(thread: &ThreadId, run: &RunId, sent: &ClientInput, rules: Rules<'_>, conversation: &Conversation) {
    let Ok(prepared) = input::prepare(sent, rules, conversation) else { return };
    let (given, _) = prepared.complete(thread, run, conversation);
    let Ok(first) = prepared.first_events(thread, run, conversation, "{}", &[]) else { return };
    assert!(first.count() <= 2);
    let read = serde_json::from_str::<&serde_json::value::RawValue>(&given.to_json()).is_ok();
    assert!(read, "{}", given.to_json());
    let _ = openai::body_of(&given);
}
