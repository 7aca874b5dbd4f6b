//! Closing a run: the parts that its events left open, and the events that close them.
//!
//! AG-UI clients refuse RUN_FINISHED while a message, tool call, reasoning, step or subagent is open, so the closer
//! ends the parts that the producer left open, newest first, and then the run. Messages built from `*_CHUNK` events
//! need no closer: clients end them without one.
//! Event names: <https://docs.ag-ui.com/concepts/events>. The members that a closer must carry are defined by the
//! verifier of `@ag-ui/client`; `tests/agui` checks them against it (1.0.0 and 0.0.59).

use serde_json::{Value, json};

use crate::{
    NewEvents, json,
    limits::{MAX_OPEN_BYTES, MAX_OPEN_PARTS},
};

/// Terminal event with which a run is to be ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// End with RUN_FINISHED, as a success.
    Finished,
    /// End with RUN_ERROR, as a failure.
    Error {
        /// Stable code of the reason, for programs.
        code: String,
        /// Explanation of the reason, for people.
        message: String,
    },
}

/// Kind of construct that is opened and closed by events of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    start: &'static str,
    end: &'static str,
    id: Option<&'static str>,
    /// Event that adds to an open part.
    content: Option<&'static str>,
}

/// Reason for which an event about a part has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misplaced {
    /// The part that the event begins is open; the member that names it.
    Open(&'static str),
    /// The part that the event continues or ends is not open; the member that names it, and the event that begins such a part.
    NotOpen(&'static str, &'static str),
    /// As much is open as the fold remembers.
    Full,
}

const STEP: Kind = Kind { start: "STEP_STARTED", end: "STEP_FINISHED", id: Some("stepName"), content: None };
const SUBAGENT: Kind =
    Kind { start: "SUBAGENT_STARTED", end: "SUBAGENT_FINISHED", id: Some("subagentRunId"), content: None };
const REASONING: Kind = Kind {
    start: "REASONING_MESSAGE_START",
    end: "REASONING_MESSAGE_END",
    id: Some("messageId"),
    content: Some("REASONING_MESSAGE_CONTENT"),
};
const TEXT: Kind = Kind {
    start: "TEXT_MESSAGE_START",
    end: "TEXT_MESSAGE_END",
    id: Some("messageId"),
    content: Some("TEXT_MESSAGE_CONTENT"),
};

const KINDS: [Kind; 8] = [
    TEXT,
    Kind { start: "TOOL_CALL_START", end: "TOOL_CALL_END", id: Some("toolCallId"), content: Some("TOOL_CALL_ARGS") },
    STEP,
    SUBAGENT,
    Kind { start: "REASONING_START", end: "REASONING_END", id: Some("messageId"), content: None },
    REASONING,
    Kind { start: "THINKING_START", end: "THINKING_END", id: None, content: None },
    Kind { start: "THINKING_TEXT_MESSAGE_START", end: "THINKING_TEXT_MESSAGE_END", id: None, content: None },
];

/// Construct that was opened and not closed.
#[derive(Debug, Clone)]
struct Part {
    kind: Kind,
    id: String,
    /// `subagentRunId` of the event that opened the part. A step is closed under its owner and under no other; for
    /// other kinds an owner may be left out, but must not be another one.
    owner: Option<String>,
}

impl Part {
    fn bytes(&self) -> usize {
        self.id.len() + self.owner.as_ref().map_or(0, String::len)
    }
}

/// Fold over the events of one run. The caller must pass every event in order, and then requests the closers.
#[derive(Debug, Clone, Default)]
pub struct OpenParts {
    open: Vec<Part>,
    /// Bytes of the ids and owners of the open parts.
    bytes: usize,
    /// `(threadId, runId)` of the producer's RUN_STARTED: the terminal event must carry the same.
    started: Option<(String, String)>,
    any: bool,
}

impl OpenParts {
    /// Takes in one event, as JSON text. Text that is no AG-UI event is ignored.
    pub fn observe(&mut self, event: &[u8]) {
        self.any = true;
        let Ok(event) = std::str::from_utf8(event) else { return };
        let Some(name) = json::string_member(event, "type") else { return };
        let text = |member: &str| json::string_member(event, member).unwrap_or_default();
        match &*name {
            "RUN_STARTED" => {
                let started = (text("threadId"), text("runId"));
                self.started = Some(started).filter(|(thread, run)| thread.len() + run.len() <= MAX_OPEN_BYTES);
            }
            // Both events may give an open message to another owner, and then its closer has none.
            "MESSAGES_SNAPSHOT" => self.disown(|part| part.kind != STEP),
            "TOOL_CALL_RESULT" if self.open.iter().any(|part| part.kind == TEXT && part.owner.is_some()) => {
                let id = text("messageId");
                self.disown(|part| part.kind == TEXT && part.id == id);
            }
            // SUBAGENT_ERROR is the other end of a subagent.
            "SUBAGENT_ERROR" => self.close(SUBAGENT, &text("subagentRunId"), None),
            _ => {}
        }
        for kind in KINDS {
            if name != kind.start && name != kind.end {
                continue;
            }
            let id = kind.id.map_or_else(String::new, text);
            // A subagent's own events name the subagent itself in `subagentRunId`.
            let owner = if kind == SUBAGENT { None } else { json::string_member(event, "subagentRunId") };
            if name == kind.end {
                self.close(kind, &id, owner.as_deref());
                continue;
            }
            // Of a kind without ids only one part can be open.
            if kind.id.is_some() || self.open.iter().all(|part| part.kind != kind) {
                let part = Part { kind, id, owner };
                // The terminal event must fit behind the closers, regardless of the parts that the producer has opened.
                if self.has_room(part.bytes()) {
                    self.bytes += part.bytes();
                    self.open.push(part);
                }
            }
        }
    }

