//! Events of a run, as far as its recovery needs them.

use std::collections::HashSet;

use serde::Deserialize;
use threadline_core::{
    event::cut,
    json,
    projection::{
        closing::OpenParts,
        conversation::UnverifiedCall,
        superseding::{ATTEMPT, BegunSubagents},
    },
};

/// First events of a run that are read for its evidence: RUN_STARTED, and the STATE_SNAPSHOT of the client's state.
const OPENING: usize = 2;
/// Most tool calls that an error names.
const NAMED_CALLS: usize = 8;

/// Events of a run, as far as its recovery needs them.
#[derive(Default)]
pub(super) struct Logged {
    pub open: OpenParts,
    pub begun_subagents: BegunSubagents,
    /// First events of the run.
    pub first: Vec<String>,
    /// True if the attempt before has said something.
    pub said: bool,
    /// True if an earlier attempt was continued: what it left is part of the conversation.
    pub continued: bool,
    /// Calls that the attempt before has begun, without their arguments, and those that were without a result when it began.
    pub begun: Vec<UnverifiedCall>,
    /// Ids of these calls.
    ids: HashSet<String>,
}

/// Facts of an earlier takeover that continued a run, as its CUSTOM event has them.
#[derive(Deserialize)]
struct Continued {
    unverified: Vec<UnverifiedCall>,
}

impl Logged {
    /// Takes in the next event. `is_of_attempt` is true for an event of the attempt before.
    pub fn observe(&mut self, is_of_attempt: bool, event: &[u8]) {
        self.open.observe(event);
        self.begun_subagents.observe(event);
        if self.first.len() < OPENING {
            self.first.push(String::from_utf8_lossy(event).into_owned());
        }
        self.said |= is_of_attempt;
        let Ok(text) = std::str::from_utf8(event) else { return };
        match json::string_member(text, "type").unwrap_or_default().as_str() {
            "TOOL_CALL_START" | "TOOL_CALL_CHUNK" if is_of_attempt => self.begin_call(text),
            "CUSTOM" if !is_of_attempt && json::string_member(text, "name").as_deref() == Some(ATTEMPT) => {
                let value = json::member(text, "value").unwrap_or_default();
                if let Ok(Continued { unverified }) = serde_json::from_str(value) {
                    self.ids = unverified.iter().map(|call| call.tool_call_id.clone()).collect();
                    (self.continued, self.begun) = (true, unverified);
                }
            }
            _ => {}
        }
    }

    fn begin_call(&mut self, event: &str) {
        // A chunk without a name continues a call.
        let Some(name) = json::string_member(event, "toolCallName") else { return };
        let tool_call_id = json::string_member(event, "toolCallId").unwrap_or_default();
        if self.ids.insert(tool_call_id.clone()) {
            self.begun.push(UnverifiedCall { tool_call_id, name, arguments: String::new() });
        }
    }

    /// Message of the error that ends the run because of its calls; `None` if it has none.
    pub fn calls_in_doubt(&self) -> Option<String> {
        let mut names: Vec<&str> = Vec::new();
        for call in &self.begun {
            if names.len() < NAMED_CALLS && !names.contains(&&*call.name) {
                names.push(&call.name);
            }
        }
        let message =
            format!("The server that ran the agent was lost after these tools were called: {}.", names.join(", "));
        (!names.is_empty()).then(|| cut(message))
    }
}
