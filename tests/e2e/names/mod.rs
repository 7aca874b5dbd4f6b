//! Names that are made up for threads: by their users' first words, by an endpoint for that, by the agents themselves.

mod agents;
mod endpoint;
mod failing;
mod first_words;
mod nodes;
mod people;

use serde_json::{Value, json};
use threadline::titles::TitleSettings;
use threadline_core::{
    AgentId,
    agent::{Agent, AgentKind, Approvals, Busy, ClientMay, OnDisconnect, Record, Recovery, Secret},
    limits::NAMING_TIMEOUT,
};

use crate::{
    harness::{
        Backend, Client, Options, Server,
        agent::{Call, FakeAgent},
        eventually, run, text,
    },
    metrics::Figures,
};

/// The endpoint for names at this address.
fn endpoint_at(url: &str) -> Agent {
    Agent {
        id: AgentId::new("thread-names").expect("an id"),
        kind: AgentKind::OpenAi {
            base_url: url.to_owned(),
            model: "namer".to_owned(),
            api_key: Some(Secret::new("naming-key")),
            instructions: None,
        },
        on_disconnect: OnDisconnect::default(),
        idle_timeout: NAMING_TIMEOUT,
        names_threads: false,
        approvals: Approvals::default(),
        client_may: ClientMay::default(),
        reserved_tools: Vec::new(),
        record: Record::default(),
        recovery: Recovery::default(),
        tools_repeatable: false,
        busy: Busy::default(),
    }
}

fn endpoint(model: &FakeAgent) -> TitleSettings {
    TitleSettings::default().with_endpoint(endpoint_at(&model.url))
}

/// A test with a server that asks this model for names.
async fn with_model(backend: Backend, test: impl AsyncFnOnce(&Server, &FakeAgent)) {
    let model = FakeAgent::start().await;
    let options = Options::new(backend).with_naming(endpoint(&model));
    run(options, async |server: &Server| test(server, &model).await).await;
}

/// Defines a test of [`with_model`] that runs on every back-end.
macro_rules! everywhere_with_model {
    (async fn $name:ident($server:ident, $model:ident) $body:block) => {
        mod $name {
            use super::*;

            async fn check($server: &Server, $model: &FakeAgent) $body

            #[tokio::test]
            async fn memory() {
                with_model(Backend::Memory, check).await;
            }

            #[tokio::test]
            async fn sqlite() {
                with_model(Backend::Sqlite, check).await;
            }

            #[tokio::test]
            async fn production() {
                with_model(Backend::Production, check).await;
            }
        }
    };
}
use everywhere_with_model;

/// A run of a producer: the user says this, and is answered.
async fn converse(client: &Client, thread: &str, run: &str, said: Value) {
    client.run(thread, run).await;
    let message = json!({ "id": format!("u-{run}"), "role": "user", "content": said });
    let ids = json!({ "threadId": thread, "runId": run, "messages": [message] });
    let answer = format!("a-{run}");
    let events = json!([
        { "type": "RUN_STARTED", "threadId": thread, "runId": run, "input": ids },
        { "type": "TEXT_MESSAGE_START", "messageId": answer, "role": "assistant" },
        { "type": "TEXT_MESSAGE_CONTENT", "messageId": answer, "delta": "With pleasure." },
        { "type": "TEXT_MESSAGE_END", "messageId": answer },
        { "type": "RUN_FINISHED", "threadId": thread, "runId": run },
    ]);
    client.append(thread, run, 1, events).await.ok(200);
}

/// A run that holds only what the user says.
async fn say(client: &Client, thread: &str, run: &str, said: &str) {
    client.run(thread, run).await;
    let message = json!({ "id": format!("u-{run}"), "role": "user", "content": said });
    let ids = json!({ "threadId": thread, "runId": run, "messages": [message] });
    let events = json!([
        { "type": "RUN_STARTED", "threadId": thread, "runId": run, "input": ids },
        { "type": "RUN_FINISHED", "threadId": thread, "runId": run },
    ]);
    client.append(thread, run, 1, events).await.ok(200);
}

async fn look(client: &Client, thread: &str) -> Value {
    client.get(&format!("/v1/threads/{thread}")).await.ok(200)
}

/// The thread, once it has this name from there.
async fn named(client: &Client, thread: &str, name: &str, source: &str) -> Value {
    eventually(name, async || {
        let found = look(client, thread).await;
        (found["name"] == name && found["nameSource"] == source).then_some(found)
    })
    .await
}

/// Waits until so many names had this outcome.
async fn outcome(server: &Server, outcome: &str, count: f64) {
    let name = format!("threadline_thread_names_total{{outcome=\"{outcome}\"}}");
    eventually(&name, async || (Figures::of(server).await.get(&name) >= count).then_some(())).await;
    assert_eq!(Figures::of(server).await.get(&name), count, "{name}");
}

/// What an endpoint of this kind streams as its whole answer.
fn chunks(said: &str) -> String {
    let delta = json!({ "choices": [{ "index": 0, "delta": { "content": said } }] });
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n")
}

/// Answers a request for a name.
async fn answer(mut call: Call, said: &str) {
    call.send(&chunks(said)).await;
    call.end().await;
}
