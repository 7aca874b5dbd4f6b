//! Responses of the OpenAI API. OpenAI's own packages talk to it in `tests/real`.

use threadline_core::Scope;
use threadline_http::egress::Network;

use super::{
    continuing::continues,
    recovery::{called, restarted},
    *,
};
use crate::{
    harness::{
        self, Answer, Backend, Options,
        agent::Call,
        everywhere,
        http::{open, send},
        soon,
    },
    identity::key,
    table::response_id,
};

const RESPONSES: &str = "/openai/v1/responses";

pub(super) fn create(client: &Client, body: Value) -> RequestBuilder {
    client.request(Method::POST, RESPONSES).json(&body)
}

/// The events of a stream: their types, as the frames name them, and their data.
pub(super) fn events(stream: &str) -> Vec<Value> {
    let frames = stream.split("\n\n").filter(|frame| !frame.is_empty() && !frame.starts_with(':'));
    frames
        .map(|frame| {
            let (kind, data) = frame.split_once("\ndata: ").expect("an event with data");
            let data: Value = serde_json::from_str(data).expect("JSON");
            assert_eq!(kind.strip_prefix("event: "), data["type"].as_str(), "{frame}");
            data
        })
        .collect()
}

pub(super) fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| text(event, "type")).collect()
}

/// The error of a refused request, which has OpenAI's form.
pub(super) fn refused(answer: &Answer, status: u16, code: &str) -> Value {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("JSON: {answer:?}"));
    assert_eq!((answer.status, body["error"]["code"].as_str()), (status, Some(code)), "{body}");
    assert_eq!(answer.headers["content-type"], "application/json");
    let mut members: Vec<_> = body["error"].as_object().expect("an error").keys().map(String::as_str).collect();
    members.retain(|name| !matches!(*name, "active_response_id" | "scope"));
    members.sort_unstable();
    assert_eq!(members, ["code", "message", "param", "type"]);
    body["error"].clone()
}

pub(super) fn run_of(call: &Call) -> String {
    call.input()["runId"].as_str().expect("an id").to_owned()
}

/// Has the agent answer, and returns the response.
pub(super) async fn answered(client: &Client, agent: &FakeAgent, body: Value, said: &str) -> Value {
    let request = create(client, body);
    let asking = tokio::spawn(async move { send(request).await });
    let call = agent.call().await;
    let run = run_of(&call);
    call.finish(&whole(&run, &format!("m-{run}"), said)).await;
    soon(asking).await.expect("a request").ok(200)
}

fn said_by(response: &Value) -> &str {
    response["output"][0]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("a text: {response}"))
}

fn at(response: &Value) -> String {
    format!("{RESPONSES}/{}", text(response, "id"))
}

