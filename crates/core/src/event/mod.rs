//! Events as producers send them: checked once, here, and then carried as bytes.
//!
//! An event is one JSON object with a `type`. The payload is kept byte for byte; only CR and LF outside strings become
//! spaces, so that one event is one line.

mod bringing;
mod builder;
mod flaw;

use bytes::{Bytes, BytesMut};
use memchr::{memchr, memchr_iter};
use serde_json::value::RawValue;

pub use bringing::brings;
pub use builder::BatchBuilder;
pub use flaw::Flaw;

use super::{
    RunStatus, json,
    limits::{
        MAX_BATCH_BYTES, MAX_BATCH_EVENTS, MAX_ERROR_TEXT_BYTES, MAX_EVENT_BYTES, MAX_JSON_DEPTH, MAX_TREE_BYTES,
    },
};

/// Reason for which an event or a batch is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventErrorKind {
    /// The bytes are not valid UTF-8.
    #[error("the bytes are not valid UTF-8")]
    NotUtf8,
    /// The text is not valid JSON; holds the parser's message.
    #[error("not valid JSON: {0}")]
    NotJson(String),
    /// The list of events is not an array.
    #[error("expected a JSON array of events")]
    NotArray,
    /// The event is valid JSON, but not an object.
    #[error("an event must be a JSON object")]
    NotObject,
    /// The event has no string member `type`, or an empty one.
    #[error("an event must have a non-empty string member \"type\"")]
    NoType,
    /// The event is nested deeper than [`MAX_JSON_DEPTH`].
    #[error("nested deeper than {MAX_JSON_DEPTH} levels")]
    TooDeep,
    /// The event is longer than [`MAX_EVENT_BYTES`].
    #[error("the event exceeds {MAX_EVENT_BYTES} bytes")]
    EventTooLarge,
    /// The event has so many values that it could take more than [`MAX_TREE_BYTES`] of memory.
    #[error("an event has too many values: as a tree it would take more than {MAX_TREE_BYTES} bytes")]
    TooManyValues,
    /// The batch is longer than [`MAX_BATCH_BYTES`].
    #[error("the batch exceeds {MAX_BATCH_BYTES} bytes")]
    BatchTooLarge,
    /// The batch has more events than [`MAX_BATCH_EVENTS`].
    #[error("the batch has more than {MAX_BATCH_EVENTS} events")]
    TooMany,
    /// The batch has no event at all.
    #[error("the batch has no events")]
    Empty,
    /// The event is a RUN_STARTED whose `metadata` has the member [`SERVER_MEMBER`].
    #[error("the member \"{SERVER_MEMBER}\" of the metadata of RUN_STARTED is reserved for the server")]
    ReservedMember,
    /// The event deviates from AG-UI, and its producer has asked for validation.
    #[error("{0}")]
    NotAgUi(Flaw),
    /// An event follows RUN_FINISHED or RUN_ERROR.
    #[error("no event may follow the terminal event (RUN_FINISHED or RUN_ERROR) of a run")]
    AfterTerminal,
}

/// Member of the `metadata` of RUN_STARTED that only the server writes.
pub const SERVER_MEMBER: &str = "threadline";

/// True if an AG-UI event or message names the subagent that it is of. `null` reads as absent.
pub fn names_subagent(text: &str) -> bool {
    json::member(text, "subagentRunId").is_some_and(|owner| owner != "null")
}

/// Event that cannot be appended. No event of its batch was appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {index}: {kind}")]
pub struct EventError {
    /// Position of the event in the batch, from 0.
    pub index: usize,
    /// Reason for which the event is refused.
    pub kind: EventErrorKind,
}

/// Terminal event, with which a run ended itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Terminal {
    /// The run ended with RUN_FINISHED.
    Finished {
        /// `usage` of the event, a JSON array; `None` if absent, no array, or larger than [`MAX_USAGE_BYTES`](crate::limits::MAX_USAGE_BYTES).
        usage: Option<String>,
        /// Interrupts that the event requests, see [`interrupt::requested`](crate::interrupt::requested).
        interrupts: Option<String>,
    },
    /// The run ended with RUN_ERROR.
    Error {
        /// `code` of the event, cut by [`cut`]; `None` if absent or no string.
        code: Option<String>,
        /// `message` of the event, cut by [`cut`]; `None` if absent or no string.
        message: Option<String>,
        /// `usage` of the event, a JSON array; `None` if absent, no array, or larger than [`MAX_USAGE_BYTES`](crate::limits::MAX_USAGE_BYTES).
        usage: Option<String>,
    },
}

