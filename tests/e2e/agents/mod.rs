//! Agents that the server runs: the same promises as for producers that come by themselves.

mod again;
mod busy;
mod chats;
mod claims;
mod context;
mod continuing;
mod definitions;
mod departing;
mod driven;
mod ending;
mod failing;
mod forks;
mod forks_client;
mod guarded;
mod history;
mod hostile;
mod input;
mod interrupts;
mod langgraph;
mod langgraph_checkpoints;
mod langgraph_socket;
mod leaving;
mod open_responses;
mod openai_conversations;
mod openai_repeated;
mod pace;
mod preferring;
mod projections;
mod queue;
mod queue_client;
mod recovery;
mod responses;
mod rules;
mod waiting;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use threadline_client::{Client as Threads, ClientConfig};

use crate::harness::{Client, Server, agent::FakeAgent, eventually, text};

/// The agent of this test, made over the API under the name `a`.
async fn agent(client: &Client) -> FakeAgent {
    agent_that(client, json!({})).await
}

/// The same with more in its definition.
async fn agent_that(client: &Client, definition: Value) -> FakeAgent {
    let agent = FakeAgent::start().await;
    let mut definition = definition;
    definition["url"] = json!(agent.url);
    client.put("/v1/agents/a", definition).await.ok(200);
    agent
}

/// The Rust client, in development mode.
fn threads_of(server: &Server) -> Threads {
    Threads::new(ClientConfig::new(format!("http://{}", server.addr))).expect("a client")
}

/// The body of a start: this run of agent `a`, with these messages.
fn ask(run: &str, messages: Value) -> Value {
    json!({ "runId": run, "agentId": "a", "input": { "messages": messages } })
}

fn user(id: &str, content: &str) -> Value {
    json!({ "id": id, "role": "user", "content": content })
}

fn start(client: &Client, body: Value) -> RequestBuilder {
    client.request(Method::POST, "/v1/threads/t/runs").json(&body)
}

/// The same through AG-UI's API.
fn agui(client: &Client, run: &str, messages: Value) -> RequestBuilder {
    client.request(Method::POST, "/agui/a").json(&json!({ "threadId": "t", "runId": run, "messages": messages }))
}

/// A whole message of the assistant.
fn said(id: &str, content: &str) -> Vec<Value> {
    vec![
        json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": content }),
        json!({ "type": "TEXT_MESSAGE_END", "messageId": id }),
    ]
}

fn finished(run: &str) -> Value {
    json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": run })
}

/// What an agent says to all of a run.
fn whole(run: &str, id: &str, content: &str) -> Vec<Value> {
    let mut events = said(id, content);
    events.push(finished(run));
    events
}

/// The run, once it has ended.
async fn ended(client: &Client, run: &str) -> Value {
    eventually("the run ends", async || {
        let found = client.get(&format!("/v1/threads/t/runs/{run}")).await.ok(200);
        (!found["endedAt"].is_null()).then_some(found)
    })
    .await
}

/// The events of a run, as they are in the log.
async fn events_of(client: &Client, run: &str) -> Vec<Value> {
    let page = client.get(&format!("/v1/threads/t/events?runId={run}&limit=10000")).await.ok(200);
    page["events"].as_array().expect("events").iter().map(|event| event["event"].clone()).collect()
}

async fn types_of(client: &Client, run: &str) -> Vec<String> {
    events_of(client, run).await.iter().map(|event| text(event, "type").to_owned()).collect()
}

async fn messages(client: &Client) -> Value {
    client.get("/v1/threads/t/messages").await.ok(200)
}
