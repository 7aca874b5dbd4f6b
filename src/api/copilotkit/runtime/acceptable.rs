//! Events and messages in the form that a stock client accepts.
//!
//! The client validates each event against its schemas. An event that it refuses ends the complete stream without a
//! message. The log may hold such events: from other producers, of later protocols, or with `null` in place of an
//! absent member. A defect that does not affect messages and state is fixed. An event that the projection ignores as
//! malformed is left out, so that the client has the same content as all other readers. All other events are sent byte
//! for byte. The schemas: <https://docs.ag-ui.com/sdk/js/core/events>, as in `@ag-ui/core` 0.0.53 to 0.0.59.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use threadline_core::json as text;

/// Optional members of an event type for which the projection ignores the event if the value is `null`.
fn strict(kind: &str) -> &'static [&'static str] {
    match kind {
        "TEXT_MESSAGE_START" => &["role", "name", "subagentRunId", "metadata"],
        "TEXT_MESSAGE_CHUNK" | "REASONING_MESSAGE_CHUNK" => {
            &["messageId", "role", "name", "delta", "subagentRunId", "metadata"]
        }
        "TOOL_CALL_CHUNK" => &["toolCallId", "toolCallName", "delta", "subagentRunId", "metadata"],
        "REASONING_MESSAGE_START" | "TOOL_CALL_START" | "TOOL_CALL_RESULT" => &["subagentRunId", "metadata"],
        "ACTIVITY_SNAPSHOT" | "ACTIVITY_DELTA" => &["replace", "subagentRunId", "metadata"],
        "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_END" | "TOOL_CALL_ARGS" | "TOOL_CALL_END" => &["metadata"],
        "REASONING_MESSAGE_CONTENT" | "REASONING_MESSAGE_END" => &["metadata"],
        _ => &[],
    }
}

/// Required member, and the first character of its token.
type Need = (&'static str, char);

const ID: Need = ("messageId", '"');
const CALL: Need = ("toolCallId", '"');
const DELTA: Need = ("delta", '"');
const RUN: &[Need] = &[("threadId", '"'), ("runId", '"')];

/// Required members of an event type; `None` for a type that clients do not know.
fn needs(kind: &str) -> Option<&'static [Need]> {
    Some(match kind {
        "TEXT_MESSAGE_START" | "TEXT_MESSAGE_END" => &[ID],
        "REASONING_START" | "REASONING_MESSAGE_END" | "REASONING_END" => &[ID],
        "REASONING_MESSAGE_START" => &[ID, ("role", '"')],
        "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" => &[ID, DELTA],
        "TEXT_MESSAGE_CHUNK" | "TOOL_CALL_CHUNK" | "REASONING_MESSAGE_CHUNK" => &[],
        "TOOL_CALL_START" => &[CALL, ("toolCallName", '"')],
        "TOOL_CALL_ARGS" => &[CALL, DELTA],
        "TOOL_CALL_END" => &[CALL],
        "TOOL_CALL_RESULT" => &[ID, CALL, ("content", '"')],
        "THINKING_START" | "THINKING_END" | "THINKING_TEXT_MESSAGE_START" | "THINKING_TEXT_MESSAGE_END" => &[],
        "THINKING_TEXT_MESSAGE_CONTENT" => &[DELTA],
        "STATE_SNAPSHOT" | "RAW" => &[],
        "STATE_DELTA" => &[("delta", '[')],
        "MESSAGES_SNAPSHOT" => &[("messages", '[')],
        "ACTIVITY_SNAPSHOT" => &[ID, ("activityType", '"'), ("content", '{')],
        "ACTIVITY_DELTA" => &[ID, ("activityType", '"'), ("patch", '[')],
        "CUSTOM" => &[("name", '"')],
        "RUN_STARTED" | "RUN_FINISHED" => RUN,
        "RUN_ERROR" => &[("message", '"')],
        "STEP_STARTED" | "STEP_FINISHED" => &[("stepName", '"')],
        "REASONING_ENCRYPTED_VALUE" => &[("subtype", '"'), ("entityId", '"'), ("encryptedValue", '"')],
        "SUBAGENT_STARTED" => &[("subagentRunId", '"'), ("name", '"')],
        "SUBAGENT_FINISHED" => &[("subagentRunId", '"')],
        "SUBAGENT_ERROR" => &[("subagentRunId", '"'), ("message", '"')],
        _ => return None,
    })
}

fn has_all(object: &str, needs: &[Need]) -> bool {
    needs.iter().all(|(name, begins)| text::member(object, name).is_some_and(|token| token.starts_with(*begins)))
}

