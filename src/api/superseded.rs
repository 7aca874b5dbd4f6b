//! Events of a run that a later attempt has superseded. Streams and lists for clients that do not know attempts leave them out.

use std::collections::HashSet;

use serde_json::Value;
use threadline_core::{Seq, json, limits::MAX_UI_CALLS, projection::superseding::ATTEMPT};

/// Part of a run that an attempt has superseded.
#[derive(Debug)]
struct Part {
    /// Seq of the event that names the attempt.
    at: Seq,
    /// Seqs of the first and last superseded event.
    range: (Seq, Seq),
    /// Ids of the messages and calls of the range that are kept.
    kept: HashSet<String>,
}

/// Events of a run that a later attempt has superseded: their seqs, and what is kept of them.
#[derive(Debug, Default)]
pub struct Superseded {
    parts: Vec<Part>,
    /// Results of calls: message and call. A call is kept with its result.
    results: Vec<(String, String)>,
}

impl Superseded {
    /// Takes in the next event of a run.
    pub fn scan(&mut self, seq: Seq, event: &[u8]) {
        if let Some((from, to, mut kept)) = supersedes(event) {
            let calls = self.results.drain(..).filter(|(message, _)| kept.contains(message)).map(|(_, call)| call);
            let calls: Vec<String> = calls.collect();
            kept.extend(calls);
            self.parts.push(Part { at: seq, range: (from, to), kept });
        } else if let Ok(event) = std::str::from_utf8(event)
            && json::member(event, "type").is_some_and(|kind| json::is_string(kind, "TOOL_CALL_RESULT"))
        {
            let ids = (json::string_member(event, "messageId"), json::string_member(event, "toolCallId"));
            if let (Some(message), Some(call)) = ids
                && self.results.len() < MAX_UI_CALLS
            {
                self.results.push((message, call));
            }
        }
    }

    /// Drops parts that are not within these seqs, the first and last one of their run.
    pub fn keep_within(&mut self, first: Seq, last: Seq) {
        self.parts.retain(|part| first <= part.range.0 && part.range.1 <= last);
    }

    /// True if the event supersedes events that are not yet known as superseded.
    pub fn is_new(&self, event: &[u8]) -> bool {
        supersedes(event).is_some_and(|(from, to, _)| self.parts.iter().all(|part| part.range != (from, to)))
    }

    /// Adds the parts of another run.
    pub fn join(&mut self, other: Self) {
        self.parts.extend(other.parts);
    }

    /// True if the event is superseded.
    pub fn has(&self, seq: Seq, event: &[u8]) -> bool {
        self.parts.iter().any(|part| part.range.0 <= seq && seq <= part.range.1 && !part.keeps(event))
    }

    /// Fate of an event of an attempt that a later one has superseded, or of one between the two: true if it is kept. `None` for
    /// every other event.
    pub fn fate(&self, seq: Seq, event: &[u8]) -> Option<bool> {
        let part = self.parts.iter().find(|part| part.range.0 <= seq && seq < part.at)?;
        Some(part.keeps(event))
    }
}

impl Part {
    /// True if the event belongs to a message or a call that is kept.
    fn keeps(&self, event: &[u8]) -> bool {
        let Ok(event) = std::str::from_utf8(event) else { return false };
        let id = json::string_member(event, "toolCallId").or_else(|| json::string_member(event, "messageId"));
        id.is_some_and(|id| self.kept.contains(&id))
    }
}

/// Seqs of the first and last event that an attempt supersedes, and ids of the messages that it keeps. `None` for an event that names
/// no attempt, and for an attempt that supersedes nothing.
fn supersedes(event: &[u8]) -> Option<(Seq, Seq, HashSet<String>)> {
    let value = attempt(event)?;
    let [from, to]: [Seq; 2] = serde_json::from_value(value.get("superseded")?.clone()).ok()?;
    let kept = value.get("kept").and_then(|kept| serde_json::from_value(kept.clone()).ok()).unwrap_or_default();
    (from <= to).then_some((from, to, kept))
}

/// Value of the CUSTOM event that names an attempt.
fn attempt(event: &[u8]) -> Option<Value> {
    let event = std::str::from_utf8(event).ok().filter(|event| event.contains(ATTEMPT))?;
    let is = |name: &str, text: &str| json::member(event, name).is_some_and(|value| json::is_string(value, text));
    (is("type", "CUSTOM") && is("name", ATTEMPT)).then(|| serde_json::from_str(json::member(event, "value")?).ok())?
}
