//! Positions in the middle of a run from which a client can receive the rest, if it has the conversation as of then.
//!
//! A client that reconnects receives the messages and the state, and the events after them. Such a client refuses an
//! event that continues a message whose beginning it has not received, so the messages are given as of the last *quiet*
//! event: one after which no message, no tool call and no reasoning was being written. Steps, subagents and spans of
//! reasoning enclose those parts and change no message; the events that opened them are sent again.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;

use crate::{
    event::names_subagent,
    json,
    limits::{MAX_CUSTOM_BYTES, MAX_OPEN_BYTES, MAX_OPEN_PARTS},
    seq::Seq,
};

/// Parts that are written piece by piece: start, end and the member that names the part.
const WRITTEN: [(&str, &str, &str); 4] = [
    ("TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "messageId"),
    ("TOOL_CALL_START", "TOOL_CALL_END", "toolCallId"),
    ("REASONING_MESSAGE_START", "REASONING_MESSAGE_END", "messageId"),
    ("THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_END", ""),
];

/// Spans that enclose such parts: start, end and the member that names the span.
const SPANS: [(&str, &str, &str); 4] = [
    ("STEP_STARTED", "STEP_FINISHED", "stepName"),
    ("SUBAGENT_STARTED", "SUBAGENT_FINISHED", "subagentRunId"),
    ("REASONING_START", "REASONING_END", "messageId"),
    ("THINKING_START", "THINKING_END", ""),
];

const CHUNKS: [&str; 3] = ["TEXT_MESSAGE_CHUNK", "TOOL_CALL_CHUNK", "REASONING_MESSAGE_CHUNK"];

/// Events that leave a message open that is built from chunks. Every other event ends it, in every version of the
/// client. An event that some version does not know, or that belongs to a subagent, is taken to leave the message open.
const PASSING: [&str; 4] = ["RAW", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "REASONING_ENCRYPTED_VALUE"];

/// Open span, with the event that opened it.
#[derive(Debug, Clone)]
struct Span {
    end: &'static str,
    id: String,
    owner: Option<String>,
    start: Bytes,
}

/// Fold over the events of one run. The caller must pass every event in order, and then reads the result.
#[derive(Debug)]
pub struct Resuming {
    quiet: Seq,
    newest: Seq,
    written: HashSet<(&'static str, String)>,
    /// Message that chunks build.
    chunked: Option<(&'static str, String)>,
    spans: Vec<Span>,
    /// Spans as of the last quiet event; `None` if that was the newest event.
    spans_then: Option<Vec<Span>>,
    /// Ids of reasoning that began after the last quiet event.
    reasoning: Vec<String>,
    custom: VecDeque<(Seq, Bytes)>,
    custom_bytes: usize,
    bytes: usize,
    /// More parts are open than are remembered: no later event counts as quiet.
    lost: bool,
}

impl Resuming {
    /// Makes the fold of a run whose first event has the seq `first`.
    pub fn new(first: Seq) -> Self {
        Self {
            quiet: first - 1,
            newest: first - 1,
            written: HashSet::new(),
            chunked: None,
            spans: Vec::new(),
            spans_then: None,
            reasoning: Vec::new(),
            custom: VecDeque::new(),
            custom_bytes: 0,
            bytes: 0,
            lost: false,
        }
    }

    /// Takes in the next event, as JSON text. Bytes that are not UTF-8 are ignored.
    pub fn observe(&mut self, seq: Seq, event: &[u8]) {
        let Ok(text) = std::str::from_utf8(event) else { return };
        let name = json::string_member(text, "type").unwrap_or_default();
        if let Some(kind) = CHUNKS.into_iter().find(|kind| **kind == *name) {
            self.chunk(kind, text);
        } else if !PASSING.contains(&&*name) && json::member(text, "subagentRunId").is_none() {
            self.end_chunked();
        }
        let text_of = |member: &str| json::string_member(text, member).unwrap_or_default();
        for (start, end, id) in WRITTEN {
            if name == start {
                self.begin(end, text_of(id));
            } else if name == end {
                let key = (end, text_of(id));
                if self.written.remove(&key) {
                    self.bytes -= key.1.len();
                }
            }
        }
        for (start, end, id) in SPANS {
            // A subagent's own events name the subagent itself in `subagentRunId`.
            let owner = if id == "subagentRunId" { None } else { json::string_member(text, "subagentRunId") };
            if name == start {
                self.freeze();
                let id = text_of(id);
                if self.remembers(id.len() + event.len()) {
                    self.spans.push(Span { end, id, owner, start: Bytes::copy_from_slice(event) });
                }
            } else if name == end || name == "SUBAGENT_ERROR" && end == "SUBAGENT_FINISHED" {
                self.freeze();
                let id = text_of(id);
                let is = |span: &Span| span.end == end && span.id == id && span.owner == owner;
                if let Some(at) = self.spans.iter().rposition(is) {
                    let span = self.spans.remove(at);
                    self.bytes -= span.id.len() + span.start.len();
                }
            }
        }
        if name == "CUSTOM" {
            self.keep(seq, event);
        }
        self.newest = seq;
        if self.is_quiet() {
            self.now_quiet(seq);
        }
    }

    /// Seq of the last quiet event; if there is none, of the event before the run.
    pub fn quiet(&self) -> Seq {
        self.quiet
    }

    /// Events that opened the spans that were open at the last quiet event, in order. Sent again, they open the spans
    /// again.
    pub fn spans(&self) -> impl Iterator<Item = &Bytes> {
        self.spans_then.as_ref().unwrap_or(&self.spans).iter().map(|span| &span.start)
    }

    /// Ids of the reasoning that began after the last quiet event.
    pub fn reasoning(&self) -> &[String] {
        &self.reasoning
    }

    /// CUSTOM events up to `until`, in order; only the newest ones, if there are more bytes than [`MAX_CUSTOM_BYTES`].
    pub fn custom(&self, until: Seq) -> impl Iterator<Item = &Bytes> {
        self.custom.iter().take_while(move |(seq, _)| *seq <= until).map(|(_, event)| event)
    }

    fn is_quiet(&self) -> bool {
        self.written.is_empty() && self.chunked.is_none() && !self.lost
    }

    fn now_quiet(&mut self, seq: Seq) {
        self.quiet = seq;
        self.spans_then = None;
        self.reasoning.clear();
    }

    /// Keeps the spans as of the last quiet event, before they change.
    fn freeze(&mut self) {
        if !self.is_quiet() && self.spans_then.is_none() {
            self.spans_then = Some(self.spans.clone());
        }
    }

    fn begin(&mut self, end: &'static str, id: String) {
        if end == "REASONING_MESSAGE_END" {
            self.began_reasoning(&id);
        }
        if self.remembers(id.len()) {
            let bytes = id.len();
            // A part that begins twice is one part.
            if !self.written.insert((end, id)) {
                self.bytes -= bytes;
            }
        }
    }

    fn began_reasoning(&mut self, id: &str) {
        if self.reasoning.len() < MAX_OPEN_PARTS {
            self.reasoning.push(id.to_owned());
        }
    }

    /// Ends the message that chunks have built: the next event is no part of it, so it ended with the event before.
    fn end_chunked(&mut self) {
        if self.chunked.take().is_some() && self.is_quiet() {
            self.now_quiet(self.newest);
        }
    }

    fn chunk(&mut self, kind: &'static str, text: &str) {
        let id = match kind {
            "TOOL_CALL_CHUNK" => json::string_member(text, "toolCallId"),
            _ => json::string_member(text, "messageId"),
        };
        if names_subagent(text) {
            // Several messages may be built at once, and the events that end them depend on the client's version.
            self.lost = true;
        }
        let Some(id) = id else { return };
        if self.chunked.as_ref().is_some_and(|(was, open)| *was == kind && *open == id) {
            return;
        }
        self.end_chunked();
        if kind == "REASONING_MESSAGE_CHUNK" {
            self.began_reasoning(&id);
        }
        self.chunked = Some((kind, id));
    }

    fn keep(&mut self, seq: Seq, event: &[u8]) {
        self.custom.push_back((seq, Bytes::copy_from_slice(event)));
        self.custom_bytes += event.len();
        while self.custom_bytes > MAX_CUSTOM_BYTES
            && let Some((_, gone)) = self.custom.pop_front()
        {
            self.custom_bytes -= gone.len();
        }
    }

    /// True if one more part can be remembered; counts its bytes if so.
    fn remembers(&mut self, bytes: usize) -> bool {
        let full = self.written.len() + self.spans.len() >= MAX_OPEN_PARTS;
        self.lost |= full || self.bytes + bytes > MAX_OPEN_BYTES;
        if !self.lost {
            self.bytes += bytes;
        }
        !self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(events: &[&str]) -> Resuming {
        let mut resuming = Resuming::new(11);
        for (seq, event) in (11..).zip(events) {
            resuming.observe(seq, event.as_bytes());
        }
        resuming
    }

    const START: &str = r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#;
    const MORE: &str = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#;
    const END: &str = r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#;
    const STEP: &str = r#"{"type":"STEP_STARTED","stepName":"s"}"#;
    const STEP_END: &str = r#"{"type":"STEP_FINISHED","stepName":"s"}"#;
    const CALL: &str = r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}"#;
    const CALL_END: &str = r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#;
    const THINK: &str = r#"{"type":"REASONING_MESSAGE_START","messageId":"r"}"#;
    const CHUNK: &str = r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"x"}"#;
    const NEXT: &str = r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"n","delta":"x"}"#;
    const SAME: &str = r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"x"}"#;
    const RAW: &str = r#"{"type":"RAW","event":1}"#;

    #[test]
    fn nothing_is_cut_in_the_middle() {
        for (events, quiet) in [
            (&[][..], 10),
            (&[START], 10),
            (&[STEP, START, MORE], 11),
            (&[START, MORE, END], 13),
            (&[START, CALL, END], 10),
            (&[START, CALL, END, CALL_END], 14),
            (&[START, END, THINK], 12),
            (&[START, START, END], 13),
            (&[CHUNK, SAME], 10),
            (&[CHUNK, SAME, RAW], 10),
            (&[CHUNK, SAME, STEP], 13),
            (&[CHUNK, CALL], 11),
            (&[CHUNK, SAME, NEXT, SAME], 12),
            (&[START, CHUNK, NEXT], 10),
        ] {
            assert_eq!(fold(events).quiet(), quiet, "{events:?}");
        }
    }

    #[test]
    fn a_subagents_chunks_are_replayed_from_their_beginning() {
        let own = r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","subagentRunId":"a","delta":"x"}"#;
        assert_eq!(fold(&[START, END, own, START, END]).quiet(), 12);
    }

    #[test]
    fn spans_are_those_of_the_quiet_event() {
        let open = |events: &[&str]| fold(events).spans().map(|span| span.to_vec()).collect::<Vec<_>>();
        assert_eq!(open(&[STEP, START]), [STEP.as_bytes()]);
        assert_eq!(open(&[STEP, START, STEP_END]), [STEP.as_bytes()]);
        assert_eq!(open(&[STEP, START, STEP_END, END]), [b""; 0]);
        assert_eq!(open(&[START, STEP]), [b""; 0]);
        assert_eq!(open(&[START, STEP, END]), [STEP.as_bytes()]);
        let (owned, ended) = (
            r#"{"type":"STEP_STARTED","stepName":"s","subagentRunId":"a"}"#,
            r#"{"type":"STEP_FINISHED","stepName":"s","subagentRunId":"a"}"#,
        );
        assert_eq!(open(&[STEP, owned, ended]), [STEP.as_bytes()]);
        let (agent, failed) = (
            r#"{"type":"SUBAGENT_STARTED","subagentRunId":"a","name":"n"}"#,
            r#"{"type":"SUBAGENT_ERROR","subagentRunId":"a","message":"no"}"#,
        );
        assert_eq!(open(&[agent, START]), [agent.as_bytes()]);
        assert_eq!(open(&[agent, failed, START]), [b""; 0]);
    }

    #[test]
    fn reasoning_and_custom_events_after_a_position_are_named() {
        assert_eq!(fold(&[THINK, START]).reasoning(), ["r"]);
        assert_eq!(fold(&[THINK, r#"{"type":"REASONING_MESSAGE_END","messageId":"r"}"#]).reasoning(), [""; 0]);
        let custom = r#"{"type":"CUSTOM","name":"x"}"#;
        let resuming = fold(&[custom, START, custom]);
        assert_eq!((resuming.custom(11).count(), resuming.custom(13).count()), (1, 2));
    }

    #[test]
    fn a_long_run_is_never_too_much() {
        let long = "x".repeat(MAX_OPEN_BYTES / 8);
        let (start, end) = (
            format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":"{long}"}}"#),
            format!(r#"{{"type":"TEXT_MESSAGE_END","messageId":"{long}"}}"#),
        );
        let custom = format!(r#"{{"type":"CUSTOM","name":"x","value":"{}"}}"#, "x".repeat(MAX_CUSTOM_BYTES / 2));
        let events: Vec<&str> = [&*start, &end, &custom].repeat(20);
        let resuming = fold(&events);
        assert_eq!((resuming.quiet(), resuming.custom(Seq::MAX).count()), (70, 1));
        // Too many open parts: the run is sent again from before the first of them.
        let many: Vec<String> =
            (0..2 * MAX_OPEN_PARTS).map(|n| format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":"{n}"}}"#)).collect();
        assert_eq!(fold(&many.iter().map(String::as_str).collect::<Vec<_>>()).quiet(), 10);
    }
}