/// True if the text may contain a `null`, or a timestamp that is no number.
fn is_suspect(object: &str) -> bool {
    object.contains("null") || text::member(object, "timestamp").is_some_and(|at| at.starts_with('"'))
}

/// Event in the form to be sent; `None` if it must be left out. `thread` and `run` are the ids for an event without
/// ids.
pub fn event<'a>(event: &'a [u8], thread: &str, run: &str) -> Option<Cow<'a, [u8]>> {
    let whole = std::str::from_utf8(event).ok()?;
    let kind = text::string_member(whole, "type")?;
    let needs = needs(&kind)?;
    let is_rare = matches!(&*kind, "RUN_STARTED" | "RUN_FINISHED" | "MESSAGES_SNAPSHOT" | "TEXT_MESSAGE_START");
    if !is_rare && !is_suspect(whole) && has_all(whole, needs) {
        return Some(Cow::Borrowed(event));
    }
    let mut object: Map<String, Value> = serde_json::from_str(whole).ok()?;
    let mended = mend(&kind, &mut object, thread, run)?;
    if !mended && has_all(whole, needs) {
        return Some(Cow::Borrowed(event));
    }
    let text = Value::Object(object).to_string();
    has_all(&text, needs).then(|| Cow::Owned(text.into_bytes()))
}

/// Fixes an event. Returns whether the event was changed; `None` if it must be left out.
fn mend(kind: &str, object: &mut Map<String, Value>, thread: &str, run: &str) -> Option<bool> {
    // Values of these members belong to the application and are not changed.
    let own = |name: &str| matches!(name, "snapshot" | "value" | "event" | "rawEvent" | "result");
    if strict(kind).iter().any(|name| object.get(*name).is_some_and(Value::is_null)) {
        return None;
    }
    let before = object.len();
    object.retain(|name, value| own(name) || !value.is_null());
    let mut mended = object.len() != before;
    if object.get("timestamp").is_some_and(|at| !at.is_number()) {
        object.shift_remove("timestamp");
        mended = true;
    }
    let mut put = |object: &mut Map<String, Value>, name: &str, value: Value| {
        object.insert(name.to_owned(), value);
        mended = true;
    };
    match kind {
        "RUN_STARTED" | "RUN_FINISHED" => {
            for (name, id) in [("threadId", thread), ("runId", run)] {
                if !object.get(name).is_some_and(Value::is_string) {
                    put(object, name, id.into());
                }
            }
            if object.get("outcome").is_some_and(|outcome| !outcome.is_object()) {
                object.shift_remove("outcome");
                mended = true;
            }
            if let Some(input) = object.get_mut("input") {
                *input = json!({
                    "threadId": thread, "runId": run, "messages": messages(input.get_mut("messages")),
                    "tools": [], "context": [], "forwardedProps": {},
                });
                mended = true;
            }
        }
        "MESSAGES_SNAPSHOT" => {
            let kept = messages(object.get_mut("messages"));
            put(object, "messages", kept.into());
        }
        "TEXT_MESSAGE_START" => {
            let role = object.get("role").map(|role| role.as_str().unwrap_or_default());
            if role.is_some_and(|role| !matches!(role, "developer" | "system" | "assistant" | "user")) {
                return None;
            }
        }
        "REASONING_MESSAGE_START" if object.get("role").is_none() => put(object, "role", "reasoning".into()),
        "RUN_ERROR" if object.get("message").is_none() => put(object, "message", "The run failed.".into()),
        "TOOL_CALL_RESULT" => {
            if let Some(parts) = object.get("content").filter(|content| content.is_array()) {
                let parts = parts.to_string();
                put(object, "content", parts.into());
            }
        }
        _ => {}
    }
    Some(mended)
}

fn messages(list: Option<&mut Value>) -> Vec<Value> {
    let Some(Value::Array(list)) = list else { return Vec::new() };
    let mut all: Vec<Value> = list.iter_mut().map(Value::take).collect();
    all.retain_mut(mend_message);
    all
}

