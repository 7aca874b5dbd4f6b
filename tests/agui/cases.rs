//! Messages, state and interrupts equal what the real client builds.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use threadline_core::projection::conversation::Conversation;

use crate::{
    compare::{assert_same, event, fold, messages, state, taken},
    generate::stream,
    node::{self, Client},
    package::assert_as_the_server,
    rng::seed,
};

const STREAMS: u64 = 240;

/// Every kind of event of AG-UI 1.0.
const KINDS: [&str; 31] = [
    "ACTIVITY_DELTA",
    "ACTIVITY_SNAPSHOT",
    "CUSTOM",
    "MESSAGES_SNAPSHOT",
    "RAW",
    "REASONING_ENCRYPTED_VALUE",
    "REASONING_END",
    "REASONING_MESSAGE_CHUNK",
    "REASONING_MESSAGE_CONTENT",
    "REASONING_MESSAGE_END",
    "REASONING_MESSAGE_START",
    "REASONING_START",
    "RUN_ERROR",
    "RUN_FINISHED",
    "RUN_STARTED",
    "STATE_DELTA",
    "STATE_SNAPSHOT",
    "STEP_FINISHED",
    "STEP_STARTED",
    "SUBAGENT_ERROR",
    "SUBAGENT_FINISHED",
    "SUBAGENT_STARTED",
    "TEXT_MESSAGE_CHUNK",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "TEXT_MESSAGE_START",
    "TOOL_CALL_ARGS",
    "TOOL_CALL_CHUNK",
    "TOOL_CALL_END",
    "TOOL_CALL_RESULT",
    "TOOL_CALL_START",
];

/// Leaves out what the client does by accident and ours does not follow:
/// - Where two messages have one id, a MESSAGES_SNAPSHOT that repeats it makes them one JavaScript object: what is done
///   to the first is done to both, until they are next sent anywhere.
/// - In a state that is a text, a number or a boolean a patch may set or remove members, which does nothing.
pub fn without_accidents(conversation: &mut Conversation, events: Vec<String>) -> Vec<String> {
    let mut kept = Vec::with_capacity(events.len());
    for event in events {
        if event.contains("\"MESSAGES_SNAPSHOT\"") {
            let shared = conversation.messages().any(|message| {
                conversation.messages().filter(|other| other.id() == message.id()).count() > 1
                    && event.contains(&format!("\"id\":\"{}\"", message.id()))
            });
            if shared {
                continue;
            }
        }
        let scalar = !conversation.state_json().starts_with(b"{") && !conversation.state_json().starts_with(b"[");
        if event.contains("\"STATE_DELTA\"") && scalar {
            continue;
        }
        conversation.observe(event.as_bytes());
        kept.push(event);
    }
    kept
}

#[test]
fn random_streams_give_what_the_client_builds() {
    let seed = seed();
    let streams: Vec<_> =
        (0..STREAMS).map(|number| without_accidents(&mut Conversation::default(), stream(seed, number))).collect();
    let outcomes = node::fold(Client::New, &streams);
    let (mut kinds, mut whole, mut skipped) = (BTreeMap::<String, usize>::new(), 0, 0);
    let mut errors = BTreeMap::<String, usize>::new();
    for (number, (events, outcome)) in streams.iter().zip(&outcomes).enumerate() {
        assert_same(&format!("stream {number} of seed {seed}"), events, outcome);
        whole += u64::from(outcome.error.is_none());
        if let Some(error) = &outcome.error {
            let words: Vec<_> = error.split('\'').step_by(2).collect();
            *errors.entry(words.join("…")).or_default() += 1;
        }
        let taken = taken(events, outcome);
        skipped += fold(taken).skipped_deltas();
        for event in taken {
            let event: Value =
                serde_json::from_str(&event.replace("\\ud83d", "").replace("\\ude00", "")).expect("JSON");
            *kinds.entry(event["type"].as_str().expect("a type").to_owned()).or_default() += 1;
        }
    }
    println!("{whole} of {STREAMS} whole, {skipped} deltas skipped, {kinds:?}, refused: {errors:#?}");
    // A comparison that compares nothing would never fail.
    assert_eq!(kinds.keys().map(String::as_str).collect::<Vec<_>>(), KINDS);
    assert!(kinds.values().all(|count| *count > 15), "each kind is there often enough");
    assert!(whole > STREAMS / 2 && skipped > STREAMS / 10);
}