    fn close(&mut self, kind: Kind, id: &str, owner: Option<&str>) {
        let is = |part: &Part| part.kind == kind && part.id == id && (kind != STEP || part.owner.as_deref() == owner);
        if let Some(at) = self.open.iter().rposition(is) {
            self.bytes -= self.open.remove(at).bytes();
        }
    }

    fn disown(&mut self, which: impl Fn(&Part) -> bool) {
        for part in self.open.iter_mut().filter(|part| which(part)) {
            self.bytes -= part.owner.take().map_or(0, |owner| owner.len());
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.open.len() < MAX_OPEN_PARTS && self.bytes + bytes <= MAX_OPEN_BYTES
    }

    /// Reason for which an event of this type has no place after those before; `text` reads a string member of the event. Events
    /// that neither begin, continue nor end a part have one everywhere.
    pub(super) fn misplaced(&self, name: &str, text: impl Fn(&str) -> Option<String>) -> Option<Misplaced> {
        let is_about = |kind: &Kind| {
            [kind.start, kind.end].contains(&name)
                || kind.content == Some(name)
                || *kind == SUBAGENT && name == "SUBAGENT_ERROR"
        };
        let kind = KINDS.into_iter().find(is_about)?;
        let id = kind.id.and_then(&text).unwrap_or_default();
        let owner = text("subagentRunId").filter(|_| kind != SUBAGENT);
        let is = |part: &Part| part.kind == kind && part.id == id && (kind != STEP || part.owner == owner);
        let (member, open) = (kind.id.unwrap_or("type"), self.open.iter().any(is));
        match (name == kind.start, open) {
            (true, true) => Some(Misplaced::Open(member)),
            (true, false) if !self.has_room(id.len() + owner.map_or(0, |owner| owner.len())) => Some(Misplaced::Full),
            (false, false) => Some(Misplaced::NotOpen(member, kind.start)),
            _ => None,
        }
    }

    /// The event that ends the newest open part, and the id of the part.
    pub(super) fn newest(&self) -> Option<(&'static str, &str)> {
        self.open.last().map(|part| (part.kind.end, part.id.as_str()))
    }

    /// True if a subagent of this id is open.
    pub(super) fn has_subagent(&self, id: &str) -> bool {
        self.open.iter().any(|part| part.kind == SUBAGENT && part.id == id)
    }

    /// Memory that it takes, in bytes (about).
    pub(super) fn weight(&self) -> usize {
        self.bytes + self.open.len() * size_of::<Part>()
    }

    /// Ids of the messages of text and of reasoning that are open.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        let is_message = |part: &&Part| part.kind == TEXT || part.kind == REASONING;
        self.open.iter().filter(is_message).map(|part| part.id.as_str())
    }

    /// Events that close the open parts, and then the run. `thread` and `run` are used if the run has no RUN_STARTED of
    /// its own; a run without any event gets one, so that clients accept it. A subagent ends as its run does.
    pub fn closers(&self, thread: &str, run: &str, ending: &Ending) -> NewEvents {
        let (thread, run) = match &self.started {
            Some((thread, run)) => (thread.as_str(), run.as_str()),
            None => (thread, run),
        };
        let mut events: Vec<Value> = Vec::with_capacity(self.open.len() + 2);
        if !self.any {
            events.push(json!({ "type": "RUN_STARTED", "threadId": thread, "runId": run }));
        }
        events.extend(self.part_closers(matches!(ending, Ending::Error { .. })));
        events.push(match ending {
            Ending::Finished => json!({ "type": "RUN_FINISHED", "threadId": thread, "runId": run }),
            Ending::Error { code, message } => json!({ "type": "RUN_ERROR", "message": message, "code": code }),
        });
        NewEvents::from_values(&events)
    }

