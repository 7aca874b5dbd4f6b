use serde_json::json;

use super::*;

fn fold(events: &[&str]) -> Conversation {
    let mut conversation = Conversation::default();
    for event in events {
        conversation.observe(event.as_bytes());
    }
    conversation
}

fn messages(conversation: &Conversation) -> Value {
    serde_json::from_slice(&conversation.messages_json()).expect("JSON")
}

fn state(conversation: &Conversation) -> Value {
    serde_json::from_slice(&conversation.state_json()).expect("JSON")
}

#[test]
fn a_turn_with_a_tool() {
    let conversation = fold(&[
        r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"messages":[{"id":"u","role":"user","content":"hi"}]}}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hel"}"#,
        r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}"#,
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"a\""}"#,
        r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"lo","metadata":{"k":1}}"#,
        r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":":1}"}"#,
        r#"{"type":"TEXT_MESSAGE_START","messageId":"n","name":"N","subagentRunId":"s"}"#,
        r#"{"type":"TOOL_CALL_RESULT","messageId":"tr","toolCallId":"c","content":"done"}"#,
        r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1}]}"#,
        r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/b","value":1},{"op":"remove","path":"/x"}]}"#,
    ]);
    assert_eq!(
        messages(&conversation),
        json!([
            {"id":"u","role":"user","content":"hi"},
            {"id":"m","role":"assistant","content":"Hello","metadata":{"k":1},"toolCalls":[
                {"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
            {"id":"tr","role":"tool","content":"done","toolCallId":"c"},
            {"id":"n","role":"assistant","content":"","name":"N","subagentRunId":"s"},
        ])
    );
    assert_eq!(state(&conversation), json!({"a":1}));
    assert_eq!(conversation.skipped_deltas(), 1);
    assert!(conversation.contains("tr") && !conversation.contains("x"));
    assert!(conversation.pending_tool_calls().is_empty());
}