fn contents(call: &Call) -> Vec<String> {
    let input = call.input();
    let all = input["messages"].as_array().expect("messages").clone();
    all.iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

everywhere! {
    async fn a_response_has_the_same_numbers_live_and_in_every_replay(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let live = open(create(&dev, json!({ "model": "a", "input": "hi", "stream": true, "metadata": { "k": "v" } }))).await;
        assert_eq!(live.headers()["content-type"], "text/event-stream");
        let mut call = agent.call().await;
        assert_eq!(contents(&call), ["hi"]);
        call.say(&said("m", "hel")).await;
        call.say(&called("c")).await;
        let run = run_of(&call);
        call.finish(&[&said("n", "lo")[..], &[finished(&run)]].concat()).await;
        let live = soon(live.text()).await.expect("whole");
        let all = events(&live);
        assert_eq!(numbers(&all), (0..all.len() as u64).collect::<Vec<_>>());
        assert_eq!(kinds(&all)[..5], ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added", "response.output_text.delta"]);
        let last = all.last().expect("an event");
        assert_eq!((text(last, "type"), &last["response"]["metadata"]), ("response.completed", &json!({ "k": "v" })));
        let path = at(&last["response"]);
        assert_eq!(dev.get(&path).await.ok(200), last["response"]);
        assert_eq!(last["response"]["output"].as_array().map(Vec::len), Some(3));
        // A stream begins after any number, also long after the end.
        for number in 0..all.len() {
            let rest = open(dev.request(Method::GET, &format!("{path}?stream=true&starting_after={number}"))).await;
            assert_eq!(events(&soon(rest.text()).await.expect("whole")), all[number + 1..]);
        }
        let again = open(dev.request(Method::GET, &format!("{path}?stream=true"))).await;
        assert_eq!(soon(again.text()).await.expect("whole"), live, "the same bytes");
        refused(&dev.get(&format!("{path}?starting_after=1")).await, 400, "invalid_request");
    }
}

everywhere! {
    async fn a_response_goes_on_after_another_one_or_beside_it(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let first = answered(&dev, &agent, json!({ "model": "a", "input": "one" }), "1").await;
        assert_eq!((text(&first, "status"), said_by(&first)), ("completed", "1"));
        let after = |previous: &Value, input: &str| json!({ "model": "a", "input": input, "previous_response_id": previous["id"] });
        let second = answered(&dev, &agent, after(&first, "two"), "2").await;
        assert_eq!(second["conversation"], first["conversation"], "the conversation goes on");
        let beside = answered(&dev, &agent, after(&first, "three"), "3").await;
        assert_ne!(beside["conversation"], first["conversation"], "a fork");
        let in_conversation = json!({ "model": "a", "input": "four", "conversation": second["conversation"] });
        let request = create(&dev, in_conversation);
        let asking = tokio::spawn(async move { send(request).await });
        let call = agent.call().await;
        assert_eq!(contents(&call), ["one", "1", "two", "2", "four"]);
        let run = run_of(&call);
        call.finish(&whole(&run, "m4", "4")).await;
        soon(asking).await.expect("a request").ok(200);
        // The input of a response is what it brought, and the conversation has all.
        let input = dev.get(&format!("{}/input_items", at(&second))).await.ok(200);
        assert_eq!((input["data"].as_array().map(Vec::len), &input["data"][0]["content"][0]["text"]), (Some(1), &json!("two")));
        refused(&dev.get(&format!("{}/input_items?limit=101", at(&second))).await, 400, "invalid_request");
        let items = dev.get(&format!("/openai/v1/conversations/{}/items?order=asc", text(&beside["conversation"], "id"))).await.ok(200);
        let texts: Vec<_> = items["data"].as_array().expect("items").iter().map(|item| item["content"][0]["text"].clone()).collect();
        assert_eq!(json!(texts), json!(["one", "1", "three", "3"]));
        for (member, value, status, code) in [
            ("previous_response_id", json!("resp_x"), 404, "previous_response_not_found"),
            ("conversation", json!("conv_x"), 404, "conversation_not_found"),
            ("model", json!("nobody"), 404, "model_not_found"),
        ] {
            let mut body = json!({ "model": "a", "input": "hi" });
            body[member] = value;
            refused(&send(create(&dev, body)).await, status, code);
        }
    }
}

everywhere! {
    async fn a_request_that_is_repeated_is_one_run(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let ask = |body: &Value, tries: &str| create(&dev, body.clone()).header("x-stainless-retry-count", tries);
        let spawn = |request: RequestBuilder| tokio::spawn(async move { send(request).await });
        let question = json!({ "model": "a", "input": "hi" });
        let first = spawn(ask(&question, "0"));
        let call = agent.call().await;
        let again = spawn(ask(&question, "1"));
        let run = run_of(&call);
        call.finish(&whole(&run, "m", "one")).await;
        let (first, again) = (soon(first).await.expect("a request").ok(200), soon(again).await.expect("a request").ok(200));
        assert_eq!(first, again);
        assert_eq!(send(ask(&question, "2")).await.ok(200), first, "also after the end");
        // The same question again is another run.
        let other = spawn(ask(&question, "0"));
        let call = agent.call().await;
        let run = run_of(&call);
        call.finish(&whole(&run, "m", "two")).await;
        assert_ne!(soon(other).await.expect("a request").ok(200)["id"], first["id"]);
        // One branch for each request after an older response.
        answered(&dev, &agent, json!({ "model": "a", "input": "next", "previous_response_id": first["id"] }), "n").await;
        let fork = json!({ "model": "a", "input": "beside", "previous_response_id": first["id"] });
        let forked = spawn(ask(&fork, "0"));
        let call = agent.call().await;
        let run = run_of(&call);
        call.finish(&whole(&run, "f", "three")).await;
        let forked = soon(forked).await.expect("a request").ok(200);
        assert_eq!(send(ask(&fork, "1")).await.ok(200), forked);
        let branches = dev.get(&format!("/v1/threads/{}/branches", &text(&first["conversation"], "id")[5..])).await.ok(200);
        assert_eq!(branches["branches"].as_array().map(Vec::len), Some(2));
        // A key names a request, and no other one.
        let keyed = |input: &str| create(&dev, json!({ "model": "a", "input": input })).header("idempotency-key", "k");
        let asking = spawn(keyed("keyed"));
        let call = agent.call().await;
        let run = run_of(&call);
        call.finish(&whole(&run, "k", "four")).await;
        let keyed_first = soon(asking).await.expect("a request").ok(200);
        assert_eq!(send(keyed("keyed")).await.ok(200), keyed_first);
        refused(&send(keyed("another")).await, 409, "run_exists");
        assert_eq!(agent.requests(), 5);
    }
}

everywhere! {
    async fn a_conversation_has_one_response_in_progress(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let begun = send(create(&dev, json!({ "model": "a", "input": "hi", "background": true }))).await.ok(200);
        assert_eq!((text(&begun, "status"), &begun["background"]), ("in_progress", &json!(true)));
        let mut call = agent.call().await;
        call.say(&said("m", "half")).await;
        for busy in [json!({ "conversation": begun["conversation"] }), json!({ "previous_response_id": begun["id"] })] {
            let mut body = json!({ "model": "a", "input": "more" });
            body.as_object_mut().expect("an object").extend(busy.as_object().expect("an object").clone());
            let answer = send(create(&dev, body)).await;
            assert_eq!(refused(&answer, 409, "conversation_locked")["active_response_id"], begun["id"]);
            assert_eq!(answer.headers["x-should-retry"], "false");
        }
        let items = format!("/openai/v1/conversations/{}/items", text(&begun["conversation"], "id"));
        let adding = json!({ "items": [{ "role": "user", "content": "x" }] });
        refused(&dev.post(&items, adding).await, 409, "conversation_locked");
        let follows = open(dev.request(Method::GET, &format!("{}?stream=true", at(&begun)))).await;
        let cancelled = dev.post(&format!("{}/cancel", at(&begun)), json!({})).await.ok(200);
        assert_eq!(text(&cancelled, "status"), "cancelled");
        let stream = events(&soon(follows.text()).await.expect("whole"));
        assert_eq!(kinds(&stream).last(), Some(&"response.incomplete"));
        assert_eq!(dev.post(&format!("{}/cancel", at(&begun)), json!({})).await.ok(200), cancelled);
        drop(call);
    }
}

everywhere! {
    async fn an_approval_is_given_once_in_all_branches(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let request = create(&dev, json!({ "model": "a", "input": "pay" }));
        let asking = tokio::spawn(async move { send(request).await });
        let call = agent.call().await;
        let run = run_of(&call);
        let mut ends = finished(&run);
        ends["outcome"] = json!({ "type": "interrupt", "interrupts": [{ "id": "i", "reason": "approval", "toolCallId": "c" }] });
        call.finish(&[&called("c")[..], &[ends]].concat()).await;
        let asks = soon(asking).await.expect("a request").ok(200);
        let approval = asks["output"].as_array().expect("items").last().expect("an item").clone();
        assert_eq!((text(&approval, "type"), text(&approval, "id")), ("mcp_approval_request", "mcpr_i"));
        let approve = json!({ "model": "a", "previous_response_id": asks["id"],
            "input": [{ "type": "mcp_approval_response", "approval_request_id": "mcpr_i", "approve": true }] });
        let without = json!({ "model": "a", "previous_response_id": asks["id"], "input": "never mind" });
        refused(&send(create(&dev, without)).await, 409, "interrupts_open");
        let request = create(&dev, approve.clone());
        let asking = tokio::spawn(async move { send(request).await });
        let call = agent.call().await;
        assert_eq!(call.input()["resume"], json!([{ "interruptId": "i", "status": "resolved", "payload": { "approved": true } }]));
        let run = run_of(&call);
        // While the answer is carried out, and afterwards, nobody gives it again.
        refused(&send(create(&dev, approve.clone())).await, 409, "interrupt_settled");
        call.finish(&whole(&run, "m", "paid")).await;
        let paid = soon(asking).await.expect("a request").ok(200);
        assert_eq!(text(&paid, "status"), "completed");
        refused(&send(create(&dev, approve)).await, 409, "interrupt_settled");
        let input = dev.get(&format!("{}/input_items", at(&paid))).await.ok(200);
        assert_eq!(input["data"][0]["approval_request_id"], json!("mcpr_i"));
        assert_eq!(agent.requests(), 2);
    }
}

everywhere! {
    async fn a_response_that_is_deleted_or_not_stored_is_not_found(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let first = answered(&dev, &agent, json!({ "model": "a", "input": "one" }), "1").await;
        let deleted = dev.delete(&at(&first)).await.ok(200);
        assert_eq!(deleted, json!({ "id": first["id"], "object": "response.deleted", "deleted": true }));
        for path in [at(&first), format!("{}?stream=true", at(&first)), format!("{}/input_items", at(&first))] {
            refused(&dev.get(&path).await, 404, "response_not_found");
        }
        refused(&dev.delete(&at(&first)).await, 404, "response_not_found");
        let after = json!({ "model": "a", "input": "two", "previous_response_id": first["id"] });
        refused(&send(create(&dev, after)).await, 404, "previous_response_not_found");
        // The conversation goes on without the response.
        let next = json!({ "model": "a", "input": "two", "conversation": first["conversation"]["id"] });
        answered(&dev, &agent, next, "2").await;
        let threads = async || dev.get("/v1/threads?includeArchived=true").await.ok(200)["threads"].as_array().map(Vec::len);
        assert_eq!(threads().await, Some(1));
        let gone = answered(&dev, &agent, json!({ "model": "a", "input": "secret", "store": false }), "x").await;
        assert_eq!((&gone["store"], &gone["conversation"]), (&json!(false), &Value::Null));
        refused(&dev.get(&at(&gone)).await, 404, "response_not_found");
        eventually("the thread is deleted", async || (threads().await == Some(1)).then_some(())).await;
    }
}

/// Numbers of events, in order.
fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["sequence_number"].as_u64().expect("a number")).collect()
}

