//! The grammar of the derived events: cut anywhere, they are the same, and blocks never mix.

use serde_json::{Value, json};

use super::*;
use crate::{Epoch, Timestamp, projection::conversation::Conversation};

/// Derived events, each as its number, its method and its data. A checkpoint is one event, with its parent.
fn told(events: &[Value], channels: Channels, after: u64) -> Vec<(u64, String, Value)> {
    let mut stream = ThreadStream::new(channels, after);
    let (mut derived, mut run) = (Vec::new(), String::new());
    for (seq, event) in (after + 1..).zip(events) {
        if event["type"] == "RUN_STARTED" {
            run = event["runId"].as_str().unwrap_or_default().to_owned();
        }
        stream.observe(&run, seq, event.to_string().as_bytes(), &mut derived);
    }
    derived.into_iter().map(plain).collect()
}

fn plain(derived: Derived) -> (u64, String, Value) {
    match derived {
        Derived::Event { number, method, data } => {
            (number, format!("{method:?}"), serde_json::from_str(&data).expect("JSON"))
        }
        Derived::Point(Point { number, seq, parent, stays }) => {
            (number, "Point".to_owned(), json!({ "seq": seq, "parent": parent, "stays": stays }))
        }
    }
}

fn started(run: &str, messages: Value) -> Value {
    json!({ "type": "RUN_STARTED", "threadId": "t", "runId": run, "input": { "messages": messages } })
}

fn of(kind: &str, members: Value) -> Value {
    let mut event = members;
    event["type"] = kind.into();
    event
}

fn text(id: &str, pieces: &[&str]) -> Vec<Value> {
    let mut events = vec![of("TEXT_MESSAGE_START", json!({ "messageId": id, "role": "assistant" }))];
    events.extend(pieces.iter().map(|piece| of("TEXT_MESSAGE_CONTENT", json!({ "messageId": id, "delta": piece }))));
    events.push(of("TEXT_MESSAGE_END", json!({ "messageId": id })));
    events
}

fn finished(run: &str) -> Value {
    json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": run })
}

/// Names of the events: the event's own, or its method.
fn names(told: &[(u64, String, Value)]) -> Vec<String> {
    told.iter().map(|(_, method, data)| data["event"].as_str().map_or_else(|| method.clone(), str::to_owned)).collect()
}

fn tool_run() -> Vec<Value> {
    let mut events = vec![started("r", json!([{ "id": "u", "role": "user", "content": "add" }]))];
    events.extend(text("a", &["let ", "me"]));
    events.extend([
        of("TOOL_CALL_START", json!({ "toolCallId": "c", "toolCallName": "add", "parentMessageId": "a" })),
        of("TOOL_CALL_ARGS", json!({ "toolCallId": "c", "delta": "{\"a\":1," })),
        of("TOOL_CALL_ARGS", json!({ "toolCallId": "c", "delta": "\"b\":2}" })),
        of("TOOL_CALL_END", json!({ "toolCallId": "c" })),
        of("TOOL_CALL_RESULT", json!({ "messageId": "m", "toolCallId": "c", "content": "3" })),
    ]);
    events.extend(text("b", &["3"]));
    events.push(finished("r"));
    events
}

#[test]
fn a_run_with_a_tool_has_the_grammar_of_the_reference_server() {
    let told = told(&tool_run(), Channels::all(), 0);
    let expected = [
        "running",
        "Point",
        "message-start",
        "content-block-start",
        "content-block-delta",
        "content-block-delta",
        "content-block-finish",
        "content-block-start",
        "content-block-delta",
        "content-block-delta",
        "content-block-finish",
        "tool-started",
        "message-finish",
        "Point",
        "tool-finished",
        "Point",
        "message-start",
        "content-block-start",
        "content-block-delta",
        "content-block-finish",
        "message-finish",
        "Point",
        "Point",
        "completed",
    ];
    assert_eq!(names(&told), expected);
    let finishes: Vec<&Value> =
        told.iter().map(|(.., data)| data).filter(|data| data["event"] == "content-block-finish").collect();
    assert_eq!(finishes[0]["content"], json!({ "type": "text", "text": "let me" }));
    assert_eq!(
        finishes[1]["content"],
        json!({ "type": "tool_call", "id": "c", "name": "add", "args": { "a": 1, "b": 2 } })
    );
    assert_eq!(
        (&finishes[0]["index"], &finishes[1]["index"], &finishes[2]["index"]),
        (&json!(0), &json!(1), &json!(0))
    );
    let last: Vec<_> = told.iter().rev().take(2).map(|(_, method, data)| (method.as_str(), data)).collect();
    assert_eq!(last[0].0, "Lifecycle");
    assert_eq!((last[1].0, &last[1].1["stays"]), ("Point", &json!(true)), "the last values come before the end");
}

