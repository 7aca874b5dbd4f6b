//! Streams of responses, and items of conversations.

mod accumulator;
mod conversion;
mod header;
mod random;
mod stream;

use serde_json::{Value, json};

use super::{Echo, Header, ResponseEvent, ResponseStream};
use crate::Timestamp;
use accumulator::Accumulator;

fn header() -> Header {
    Header {
        id: "resp_1".into(),
        model: "agent".into(),
        created_at: Timestamp(1_700_000_000_999),
        conversation: Some("conv_t".into()),
        previous_response_id: None,
        background: false,
        store: true,
        echo: Echo::read(r#"{"model":"x","metadata":{"k":"v"},"temperature":0.5}"#).expect("an echo"),
    }
}

/// Time of the commit of an event by its place in the run.
fn time(place: usize) -> Timestamp {
    Timestamp(1_700_000_001_000 + 250 * i64::try_from(place).expect("a small number"))
}

/// Events of a stream, and the response as it is then.
fn fold(mut stream: ResponseStream, events: &[Value]) -> (Vec<ResponseEvent>, String) {
    let mut out = Vec::new();
    for (place, event) in events.iter().enumerate() {
        stream.observe(event.to_string().as_bytes(), time(place), &mut out);
    }
    (out, stream.response())
}

fn value_of(event: &ResponseEvent) -> Value {
    let text = std::str::from_utf8(&event.json).expect("UTF-8");
    assert!(!text.contains(['\n', '\r']), "{text}");
    let value: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!((&value["type"], &value["sequence_number"]), (&json!(event.kind), &json!(event.sequence)));
    value
}

/// Stream events of a run, without `response.created` and `response.in_progress`. The events are checked as clients check them.
fn told(events: &[Value]) -> Vec<Value> {
    let (out, response) = fold(ResponseStream::new(header()), events);
    let values: Vec<Value> = out.iter().map(value_of).collect();
    let mut client = Accumulator::default();
    values.iter().for_each(|event| client.take(event));
    if let Some(ended) = client.ended() {
        assert_eq!(
            ended,
            &serde_json::from_str::<Value>(&response).expect("JSON"),
            "the object is that of the last event"
        );
    }
    let kinds: Vec<_> = out.iter().take(2).map(|event| event.kind).collect();
    assert_eq!(kinds, ["response.created", "response.in_progress"]);
    values[2..].to_vec()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().expect("a type")).collect()
}

/// Begin of a run to which the client supplied the tools `f` and `g`.
fn started() -> Value {
    json!({"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"tools":[{"name":"f"},{"name":"g"}]}})
}

fn finished() -> Value {
    json!({"type":"RUN_FINISHED","threadId":"t","runId":"r"})
}

fn said(message: &str, delta: &str) -> Value {
    json!({"type":"TEXT_MESSAGE_CONTENT","messageId":message,"delta":delta})
}

fn call(id: &str, name: &str, args: &str) -> [Value; 3] {
    [
        json!({"type":"TOOL_CALL_START","toolCallId":id,"toolCallName":name}),
        json!({"type":"TOOL_CALL_ARGS","toolCallId":id,"delta":args}),
        json!({"type":"TOOL_CALL_END","toolCallId":id}),
    ]
}
