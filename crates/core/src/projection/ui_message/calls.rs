//! Tool calls of a message, while its events are read.

use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;

use super::{
    chunk::{Chunk, ToolCall},
    user,
};
use crate::limits::{MAX_BATCH_BYTES, MAX_UI_CALLS};

/// Tool call of a message.
#[derive(Debug)]
struct Call {
    /// Name of the tool.
    name: String,
    /// True if the front end has supplied the tool.
    of_client: bool,
    /// True once the call has a result or needs none.
    settled: bool,
}

/// Arguments that are incomplete.
#[derive(Debug, Default)]
struct Args {
    /// Content of the JSON strings, still escaped.
    text: String,
    /// True if a piece is missing, because all arguments together were too large.
    cut: bool,
}

/// Tool calls of a message by their ids.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: HashMap<String, Call>,
    /// Arguments that are incomplete.
    open: HashMap<String, Args>,
    /// Calls of the open step without a result, each with its complete arguments.
    unsettled: BTreeMap<String, Option<Box<RawValue>>>,
    /// Bytes of `open` and `unsettled`.
    bytes: usize,
}

impl Calls {
    /// True if a call of the open step has no result, or incomplete arguments: the step is not over.
    pub fn hold_the_step(&self) -> bool {
        !self.open.is_empty() || !self.unsettled.is_empty()
    }

    /// True if the message has this call.
    pub fn has(&self, id: &str) -> bool {
        self.calls.contains_key(id)
    }

    /// True if the call has neither a result nor an end without one.
    pub fn waits(&self, id: &str) -> bool {
        self.calls.get(id).is_some_and(|call| !call.settled)
    }

    /// Begins a call. `None` if the message already has a call with this id, or too many calls.
    pub fn start(&mut self, id: &str, name: String, of_client: bool) -> Option<Chunk> {
        if self.has(id) || self.calls.len() >= MAX_UI_CALLS {
            return None;
        }
        let call = Call { name, of_client, settled: false };
        let chunk = Chunk::ToolInputStart(call.named(id));
        self.calls.insert(id.to_owned(), call);
        self.open.insert(id.to_owned(), Args::default());
        self.unsettled.insert(id.to_owned(), None);
        Some(chunk)
    }

    /// Adds a piece of arguments, as a JSON token.
    pub fn args(&mut self, id: &str, delta: &RawValue) -> Option<Chunk> {
        let args = self.open.get_mut(id)?;
        let piece = delta.get().strip_prefix('"')?.strip_suffix('"')?;
        args.cut |= self.bytes + piece.len() > MAX_BATCH_BYTES;
        if !args.cut {
            self.bytes += piece.len();
            args.text.push_str(piece);
        }
        Some(Chunk::ToolInputDelta { tool_call_id: id.to_owned(), input_text_delta: delta.to_owned() })
    }

    /// Ends the arguments of a call.
    pub fn end(&mut self, id: &str) -> Option<Chunk> {
        let Args { text, cut } = self.open.remove(id)?;
        self.bytes -= text.len();
        let call = self.calls.get(id)?.named(id);
        if cut {
            self.settle(id);
            let error_text = "The arguments are too large.";
            return Some(Chunk::ToolInputError { call, input: RawValue::NULL.to_owned(), error_text });
        }
        let read = serde_json::from_str::<String>(&format!("\"{text}\"")).ok();
        let input = read.and_then(|text| match text.trim() {
            "" => user::value("{}"),
            text => user::value(text),
        });
        let Some(input) = input else {
            self.settle(id);
            let input = RawValue::from_string(format!("\"{text}\"")).unwrap_or_default();
            return Some(Chunk::ToolInputError { call, input, error_text: "The arguments are not valid JSON." });
        };
        if let Some(kept) = self.unsettled.get_mut(id)
            && self.bytes + input.get().len() <= MAX_BATCH_BYTES
        {
            self.bytes += input.get().len();
            *kept = Some(input.clone());
        }
        Some(Chunk::ToolInputAvailable { call, input })
    }

    /// Ends the arguments of all calls: clients do so at the end of a run.
    pub fn end_all(&mut self) -> Vec<Chunk> {
        let mut open: Vec<String> = self.open.keys().cloned().collect();
        open.sort_unstable();
        open.iter().filter_map(|id| self.end(id)).collect()
    }

    /// Marks a call as settled. False if the message does not have the call.
    pub fn settle(&mut self, id: &str) -> bool {
        if let Some(input) = self.unsettled.remove(id).flatten() {
            self.bytes -= input.get().len();
        }
        self.calls.get_mut(id).map(|call| call.settled = true).is_some()
    }

    /// Calls of the open step that the agent has not executed by the end of the run: the front end may. Each is announced
    /// once more, as a call of the front end.
    pub fn left(&mut self) -> Vec<Chunk> {
        let mut left = Vec::new();
        for (id, input) in &self.unsettled {
            let (Some(call), Some(input)) = (self.calls.get_mut(id), input) else { continue };
            if !std::mem::replace(&mut call.of_client, true) {
                left.push(Chunk::ToolInputAvailable { call: call.named(id), input: input.clone() });
            }
        }
        left
    }

    /// Forgets the arguments of the step that ends.
    pub fn end_step(&mut self) {
        let kept = std::mem::take(&mut self.unsettled);
        self.bytes -= kept.values().flatten().map(|input| input.get().len()).sum::<usize>();
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
