//! Tests against a local endpoint that sends answers as recorded from real endpoints.

use serde_json::{Value, json};
use threadline_core::limits::{MAX_EVENT_BYTES, MAX_OPEN_PARTS};

use super::{
    super::{
        source::AgentFailure,
        tests::{Endpoint, Then, answer, collect, input, outbound, torn},
    },
    *,
};

const IDLE: Duration = Duration::from_secs(30);
const DONE: &str = "data: [DONE]\n\n";

/// Runs a request. Returns the events, with ids replaced by names that show which are equal, and the failure.
async fn ask(then: Then, input: &RunInput) -> (Vec<Value>, Option<AgentFailure>) {
    let endpoint = Endpoint::start(then).await;
    let client = outbound();
    let key = Secret::new("sk-secret");
    let (events, failure) = collect(run(&client, &endpoint.url, "m-1", Some(&key), None, input, IDLE)).await;
    let mut ids: Vec<String> = Vec::new();
    let mut name = |value: &mut Value| {
        let Some(id) = value.as_str().filter(|id| uuid::Uuid::try_parse(id).is_ok()) else { return };
        let at = ids.iter().position(|known| known == id).unwrap_or_else(|| {
            ids.push(id.to_owned());
            ids.len() - 1
        });
        *value = format!("id{at}").into();
    };
    let mut events: Vec<Value> = events.iter().map(|event| serde_json::from_str(event).expect("JSON")).collect();
    for event in &mut events {
        for member in ["messageId", "toolCallId", "parentMessageId"] {
            if let Some(value) = event.get_mut(member) {
                name(value);
            }
        }
        let pending = event.pointer_mut("/outcome/pendingToolCallIds").and_then(Value::as_array_mut);
        pending.into_iter().flatten().for_each(&mut name);
    }
    (events, failure)
}

fn chunk(delta: Value, finish_reason: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason });
    let chunk = json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "m-1-x",
        "choices": [choice], "usage": null });
    format!("data: {chunk}\n\n")
}

fn usage() -> String {
    let usage = json!({ "prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18,
        "prompt_tokens_details": { "cached_tokens": 4, "audio_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": 3 } });
    format!("data: {}\n\n", json!({ "id": "chatcmpl-1", "choices": [], "usage": usage }))
}

fn started() -> Value {
    json!({ "type": "RUN_STARTED", "threadId": "thread", "runId": "run" })
}

fn finished(more: Value) -> Value {
    let mut event =
        json!({ "type": "RUN_FINISHED", "threadId": "thread", "runId": "run", "outcome": { "type": "success" } });
    event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    event
}

fn text(text: &str) -> Value {
    json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "id0", "delta": text })
}

#[tokio::test]
async fn a_text_with_reasoning_before_it() {
    let chunks = [
        ": OPENROUTER PROCESSING\n\n".to_owned(),
        chunk(json!({ "role": "assistant", "content": "", "refusal": null }), None),
        chunk(json!({ "reasoning_content": "Let me", "content": null }), None),
        chunk(json!({ "reasoning": " think", "content": "" }), None),
        chunk(json!({ "content": "Hé" }), None),
        chunk(json!({ "content": " \u{0}", "tool_calls": null }), None),
        chunk(json!({}), Some("stop")),
        usage(),
        DONE.to_owned(),
        chunk(json!({ "content": "not read any more" }), None),
    ];
    let (events, failure) = ask(Then::Hold(torn(&chunks.concat())), &input()).await;
    let reasoning = |kind: &str| json!({ "type": format!("REASONING_{kind}"), "messageId": "id0" });
    let with = |mut event: Value, name: &str, value: &str| {
        event[name] = value.into();
        event
    };
    let text = |event: Value| with(event, "messageId", "id1");
    assert_eq!(failure, None);
    assert_eq!(
        events,
        [
            started(),
            reasoning("START"),
            with(reasoning("MESSAGE_START"), "role", "reasoning"),
            with(reasoning("MESSAGE_CONTENT"), "delta", "Let me"),
            with(reasoning("MESSAGE_CONTENT"), "delta", " think"),
            reasoning("MESSAGE_END"),
            reasoning("END"),
            text(json!({ "type": "TEXT_MESSAGE_START", "role": "assistant" })),
            text(json!({ "type": "TEXT_MESSAGE_CONTENT", "delta": "Hé" })),
            text(json!({ "type": "TEXT_MESSAGE_CONTENT", "delta": " \u{0}" })),
            text(json!({ "type": "TEXT_MESSAGE_END" })),
            finished(json!({ "usage": [{ "model": "m-1", "inputTokens": 11, "outputTokens": 7, "totalTokens": 18,
                "reasoningTokens": 3, "cachedInputTokens": 4 }] })),
        ]
    );
}