impl Terminal {
    /// Interrupts that the event requests, see [`interrupt::requested`](crate::interrupt::requested).
    pub fn interrupts(&self) -> Option<&str> {
        match self {
            Self::Finished { interrupts, .. } => interrupts.as_deref(),
            Self::Error { .. } => None,
        }
    }

    /// Status of the run that the event ends, with the code and the message of its error. `stopped` is true if a stop of the run
    /// was requested.
    pub fn end(&self, stopped: bool) -> (RunStatus, Option<String>, Option<String>) {
        match self {
            Self::Finished { .. } if stopped => (RunStatus::Stopped, None, None),
            Self::Finished { .. } => (RunStatus::Finished, None, None),
            Self::Error { code, message, .. } => (RunStatus::Error, code.clone(), message.clone()),
        }
    }

    /// `usage` of the event, a JSON array.
    pub fn usage(&self) -> Option<&str> {
        match self {
            Self::Finished { usage, .. } | Self::Error { usage, .. } => usage.as_deref(),
        }
    }
}

/// Checked, non-empty batch of events, one a line, without a newline at the end.
#[derive(Debug, Clone)]
pub struct NewEvents {
    body: Bytes,
    count: usize,
    answers: Option<Box<str>>,
    terminal: Option<Terminal>,
}

impl NewEvents {
    /// Reads a JSON array, `[event, …]`. Fails with the first event that is refused.
    pub fn from_array(bytes: &[u8]) -> Result<Self, EventError> {
        let fail = |kind| EventError { index: 0, kind };
        let text = std::str::from_utf8(bytes).map_err(|_| fail(EventErrorKind::NotUtf8))?;
        if !text.trim_start().starts_with('[') {
            return Err(fail(EventErrorKind::NotArray));
        }
        let array: &RawValue =
            serde_json::from_str(text).map_err(|error| fail(EventErrorKind::NotJson(error.to_string())))?;
        Self::from_raw_array(array)
    }

