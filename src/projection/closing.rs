//! Closing a run: what its events left open, and the events that close it.
//!
//! AG-UI clients refuse RUN_FINISHED while a message, tool call or step is open, so the closer ends what the
//! producer left open, newest first, and then the run.
//! Event names: <https://docs.ag-ui.com/concepts/events>.

use serde_json::{Value, json};

use crate::domain::{
    NewEvents, json,
    limits::{MAX_OPEN_BYTES, MAX_OPEN_PARTS},
};

/// How a run is to be ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// RUN_FINISHED.
    Finished,
    /// RUN_ERROR.
    Error {
        /// A stable code that says why.
        code: String,
        /// For people.
        message: String,
    },
}

/// A kind of construct that is opened and closed by events of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    start: &'static str,
    end: &'static str,
    id: Option<&'static str>,
}

const KINDS: [Kind; 7] = [
    Kind { start: "TEXT_MESSAGE_START", end: "TEXT_MESSAGE_END", id: Some("messageId") },
    Kind { start: "TOOL_CALL_START", end: "TOOL_CALL_END", id: Some("toolCallId") },
    Kind { start: "STEP_STARTED", end: "STEP_FINISHED", id: Some("stepName") },
    Kind { start: "REASONING_START", end: "REASONING_END", id: Some("messageId") },
    Kind { start: "REASONING_MESSAGE_START", end: "REASONING_MESSAGE_END", id: Some("messageId") },
    Kind { start: "THINKING_START", end: "THINKING_END", id: None },
    Kind { start: "THINKING_TEXT_MESSAGE_START", end: "THINKING_TEXT_MESSAGE_END", id: None },
];

/// The fold: feed it every event of a run in order, then ask for the closers.
#[derive(Debug, Default)]
pub struct OpenParts {
    open: Vec<(Kind, String)>,
    /// Bytes of the ids of what is open.
    bytes: usize,
    /// `(threadId, runId)` as the producer's RUN_STARTED has them: the terminal event must say the same.
    started: Option<(String, String)>,
    any: bool,
}

impl OpenParts {
    /// Takes in one event, as JSON text. What is not an AG-UI event is passed over.
    pub fn observe(&mut self, event: &[u8]) {
        self.any = true;
        let Ok(event) = std::str::from_utf8(event) else { return };
        let Some(name) = json::string_member(event, "type") else { return };
        let text = |member: &str| json::string_member(event, member).unwrap_or_default();
        if name == "RUN_STARTED" {
            let started = (text("threadId"), text("runId"));
            self.started = Some(started).filter(|(thread, run)| thread.len() + run.len() <= MAX_OPEN_BYTES);
        }
        for kind in KINDS {
            let id = || kind.id.map_or_else(String::new, text);
            if name == kind.start {
                let id = id();
                // The terminal event must fit behind the closers, whatever the producer has opened.
                if self.open.len() < MAX_OPEN_PARTS && self.bytes + id.len() <= MAX_OPEN_BYTES {
                    self.bytes += id.len();
                    self.open.push((kind, id));
                }
            } else if name == kind.end {
                let id = id();
                if let Some(at) = self.open.iter().rposition(|open| open.0 == kind && open.1 == id) {
                    self.bytes -= self.open.remove(at).1.len();
                }
            }
        }
    }

    /// The events that close what is open, and then the run. `thread` and `run` stand in where the run has no
    /// RUN_STARTED of its own; a run without any event gets one, so that clients accept it.
    pub fn closers(&self, thread: &str, run: &str, ending: &Ending) -> NewEvents {
        let (thread, run) = match &self.started {
            Some((thread, run)) => (thread.as_str(), run.as_str()),
            None => (thread, run),
        };
        let mut events: Vec<Value> = Vec::with_capacity(self.open.len() + 2);
        if !self.any {
            events.push(json!({ "type": "RUN_STARTED", "threadId": thread, "runId": run }));
        }
        for (kind, id) in self.open.iter().rev() {
            events.push(match kind.id {
                Some(member) => json!({ "type": kind.end, member: id }),
                None => json!({ "type": kind.end }),
            });
        }
        events.push(match ending {
            Ending::Finished => json!({ "type": "RUN_FINISHED", "threadId": thread, "runId": run }),
            Ending::Error { code, message } => json!({ "type": "RUN_ERROR", "message": message, "code": code }),
        });
        NewEvents::from_values(&events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Terminal, limits::MAX_EVENT_BYTES};

    fn closers(events: &[&str], ending: &Ending) -> Vec<Value> {
        let mut open = OpenParts::default();
        for event in events {
            open.observe(event.as_bytes());
        }
        let closers = open.closers("t", "r", ending);
        closers.body().split(|byte| *byte == b'\n').map(|line| serde_json::from_slice(line).expect("JSON")).collect()
    }

    #[test]
    fn what_is_open_is_closed_newest_first() {
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
        assert_eq!(closers.terminal(), Some(&Terminal::Finished { usage: None }));
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