#[tokio::test]
async fn tool_calls_that_alternate() {
    let piece = |index: u64, id: Option<&str>, name: Option<&str>, arguments: &str| {
        let mut piece = json!({ "index": index, "function": { "arguments": arguments } });
        if let Some(id) = id {
            piece["id"] = id.into();
            piece["type"] = "function".into();
        }
        if let Some(name) = name {
            piece["function"]["name"] = name.into();
        }
        piece
    };
    let call = |pieces: Value| chunk(json!({ "tool_calls": pieces }), None);
    let chunks = [
        chunk(json!({ "role": "assistant", "content": "Both:" }), None),
        call(json!([piece(0, Some("call_a"), Some("f"), "")])),
        call(json!([piece(0, None, None, "{\"x\"")])),
        call(json!([piece(1, Some("call_0"), Some("g"), "{")])),
        call(json!([piece(0, None, Some("f"), ":1}"), piece(1, Some("call_0"), None, "}")])),
        chunk(json!({}), Some("tool_calls")),
        DONE.to_owned(),
    ];
    let known = r#"[{"id":"m","role":"assistant","toolCalls":[{"id":"call_0","type":"function",
        "function":{"name":"g","arguments":"{}"}}]},{"id":"r","role":"tool","toolCallId":"call_0","content":"ok"}]"#;
    let input = RunInput { messages: known.into(), ..input() };
    let (events, failure) = ask(Then::Send(answer(&chunks.concat())), &input).await;
    let tool = |kind: &str, id: &str| json!({ "type": format!("TOOL_CALL_{kind}"), "toolCallId": id });
    let start = |id: &str, name: &str| {
        let mut event = tool("START", id);
        event["toolCallName"] = name.into();
        event["parentMessageId"] = "id0".into();
        event
    };
    let args = |id: &str, delta: &str| {
        let mut event = tool("ARGS", id);
        event["delta"] = delta.into();
        event
    };
    assert_eq!(failure, None);
    // The thread already has a `call_0`, so the second one receives a new id.
    assert_eq!(
        events,
        [
            started(),
            json!({ "type": "TEXT_MESSAGE_START", "messageId": "id0", "role": "assistant" }),
            text("Both:"),
            json!({ "type": "TEXT_MESSAGE_END", "messageId": "id0" }),
            start("call_a", "f"),
            args("call_a", "{\"x\""),
            start("id1", "g"),
            args("id1", "{"),
            args("call_a", ":1}"),
            args("id1", "}"),
            tool("END", "call_a"),
            tool("END", "id1"),
            finished(json!({ "outcome": { "type": "success", "pendingToolCallIds": ["call_a", "id1"] } })),
        ]
    );
}

