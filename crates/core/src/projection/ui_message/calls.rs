//! Tool calls of a message, while its events are read.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::{
    chunk::{Chunk, ToolCall},
    user,
};
use crate::limits::MAX_BATCH_BYTES;

/// Tool call of a message.
#[derive(Debug)]
pub(super) struct Call {
    /// Name of the tool.
    name: String,
    /// True if the front end has supplied the tool.
    of_client: bool,
    /// Content of the JSON strings of the arguments, still escaped; `None` once they are complete.
    args: Option<String>,
    /// Arguments that were complete.
    input: Option<Box<RawValue>>,
    /// Step in which the call was made.
    step: u64,
    /// True once the call has a result or needs none.
    settled: bool,
}

/// Tool calls of a message by their ids.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: HashMap<String, Call>,
    /// Calls whose arguments are not complete.
    open: usize,
    /// Bytes of the arguments that are not complete.
    bytes: usize,
}

impl Calls {
    /// True if the arguments of a call are incomplete.
    pub fn any_open(&self) -> bool {
        self.open > 0
    }

    /// True if the message has this call.
    pub fn has(&self, id: &str) -> bool {
        self.calls.contains_key(id)
    }

    /// True if the call has neither a result nor an end without one.
    pub fn waits(&self, id: &str) -> bool {
        self.calls.get(id).is_some_and(|call| !call.settled)
    }

    /// Begins a call. `None` if the message already has a call with this id.
    pub fn start(&mut self, id: &str, name: String, of_client: bool, step: u64) -> Option<Chunk> {
        if self.has(id) {
            return None;
        }
        let call = Call { name, of_client, args: Some(String::new()), input: None, step, settled: false };
        let chunk = Chunk::ToolInputStart(call.named(id));
        self.calls.insert(id.to_owned(), call);
        self.open += 1;
        Some(chunk)
    }

    /// Adds a piece of arguments, a JSON string. `None` if the call does not wait for arguments.
    pub fn args(&mut self, id: &str, delta: &RawValue) -> Option<Chunk> {
        let args = self.calls.get_mut(id)?.args.as_mut()?;
        let piece = delta.get().strip_prefix('"')?.strip_suffix('"')?;
        // Arguments beyond the bound are dropped: what is kept is not valid JSON, and the call ends with an error.
        if self.bytes + piece.len() <= MAX_BATCH_BYTES {
            self.bytes += piece.len();
            args.push_str(piece);
        }
        Some(Chunk::ToolInputDelta { tool_call_id: id.to_owned(), input_text_delta: delta.to_owned() })
    }

    /// Ends the arguments of a call.
    pub fn end(&mut self, id: &str) -> Option<Chunk> {
        let call = self.calls.get_mut(id)?;
        let args = call.args.take()?;
        self.open -= 1;
        self.bytes -= args.len();
        let text = serde_json::from_str::<String>(&format!("\"{args}\""));
        let input = text.ok().and_then(|text| match text.trim() {
            "" => user::value("{}"),
            text => user::value(text),
        });
        let named = call.named(id);
        let Some(input) = input else {
            call.settled = true;
            let input = RawValue::from_string(format!("\"{args}\"")).unwrap_or_default();
            return Some(Chunk::ToolInputError { call: named, input, error_text: "The arguments are not valid JSON." });
        };
        call.input = Some(input.clone());
        Some(Chunk::ToolInputAvailable { call: named, input })
    }

    /// Ends the arguments of all calls, as a client does at the end of a run.
    pub fn end_all(&mut self) -> Vec<Chunk> {
        let mut open: Vec<_> =
            self.calls.iter().filter(|(_, call)| call.args.is_some()).map(|(id, _)| id.clone()).collect();
        open.sort_unstable();
        open.iter().filter_map(|id| self.end(id)).collect()
    }

    /// Notes that a call has its result or needs none. False if the message does not have the call.
    pub fn settle(&mut self, id: &str) -> bool {
        self.calls.get_mut(id).map(|call| call.settled = true).is_some()
    }

    /// Calls of this step that have no result at the end of the run, though they are not the front end's: each is announced again as
    /// a call of the front end, which may bring the result.
    pub fn left(&mut self, step: u64) -> Vec<Chunk> {
        let waits = |(_, call): &(&String, &mut Call)| !call.settled && !call.of_client && call.step == step;
        let mut left: Vec<_> = self
            .calls
            .iter_mut()
            .filter(waits)
            .filter_map(|(id, call)| {
                call.of_client = true;
                Some(Chunk::ToolInputAvailable { call: call.named(id), input: call.input.clone()? })
            })
            .collect();
        left.sort_unstable_by_key(Chunk::to_json);
        left
    }

    /// True if a call waits for the front end.
    pub fn wait_for_client(&self) -> bool {
        self.calls.values().any(|call| call.of_client && !call.settled)
    }
}

impl Call {
    fn named(&self, id: &str) -> ToolCall {
        ToolCall {
            tool_call_id: id.to_owned(),
            tool_name: self.name.clone(),
            dynamic: true,
            provider_executed: !self.of_client,
        }
    }
}