#[test]
fn the_recorded_run_gives_what_the_client_builds() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/pydantic-ai/recorded-run.ndjson");
    let text = std::fs::read_to_string(path).expect("a recorded run");
    let events: Vec<String> = text.lines().map(str::to_owned).collect();
    let outcome = node::fold(Client::New, std::slice::from_ref(&events)).remove(0);
    assert_eq!(outcome.error, None);
    assert_same("the recorded run", &events, &outcome);
}

/// A run around the events.
fn run(events: Vec<Value>) -> Vec<String> {
    let mut all = vec![json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})];
    all.extend(events);
    all.iter().map(event).collect()
}

#[test]
fn hand_written_cases_give_what_the_client_builds() {
    let delta = |delta: Value| json!({"type": "STATE_DELTA", "delta": delta});
    let state = |snapshot: Value| json!({"type": "STATE_SNAPSHOT", "snapshot": snapshot});
    let cases = [
        ("no event but the start", vec![]),
        (
            "an add far behind the end",
            vec![state(json!({"l": [1]})), delta(json!([{"op": "add", "path": "/l/3", "value": 1}]))],
        ),
        (
            "a copy behind the end",
            vec![state(json!({"l": [1], "x": 2})), delta(json!([{"op": "copy", "from": "/x", "path": "/l/3"}]))],
        ),
        (
            "a move behind the end",
            vec![state(json!({"l": [1], "x": 2})), delta(json!([{"op": "move", "from": "/x", "path": "/l/3"}]))],
        ),
        (
            "a move into itself",
            vec![state(json!({"a": {"b": 1}})), delta(json!([{"op": "move", "from": "/a", "path": "/a/b/c"}]))],
        ),
        ("a failing move", vec![state(json!({"a": 1})), delta(json!([{"op": "move", "from": "/a", "path": "/b/c"}]))]),
        (
            "a move to the root, then a failure",
            vec![
                state(json!({"a": {"b": 1}})),
                delta(json!([{"op": "move", "from": "/a", "path": ""}, {"op": "remove", "path": "/zz"}])),
            ],
        ),
        (
            "a copy to the root",
            vec![state(json!({"a": {"b": 1}})), delta(json!([{"op": "copy", "from": "/a", "path": ""}]))],
        ),
        ("the root removed", vec![state(json!({"a": 1})), delta(json!([{"op": "remove", "path": ""}]))]),
        (
            "numbers of one value",
            vec![
                state(json!({"a": 1})),
                delta(json!([
            {"op": "test", "path": "/a", "value": 1.0}, {"op": "add", "path": "/b", "value": true}])),
            ],
        ),
        (
            "a failing test",
            vec![
                state(json!({"a": [1]})),
                delta(json!([
            {"op": "add", "path": "/b", "value": true}, {"op": "test", "path": "/a", "value": [1, 2]}])),
            ],
        ),
        ("a prototype", vec![delta(json!([{"op": "add", "path": "/__proto__", "value": 1}]))]),
        (
            "a constructor's prototype",
            vec![
                state(json!({"constructor": {}})),
                delta(json!([
            {"op": "add", "path": "/constructor/prototype", "value": 1}])),
            ],
        ),
        ("state that is a text", vec![state(json!("text")), delta(json!([{"op": "add", "path": "/a", "value": 1}]))]),
        ("state that is null", vec![state(Value::Null), delta(json!([{"op": "add", "path": "/a", "value": 1}]))]),
        ("state that is a list", vec![state(json!([1, 2])), delta(json!([{"op": "remove", "path": "/0"}]))]),
        ("an unknown operation", vec![delta(json!([{"op": "x"}, {"op": "add", "path": "/a", "value": 1}]))]),
        ("a malformed operation", vec![delta(json!([{"op": "add", "path": "a", "value": 1}]))]),
        (
            "text in a message without one",
            vec![
                json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"}),
                json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "c", "rawEvent": {}}),
            ],
        ),
        (
            "text in a message of parts",
            vec![
                json!({"type": "MESSAGES_SNAPSHOT", "messages": [
                {"id": "u", "role": "user", "content": [{"type": "text", "text": "x"}]}]}),
                json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "u", "delta": "y", "role": "user"}),
            ],
        ),
        (
            "a call with an empty parent",
            vec![json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": ""})],
        ),
        (
            "a call named like a message of another role",
            vec![
                json!({"type": "TEXT_MESSAGE_START", "messageId": "c", "role": "user"}),
                json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "c", "subagentRunId": "s"}),
                json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "c", "delta": "x"}),
            ],
        ),
        (
            "a call whose parent is of another role",
            vec![
                json!({"type": "TEXT_MESSAGE_START", "messageId": "u", "role": "user", "subagentRunId": "s"}),
                json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "u", "subagentRunId": "s"}),
            ],
        ),
        (
            "results of two calls, the later call's first",
            vec![
                json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m"}),
                json!({"type": "TOOL_CALL_START", "toolCallId": "d", "toolCallName": "f", "parentMessageId": "m"}),
                json!({"type": "TOOL_CALL_START", "toolCallId": "e", "toolCallName": "f"}),
                json!({"type": "TOOL_CALL_RESULT", "messageId": "3", "toolCallId": "e", "content": ""}),
                json!({"type": "TOOL_CALL_RESULT", "messageId": "2", "toolCallId": "d", "content": ""}),
                json!({"type": "TOOL_CALL_RESULT", "messageId": "1", "toolCallId": "c", "content": ""}),
                json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "2", "activityType": "a", "content": {}}),
                json!({"type": "TOOL_CALL_RESULT", "messageId": "4", "toolCallId": "d", "content": ""}),
            ],
        ),
        (
            "an activity in the place of a call",
            vec![
                json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m"}),
                json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "m", "activityType": "a", "content": {}}),
                json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "x"}),
                json!({"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c", "content": ""}),
            ],
        ),
        (
            "reasoning in a text and text in a reasoning",
            vec![
                json!({"type": "TEXT_MESSAGE_START", "messageId": "m"}),
                json!({"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "reasoning"}),
                json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "m", "delta": "x"}),
                json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "y"}),
            ],
        ),
        (
            "a snapshot with an id twice",
            vec![
                json!({"type": "MESSAGES_SNAPSHOT", "messages": [
                {"id": "u", "role": "user", "content": "1"}, {"id": "u", "role": "user", "content": "2"}]}),
                json!({"type": "MESSAGES_SNAPSHOT", "messages": [
                {"id": "u", "role": "user", "content": "3"}, {"id": "u", "role": "user", "content": "4"}]}),
            ],
        ),
    ];
    let streams: Vec<_> = cases.iter().map(|(_, events)| run(events.clone())).collect();
    for ((what, _), (events, outcome)) in cases.iter().zip(streams.iter().zip(node::fold(Client::New, &streams))) {
        assert_same(what, events, &outcome);
    }
    assert_as_the_server("hand-written cases", &streams);
}