#[tokio::test]
async fn tool_calls_are_distinguished_without_a_proper_index() {
    let whole = |id: &str, index: Option<u64>| {
        let mut call = json!({ "id": id, "function": { "name": "f", "arguments": "{}" } });
        if let Some(index) = index {
            call["index"] = index.into();
        }
        call
    };
    for (index, ids) in [(Some(0), ["a", "b"]), (None, ["a", "b"])] {
        let calls = ids.map(|id| whole(id, index));
        let chunks = [chunk(json!({ "tool_calls": calls }), None), chunk(json!({}), Some("tool_calls"))].concat();
        let (events, _) = ask(Then::Send(answer(&chunks)), &input()).await;
        let last = events.last().expect("an event");
        assert_eq!(last["outcome"]["pendingToolCallIds"], json!(["a", "b"]), "{index:?}: {events:?}");
    }
    // An id that changes from piece to piece, as in some versions of vLLM.
    let pieces = [("x", "f", "{"), ("y", "", "}")].map(
        |(id, name, arguments)| json!({ "index": 0, "id": id, "function": { "name": name, "arguments": arguments } }),
    );
    let chunks = chunk(json!({ "tool_calls": pieces }), Some("tool_calls"));
    let (events, _) = ask(Then::Send(answer(&chunks)), &input()).await;
    assert_eq!(events.last().expect("an event")["outcome"]["pendingToolCallIds"], json!(["x"]));
    // A call without an id receives a new one.
    let chunks = chunk(json!({ "tool_calls": [whole("", Some(0))] }), Some("stop"));
    let (events, _) = ask(Then::Send(answer(&chunks)), &input()).await;
    assert_eq!(events.last().expect("an event")["outcome"]["pendingToolCallIds"], json!(["id0"]));
    let nameless = json!([{ "index": 0, "function": { "arguments": "{" } }]);
    let too_many: Value = (0..=MAX_OPEN_PARTS).map(|index| whole("", Some(index as u64))).collect();
    for calls in [nameless, too_many] {
        let chunks = chunk(json!({ "tool_calls": calls }), None);
        let (_, failure) = ask(Then::Send(answer(&chunks)), &input()).await;
        assert!(matches!(failure, Some(AgentFailure::InvalidEvent(_))), "{failure:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_says_so() {
    for reason in ["length", "content_filter"] {
        let chunks = [chunk(json!({ "content": "Once" }), None), chunk(json!({}), Some(reason))].concat();
        let (events, _) = ask(Then::Send(answer(&chunks)), &input()).await;
        let metadata = json!({ "finishReason": reason });
        assert_eq!(events[3], json!({ "type": "TEXT_MESSAGE_END", "messageId": "id0", "metadata": metadata }));
        assert_eq!(events[4], finished(json!({ "metadata": metadata })));
    }
    let call = json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"x" } }] });
    let (events, _) = ask(Then::Send(answer(&(chunk(call, Some("length")) + &usage()))), &input()).await;
    assert_eq!(events[3], json!({ "type": "TOOL_CALL_END", "toolCallId": "a" }));
    assert_eq!((&events[4]["code"], &events[4]["usage"][0]["outputTokens"]), (&json!("agent-cut-off"), &json!(7)));
}

#[tokio::test]
async fn complete_is_what_has_a_reason_or_says_done() {
    let said = chunk(json!({ "content": "a" }), None);
    let reason = chunk(json!({ "content": "b" }), Some("stop"));
    for (body, expected) in [
        (answer(&(said.clone() + DONE)), None),
        // The blank line after it is often missing.
        (answer(&(said.clone() + &reason + "data: [DONE]\n")), None),
        (torn(&(said.clone() + &reason)), None),
        (answer(DONE), None),
        (answer(&said), Some(AgentFailure::Incomplete)),
        (answer(""), Some(AgentFailure::Incomplete)),
        (torn(&said), Some(AgentFailure::Broken)),
    ] {
        let (events, failure) = ask(Then::Send(body), &input()).await;
        assert_eq!(failure, expected, "{events:?}");
        let finished = events.last().is_some_and(|event| event["type"] == "RUN_FINISHED");
        assert_eq!(finished, expected.is_none(), "{events:?}");
    }
}

#[tokio::test]
async fn an_error_in_the_stream_ends_the_run_without_its_words() {
    let error = json!({ "error": { "message": "org-1 is out of quota, sk-secret", "code": "insufficient_quota" } });
    let other = json!({ "object": "error", "message": "at /home/x", "type": "a sentence", "code": 500 });
    let said = chunk(json!({ "content": "a" }), None);
    for (chunk, message) in [
        (format!("data: {error}\n\n"), "the model's endpoint reported an error: insufficient_quota"),
        (format!("data: {other}\n\n"), "the model's endpoint reported an error"),
        ("data: {\"error\":\"overloaded\"}\n\n".to_owned(), "the model's endpoint reported an error"),
        (chunk(json!({}), Some("error")), "the model's endpoint reported an error"),
    ] {
        let (events, failure) = ask(Then::Send(answer(&(said.clone() + &chunk + &said))), &input()).await;
        assert_eq!(failure, None);
        let end = json!({ "type": "TEXT_MESSAGE_END", "messageId": "id0" });
        let error = json!({ "type": "RUN_ERROR", "message": message, "code": "agent-model-error" });
        assert_eq!(events[3..], [end, error]);
    }
}

