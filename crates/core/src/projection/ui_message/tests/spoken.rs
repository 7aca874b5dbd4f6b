//! Messages of the user that are streamed.

use serde_json::{Value, json};

use super::super::Spoken;

fn spoken(events: &[Value]) -> Vec<Value> {
    let mut spoken = Spoken::default();
    events.iter().flat_map(|event| spoken.observe(&event.to_string())).collect()
}

fn of(role: &str, id: &str, text: &str) -> Value {
    json!({ "id": id, "role": role, "parts": [{ "type": "text", "text": text }] })
}

#[test]
fn streamed_words_of_users_and_the_system_are_messages_in_the_order_of_their_ends() {
    let start = |id: &str, role: &str| json!({"type":"TEXT_MESSAGE_START","messageId":id,"role":role});
    let content = |id: &str, delta: &str| json!({"type":"TEXT_MESSAGE_CONTENT","messageId":id,"delta":delta});
    let end = |id: &str| json!({"type":"TEXT_MESSAGE_END","messageId":id});
    let seen = spoken(&[
        json!({"type":"RUN_STARTED"}),
        start("u", "user"),
        start("s", "system"),
        start("a", "assistant"),
        content("a", "no"),
        content("s", "Be kind."),
        content("u", "How "),
        start("u", "user"),
        content("u", "are you?"),
        end("s"),
        end("u"),
        content("u", " late"),
        end("a"),
        start("open", "user"),
        content("open", "unfinished"),
        json!({"type":"TEXT_MESSAGE_START","messageId":"sub","role":"user","subagentRunId":"x"}),
        json!({"type":"RUN_ERROR","message":"no"}),
    ]);
    assert_eq!(
        seen,
        [of("system", "s", "Be kind."), of("user", "u", "How are you?"), of("user", "open", "unfinished")]
    );
}

#[test]
fn chunks_continue_a_message_until_another_part_begins() {
    let chunk = |rest: Value| {
        let mut event = json!({"type":"TEXT_MESSAGE_CHUNK"});
        event.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
        event
    };
    let seen = spoken(&[
        chunk(json!({"messageId":"u","role":"user","delta":"How "})),
        chunk(json!({"delta":"are "})),
        chunk(json!({"messageId":"u","delta":"you?"})),
        chunk(json!({"messageId":"a","role":"assistant","delta":"Well."})),
        chunk(json!({"delta":"Thanks."})),
        chunk(json!({"messageId":"v","role":"user","delta":"Good"})),
        json!({"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"t"}),
        chunk(json!({"delta":"nobody's"})),
        json!({"type":"RUN_FINISHED"}),
    ]);
    assert_eq!(seen, [of("user", "u", "How are you?"), of("user", "v", "Good")]);
}

#[test]
fn texts_beyond_the_bound_are_left_out() {
    let long = "x".repeat(crate::limits::MAX_CHAT_BYTES / 2 + 1);
    let seen = spoken(&[
        json!({"type":"TEXT_MESSAGE_START","messageId":"u","role":"user"}),
        json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"u","delta":long}),
        json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"u","delta":long}),
        json!({"type":"TEXT_MESSAGE_END","messageId":"u"}),
    ]);
    assert_eq!(seen, [of("user", "u", &long)]);
}