/// Message in the form to be sent; `None` if it must be left out: the client would refuse all messages with an invalid
/// one.
pub fn message(message: &str) -> Option<Cow<'_, str>> {
    let role = text::string_member(message, "role")?;
    let is_text = |name| text::member(message, name).is_some_and(|token| token.starts_with('"'));
    let fine = match &*role {
        "user" | "system" | "developer" | "reasoning" => is_text("content"),
        "assistant" => is_text("content") || text::member(message, "content").is_none(),
        "tool" => is_text("content") && is_text("toolCallId"),
        _ => false,
    };
    let fine = fine && is_text("id");
    let calls = text::member(message, "toolCalls").is_some();
    if fine && !calls && !is_suspect(message) {
        return Some(Cow::Borrowed(message));
    }
    match serde_json::from_str::<Value>(message) {
        Ok(mut value) => {
            let before = value.clone();
            let sent = mend_message(&mut value);
            sent.then(|| if value == before { Cow::Borrowed(message) } else { Cow::Owned(value.to_string()) })
        }
        // The text contains half of a surrogate pair, which Rust cannot represent and a browser can.
        Err(_) => fine.then_some(Cow::Borrowed(message)),
    }
}

/// Fixes a message. Returns false if the message must be left out.
fn mend_message(message: &mut Value) -> bool {
    let Value::Object(object) = message else { return false };
    object.retain(|_, value| !value.is_null());
    let is = |object: &Map<String, Value>, name: &str, what: fn(&Value) -> bool| object.get(name).is_some_and(what);
    if !is(object, "id", Value::is_string) {
        return false;
    }
    let role = object.get("role").and_then(Value::as_str).unwrap_or_default().to_owned();
    match &*role {
        "user" => match object.get_mut("content") {
            Some(Value::Array(parts)) => {
                parts.retain(is_part);
                true
            }
            content => content.is_some_and(|content| content.is_string()),
        },
        "assistant" => {
            if let Some(Value::Array(calls)) = object.get_mut("toolCalls") {
                calls.retain_mut(is_call);
            } else {
                object.shift_remove("toolCalls");
            }
            object.get("content").is_none_or(Value::is_string)
        }
        "tool" => {
            if let Some(parts) = object.get("content").filter(|content| content.is_array()) {
                let parts = parts.to_string();
                object.insert("content".to_owned(), parts.into());
            }
            is(object, "content", Value::is_string) && is(object, "toolCallId", Value::is_string)
        }
        "activity" => is(object, "content", Value::is_object) && is(object, "activityType", Value::is_string),
        "system" | "developer" | "reasoning" => is(object, "content", Value::is_string),
        _ => false,
    }
}

fn is_part(part: &Value) -> bool {
    match part["type"].as_str().unwrap_or_default() {
        "text" => part["text"].is_string(),
        "binary" => part["mimeType"].is_string(),
        "image" | "audio" | "video" | "document" => part["source"].is_object(),
        _ => false,
    }
}