/// A chunk without id and owner goes to the parent's stream, or to the only one that is open: which one tells whether
/// the event before it ended the parent's.
#[test]
fn each_kind_of_event_ends_the_streams_that_the_client_ends() {
    let before = [
        json!({"type": "TEXT_MESSAGE_START", "messageId": "t"}),
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"}),
        json!({"type": "STEP_STARTED", "stepName": "s"}),
        json!({"type": "REASONING_START", "messageId": "r"}),
        json!({"type": "REASONING_MESSAGE_START", "messageId": "r", "role": "reasoning"}),
        json!({"type": "THINKING_START"}),
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "n"}),
        json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "v", "activityType": "x", "content": {}}),
        json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "subagentRunId": "a", "delta": "1"}),
        json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m2", "delta": "2"}),
    ];
    let kinds = [
        json!({"type": "TEXT_MESSAGE_START", "messageId": "t2"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "t", "delta": "x"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "t"}),
        json!({"type": "TOOL_CALL_START", "toolCallId": "c2", "toolCallName": "f"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "x"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
        json!({"type": "TOOL_CALL_RESULT", "messageId": "o", "toolCallId": "c", "content": "x"}),
        json!({"type": "STATE_SNAPSHOT", "snapshot": {}}),
        json!({"type": "STATE_DELTA", "delta": []}),
        json!({"type": "CUSTOM", "name": "n", "value": 1}),
        json!({"type": "STEP_STARTED", "stepName": "s2"}),
        json!({"type": "STEP_FINISHED", "stepName": "s"}),
        json!({"type": "REASONING_START", "messageId": "r2"}),
        json!({"type": "REASONING_MESSAGE_START", "messageId": "r2", "role": "reasoning"}),
        json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "r", "delta": "x"}),
        json!({"type": "REASONING_MESSAGE_END", "messageId": "r"}),
        json!({"type": "REASONING_END", "messageId": "r"}),
        json!({"type": "THINKING_START"}),
        json!({"type": "THINKING_END"}),
        json!({"type": "RAW", "event": 1}),
        json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "v2", "activityType": "x", "content": {}}),
        json!({"type": "ACTIVITY_DELTA", "messageId": "v", "activityType": "x", "patch": []}),
        json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "t", "encryptedValue": "x"}),
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "b", "name": "n"}),
        json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "a"}),
        json!({"type": "SUBAGENT_ERROR", "subagentRunId": "a", "message": "no"}),
        json!({"type": "MESSAGES_SNAPSHOT", "messages": []}),
        json!({"type": "REASONING_MESSAGE_CHUNK", "messageId": "z", "delta": "x"}),
        json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "z", "toolCallName": "f", "delta": "x"}),
        json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "z", "delta": "x"}),
    ];
    let mut streams = Vec::new();
    for kind in &kinds {
        for owner in [None, Some("a"), Some("other")] {
            let mut kind = kind.clone();
            if let Some(owner) = owner.filter(|_| kind.get("subagentRunId").is_none()) {
                kind["subagentRunId"] = json!(owner);
            }
            let mut events = before.to_vec();
            events.extend([kind, json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "3"})]);
            streams.push(run(events));
        }
    }
    let outcomes = node::fold(Client::New, &streams);
    for (events, outcome) in streams.iter().zip(&outcomes) {
        assert_same("lanes", events, outcome);
    }
    assert!(outcomes.iter().filter(|outcome| outcome.error.is_none()).count() > streams.len() / 2);
    assert_as_the_server("lanes", &streams);
}

