//! AG-UI events that the built-in agents send. Source: <https://docs.ag-ui.com/concepts/events>, version 1.0.

use bytes::Bytes;
use serde_json::{Value, json};

use super::source::RunInput;

/// Generates a time-ordered id for a message, a tool call or an interrupt (UUIDv7).
pub(super) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

pub(super) fn to_bytes(event: &Value) -> Bytes {
    event.to_string().into()
}

pub(super) fn run_started(input: &RunInput) -> Value {
    let mut event = json!({
        "type": "RUN_STARTED",
        "threadId": input.thread_id.as_str(),
        "runId": input.run_id.as_str(),
    });
    if let Some(parent) = &input.parent_run_id {
        event["parentRunId"] = parent.as_str().into();
    }
    event
}

pub(super) fn run_finished(thread: &str, run: &str, outcome: Value, usage: Option<Value>) -> Value {
    let mut event = json!({ "type": "RUN_FINISHED", "threadId": thread, "runId": run, "outcome": outcome });
    if let Some(usage) = usage {
        event["usage"] = json!([usage]);
    }
    event
}

pub(super) fn run_error(code: &str, message: &str) -> Value {
    json!({ "type": "RUN_ERROR", "message": message, "code": code })
}

pub(super) fn text_start(id: &str) -> Value {
    json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" })
}

pub(super) fn text_content(id: &str, delta: &str) -> Value {
    json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta })
}

pub(super) fn text_end(id: &str) -> Value {
    json!({ "type": "TEXT_MESSAGE_END", "messageId": id })
}

/// Opens a span of reasoning and the one message in it, which share an id, as in AG-UI's own producers.
pub(super) fn reasoning_start(id: &str) -> [Value; 2] {
    [
        json!({ "type": "REASONING_START", "messageId": id }),
        json!({ "type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning" }),
    ]
}

pub(super) fn reasoning_content(id: &str, delta: &str) -> Value {
    json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": delta })
}

/// Closes the span that [`reasoning_start`] opened.
pub(super) fn reasoning_end(id: &str) -> [Value; 2] {
    [json!({ "type": "REASONING_MESSAGE_END", "messageId": id }), json!({ "type": "REASONING_END", "messageId": id })]
}

/// Starts a tool call. `parent` is the assistant message that makes it; clients create that message if it is absent.
pub(super) fn tool_start(id: &str, name: &str, parent: &str) -> Value {
    json!({ "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name, "parentMessageId": parent })
}

pub(super) fn tool_args(id: &str, delta: &str) -> Value {
    json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": delta })
}

pub(super) fn tool_end(id: &str) -> Value {
    json!({ "type": "TOOL_CALL_END", "toolCallId": id })
}