#[test]
fn numbers_grow_and_depend_neither_on_the_channels_nor_on_the_place_of_the_begin() {
    let mut events = tool_run();
    let first = events.len() as u64;
    events.extend([started("s", json!([])), finished("s")]);
    let all = told(&events, Channels::all(), 0);
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0));
    for channel in ["messages", "lifecycle", "input", "tools"] {
        let some = told(&events, Channels::of(&[channel.to_owned()]).expect("a channel"), 0);
        assert!(!some.is_empty() || channel == "input");
        assert!(some.iter().all(|event| all.contains(event)), "{channel}");
    }
    let tail = told(&events[first as usize..], Channels::all(), first);
    assert_eq!(tail, all[all.len() - tail.len()..]);
    assert_eq!(names(&tail), ["running", "Point", "Point", "completed"]);
    assert_eq!(seq_of_number(tail[0].0), first + 1);
    assert!(number_after(first) < tail[0].0 && number_after(first) >= all[all.len() - tail.len() - 1].0);
}

#[test]
fn blocks_of_a_message_do_not_mix() {
    let call =
        |id: &str| of("TOOL_CALL_START", json!({ "toolCallId": id, "toolCallName": "f", "parentMessageId": "a" }));
    let args = |id: &str, delta: &str| of("TOOL_CALL_ARGS", json!({ "toolCallId": id, "delta": delta }));
    let end = |id: &str| of("TOOL_CALL_END", json!({ "toolCallId": id }));
    let said = |piece: &str| of("TEXT_MESSAGE_CONTENT", json!({ "messageId": "a", "delta": piece }));
    let events = [
        started("r", json!([])),
        of("TEXT_MESSAGE_START", json!({ "messageId": "a" })),
        said("one"),
        call("c"),
        call("d"),
        args("d", "{\"x\""),
        said("two"),
        args("c", "{}"),
        args("d", ":1}"),
        end("d"),
        end("c"),
        finished("r"),
    ];
    let told = told(&events, Channels::of(&["messages".to_owned()]).expect("a channel"), 0);
    let mut open = None;
    let mut contents = Vec::new();
    for (.., data) in &told {
        match data["event"].as_str() {
            Some("content-block-start") => assert_eq!(open.replace(data["index"].clone()), None),
            Some("content-block-delta") => assert_eq!(open.as_ref(), Some(&data["index"])),
            Some("content-block-finish") => {
                assert_eq!(open.take().as_ref(), Some(&data["index"]));
                contents.push(data["content"].clone());
            }
            _ => {}
        }
    }
    let calls = |id: &str, args: Value| json!({ "type": "tool_call", "id": id, "name": "f", "args": args });
    let texts = |text: &str| json!({ "type": "text", "text": text });
    assert_eq!(contents, [texts("one"), calls("c", json!({})), calls("d", json!({ "x": 1 })), texts("two")]);
}

#[test]
fn a_long_text_goes_on_in_another_block_and_long_arguments_are_left_to_the_values() {
    let long = "x".repeat(crate::limits::MAX_BLOCK_BYTES - 10);
    let mut events = vec![started("r", json!([]))];
    events.extend(text("a", &[&long, &long]));
    events.push(of("TOOL_CALL_START", json!({ "toolCallId": "c", "toolCallName": "f" })));
    events.push(of("TOOL_CALL_ARGS", json!({ "toolCallId": "c", "delta": &long })));
    events.push(of("TOOL_CALL_ARGS", json!({ "toolCallId": "c", "delta": &long })));
    events.push(of("TOOL_CALL_END", json!({ "toolCallId": "c" })));
    let told = told(&events, Channels::of(&["messages".to_owned()]).expect("a channel"), 0);
    let kinds: Vec<_> = told
        .iter()
        .filter(|(.., data)| data["event"] == "content-block-finish")
        .map(|(.., data)| (data["index"].clone(), data["content"]["type"].clone()))
        .collect();
    assert_eq!(kinds, [(json!(0), json!("text")), (json!(1), json!("text")), (json!(0), json!("invalid_tool_call"))]);
}