/// The client makes up random ids for THINKING_*; ours are counted.
#[test]
fn thinking_of_older_protocols_becomes_reasoning() {
    let think = |what: &str| json!({"type": format!("THINKING_{what}"), "delta": "x", "title": "t"});
    let thought =
        ["START", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "END"];
    let events = run(thought.iter().chain(&thought).map(|what| think(what)).collect());
    let outcome = node::fold(Client::New, std::slice::from_ref(&events)).remove(0);
    assert_eq!(outcome.error, None);
    let said = |messages: &Value| -> Vec<_> {
        let messages = messages.as_array().expect("a list").iter();
        messages.map(|message| (message["role"].clone(), message["content"].clone())).collect()
    };
    let ours = fold(&events);
    assert_eq!(said(&messages(&ours)), said(&outcome.messages));
    assert_eq!(said(&outcome.messages), vec![(json!("reasoning"), json!("xx")); 2]);
    assert!(ours.contains("thinking-1") && ours.contains("thinking-2"));
    assert_as_the_server("thinking", std::slice::from_ref(&events));
    // Without a start the client refuses it.
    let events = run(vec![think("TEXT_MESSAGE_CONTENT")]);
    assert!(node::fold(Client::New, std::slice::from_ref(&events))[0].error.is_some());
    assert_eq!(fold(&events).messages().len(), 0);
}

#[test]
fn a_new_conversation_is_empty() {
    let conversation = Conversation::default();
    assert_eq!((messages(&conversation), state(&conversation)), (json!([]), json!({})));
}
