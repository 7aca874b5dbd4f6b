//! Tests of the parts of a lost attempt that stay.

use serde_json::{Value, json};

use super::super::{Conversation, UnverifiedCall};
use crate::projection::closing::OpenParts;

fn fold(events: &[Value]) -> Conversation {
    let mut conversation = Conversation::default();
    events.iter().for_each(|event| conversation.observe(event.to_string().as_bytes()));
    conversation
}

fn opening() -> Vec<Value> {
    let calls = json!([{ "id": "c0", "type": "function", "function": { "name": "map", "arguments": "{}" } }]);
    let messages = json!([
        { "id": "u", "role": "user", "content": "hi" },
        { "id": "a0", "role": "assistant", "content": "earlier", "toolCalls": calls },
    ]);
    vec![json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": { "messages": messages } })]
}

fn call(id: &str, parent: &str, arguments: &str) -> [Value; 2] {
    [
        json!({ "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "f", "parentMessageId": parent }),
        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments }),
    ]
}

fn result(call: &str) -> Value {
    json!({ "type": "TOOL_CALL_RESULT", "messageId": format!("{call}-result"), "toolCallId": call, "content": "1" })
}

fn text(id: &str, content: &str) -> [Value; 2] {
    [
        json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": content }),
    ]
}

fn end(id: &str) -> Value {
    json!({ "type": "TEXT_MESSAGE_END", "messageId": id })
}

/// Messages after the first two, ids and calls in doubt that an attempt leaves which has said this.
fn stays(said: &[Value]) -> (Value, Vec<String>, Vec<(String, String)>) {
    let (before, all) = (fold(&opening()), [opening(), said.to_vec()].concat());
    let mut open = OpenParts::default();
    all.iter().for_each(|event| open.observe(event.to_string().as_bytes()));
    let kept = fold(&all).keep(&before, &open, &[]);
    let mut messages: Value = serde_json::from_slice(&kept.conversation.messages_json()).expect("JSON");
    let list = messages.as_array_mut().expect("a list");
    let first: Vec<Value> = list.drain(..2).collect();
    let mut opened: Value = serde_json::from_slice(&before.messages_json()).expect("JSON");
    if !said.iter().any(|event| event["parentMessageId"] == "a0") {
        assert_eq!(json!(first), opened.take());
    }
    let unverified = kept.unverified.into_iter().map(|call| (call.tool_call_id, call.arguments)).collect();
    (messages, kept.ids, unverified)
}

#[test]
fn a_complete_message_stays_and_an_open_one_goes() {
    let (messages, ids, unverified) = stays(&[&text("a", "whole")[..], &[end("a")], &text("b", "half")].concat());
    assert_eq!(messages, json!([{ "id": "a", "role": "assistant", "content": "whole" }]));
    assert_eq!((ids, unverified), (vec!["a".to_owned()], vec![]));
    for half in [
        json!({ "type": "TEXT_MESSAGE_CHUNK", "messageId": "b", "delta": "half" }),
        json!({ "type": "REASONING_MESSAGE_CHUNK", "messageId": "b", "delta": "half" }),
        json!({ "type": "REASONING_MESSAGE_START", "messageId": "b", "role": "reasoning" }),
        json!({ "type": "THINKING_TEXT_MESSAGE_START" }),
    ] {
        assert_eq!(stays(&[half]), (json!([]), vec![], vec![]));
    }
    // A chunk is complete once another event follows.
    let chunk = json!({ "type": "TEXT_MESSAGE_CHUNK", "messageId": "b", "delta": "whole" });
    assert_eq!(stays(&[chunk, json!({ "type": "CUSTOM", "name": "n" })]).1, ["b"]);
}

#[test]
fn a_call_stays_with_its_result_and_goes_without_one() {
    let (done, lost) = (call("c", "m", "{\"a\":1}"), call("d", "m", "{\"b\":"));
    let (messages, ids, unverified) = stays(&[&done[..], &lost, &[result("c")]].concat());
    assert_eq!(messages[0]["toolCalls"].as_array().map(Vec::len), Some(1));
    assert_eq!((&messages[0]["toolCalls"][0]["id"], &messages[1]["toolCallId"]), (&json!("c"), &json!("c")));
    assert_eq!(ids, ["m", "c-result"]);
    assert_eq!(unverified, [("d".to_owned(), "{\"b\":".to_owned())]);
    // A message that stood for the call alone goes with it, and one that says something stays.
    assert_eq!(stays(&lost).0, json!([]));
    let (messages, ids, _) = stays(&[&text("m", "I pay")[..], &[end("m")], &lost].concat());
    assert_eq!((messages, ids.len()), (json!([{ "id": "m", "role": "assistant", "content": "I pay" }]), 1));
    // A call with a result stays in a message whose text is open.
    let (messages, ..) = stays(&[&text("m", "I pa")[..], &done, &[result("c")]].concat());
    assert_eq!((&messages[0]["content"], &messages[0]["toolCalls"][0]["id"]), (&Value::Null, &json!("c")));
}

#[test]
fn messages_of_before_are_as_before() {
    let more = [&text("a0", " and half")[..], &call("c", "a0", "{}"), &call("d", "a0", "{}"), &[result("d")]].concat();
    let all = [opening(), more.clone()].concat();
    let mut open = OpenParts::default();
    all.iter().for_each(|event| open.observe(event.to_string().as_bytes()));
    let kept = fold(&all).keep(&fold(&opening()), &open, &[]).conversation;
    let message = serde_json::to_value(kept.message("a0").expect("stays")).expect("JSON");
    let ids: Vec<_> = message["toolCalls"].as_array().expect("calls").iter().map(|call| &call["id"]).collect();
    assert_eq!((&message["content"], ids), (&json!("earlier"), vec![&json!("c0"), &json!("d")]));
    // A call that is begun again, without a result.
    let again = fold(&[opening(), call("c0", "a0", "{}").to_vec()].concat());
    let begun = [UnverifiedCall { tool_call_id: "c0".into(), name: "f".into(), arguments: String::new() }];
    let kept = again.keep(&fold(&opening()), &OpenParts::default(), &begun);
    assert_eq!(kept.conversation.messages_json(), fold(&opening()).messages_json());
    assert_eq!(kept.unverified[0].arguments, "{}{}");
}

#[test]
fn a_call_that_a_snapshot_has_removed_is_in_doubt() {
    let begun = [UnverifiedCall { tool_call_id: "c".into(), name: "f".into(), arguments: String::new() }];
    let snapshot = json!({ "type": "MESSAGES_SNAPSHOT", "messages": [] });
    let now = fold(&[opening(), call("c", "m", "{}").to_vec(), vec![snapshot]].concat());
    let kept = now.keep(&fold(&opening()), &OpenParts::default(), &begun);
    assert_eq!((kept.unverified, kept.conversation.messages_json()), (begun.to_vec(), b"[]".to_vec()));
}
