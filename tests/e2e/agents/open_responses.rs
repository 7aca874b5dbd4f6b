//! Cases of the public compliance suite of Open Responses (<https://github.com/openresponses/openresponses>), written again: what the
//! agent receives, and the form of what the client gets. docs/openai.md lists them.

use threadline_http::egress::Network;

use super::{
    responses::{create, events, kinds, run_of},
    *,
};
use crate::harness::{everywhere, http::open, soon};

/// Members that the suite requires of each response, null where they have no value.
const REQUIRED: [&str; 31] = [
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "incomplete_details",
    "model",
    "previous_response_id",
    "instructions",
    "output",
    "error",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "reasoning",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "service_tier",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
];

/// Has the agent answer a request with these events, and returns the messages that it received and the events of the stream. The response
/// is also what the same request without a stream gets.
async fn asked(client: &Client, agent: &FakeAgent, request: Value, says: &[Value]) -> (Value, Vec<Value>) {
    let mut request = request;
    request["model"] = json!("a");
    request["stream"] = json!(true);
    let stream = open(create(client, request)).await;
    let call = agent.call().await;
    let messages = call.input()["messages"].clone();
    let run = run_of(&call);
    call.finish(&[says, &[finished(&run)]].concat()).await;
    let all = events(&soon(stream.text()).await.expect("whole"));
    let response = &all.last().expect("an event")["response"];
    let members = response.as_object().expect("an object");
    for name in REQUIRED {
        assert!(members.contains_key(name), "{name} is missing: {response}");
    }
    let path = format!("/openai/v1/responses/{}", text(response, "id"));
    assert_eq!(client.get(&path).await.ok(200), *response);
    (messages, all)
}

fn message(role: &str, content: Value) -> Value {
    json!({ "type": "message", "role": role, "content": content })
}

fn roles(messages: &Value) -> Vec<(&str, &str)> {
    let all = messages.as_array().expect("messages").iter();
    all.map(|message| (text(message, "role"), message["content"].as_str().unwrap_or_default())).collect()
}

fn last(events: &[Value]) -> &Value {
    &events.last().expect("an event")["response"]
}

everywhere! {
    async fn the_cases_of_open_responses_pass(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let agent = agent(&server.project()).await;
        let ann = server.user("ann");
        // basic-response, streaming-response
        let (messages, stream) = asked(&ann, &agent, json!({ "input": [message("user", json!("Say hello."))] }), &said("a", "Hello!")).await;
        assert_eq!(roles(&messages), [("user", "Say hello.")]);
        assert_eq!((text(last(&stream), "status"), text(&last(&stream)["output"][0], "type")), ("completed", "message"));
        // system-prompt
        let input = json!([message("system", json!("Be a pirate.")), message("user", json!("Say hello."))]);
        let (messages, stream) = asked(&ann, &agent, json!({ "input": input }), &said("b", "Arr.")).await;
        assert_eq!(roles(&messages), [("system", "Be a pirate."), ("user", "Say hello.")]);
        assert_eq!(text(last(&stream), "status"), "completed");
        // tool-calling, tool-calling-streaming
        let tool = json!({ "type": "function", "name": "pay", "description": "Pays", "parameters": { "type": "object", "properties": {} } });
        let calls = [&recovery::called("c")[..], &[json!({ "type": "TOOL_CALL_END", "toolCallId": "c" })]].concat();
        let request = json!({ "input": [message("user", json!("Pay."))], "tools": [tool] });
        let (_, stream) = asked(&ann, &agent, request, &calls).await;
        assert_eq!(kinds(&stream)[2..6], ["response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.done", "response.output_item.done"]);
        let item = &last(&stream)["output"][0];
        assert_eq!((text(item, "type"), text(item, "name"), text(item, "call_id")), ("function_call", "pay", "c"));
        assert_eq!((&stream[2]["item"]["type"], &stream[5]["item"]), (&json!("function_call"), item));
        // image-input
        let image = "data:image/png;base64,iVBORw0KGgo=";
        let parts = json!([{ "type": "input_text", "text": "What is it?" }, { "type": "input_image", "image_url": image }]);
        let (messages, stream) = asked(&ann, &agent, json!({ "input": [message("user", parts)] }), &said("d", "A heart.")).await;
        let content = &messages[0]["content"];
        assert_eq!((&content[0]["text"], &content[1]["source"]), (&json!("What is it?"), &json!({ "type": "data", "value": "iVBORw0KGgo=", "mimeType": "image/png" })));
        assert_eq!(text(last(&stream), "status"), "completed");
        // multi-turn
        let input = json!([message("user", json!("I am Ann.")), message("assistant", json!("Hello Ann!")), message("user", json!("Who am I?"))]);
        let (messages, stream) = asked(&ann, &agent, json!({ "input": input }), &said("e", "Ann.")).await;
        assert_eq!(roles(&messages), [("user", "I am Ann."), ("assistant", "Hello Ann!"), ("user", "Who am I?")]);
        assert_eq!(text(last(&stream), "status"), "completed");
    }
}
