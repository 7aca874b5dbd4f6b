//! Events of a response's stream.

use std::fmt::Write;

/// Event of a response's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseEvent {
    /// `sequence_number` of the event: its place in the stream, from 0.
    pub sequence: u64,
    /// `type` of the event, as the frame of an event stream names it as well.
    pub kind: &'static str,
    /// The event as JSON, on one line.
    pub json: Vec<u8>,
}

/// Number of the next event, and the number from which events are written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Numbers {
    /// Number of the next event.
    pub next: u64,
    /// Number of the first event that is written: events before it are only counted.
    pub from: u64,
}

/// Destination of the events of a stream.
#[derive(Debug)]
pub(super) struct Sink<'a> {
    pub numbers: &'a mut Numbers,
    pub out: &'a mut Vec<ResponseEvent>,
}

impl Sink<'_> {
    /// Gives an event. `write` adds its members, each with a comma before it; it is not called for an event that is not written.
    pub fn event(&mut self, kind: &'static str, write: impl FnOnce(&mut String)) {
        let sequence = self.numbers.next;
        self.numbers.next += 1;
        if sequence < self.numbers.from {
            return;
        }
        let mut json = String::with_capacity(192);
        _ = write!(json, "{{\"type\":\"{kind}\",\"sequence_number\":{sequence}");
        write(&mut json);
        json.push('}');
        self.out.push(ResponseEvent { sequence, kind, json: json.into_bytes() });
    }
}