    /// Reads `[event, …]` whose JSON syntax was checked before. Fails with the first event that is refused.
    pub fn from_raw_array(array: &RawValue) -> Result<Self, EventError> {
        let Some(mut rest) = array.get().trim_ascii_start().strip_prefix('[') else {
            return Err(EventError { index: 0, kind: EventErrorKind::NotArray });
        };
        let mut batch = BatchBuilder::with_capacity(rest.len());
        loop {
            rest = rest.trim_ascii_start();
            if rest.is_empty() || rest.starts_with(']') {
                return batch.finish();
            }
            let event = json::look(rest, "type", MAX_JSON_DEPTH);
            batch.push_valid(event)?;
            rest = rest[event.text.len()..].trim_ascii_start();
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
    }

    /// Reads one event a line; blank lines are skipped. Fails with the first event that is refused.
    pub fn from_ndjson(bytes: &[u8]) -> Result<Self, EventError> {
        let mut batch = BatchBuilder::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            batch.push_line(&rest[..end])?;
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        batch.finish()
    }

    /// Makes a batch of Threadline's own events: objects with a `type`, of which the last may be terminal.
    pub fn from_values(events: &[serde_json::Value]) -> Self {
        let mut batch = BatchBuilder::default();
        for event in events {
            let pushed = batch.push_any(json::look(&event.to_string(), "type", MAX_JSON_DEPTH));
            debug_assert_eq!(pushed, Ok(()), "our own events are valid");
        }
        batch.into_events()
    }

    /// Number of events, at least 1.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the events, one event a line.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Terminal event, if the last event ends the run.
    pub fn terminal(&self) -> Option<&Terminal> {
        self.terminal.as_ref()
    }

    /// Ids of the interrupts that a RUN_STARTED among the events answers, see [`interrupt::answered`](crate::interrupt::answered).
    pub fn answers(&self) -> Option<&str> {
        self.answers.as_deref()
    }

    /// First `n` events as lines; all of them if there are no more.
    pub fn head(&self, n: usize) -> &[u8] {
        if n >= self.count { &self.body } else { &self.body[..self.offset(n).saturating_sub(1)] }
    }

    /// Batch without its first `n` events; `None` if no event is left.
    pub fn skip(&self, n: usize) -> Option<Self> {
        (n < self.count).then(|| Self {
            body: self.body.slice(self.offset(n)..),
            count: self.count - n,
            answers: self.answers.clone(),
            terminal: self.terminal.clone(),
        })
    }

    /// Events in pieces of at most `bytes` (or one larger event): their number, and their lines.
    pub fn pieces(&self, bytes: usize) -> Vec<(u64, Bytes)> {
        if self.body.len() <= bytes {
            return vec![(self.count as u64, self.body.clone())];
        }
        let mut pieces = Vec::with_capacity(self.body.len() / bytes + 1);
        let (mut start, mut end, mut count) = (0, 0, 0);
        for line_end in memchr_iter(b'\n', &self.body).chain([self.body.len()]) {
            if count > 0 && line_end - start > bytes {
                pieces.push((count, self.body.slice(start..end)));
                (start, count) = (end + 1, 0);
            }
            (end, count) = (line_end, count + 1);
        }
        pieces.push((count, self.body.slice(start..end)));
        pieces
    }

    /// Joins batches into one, in order. `None` for an empty list.
    pub fn concat(mut parts: Vec<Self>) -> Option<Self> {
        if parts.len() <= 1 {
            return parts.pop();
        }
        let mut body = BytesMut::with_capacity(parts.iter().map(|part| part.body.len() + 1).sum());
        let (mut count, mut answers, mut terminal) = (0, None, None);
        for part in parts {
            if !body.is_empty() {
                body.extend_from_slice(b"\n");
            }
            body.extend_from_slice(&part.body);
            count += part.count;
            answers = part.answers.or(answers);
            terminal = part.terminal;
        }
        Some(Self { body: body.freeze(), count, answers, terminal })
    }

    fn offset(&self, event: usize) -> usize {
        match event {
            0 => 0,
            n => memchr_iter(b'\n', &self.body).nth(n - 1).map_or(self.body.len(), |at| at + 1),
        }
    }
}

/// Cuts a text to [`MAX_ERROR_TEXT_BYTES`] at a character boundary.
pub fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_ERROR_TEXT_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_USAGE_BYTES;

    fn kind(result: Result<NewEvents, EventError>) -> (usize, EventErrorKind) {
        let error = result.expect_err("should be refused");
        (error.index, error.kind)
    }

    #[test]
    fn payloads_are_kept_byte_for_byte_on_one_line() {
        let events = NewEvents::from_array(
            b"[ {\"type\" : \"X\",\r\n \"a\":1.0, \"a\":2, \"s\":\"\\ud800 \\u0000\\n\"},{\"type\":\"\\u0059\"}]",
        )
        .expect("valid");
        assert_eq!(events.count(), 2);
        assert_eq!(
            &events.body()[..],
            &b"{\"type\" : \"X\",   \"a\":1.0, \"a\":2, \"s\":\"\\ud800 \\u0000\\n\"}\n{\"type\":\"\\u0059\"}"[..]
        );
    }

