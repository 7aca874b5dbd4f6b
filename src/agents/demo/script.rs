//! Writing a run down, event by event.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::{events, source::RunInput};

/// Characters of a tool's arguments in one delta.
const ARGUMENT_DELTA: usize = 8;

/// A run as it is being written.
pub(super) struct Script {
    thread: String,
    run: String,
    events: Vec<Scripted>,
    /// Words that the user said, that were thought, and that were put out in all.
    usage: [usize; 3],
}

/// An event, and whether it comes after a pause, as a token of a model does.
pub(super) struct Scripted {
    pub(super) event: Bytes,
    pub(super) paced: bool,
}

/// How a run ends.
pub(super) enum Ending {
    Done,
    /// These tool calls are left to the frontend.
    Pending(Vec<String>),
    Interrupt(Value),
    Error,
}

impl Script {
    /// Begins with RUN_STARTED.
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

    /// What is written by `inner`, as a step.
    pub(super) fn step<T>(&mut self, name: &str, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.push(&json!({ "type": "STEP_STARTED", "stepName": name }));
        let made = inner(self);
        self.push(&json!({ "type": "STEP_FINISHED", "stepName": name }));
        made
    }

    /// A span of reasoning.
    pub(super) fn think(&mut self, text: &str) {
        let id = events::new_id();
        events::reasoning_start(&id).iter().for_each(|event| self.push(event));
        for delta in deltas(text) {
            self.usage[1] += 1;
            self.push_paced(&events::reasoning_content(&id, delta));
        }
        events::reasoning_end(&id).iter().for_each(|event| self.push(event));
    }

    /// A message; its id.
    pub(super) fn say(&mut self, text: &str) -> String {
        let id = self.begin_saying(text);
        self.push(&events::text_end(&id));
        id
    }

    /// A message that is not ended.
    pub(super) fn begin_saying(&mut self, text: &str) -> String {
        let id = events::new_id();
        self.push(&events::text_start(&id));
        for delta in deltas(text) {
            self.push_paced(&events::text_content(&id, delta));
        }
        id
    }

    /// A tool call without its result; its id. `parent` is the message that makes it, a new one if there is none.
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

    /// TOOL_CALL_RESULT.
    pub(super) fn result(&mut self, call: &str, content: &Value) {
        let message = events::new_id();
        let content = content.to_string();
        self.push(&json!({ "type": "TOOL_CALL_RESULT", "messageId": message, "toolCallId": call, "content": content,
            "role": "tool" }));
    }

    /// The whole run.
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

/// A word with the space behind it is about what a model's token is.
fn deltas(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}