#[test]
fn interrupts_are_requested_and_answered() {
    let interrupt = json!({ "id": "i", "reason": "confirm", "message": "ok?" });
    let mut asked = finished("r");
    asked["outcome"] = json!({ "type": "interrupt", "interrupts": [interrupt] });
    let mut resumed = started("s", json!([]));
    resumed["input"]["resume"] = json!([{ "interruptId": "i", "status": "resolved", "payload": true }]);
    let failed = of("RUN_ERROR", json!({ "message": "boom" }));
    let told = told(&[started("r", json!([])), asked, resumed, failed], Channels::all(), 0);
    assert_eq!(
        names(&told),
        [
            "running",
            "Point",
            "Point",
            "InputRequested",
            "interrupted",
            "running",
            "InputAnswered",
            "Point",
            "Point",
            "failed"
        ]
    );
    assert_eq!(told[3].2, json!({ "interrupt_id": "i", "payload": interrupt }));
    assert_eq!(told[6].2, json!({ "interrupt_ids": ["i"] }));
    assert_eq!(told[9].2["error"], "boom");
}

#[test]
fn a_run_of_any_first_event_begins_and_events_of_the_server_and_of_subagents_are_left_out() {
    let events = [
        of("CUSTOM", json!({ "name": "threadline.driver", "value": 1 })),
        of("CUSTOM", json!({ "name": "mine", "value": { "a": 1 } })),
        of("TEXT_MESSAGE_START", json!({ "messageId": "x", "subagentRunId": "s" })),
        of("TEXT_MESSAGE_CHUNK", json!({ "messageId": "y", "delta": "hi" })),
        of("TEXT_MESSAGE_CHUNK", json!({ "delta": " you" })),
        finished("r"),
    ];
    let mut stream = ThreadStream::new(Channels::all(), 0);
    let mut derived = Vec::new();
    for (seq, event) in (1..).zip(&events) {
        stream.observe("r", seq, event.to_string().as_bytes(), &mut derived);
    }
    let told: Vec<_> = derived.into_iter().map(plain).collect();
    let expected = [
        "running",
        "Point",
        "Custom",
        "message-start",
        "content-block-start",
        "content-block-delta",
        "content-block-delta",
        "content-block-finish",
        "message-finish",
        "Point",
        "Point",
        "completed",
    ];
    assert_eq!(names(&told), expected);
    assert_eq!(told[2].2, json!({ "name": "mine", "payload": { "a": 1 } }));
}

#[test]
fn values_have_the_messages_as_langchain_has_them() {
    let mut conversation = Conversation::default();
    let mut events = tool_run();
    events[0]["input"]["messages"] = json!([{ "id": "u", "role": "user", "content": [
        { "type": "text", "text": "add" },
        { "type": "image", "source": { "type": "data", "value": "AA==", "mimeType": "image/png" } },
    ] }]);
    events.insert(1, of("STATE_SNAPSHOT", json!({ "snapshot": { "n": 1, "messages": "mine" } })));
    events.iter().for_each(|event| conversation.observe(event.to_string().as_bytes()));
    let values: Value = serde_json::from_str(&values_of(&conversation)).expect("JSON");
    assert_eq!(values["n"], 1);
    let messages = values["messages"].as_array().expect("a list");
    assert_eq!(
        messages[0],
        json!({ "type": "human", "id": "u", "content": [
            { "type": "text", "text": "add" }, { "type": "image", "base64": "AA==", "mime_type": "image/png" },
        ] })
    );
    assert_eq!(
        messages[1],
        json!({ "type": "ai", "id": "a", "content": "let me", "invalid_tool_calls": [],
            "tool_calls": [{ "type": "tool_call", "id": "c", "name": "add", "args": { "a": 1, "b": 2 } }] })
    );
    assert_eq!(
        messages[2],
        json!({ "type": "tool", "id": "m", "tool_call_id": "c", "content": "3", "status": "success" })
    );
    assert_eq!((messages.len(), &messages[3]["content"]), (4, &json!("3")));
}

