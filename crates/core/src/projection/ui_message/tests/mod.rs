//! Chunks of runs, and the messages that they build.

mod calls;
mod spoken;

use serde_json::{Value, json};

use super::{Chunk, UiMessage, UiStream, of_client, said};

/// Chunks of these events, without the first, and the parts that they build.
fn told(events: &[Value]) -> (Vec<Value>, Value) {
    let mut stream = UiStream::new("r");
    let (mut chunks, mut message) = (Vec::new(), UiMessage::default());
    for event in events {
        stream.observe(event.to_string().as_bytes(), &mut chunks);
    }
    let seen = chunks.iter().map(json_of).collect::<Vec<_>>();
    assert_eq!(seen[0], json!({"type":"start","messageId":"r","messageMetadata":{"runId":"r"}}));
    chunks.into_iter().for_each(|chunk| message.observe(chunk));
    let message: Value = serde_json::from_str(&message.to_json()).expect("JSON");
    assert_eq!(
        (&message["id"], &message["role"], &message["metadata"]["runId"]),
        (&json!("r"), &json!("assistant"), &json!("r"))
    );
    (seen[1..].to_vec(), message["parts"].clone())
}

fn json_of(chunk: &Chunk) -> Value {
    let text = chunk.to_json();
    assert!(!text.contains('\n'), "{text}");
    serde_json::from_str(&text).expect("JSON")
}

fn kinds(chunks: &[Value]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk["type"].as_str().expect("a type")).collect()
}

fn call(id: &str, name: &str, args: &str) -> [Value; 3] {
    [
        json!({"type":"TOOL_CALL_START","toolCallId":id,"toolCallName":name}),
        json!({"type":"TOOL_CALL_ARGS","toolCallId":id,"delta":args}),
        json!({"type":"TOOL_CALL_END","toolCallId":id}),
    ]
}

#[test]
fn a_text_and_its_reasoning_are_parts_of_one_step() {
    let (chunks, parts) = told(&[
        json!({"type":"RUN_STARTED","threadId":"t","runId":"r"}),
        json!({"type":"REASONING_MESSAGE_START","messageId":"m"}),
        json!({"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"hm"}),
        json!({"type":"REASONING_MESSAGE_END","messageId":"m"}),
        json!({"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}),
        json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"he\"l"}),
        json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":""}),
        json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"lo"}),
        json!({"type":"TEXT_MESSAGE_END","messageId":"m"}),
        json!({"type":"RUN_FINISHED"}),
    ]);
    assert_eq!(
        chunks,
        [
            json!({"type":"start-step"}),
            json!({"type":"reasoning-start","id":"m"}),
            json!({"type":"reasoning-delta","id":"m","delta":"hm"}),
            json!({"type":"reasoning-end","id":"m"}),
            json!({"type":"text-start","id":"m"}),
            json!({"type":"text-delta","id":"m","delta":"he\"l"}),
            json!({"type":"text-delta","id":"m","delta":"lo"}),
            json!({"type":"text-end","id":"m"}),
            json!({"type":"finish-step"}),
            json!({"type":"finish","finishReason":"stop"}),
        ]
    );
    assert_eq!(
        parts,
        json!([
            {"type":"step-start"},
            {"type":"reasoning","text":"hm","state":"done"},
            {"type":"text","text":"he\"llo","state":"done"},
        ])
    );
}

#[test]
fn a_message_that_is_said_twice_has_two_texts() {
    let text = |delta: &str| json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":delta});
    let end = json!({"type":"TEXT_MESSAGE_END","messageId":"m"});
    let (chunks, parts) = told(&[text("a"), end.clone(), text("b"), end]);
    assert_eq!((&chunks[1]["id"], &chunks[4]["id"]), (&json!("m"), &json!("m#2")));
    assert_eq!((&parts[1]["text"], &parts[2]["text"]), (&json!("a"), &json!("b")));
}