#[tokio::test]
async fn garbage_and_refusals() {
    for garbage in ["nonsense", "[1]", "{\"choices\":", "\"\\ud800\""] {
        let (_, failure) = ask(Then::Send(answer(&format!("data: {garbage}\n\n"))), &input()).await;
        assert!(matches!(failure, Some(AgentFailure::InvalidEvent(_))), "{garbage}: {failure:?}");
    }
    for odd in ["{}", "{\"choices\":null}", "{\"choices\":[{}]}", "{\"choices\":[{\"delta\":7}],\"usage\":[]}"] {
        let (events, failure) = ask(Then::Send(answer(&format!("data: {odd}\n\n{DONE}"))), &input()).await;
        assert_eq!((events, failure), (vec![started(), finished(json!({}))], None), "{odd}");
    }
    let refusal = b"HTTP/1.1 401 No\r\nContent-Length: 9\r\nConnection: close\r\n\r\nsk-secret".to_vec();
    assert_eq!(ask(Then::Send(refusal), &input()).await, (vec![], Some(AgentFailure::Unreachable)));
}

/// JSON body that ends with the connection.
fn body(content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nConnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn completion(message: Value, finish_reason: Option<&str>) -> Vec<u8> {
    let choice = json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason });
    let completion = json!({ "id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000, "model": "m-1-x",
        "choices": [choice], "usage": { "prompt_tokens": 11, "completion_tokens": 7 } });
    body("Application/JSON; charset=utf-8", completion.to_string().as_bytes())
}

#[tokio::test]
async fn an_endpoint_that_cannot_stream_answers_as_a_whole() {
    let call = json!({ "id": "call_a", "type": "function", "function": { "name": "f", "arguments": "{\"x\":1}" } });
    let message = json!({ "role": "assistant", "content": "Both:", "reasoning_content": "hm", "tool_calls": [call] });
    let (events, failure) = ask(Then::Send(completion(message, Some("tool_calls"))), &input()).await;
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    assert_eq!(failure, None);
    assert_eq!(kinds[..2], ["RUN_STARTED", "REASONING_START"]);
    let deltas: Vec<_> = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(deltas, ["hm", "Both:", "{\"x\":1}"]);
    let usage = json!([{ "model": "m-1", "inputTokens": 11, "outputTokens": 7, "totalTokens": 18 }]);
    let outcome = json!({ "type": "success", "pendingToolCallIds": ["call_a"] });
    assert_eq!(events.last(), Some(&finished(json!({ "outcome": outcome, "usage": usage }))));
    // A complete message needs no finish reason.
    let (events, failure) = ask(Then::Send(completion(json!({ "content": "Hé" }), None)), &input()).await;
    assert_eq!((events.len(), &events[2], failure), (5, &text("Hé"), None));
    let cut = ask(Then::Send(completion(json!({ "content": "Once" }), Some("length"))), &input()).await;
    assert_eq!(cut.0[4]["metadata"], json!({ "finishReason": "length" }));
}

