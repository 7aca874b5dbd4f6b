//! The event with which a message enters a conversation.

use memchr::memmem;
use serde_json::Value;

use crate::json;

/// True if an event brings a message of this id: it begins the message, or has it in a list.
/// Event names: <https://docs.ag-ui.com/concepts/events>.
pub fn brings(event: &[u8], message: &str) -> bool {
    // JSON may write such an id in several ways.
    let is_plain = message.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'/'));
    if is_plain && memmem::find(event, message.as_bytes()).is_none() {
        return false;
    }
    let Ok(text) = std::str::from_utf8(event) else { return false };
    let Some(kind) = json::string_member(text, "type") else { return false };
    let is_named = |member: &str| json::string_member(text, member).is_some_and(|id| id == message);
    match &*kind {
        "TEXT_MESSAGE_START"
        | "TEXT_MESSAGE_CHUNK"
        | "TOOL_CALL_RESULT"
        | "ACTIVITY_SNAPSHOT"
        | "REASONING_MESSAGE_START"
        | "REASONING_MESSAGE_CHUNK" => is_named("messageId"),
        "TOOL_CALL_START" | "TOOL_CALL_CHUNK" => match json::string_member(text, "parentMessageId") {
            Some(parent) => parent == message,
            // A call without a message makes one of its own id.
            None => is_named("toolCallId"),
        },
        "MESSAGES_SNAPSHOT" => lists(text, message),
        "RUN_STARTED" => json::member(text, "input").is_some_and(|input| lists(input, message)),
        _ => false,
    }
}

/// True if `messages` of a JSON object has a message of this id.
fn lists(object: &str, message: &str) -> bool {
    let messages = json::member(object, "messages").and_then(|list| serde_json::from_str::<Vec<Value>>(list).ok());
    messages.is_some_and(|list| list.iter().any(|entry| entry["id"].as_str() == Some(message)))
}

#[cfg(test)]
mod tests {
    use super::brings;

    #[test]
    fn a_message_comes_with_the_event_that_begins_or_lists_it() {
        for (event, message, expected) in [
            (r#"{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}"#, "m1", true),
            (r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"a"}"#, "m1", false),
            (r#"{"type":"TEXT_MESSAGE_START","messageId":"m10"}"#, "m1", false),
            (r#"{"type":"TOOL_CALL_START","toolCallId":"t","toolCallName":"n","parentMessageId":"m1"}"#, "m1", true),
            (r#"{"type":"TOOL_CALL_START","toolCallId":"m1","toolCallName":"n"}"#, "m1", true),
            (r#"{"type":"TOOL_CALL_START","toolCallId":"m1","toolCallName":"n","parentMessageId":"p"}"#, "m1", false),
            (r#"{"type":"RUN_STARTED","input":{"messages":[{"id":"m1","role":"user"}]}}"#, "m1", true),
            (r#"{"type":"RUN_STARTED","input":{"messages":[]},"runId":"m1"}"#, "m1", false),
            (r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a"},{"id":"m1"}]}"#, "m1", true),
            (r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"a\u002fb"}"#, "a/b", true),
            (r#"{"type":"CUSTOM","name":"m1"}"#, "m1", false),
            ("m1", "m1", false),
        ] {
            assert_eq!(brings(event.as_bytes(), message), expected, "{event}");
        }
    }
}