fn is_call(call: &mut Value) -> bool {
    let Value::Object(object) = call else { return false };
    object.retain(|_, value| !value.is_null());
    object.entry("type").or_insert_with(|| "function".into());
    call["id"].is_string() && call["function"]["name"].is_string() && call["function"]["arguments"].is_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(event: Value) -> Option<Value> {
        let bytes = event.to_string().into_bytes();
        super::event(&bytes, "t", "r").map(|sent| serde_json::from_slice(&sent).expect("JSON"))
    }

    #[test]
    fn acceptable_events_pass_byte_for_byte() {
        for fine in [
            r#"{ "type":"TEXT_MESSAGE_CONTENT" , "messageId":"m","delta":"\ud83d","x":1.0}"#,
            r#"{"type":"CUSTOM","name":"n","value":{"a":null}}"#,
            r#"{"type":"STATE_SNAPSHOT","snapshot":null}"#,
            r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r",  "outcome":{"type":"success"}}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"m",  "role":"user"}"#,
        ] {
            assert_eq!(event(fine.as_bytes(), "t", "r").as_deref(), Some(fine.as_bytes()));
        }
        let message = r#"{"id":"m","role":"user", "content":"x"}"#;
        assert_eq!(super::message(message).as_deref(), Some(message));
    }

    #[test]
    fn repairable_events_are_repaired() {
        for (from, to) in [
            (
                json!({"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n","parentMessageId":null}),
                json!({"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}),
            ),
            (json!({"type":"RUN_FINISHED"}), json!({"type":"RUN_FINISHED","threadId":"t","runId":"r"})),
            (json!({"type":"RUN_ERROR"}), json!({"type":"RUN_ERROR","message":"The run failed."})),
            (
                json!({"type":"TEXT_MESSAGE_END","messageId":"m","timestamp":"now"}),
                json!({"type":"TEXT_MESSAGE_END","messageId":"m"}),
            ),
            (
                json!({"type":"REASONING_MESSAGE_START","messageId":"m"}),
                json!({"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}),
            ),
            (
                json!({"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[1]}),
                json!({"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":"[1]"}),
            ),
            (
                json!({"type":"RUN_STARTED","input":{"messages":[{"id":"u","role":"user","content":"x"},{"id":"v","role":"x"}]}}),
                json!({"type":"RUN_STARTED","input":{"threadId":"t","runId":"r","messages":[{"id":"u","role":"user","content":"x"}],
                    "tools":[],"context":[],"forwardedProps":{}},"threadId":"t","runId":"r"}),
            ),
        ] {
            assert_eq!(sent(from.clone()), Some(to), "{from}");
        }
    }

    #[test]
    fn irreparable_events_are_left_out() {
        for bad in [
            json!({"type":"SECRET"}),
            json!({"type":7}),
            json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"m"}),
            json!({"type":"STATE_DELTA","delta":{}}),
            json!({"type":"CUSTOM"}),
            json!({"type":"TEXT_MESSAGE_START","messageId":"m","role":null}),
            json!({"type":"TEXT_MESSAGE_START","messageId":"m","role":"king"}),
            json!({"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","subagentRunId":null}),
        ] {
            assert_eq!(sent(bad.clone()), None, "{bad}");
        }
        assert_eq!(event(b"\xff", "t", "r"), None);
    }

    #[test]
    fn a_client_has_what_the_projection_has() {
        use threadline_core::projection::conversation::Conversation;
        let start = json!({"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"});
        for tried in [
            json!({"type":"TEXT_MESSAGE_START","messageId":"n","role":null}),
            json!({"type":"TEXT_MESSAGE_START","messageId":"n","name":null}),
            json!({"type":"TEXT_MESSAGE_START","messageId":"n","timestamp":"now"}),
            json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x","metadata":null}),
            json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x","subagentRunId":null}),
            json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":null}),
            json!({"type":"TEXT_MESSAGE_CHUNK","messageId":"n","delta":"x","name":null}),
            json!({"type":"TEXT_MESSAGE_CHUNK","messageId":"n","delta":null}),
            json!({"type":"TOOL_CALL_CHUNK","toolCallId":"n","toolCallName":"f","delta":"x","parentMessageId":null}),
            json!({"type":"TOOL_CALL_END","toolCallId":"c","subagentRunId":null}),
            json!({"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":null}),
            json!({"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":"x","role":"king"}),
            json!({"type":"REASONING_MESSAGE_START","messageId":"w"}),
            json!({"type":"ACTIVITY_SNAPSHOT","messageId":"p","activityType":"P","content":{},"metadata":null}),
            json!({"type":"STATE_SNAPSHOT","snapshot":null}),
            json!({"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","content":null}]}),
        ] {
            let (mut theirs, mut ours) = (Conversation::default(), Conversation::default());
            for event in [&start, &tried] {
                ours.observe(event.to_string().as_bytes());
                let sent = sent(event.clone()).map(|event| event.to_string()).unwrap_or_default();
                theirs.observe(sent.as_bytes());
            }
            assert_eq!(theirs.messages_json(), ours.messages_json(), "{tried}");
            assert_eq!(theirs.state_json(), ours.state_json(), "{tried}");
        }
    }

    #[test]
    fn messages_are_fixed_or_left_out() {
        let mended = |message: Value| {
            let text = message.to_string();
            super::message(&text).map(|text| serde_json::from_str::<Value>(&text).expect("JSON"))
        };
        for fine in [
            json!({"id":"a","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":""}}]}),
            json!({"id":"a","role":"activity","activityType":"P","content":{"a":1}}),
            json!({"id":"a","role":"user","content":[{"type":"text","text":"x"}]}),
            json!({"id":"a","role":"reasoning","content":""}),
        ] {
            assert_eq!(mended(fine.clone()), Some(fine));
        }
        for (from, to) in [
            (json!({"id":"a","role":"assistant","content":null}), json!({"id":"a","role":"assistant"})),
            (
                json!({"id":"a","role":"tool","toolCallId":"c","content":[{"type":"text"}]}),
                json!({"id":"a","role":"tool","toolCallId":"c","content":"[{\"type\":\"text\"}]"}),
            ),
            (
                json!({"id":"a","role":"user","content":[{"type":"hologram"},{"type":"text","text":"x"}]}),
                json!({"id":"a","role":"user","content":[{"type":"text","text":"x"}]}),
            ),
        ] {
            assert_eq!(mended(from), Some(to));
        }
        for bad in [json!({"role":"user","content":"x"}), json!({"id":"a","role":"king","content":"x"}), json!(7)] {
            assert_eq!(mended(bad), None);
        }
    }
}