    #[test]
    fn array_and_lines_say_the_same() {
        let array = NewEvents::from_array(br#"[{"type":"A"},{"type":"B"}]"#).expect("valid");
        let lines = NewEvents::from_ndjson(b"\n{\"type\":\"A\"}\r\n\n{\"type\":\"B\"}\n").expect("valid");
        assert_eq!(array.body(), lines.body());
        assert_eq!(lines.head(1), b"{\"type\":\"A\"}");
        assert_eq!(lines.head(2), &lines.body()[..]);
        assert_eq!(lines.skip(1).map(|rest| rest.body().clone()), Some(Bytes::from_static(b"{\"type\":\"B\"}")));
        assert!(lines.skip(2).is_none());
    }

    #[test]
    fn pieces_are_cut_at_events_and_hold_all_of_them() {
        let lines: Vec<_> = (0..20).map(|n| format!("{{\"type\":\"{}\"}}", "x".repeat(1 + n * 7 % 40))).collect();
        let events = NewEvents::from_ndjson(lines.join("\n").as_bytes()).expect("valid");
        for bytes in [1, 20, 60, 61, 100, 10_000] {
            let pieces = events.pieces(bytes);
            let whole: Vec<_> = pieces.iter().map(|(_, body)| &body[..]).collect();
            assert_eq!(whole.join(&b'\n'), &events.body()[..]);
            for (count, body) in &pieces {
                assert_eq!(*count as usize, body.split(|byte| *byte == b'\n').count());
                assert!(body.len() <= bytes || *count == 1);
            }
        }
    }

    #[test]
    fn bad_events_are_named_by_position_and_reason() {
        assert_eq!(kind(NewEvents::from_array(b"[]")), (0, EventErrorKind::Empty));
        assert_eq!(kind(NewEvents::from_array(b"{}")), (0, EventErrorKind::NotArray));
        assert_eq!(kind(NewEvents::from_array(b"[\xff]")), (0, EventErrorKind::NotUtf8));
        assert_eq!(kind(NewEvents::from_ndjson(b"{\"type\":\"A\"}\n[]")), (1, EventErrorKind::NotObject));
        assert_eq!(kind(NewEvents::from_ndjson(b"{\"type\":7}")), (0, EventErrorKind::NoType));
        assert_eq!(kind(NewEvents::from_ndjson(b"{\"type\":\"\"}")), (0, EventErrorKind::NoType));
        assert_eq!(
            kind(NewEvents::from_ndjson(b"{\"type\":\"RUN_FINISHED\"}\n{\"type\":\"A\"}")),
            (1, EventErrorKind::AfterTerminal)
        );
        let deep = format!("{{\"type\":\"A\",\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        assert_eq!(kind(NewEvents::from_ndjson(deep.as_bytes())), (0, EventErrorKind::TooDeep));
        assert!(matches!(kind(NewEvents::from_ndjson(b"{\"type\":\"A\"")), (0, EventErrorKind::NotJson(_))));
    }

    #[test]
    fn a_terminal_event_is_recognised_however_it_is_written() {
        let events =
            NewEvents::from_ndjson(br#"{"\u0074ype":"RUN_\u0045RROR","message":"no","code":7}"#).expect("valid");
        assert_eq!(events.terminal(), Some(&Terminal::Error { code: None, message: Some("no".into()), usage: None }));
    }

    #[test]
    fn a_member_of_the_server_is_the_servers() {
        for taken in [
            r#"{"type":"RUN_STARTED","metadata":{"threadline":null}}"#,
            r#"{"metadata":1,"m\u0065tadata":{"thread\u006cine":{}},"type":"\u0052UN_STARTED"}"#,
        ] {
            assert_eq!(kind(NewEvents::from_ndjson(taken.as_bytes())), (0, EventErrorKind::ReservedMember), "{taken}");
            let mut batch = BatchBuilder::default();
            batch.push_server_line(taken.as_bytes()).expect("the server's own");
        }
        for free in [
            r#"{"type":"X","metadata":{"threadline":1}}"#,
            r#"{"type":"RUN_STARTED","threadline":1,"metadata":{"a":{"threadline":1}}}"#,
        ] {
            assert!(NewEvents::from_ndjson(free.as_bytes()).is_ok(), "{free}");
        }
    }

    #[test]
    fn a_terminal_event_says_what_the_run_has_used() {
        let usage = |event: &str| match NewEvents::from_ndjson(event.as_bytes()).expect("valid").terminal() {
            Some(Terminal::Finished { usage, .. } | Terminal::Error { usage, .. }) => usage.clone(),
            None => None,
        };
        let event = r#"{"type":"RUN_FINISHED","usage":[{"model":"m","inputTokens":7}]}"#;
        assert_eq!(usage(event).as_deref(), Some(r#"[{"model":"m","inputTokens":7}]"#));
        assert_eq!(usage(r#"{"type":"RUN_ERROR","message":"no","usage":[]}"#).as_deref(), Some("[]"));
        assert_eq!(usage(r#"{"type":"RUN_FINISHED","usage":"a lot"}"#), None);
        assert_eq!(usage(&format!(r#"{{"type":"RUN_FINISHED","usage":["{}"]}}"#, "x".repeat(MAX_USAGE_BYTES))), None);
    }
}
