//! Tool calls that events have begun.

use std::collections::HashSet;

use crate::{json, projection::conversation::UnverifiedCall};

/// Most tool calls that a text names.
const NAMED_CALLS: usize = 8;

/// Tool calls that events have begun, without their arguments.
#[derive(Debug, Default)]
pub struct BegunCalls {
    calls: Vec<UnverifiedCall>,
    /// Ids of these calls.
    ids: HashSet<String>,
}

impl BegunCalls {
    /// Takes in the next event, as JSON text.
    pub fn observe(&mut self, event: &str) {
        if !matches!(&*json::string_member(event, "type").unwrap_or_default(), "TOOL_CALL_START" | "TOOL_CALL_CHUNK") {
            return;
        }
        // A chunk without a name continues a call.
        let Some(name) = json::string_member(event, "toolCallName") else { return };
        let tool_call_id = json::string_member(event, "toolCallId").unwrap_or_default();
        if self.ids.insert(tool_call_id.clone()) {
            self.calls.push(UnverifiedCall { tool_call_id, name, arguments: String::new() });
        }
    }

    /// The calls, in the order of their begin.
    pub fn calls(&self) -> &[UnverifiedCall] {
        &self.calls
    }

    /// The calls by value, in the same order.
    pub fn into_calls(self) -> Vec<UnverifiedCall> {
        self.calls
    }

    /// Names of the tools, for an error message; `None` if there was no call.
    pub fn names(&self) -> Option<String> {
        let mut names: Vec<&str> = Vec::new();
        for call in &self.calls {
            if names.len() < NAMED_CALLS && !names.contains(&&*call.name) {
                names.push(&call.name);
            }
        }
        (!names.is_empty()).then(|| names.join(", "))
    }
}

impl From<Vec<UnverifiedCall>> for BegunCalls {
    fn from(calls: Vec<UnverifiedCall>) -> Self {
        let ids = calls.iter().map(|call| call.tool_call_id.clone()).collect();
        Self { calls, ids }
    }
}