    /// Events that close the open parts of a run that goes on, newest first. `failed` is true for a run that ends with
    /// an error.
    pub fn part_closers(&self, failed: bool) -> Vec<Value> {
        let mut events = Vec::with_capacity(self.open.len() + 1);
        for Part { kind, id, owner } in self.open.iter().rev() {
            let mut closer = json!({ "type": kind.end });
            if let Some(owner) = owner {
                closer["subagentRunId"] = json!(owner);
            }
            if let Some(member) = kind.id {
                closer[member] = json!(id);
            }
            if *kind == SUBAGENT && failed {
                closer["type"] = json!("SUBAGENT_ERROR");
                // The run's message is not repeated: it may be long, and the subagents many.
                closer["message"] = json!("The run ended with an error.");
            }
            events.push(closer);
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Terminal, limits::MAX_EVENT_BYTES};

    fn closers(events: &[&str], ending: &Ending) -> Vec<Value> {
        let mut open = OpenParts::default();
        for event in events {
            open.observe(event.as_bytes());
        }
        let closers = open.closers("t", "r", ending);
        closers.body().split(|byte| *byte == b'\n').map(|line| serde_json::from_slice(line).expect("JSON")).collect()
    }

    #[test]
    fn open_parts_are_closed_newest_first() {
        let got = closers(
            &[
                r#"{"type":"RUN_STARTED","threadId":"T","runId":"R"}"#,
                r#"{"type":"STEP_STARTED","stepName":"s"}"#,
                r#"{"type":"TEXT_MESSAGE_START","messageId":"m1"}"#,
                r#"{"type":"TEXT_MESSAGE_END","messageId":"m1"}"#,
                r#"{"type":"TEXT_MESSAGE_START","messageId":"m2"}"#,
                r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}"#,
                r#"{"type":"CUSTOM","name":"TEXT_MESSAGE_START"}"#,
                r#"{"type":"THINKING_START"}"#,
            ],
            &Ending::Finished,
        );
        let want = [
            json!({"type":"THINKING_END"}),
            json!({"type":"TOOL_CALL_END","toolCallId":"c"}),
            json!({"type":"TEXT_MESSAGE_END","messageId":"m2"}),
            json!({"type":"STEP_FINISHED","stepName":"s"}),
            json!({"type":"RUN_FINISHED","threadId":"T","runId":"R"}),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn closers_say_whose_it_was() {
        let events = [
            r#"{"type":"STEP_STARTED","stepName":"s"}"#,
            r#"{"type":"STEP_STARTED","stepName":"s","subagentRunId":"a"}"#,
            r#"{"type":"STEP_STARTED","stepName":"s","subagentRunId":"b"}"#,
            r#"{"type":"STEP_FINISHED","stepName":"s","subagentRunId":"b"}"#,
            r#"{"type":"SUBAGENT_STARTED","subagentRunId":"a","name":"n"}"#,
            r#"{"type":"SUBAGENT_STARTED","subagentRunId":"b","name":"n"}"#,
            r#"{"type":"SUBAGENT_ERROR","subagentRunId":"b","message":"no"}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"m1","subagentRunId":"a"}"#,
            r#"{"type":"TOOL_CALL_RESULT","messageId":"m1","toolCallId":"c","content":""}"#,
            r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n","subagentRunId":"a"}"#,
        ];
        let got = closers(&events, &Ending::Finished);
        let want = [
            json!({"type":"TOOL_CALL_END","toolCallId":"c","subagentRunId":"a"}),
            json!({"type":"TEXT_MESSAGE_END","messageId":"m1"}),
            json!({"type":"SUBAGENT_FINISHED","subagentRunId":"a"}),
            json!({"type":"STEP_FINISHED","stepName":"s","subagentRunId":"a"}),
            json!({"type":"STEP_FINISHED","stepName":"s"}),
            json!({"type":"RUN_FINISHED","threadId":"t","runId":"r"}),
        ];
        assert_eq!(got, want);
        let mut events = events.to_vec();
        events.push(r#"{"type":"MESSAGES_SNAPSHOT","messages":[]}"#);
        let got = closers(&events, &Ending::Error { code: "x".into(), message: "no".into() });
        assert_eq!(got[0], json!({"type":"TOOL_CALL_END","toolCallId":"c"}));
        assert_eq!(got[2]["type"], "SUBAGENT_ERROR");
        assert_eq!(got[3], json!({"type":"STEP_FINISHED","stepName":"s","subagentRunId":"a"}));
    }

    #[test]
    fn the_terminal_event_is_there_however_much_is_open() {
        let mut open = OpenParts::default();
        for number in 0..100_001 {
            open.observe(format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":"m{number}"}}"#).as_bytes());
        }
        let long = "\\u0001".repeat(MAX_EVENT_BYTES / 6 - 20);
        for kind in
            ["RUN_STARTED\",\"threadId\":\"t\",\"runId", "STEP_STARTED\",\"stepName", "TOOL_CALL_START\",\"toolCallId"]
        {
            open.observe(format!(r#"{{"type":"{kind}":"{long}"}}"#).as_bytes());
        }
        let closers = open.closers("t", "r", &Ending::Finished);
        assert_eq!(closers.terminal(), Some(&Terminal::Finished { usage: None, interrupts: None }));
        assert_eq!(closers.count(), MAX_OPEN_PARTS + 1);
    }

    #[test]
    fn a_run_without_events_is_started_first() {
        let ending = Ending::Error { code: "producer-failed".into(), message: "no".into() };
        let got = closers(&[], &ending);
        assert_eq!(got[0], json!({"type":"RUN_STARTED","threadId":"t","runId":"r"}));
        assert_eq!(got[1], json!({"type":"RUN_ERROR","message":"no","code":"producer-failed"}));
    }
}
