//! Builder of batches, for producers that send events one by one.

use bytes::BytesMut;
use memchr::memchr2;
use serde_json::value::RawValue;

use super::{EventError, EventErrorKind, NewEvents, SERVER_MEMBER, Terminal, cut};
use crate::{
    interrupt, json,
    limits::{MAX_BATCH_BYTES, MAX_BATCH_EVENTS, MAX_EVENT_BYTES, MAX_JSON_DEPTH, MAX_USAGE_BYTES},
};

fn has_server_member(kind: &str, event: &str) -> bool {
    json::is_string(kind, "RUN_STARTED")
        && json::members(event, "metadata").any(|metadata| json::member(metadata, SERVER_MEMBER).is_some())
}

/// Gathers events into a batch, for producers that send them one by one.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    body: BytesMut,
    count: usize,
    answers: Option<Box<str>>,
    terminal: Option<Terminal>,
}

impl BatchBuilder {
    /// Builder with room for about this many bytes, at most a whole batch.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { body: BytesMut::with_capacity(bytes.min(MAX_BATCH_BYTES)), ..Self::default() }
    }

    /// Adds a line of NDJSON; a blank line is skipped. Fails if the event is refused, or the batch would exceed its
    /// limits.
    pub fn push_line(&mut self, line: &[u8]) -> Result<(), EventError> {
        match self.read_line(line)? {
            Some(text) => self.push_valid(json::look(text, "type", MAX_JSON_DEPTH)),
            None => Ok(()),
        }
    }

    /// Adds a line that the server has written, now or before an export: the member reserved for it is allowed. Fails
    /// like [`BatchBuilder::push_line`].
    pub fn push_server_line(&mut self, line: &[u8]) -> Result<(), EventError> {
        match self.read_line(line)? {
            Some(text) => self.push_any(json::look(text, "type", MAX_JSON_DEPTH)),
            None => Ok(()),
        }
    }

    /// Text of a line of NDJSON; `None` if it is blank.
    fn read_line<'a>(&self, line: &'a [u8]) -> Result<Option<&'a str>, EventError> {
        let text = std::str::from_utf8(line).map_err(|_| self.error(EventErrorKind::NotUtf8))?.trim();
        if text.is_empty() {
            return Ok(None);
        }
        // No size check comes before the syntax check, on purpose: the caller bounds the line.
        serde_json::from_str::<&RawValue>(text)
            .map_err(|error| self.error(EventErrorKind::NotJson(error.to_string())))?;
        Ok(Some(text))
    }

    /// Adds one event whose JSON syntax was checked before. Fails like [`BatchBuilder::push_line`].
    pub fn push_raw(&mut self, event: &RawValue) -> Result<(), EventError> {
        self.push_valid(json::look(event.get(), "type", MAX_JSON_DEPTH))
    }

    /// Adds one event of a client, after a look at it.
    pub(super) fn push_valid(&mut self, look: json::Look<'_>) -> Result<(), EventError> {
        if look.member.is_some_and(|kind| has_server_member(kind, look.text)) {
            return Err(self.error(EventErrorKind::ReservedMember));
        }
        self.push_any(look)
    }

    /// Adds one event of valid syntax, after a look at it.
    pub(super) fn push_any(&mut self, look: json::Look<'_>) -> Result<(), EventError> {
        let json::Look { text: event, depth, member } = look;
        if self.terminal.is_some() {
            return Err(self.error(EventErrorKind::AfterTerminal));
        }
        if event.len() > MAX_EVENT_BYTES {
            return Err(self.error(EventErrorKind::EventTooLarge));
        }
        if self.count == MAX_BATCH_EVENTS {
            return Err(self.error(EventErrorKind::TooMany));
        }
        if self.body.len() + event.len() + 1 > MAX_BATCH_BYTES {
            return Err(self.error(EventErrorKind::BatchTooLarge));
        }
        if !event.starts_with('{') {
            return Err(self.error(EventErrorKind::NotObject));
        }
        if depth > MAX_JSON_DEPTH {
            return Err(self.error(EventErrorKind::TooDeep));
        }
        if json::is_too_dense(event) {
            return Err(self.error(EventErrorKind::TooManyValues));
        }
        let kind = member.filter(|token| token.starts_with('"') && token.len() > 2);
        let Some(kind) = kind else {
            return Err(self.error(EventErrorKind::NoType));
        };
        self.note(kind, event);
        if self.count > 0 {
            self.body.extend_from_slice(b"\n");
        }
        let start = self.body.len();
        self.body.extend_from_slice(event.as_bytes());
        // Valid JSON has CR and LF only between tokens, so no string is changed.
        let mut at = start;
        while let Some(found) = memchr2(b'\r', b'\n', &self.body[at..]) {
            at += found;
            self.body[at] = b' ';
        }
        self.count += 1;
        Ok(())
    }

    /// Notes what the event does to its run. Most events cost little: only the three names below are decoded any
    /// further.
    fn note(&mut self, kind: &str, event: &str) {
        let decoded = if kind.contains('\\') { json::string(kind) } else { None };
        match decoded.as_deref().unwrap_or(&kind[1..kind.len() - 1]) {
            // The last RUN_STARTED counts, as in the fold.
            "RUN_STARTED" => self.answers = interrupt::answered(event).map(Into::into),
            "RUN_FINISHED" => {
                let (usage, interrupts) = (usage(event), interrupt::requested(event));
                self.terminal = Some(Terminal::Finished { usage, interrupts });
            }
            "RUN_ERROR" => {
                self.terminal = Some(Terminal::Error {
                    code: json::string_member(event, "code").map(cut),
                    message: json::string_member(event, "message").map(cut),
                    usage: usage(event),
                });
            }
            _ => {}
        }
    }

    /// Number of events gathered so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes gathered so far, newlines included.
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// True if no event was gathered.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// True if the last event ends the run.
    pub fn is_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Ends the batch. Fails with [`EventErrorKind::Empty`] if there is no event.
    pub fn finish(self) -> Result<NewEvents, EventError> {
        if self.count == 0 {
            return Err(self.error(EventErrorKind::Empty));
        }
        Ok(self.into_events())
    }

    pub(super) fn into_events(self) -> NewEvents {
        let Self { body, count, answers, terminal } = self;
        NewEvents { body: body.freeze(), count, answers, terminal }
    }

    fn error(&self, kind: EventErrorKind) -> EventError {
        EventError { index: self.count, kind }
    }
}

/// Usage of the run, as AG-UI 1.0 has it in terminal events: a list with an entry per provider and model.
fn usage(event: &str) -> Option<String> {
    json::member(event, "usage")
        .filter(|list| list.starts_with('[') && list.len() <= MAX_USAGE_BYTES)
        .map(str::to_owned)
}