#[tokio::test]
async fn what_another_attempt_has_superseded_leaves_a_gap_for_ever() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    let agent = agent_that(&dev, continues()).await;
    let body = json!({ "model": "a", "input": "hi", "background": true, "instructions": "Be kind." });
    let begun = send(create(&dev, body)).await.ok(200);
    let mut call = agent.call().await;
    call.say(&[said("m", "kept").as_slice(), &said("n", "half")[..2]].concat()).await;
    let (thread, run) = (call.input()["threadId"].as_str().expect("an id").to_owned(), run_of(&call));
    eventually("the half is in the log", async || (dev.types(&thread).await.len() == 6).then_some(())).await;
    // Events that a client has seen before the server goes down keep their numbers.
    let live = open(dev.request(Method::GET, &format!("{}?stream=true", at(&begun)))).await;
    let seen = tokio::spawn(async move {
        let (mut live, mut seen) = (live, Vec::new());
        while let Ok(Some(piece)) = live.chunk().await {
            seen.extend_from_slice(&piece);
        }
        String::from_utf8(seen).expect("text")
    });
    server.stop().await;
    call.hung_up().await;
    let seen = events(&soon(seen).await.expect("read"));
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    let call = agent.call().await;
    call.finish(&whole(&run, "o", "rest")).await;
    let response = eventually("the run ends", async || {
        let response = dev.get(&at(&begun)).await.ok(200);
        (response["status"] == "completed").then_some(response)
    })
    .await;
    assert_eq!(response["instructions"], "Be kind.", "the record is read again");
    let stream = async |after: &str| {
        let stream = open(dev.request(Method::GET, &format!("{}?stream=true{after}", at(&begun)))).await;
        events(&soon(stream.text()).await.expect("whole"))
    };
    let all = stream("").await;
    let of_all = numbers(&all);
    assert!(of_all.windows(2).all(|two| two[0] < two[1]), "{of_all:?}");
    assert!(of_all.windows(2).any(|two| two[1] > two[0] + 1), "what was superseded leaves a gap: {of_all:?}");
    assert!(seen.len() > 4, "{seen:?}");
    for event in &seen {
        let number = event["sequence_number"].as_u64().expect("a number");
        let again = all.iter().find(|other| other["sequence_number"] == number);
        assert!(again.is_none_or(|again| again == event), "{event} {again:?}");
    }
    let last_seen = numbers(&seen).pop().expect("a number");
    let after = all.iter().filter(|event| event["sequence_number"].as_u64() > Some(last_seen)).cloned();
    assert_eq!(stream(&format!("&starting_after={last_seen}")).await, after.collect::<Vec<_>>());
    let texts: Vec<_> =
        response["output"].as_array().expect("items").iter().map(|item| item["content"][0]["text"].clone()).collect();
    assert_eq!(json!(texts), json!(["kept", "rest"]));
    assert_eq!(all.last().expect("an event")["response"], response);
    server.stop().await;
}