#[test]
fn messages_of_clients_are_read_in_all_of_their_forms() {
    let read = |messages: Value| said(&messages);
    assert_eq!(read(json!("hi")).expect("reads"), [json!({ "role": "user", "content": "hi" })]);
    assert_eq!(read(Value::Null).expect("reads"), Vec::<Value>::new());
    let list = json!([
        { "type": "human", "id": "1", "content": [{ "type": "text", "text": "hi" }] },
        { "role": "user", "content": [{ "type": "text", "text": "see" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } },
            { "type": "image", "mimeType": "image/png", "data": "AA==", "metadata": { "name": "x.png" } },
            { "type": "file", "mime_type": "application/pdf", "url": "https://example.org/x.pdf" }] },
        { "type": "ai", "content": "", "tool_calls": [{ "id": "c", "name": "f", "args": { "a": 1 } }] },
        { "type": "tool", "tool_call_id": "c", "content": { "sum": 3 }, "status": "error" },
        { "type": "system", "content": "be kind" },
    ]);
    let png = json!({ "type": "data", "value": "AA==", "mimeType": "image/png" });
    let expected = json!([
        { "role": "user", "id": "1", "content": "hi" },
        { "role": "user", "content": [{ "type": "text", "text": "see" }, { "type": "image", "source": png },
            { "type": "image", "source": png, "metadata": { "name": "x.png" } },
            { "type": "document", "source": { "type": "url", "value": "https://example.org/x.pdf", "mimeType": "application/pdf" } }] },
        { "role": "assistant", "content": "", "toolCalls": [{ "id": "c", "type": "function",
            "function": { "name": "f", "arguments": "{\"a\":1}" } }] },
        { "role": "tool", "toolCallId": "c", "content": "{\"sum\":3}", "error": "{\"sum\":3}" },
        { "role": "system", "content": "be kind" },
    ]);
    assert_eq!(Value::from(read(list).expect("reads")), expected);
    for (bad, named) in [
        (json!(1), "neither a message"),
        (json!([1]), "neither a message"),
        (json!([{ "type": "remove", "id": "1" }]), "\"remove\""),
        (json!([{ "type": "human", "content": [] }]), "no content"),
        (json!([{ "type": "human", "content": [{ "type": "video_x" }] }]), "no content"),
        (json!([{ "type": "tool", "content": "x" }]), "tool_call_id"),
    ] {
        let refused = read(bad.clone()).expect_err("refused").to_string();
        assert!(refused.contains(named), "{bad}: {refused}");
    }
}

#[test]
fn a_frame_names_the_run_so_that_clients_can_cut_it_out() {
    let mut out = Vec::new();
    let frames = Frames { epoch: Epoch::named("0123456789abcdef"), run: "a:b%", at: Timestamp(5) };
    frames.frame(7, Method::Lifecycle, "{}").write_sse(&mut out);
    frames.frame(8, Method::Values, "{\"messages\":[]}").write_sse(&mut out);
    let text = String::from_utf8(out).expect("UTF-8");
    let lines: Vec<&str> = text.lines().collect();
    let data: Value = serde_json::from_str(lines[2].strip_prefix("data: ").expect("data")).expect("JSON");
    assert_eq!((lines[0], lines[1]), ("event: lifecycle", "id: 7"));
    assert_eq!(data["event_id"].as_str().expect("an id").split(':').nth(1), Some("a%3Ab%25"));
    assert_eq!(data["params"], json!({ "namespace": [], "timestamp": 5, "data": {} }));
    assert_eq!((&data["seq"], &data["type"]), (&json!(7), &json!("event")));
    assert!(lines[6].contains("\"event_id\":\"0123456789abcdef:8\""), "{}", lines[6]);
}