#[test]
fn a_message_that_is_named_like_the_second_text_of_another_one_has_a_text_of_its_own() {
    let text = |id: &str, delta: &str| json!({"type":"TEXT_MESSAGE_CONTENT","messageId":id,"delta":delta});
    let end = |id: &str| json!({"type":"TEXT_MESSAGE_END","messageId":id});
    let order = [("m", "a"), ("m#2", "b"), ("m", "c"), ("m#2", "d"), ("m#2#1", "e"), ("n#x", "f"), ("#3", "g")];
    let events: Vec<Value> = order.iter().flat_map(|(id, said)| [text(id, said), end(id)]).collect();
    let (chunks, parts) = told(&events);
    let ids: Vec<&str> =
        chunks.iter().filter(|chunk| chunk["type"] == "text-start").filter_map(|chunk| chunk["id"].as_str()).collect();
    assert_eq!(ids, ["m", "m#2#1", "m#2", "m#2#2", "m#2#1#1", "n#x", "#3#1"]);
    let parts = parts.as_array().expect("a list");
    let said: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    assert_eq!(said, ["a", "b", "c", "d", "e", "f", "g"]);
}

#[test]
fn chunks_of_events_are_texts_and_calls_that_the_next_event_ends() {
    let (chunks, parts) = told(&[
        json!({"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}),
        json!({"type":"TEXT_MESSAGE_CHUNK","delta":"b"}),
        json!({"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f","delta":"{\"x\":"}),
        json!({"type":"TOOL_CALL_CHUNK","delta":"1}"}),
        json!({"type":"RUN_FINISHED"}),
    ]);
    assert_eq!(
        kinds(&chunks),
        [
            "start-step",
            "text-start",
            "text-delta",
            "text-delta",
            "text-end",
            "tool-input-start",
            "tool-input-delta",
            "tool-input-delta",
            "tool-input-available",
            "tool-input-available",
            "finish-step",
            "finish",
        ]
    );
    assert_eq!((&parts[1]["text"], &parts[2]["input"]), (&json!("ab"), &json!({"x":1})));
}

#[test]
fn data_of_the_application_is_a_part_and_state_is_not() {
    let (chunks, parts) = told(&[
        json!({"type":"STATE_SNAPSHOT","snapshot":{"a":1}}),
        json!({"type":"CUSTOM","name":"chart","value":[1]}),
        json!({"type":"CUSTOM","name":"threadline.attempt","value":{}}),
        json!({"type":"ACTIVITY_SNAPSHOT","messageId":"p","activityType":"PLAN","content":{"steps":[1]}}),
        json!({"type":"ACTIVITY_DELTA","messageId":"p","activityType":"PLAN","patch":[{"op":"add","path":"/steps/-","value":2}]}),
        json!({"type":"RUN_FINISHED"}),
    ]);
    assert_eq!(chunks[0], json!({"type":"data-state","data":{"a":1},"transient":true}));
    assert_eq!(
        parts,
        json!([
            {"type":"step-start"},
            {"type":"data-chart","data":[1]},
            {"type":"data-activity","id":"p","data":{"activityType":"PLAN","content":{"steps":[1,2]}}},
        ])
    );
}

#[test]
fn a_list_of_messages_gives_the_texts_that_no_event_gave() {
    let (chunks, parts) = told(&[
        json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"said"}),
        json!({"type":"MESSAGES_SNAPSHOT","messages":[{"id":"old","role":"assistant","content":"old"},
            {"id":"u","role":"user","content":"hi"},{"id":"a","role":"assistant","content":"said"},
            {"id":"b","role":"assistant","content":"new"},{"id":"c","role":"assistant"}]}),
        json!({"type":"RUN_FINISHED"}),
    ]);
    assert_eq!(chunks.iter().filter(|chunk| chunk["type"] == "text-start").count(), 2);
    assert_eq!((&parts[1]["text"], &parts[2]["text"]), (&json!("said"), &json!("new")));
}

#[test]
fn a_failed_run_ends_with_its_reason() {
    let (chunks, parts) = told(&[
        json!({"type":"TEXT_MESSAGE_START","messageId":"u","role":"user"}),
        json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"u","delta":"not the assistant's"}),
        json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"half"}),
        json!({"type":"RUN_ERROR","message":"no"}),
    ]);
    assert_eq!(chunks[3..], [json!({"type":"text-end","id":"a"}), json!({"type":"error","errorText":"no"})]);
    assert_eq!(parts[1]["text"], "half");
}