#[tokio::test]
async fn a_run_of_another_api_is_a_response() {
    let (_directory, server, agent, _) = restarted(json!({}), &said("n", "half")[..2]).await;
    let dev = server.client();
    agent.call().await.finish(&whole("r", "n", "hello")).await;
    ended(&dev, "r").await;
    let response = dev.get(&format!("{RESPONSES}/{}", response_id("t", "r"))).await.ok(200);
    assert_eq!((text(&response, "model"), said_by(&response)), ("a", "hello"));
    assert_eq!((&response["previous_response_id"], &response["store"]), (&Value::Null, &json!(true)));
    server.stop().await;
}

everywhere! {
    async fn every_refusal_has_openais_form(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let project = server.project();
        let agent = agent(&project).await;
        let nobody = Client { key: None, ..project.clone() };
        refused(&nobody.get("/openai/v1/models").await, 401, "invalid_api_key");
        refused(&project.get("/openai/v1/no-such-route").await, 404, "not_found");
        refused(&project.put("/openai/v1/responses", json!({})).await, 405, "method_not_allowed");
        refused(&project.get("/openai/v1/models?no=1").await, 400, "unknown_parameter");
        let reader = Client { user: Some("ann".into()), ..key(server, "default", &[Scope::Read]).await };
        refused(&send(create(&reader, json!({ "model": "a", "input": "hi" }))).await, 403, "forbidden");
        let ann = Client { user: Some("ann".into()), ..project.clone() };
        let text_body = ann.request(Method::POST, RESPONSES).header("content-type", "text/plain").body("hi");
        refused(&send(text_body).await, 415, "unsupported_media_type");
        for (body, param) in [
            (json!({ "input": "hi" }), "model"),
            (json!({ "model": "a" }), "input"),
            (json!({ "model": "a", "input": "hi", "no_such": 1 }), "no_such"),
            (json!({ "model": "a", "input": [{ "type": "computer_call" }] }), "input[0]"),
            (json!({ "model": "a", "input": [{ "role": "robot", "content": "x" }] }), "input[0].role"),
            (json!({ "model": "a", "input": "hi", "tools": [{ "type": "web_search" }] }), "tools[0].type"),
        ] {
            let answer = send(create(&ann, body.clone())).await;
            let code = if param == "no_such" { "unknown_parameter" } else { "invalid_request" };
            assert_eq!(refused(&answer, 400, code)["param"], param, "{body}");
        }
        for path in ["/openai/v1/responses/input_tokens", "/openai/v1/responses/compact"] {
            refused(&ann.post(path, json!({})).await, 501, "not_implemented");
        }
        // Responses of another user are not found.
        let request = create(&ann, json!({ "model": "a", "input": "hi", "background": true }));
        let response = send(request).await.ok(200);
        let call = agent.call().await;
        let run = run_of(&call);
        call.finish(&whole(&run, "m", "one")).await;
        let bob = Client { user: Some("bob".into()), ..project.clone() };
        for answer in [
            bob.get(&at(&response)).await,
            bob.delete(&at(&response)).await,
            bob.post(&format!("{}/cancel", at(&response)), json!({})).await,
        ] {
            refused(&answer, 404, "response_not_found");
        }
        assert_eq!(project.get("/openai/v1/models/a").await.ok(200)["owned_by"], "project");
        refused(&project.get("/openai/v1/models/nobody").await, 404, "model_not_found");
        let models = project.get("/openai/v1/models").await.ok(200);
        assert!(models["data"].as_array().expect("models").iter().any(|model| model["id"] == "demo"));
    }
}

