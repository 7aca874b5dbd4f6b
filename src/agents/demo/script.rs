//! Script of a run, event by event.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{events, source::RunInput};

/// Characters of a tool's arguments in one delta.
const ARGUMENT_DELTA: usize = 8;

/// A run while it is written.
pub(super) struct Script {
    thread: String,
    run: String,
    events: Vec<Scripted>,
    /// Words of the user, of the reasoning, and of all output.
    usage: [usize; 3],
}

/// An event, and whether a pause precedes it, as before a model's token.
pub(super) struct Scripted {
    pub(super) event: Bytes,
    pub(super) paced: bool,
}

/// Outcome of a run.
pub(super) enum Ending {
    Done,
    /// Tool calls whose results the frontend must supply.
    Pending(Vec<String>),
    Interrupt(Value),
    Error,
}

impl Script {
    /// Starts with the event RUN_STARTED.
    pub(super) fn new(input: &RunInput, said: &str) -> Self {
        let mut script = Self {
            thread: input.thread_id.as_str().to_owned(),
            run: input.run_id.as_str().to_owned(),
            events: Vec::new(),
            usage: [said.split_whitespace().count(), 0, 0],
        };
        script.push(&events::run_started(input));
        script
    }

    pub(super) fn push(&mut self, event: &Value) {
        self.events.push(Scripted { event: events::to_bytes(event), paced: false });
    }

    fn push_paced(&mut self, event: &Value) {
        self.usage[2] += 1;
        self.events.push(Scripted { event: events::to_bytes(event), paced: true });
    }

    /// Wraps the events that `inner` writes in a step.
    pub(super) fn step<T>(&mut self, name: &str, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.push(&json!({ "type": "STEP_STARTED", "stepName": name }));
        let made = inner(self);
        self.push(&json!({ "type": "STEP_FINISHED", "stepName": name }));
        made
    }

    /// Writes a span of reasoning.
    pub(super) fn think(&mut self, text: &str) {
        let id = events::new_id();
        events::reasoning_start(&id).iter().for_each(|event| self.push(event));
        for delta in deltas(text) {
            self.usage[1] += 1;
            self.push_paced(&events::reasoning_content(&id, delta));
        }
        events::reasoning_end(&id).iter().for_each(|event| self.push(event));
    }

    /// Writes a message, and returns its id.
    pub(super) fn say(&mut self, text: &str) -> String {
        let id = self.begin_saying(text);
        self.push(&events::text_end(&id));
        id
    }

    /// Writes a message without its end, and returns its id.
    pub(super) fn begin_saying(&mut self, text: &str) -> String {
        let id = events::new_id();
        self.push(&events::text_start(&id));
        for delta in deltas(text) {
            self.push_paced(&events::text_content(&id, delta));
        }
        id
    }

    /// Writes a tool call without its result, and returns its id. `parent` is the message that makes the call; a new
    /// one if absent.
    pub(super) fn call(&mut self, name: &str, arguments: &Value, parent: Option<String>) -> String {
        let id = events::new_id();
        self.push(&events::tool_start(&id, name, &parent.unwrap_or_else(events::new_id)));
        let arguments: Vec<char> = arguments.to_string().chars().collect();
        for delta in arguments.chunks(ARGUMENT_DELTA) {
            self.push_paced(&events::tool_args(&id, &delta.iter().collect::<String>()));
        }
        self.push(&events::tool_end(&id));
        id
    }

    /// Writes a TOOL_CALL_RESULT event.
    pub(super) fn result(&mut self, call: &str, content: &Value) {
        let message = events::new_id();
        let content = content.to_string();
        self.push(&json!({ "type": "TOOL_CALL_RESULT", "messageId": message, "toolCallId": call, "content": content,
            "role": "tool" }));
    }

    /// Ends the run, and returns all its events.
    pub(super) fn end(mut self, ending: Ending) -> Vec<Scripted> {
        let [input, reasoning, output] = self.usage;
        // One delta counts as one token.
        let usage = json!({ "provider": "threadline", "model": "demo", "inputTokens": input, "outputTokens": output,
            "totalTokens": input + output, "reasoningTokens": reasoning });
        let outcome = match ending {
            Ending::Done => json!({ "type": "success" }),
            Ending::Pending(calls) => json!({ "type": "success", "pendingToolCallIds": calls }),
            Ending::Interrupt(interrupt) => json!({ "type": "interrupt", "interrupts": [interrupt] }),
            Ending::Error => {
                let mut event = events::run_error("demo-error", "the demo agent failed, as it was asked to");
                event["usage"] = json!([usage]);
                self.push_paced(&event);
                return self.events;
            }
        };
        self.push(&events::run_finished(&self.thread, &self.run, outcome, Some(usage)));
        self.events
    }
}

/// Splits a text into words, each with the space behind it: roughly a model's tokens.
fn deltas(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}