#[test]
fn a_character_may_be_split_between_two_deltas() {
    let mut stream = UiStream::new("r");
    let (mut chunks, mut message) = (Vec::new(), UiMessage::default());
    for half in [r"\ud83d", r"\ude00"] {
        let event = format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"{half}"}}"#);
        stream.observe(event.as_bytes(), &mut chunks);
    }
    chunks.into_iter().for_each(|chunk| message.observe(chunk));
    assert!(message.to_json().contains(r#""text":"\ud83d\ude00""#), "{}", message.to_json());
}

#[test]
fn messages_of_the_user_are_the_same_in_both_forms() {
    let ui = json!({"id":"u","role":"user","parts":[
        {"type":"text","text":"look"},
        {"type":"file","mediaType":"image/png","url":"data:image/png;base64,aGk=","filename":"a.png"},
        {"type":"file","mediaType":"application/pdf","url":"https://h/x.pdf"}]});
    let agui = of_client(&ui).expect("a message");
    assert_eq!(agui["content"][1]["source"], json!({"type":"data","value":"aGk=","mimeType":"image/png"}));
    let started = |message: &Value| json!({"type":"RUN_STARTED","input":{"messages":[message]}}).to_string();
    assert_eq!(said(&started(&agui)), [ui]);
    let text = json!({"id":"u","role":"user","parts":[{"type":"text","text":"hi"}]});
    let agui = of_client(&text).expect("a message");
    assert_eq!(agui, json!({"id":"u","role":"user","content":"hi"}));
    assert_eq!(said(&started(&agui)), [text]);
    assert_eq!(of_client(&json!({"role":"user","parts":[{"type":"step-start"}]})), None);
    let old = json!({"id":"u","role":"user","content":[{"type":"binary","mimeType":"image/gif","data":"R0k="}]});
    assert_eq!(said(&started(&old))[0]["parts"][0]["url"], "data:image/gif;base64,R0k=");
}

#[test]
fn events_of_subagents_have_no_chunks_and_end_no_text() {
    let chunk = |id: Option<&str>, owner: Option<&str>, delta: &str| {
        let mut event = json!({"type":"TEXT_MESSAGE_CHUNK","delta":delta});
        if let Some(id) = id {
            event["messageId"] = json!(id);
        }
        if let Some(owner) = owner {
            event["subagentRunId"] = json!(owner);
        }
        event
    };
    let (chunks, parts) = told(&[
        chunk(Some("p"), None, "P1 "),
        chunk(Some("q"), Some("s"), "S1 "),
        json!({"type":"RAW","event":{}}),
        chunk(None, None, "P2 "),
        json!({"type":"TEXT_MESSAGE_START","messageId":"w","role":"assistant","subagentRunId":"s"}),
        json!({"type":"TEXT_MESSAGE_CONTENT","messageId":"w","delta":"not shown"}),
        json!({"type":"TEXT_MESSAGE_END","messageId":"w"}),
        json!({"type":"RUN_FINISHED"}),
    ]);
    assert_eq!(chunks.iter().filter(|chunk| chunk["type"] == "text-start").count(), 1);
    assert_eq!((&parts[1]["text"], parts.as_array().map(Vec::len)), (&json!("P1 P2 "), Some(2)));
}

#[test]
fn many_parts_are_folded_in_time() {
    let begun = std::time::Instant::now();
    let mut message = UiMessage::default();
    let (mut stream, mut chunks) = (UiStream::new("r"), Vec::new());
    for number in 0..100_000 {
        let event = format!("{{\"type\":\"CUSTOM\",\"name\":\"x\",\"value\":{number}}}");
        stream.observe(event.as_bytes(), &mut chunks);
    }
    chunks.into_iter().for_each(|chunk| message.observe(chunk));
    assert!(message.bytes() > 400_000);
    // Quadratic folds take minutes.
    assert!(begun.elapsed().as_secs() < 30);
}