/// A client of a stream that leaves ends the run only if the agent says so, and never one in the background.
#[tokio::test]
async fn a_client_that_leaves_stops_no_background_run() {
    harness::run(harness::Options::memory(), async |server| {
        let dev = server.client();
        let agent = agent_that(&dev, json!({ "onDisconnect": "stop" })).await;
        let background = json!({ "model": "a", "input": "hi", "stream": true, "background": true });
        let stream = open(create(&dev, background)).await;
        let mut call = agent.call().await;
        call.say(&said("m", "half")).await;
        drop(stream);
        let run = run_of(&call);
        call.finish(&[finished(&run)]).await;
        let status = async |thread: String, run: String| {
            eventually("the run ends", async || {
                let found = dev.get(&format!("/v1/threads/{thread}/runs/{run}")).await.ok(200);
                (!found["endedAt"].is_null()).then(|| text(&found, "status").to_owned())
            })
            .await
        };
        let asked = open(create(&dev, json!({ "model": "a", "input": "hi", "stream": true }))).await;
        let mut call = agent.call().await;
        call.say(&said("m", "half")).await;
        let (thread, run) = (call.input()["threadId"].as_str().expect("an id").to_owned(), run_of(&call));
        drop(asked);
        assert_eq!(status(thread, run).await, "stopped");
    })
    .await;
}
