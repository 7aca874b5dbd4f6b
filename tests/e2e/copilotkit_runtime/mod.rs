//! The API of CopilotKit's browser packages, frame by frame; what the packages themselves make of it is in
//! `tests/copilotkit`.

mod connecting;
mod continuing;
mod runs;
mod single;
mod suggesting;
mod threads;

use std::collections::HashSet;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use threadline_core::projection::conversation::Conversation;

use crate::harness::{Client, agent::FakeAgent, sse::Events};

/// The agent of this test, made over the API under the name `a`.
async fn agent(client: &Client) -> FakeAgent {
    let agent = FakeAgent::start().await;
    client.put("/v1/agents/a", json!({ "url": agent.url })).await.ok(200);
    agent
}

fn user(id: &str, content: &str) -> Value {
    json!({ "id": id, "role": "user", "content": content })
}

/// RunAgentInput, as the packages send it.
fn input(run: &str, messages: Value) -> Value {
    json!({
        "threadId": "t", "runId": run, "messages": messages,
        "state": {}, "tools": [], "context": [], "forwardedProps": {},
    })
}

fn asks(client: &Client, path: &str, body: &Value) -> RequestBuilder {
    client.request(Method::POST, &format!("/copilotkit{path}")).json(body)
}

/// Asks agent `a` for a run.
async fn run(client: &Client, run: &str, messages: Value) -> Events {
    Events::open(asks(client, "/agent/a/run", &input(run, messages))).await
}

/// Comes back with these messages.
async fn connect(client: &Client, messages: Value) -> Events {
    Events::open(asks(client, "/agent/a/connect", &input("any", messages))).await
}

fn said(id: &str, content: &str) -> [Value; 3] {
    [
        json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": content }),
        json!({ "type": "TEXT_MESSAGE_END", "messageId": id }),
    ]
}

fn finished(run: &str) -> Value {
    json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": run })
}

/// A run of agent `a`, to its end.
async fn whole(client: &Client, agent: &FakeAgent, id: &str, messages: Value, events: &[Value]) -> Vec<Value> {
    let mut stream = run(client, id, messages).await;
    agent.call().await.finish(events).await;
    rest(&mut stream).await
}

/// The next event.
async fn next(stream: &mut Events) -> Value {
    loop {
        let event = stream.next().await.expect("an event");
        if event.comment.is_none() {
            assert_eq!((&event.event, &event.id), (&None, &None), "{event:?}");
            return event.json();
        }
    }
}

/// The events up to the one of this type.
async fn until(stream: &mut Events, kind: &str) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        all.push(next(stream).await);
        if all.last().is_some_and(|event| event["type"] == kind) {
            return all;
        }
    }
}

/// The events up to the end of the stream.
async fn rest(stream: &mut Events) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(event) = stream.next().await {
        if event.comment.is_none() {
            all.push(event.json());
        }
    }
    all
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().expect("a type")).collect()
}

/// The rules of `verifyEvents` in the oldest client, which ends the stream for a breach of any.
fn verify(events: &[Value]) {
    let (mut open, mut running, mut failed): (HashSet<String>, bool, bool) = (HashSet::new(), false, false);
    for event in events {
        let kind = event["type"].as_str().expect("a type");
        assert!(!failed, "{event} after RUN_ERROR: {events:#?}");
        assert_eq!(running, kind != "RUN_STARTED", "{event}: {events:#?}");
        let id =
            ["messageId", "toolCallId", "stepName"].iter().find_map(|name| event[name].as_str()).unwrap_or_default();
        let name = |kind: &str| format!("{} {id}", kind.rsplit_once('_').expect("a pair").0);
        match kind {
            "RUN_STARTED" => running = true,
            "RUN_FINISHED" => {
                assert!(open.is_empty(), "{open:?} is open at {event}");
                running = false;
            }
            "RUN_ERROR" => failed = true,
            "TEXT_MESSAGE_START" | "TOOL_CALL_START" | "STEP_STARTED" => assert!(open.insert(name(kind)), "{event}"),
            "TEXT_MESSAGE_END" | "TOOL_CALL_END" | "STEP_FINISHED" => assert!(open.remove(&name(kind)), "{event}"),
            "TEXT_MESSAGE_CONTENT" | "TOOL_CALL_ARGS" => assert!(open.contains(&name(kind)), "{event}"),
            _ => {}
        }
    }
}

/// What a client makes of it that had these messages.
fn folded(before: Value, events: &[Value]) -> (Value, Value) {
    verify(events);
    let mut conversation = Conversation::default();
    conversation.observe(json!({ "type": "MESSAGES_SNAPSHOT", "messages": before }).to_string().as_bytes());
    events.iter().for_each(|event| conversation.observe(event.to_string().as_bytes()));
    let json = |text: Vec<u8>| serde_json::from_slice(&text).expect("JSON");
    (json(conversation.messages_json()), json(conversation.state_json()))
}

/// What the thread holds.
async fn held(client: &Client) -> (Value, Value) {
    let messages = client.get("/v1/threads/t/messages").await.ok(200)["messages"].take();
    (messages, client.get("/v1/threads/t/state").await.ok(200)["state"].take())
}