#[tokio::test]
async fn json_that_is_no_completion_ends_the_run_as_a_stream_would() {
    let error = json!({ "error": { "message": "sk-secret", "code": "insufficient_quota" } }).to_string();
    let (events, failure) = ask(Then::Send(body("application/json", error.as_bytes())), &input()).await;
    let message = "the model's endpoint reported an error: insufficient_quota";
    let reported = json!({ "type": "RUN_ERROR", "message": message, "code": "agent-model-error" });
    assert_eq!((events, failure), (vec![started(), reported], None));
    for odd in [
        "",
        "nonsense",
        "[1]",
        "{}",
        "{\"choices\":[]}",
        "{\"choices\":[{\"message\":\"a\"}]}",
        "{\"choices\":",
        "\u{fffd}",
    ] {
        let (events, failure) = ask(Then::Send(body("application/json", odd.as_bytes())), &input()).await;
        assert!(events.is_empty() && matches!(failure, Some(AgentFailure::InvalidEvent(_))), "{odd}: {failure:?}");
    }
    let large = ask(Then::Send(body("application/json", &vec![b' '; MAX_EVENT_BYTES + 1])), &input()).await;
    assert!(matches!(large.1, Some(AgentFailure::InvalidEvent(_))), "{large:?}");
    let torn = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"choices\"".to_vec();
    assert_eq!(ask(Then::Send(torn.clone()), &input()).await, (vec![], Some(AgentFailure::Broken)));
    let endpoint = Endpoint::start(Then::Hold(torn)).await;
    let silent = run(&outbound(), &endpoint.url, "m", None, None, &input(), Duration::from_millis(50));
    assert_eq!(collect(silent).await, (vec![], Some(AgentFailure::Silent(Duration::from_millis(50)))));
    // Bodies of another content type are not read.
    for kind in ["text/html", "application/jsonl", "application/json\r\nContent-Encoding: gzip"] {
        let (_, failure) = ask(Then::Send(body(kind, b"{\"choices\":[{\"message\":{}}]}")), &input()).await;
        assert_eq!(failure, Some(AgentFailure::Unreachable), "{kind}");
    }
}

/// Some endpoints repeat the complete message so far next to each delta.
#[tokio::test]
async fn a_message_beside_a_delta_is_not_said_twice() {
    let both = |delta: &str, message: &str| {
        let choice = json!({ "delta": { "content": delta }, "message": { "role": "assistant", "content": message } });
        format!("data: {}\n\n", json!({ "object": "chat.completion", "choices": [choice] }))
    };
    let (events, _) = ask(Then::Send(answer(&(both("a", "a") + &both("b", "ab") + DONE))), &input()).await;
    let deltas: Vec<_> = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(deltas, ["a", "b"]);
}

#[tokio::test]
async fn halves_of_characters_and_lists_of_parts_are_read() {
    let parts = json!([{ "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }] }, { "type": "text", "text": "so" }]);
    let half = "data: {\"choices\":[{\"delta\":{\"content\":\"\\ud83d\"}}]}\n\n".to_owned();
    let chunks = [chunk(json!({ "content": parts }), None), half, chunk(json!({}), Some("stop"))].concat();
    let (events, _) = ask(Then::Send(answer(&chunks)), &input()).await;
    let deltas: Vec<_> = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(deltas, ["hm", "so", "\u{fffd}"]);
}

#[tokio::test]
async fn the_request_as_it_arrives() {
    let endpoint = Endpoint::start(Then::Send(answer(DONE))).await;
    let client = outbound();
    let base = format!("{}/v1/?api-version=7", endpoint.url);
    let key = Secret::new("sk-secret");
    collect(run(&client, &base, "m", Some(&key), Some("Be brief."), &input(), IDLE)).await;
    let (head, body) = endpoint.request().await;
    assert!(head.starts_with("post /v1/chat/completions?api-version=7 http/1.1"), "{head}");
    for line in ["authorization: bearer sk-secret", "content-type: application/json", "accept: text/event-stream"] {
        assert!(head.lines().any(|found| found == line), "{line} in {head}");
    }
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(body["messages"], json!([{ "role": "system", "content": "Be brief." }]));
    assert_eq!((&body["stream"], &body["stream_options"]["include_usage"]), (&json!(true), &json!(true)));

    for (base, key) in [("no address", "k"), ("mailto:x@y", "k"), ("http://127.0.0.1:1", "a\nkey")] {
        let events = run(&client, base, "m", Some(&Secret::new(key)), None, &input(), IDLE);
        assert_eq!(collect(events).await.1, Some(AgentFailure::Unreachable), "{base}");
    }
}
