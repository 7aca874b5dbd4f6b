//! The agent of a thread names it, if it wants to, in a request that is no run.

use super::*;
use crate::harness::everywhere;

async fn agent(client: &Client, names_threads: bool) -> FakeAgent {
    let agent = FakeAgent::start().await;
    let definition = json!({ "url": agent.url, "namesThreads": names_threads });
    let made = client.put("/v1/agents/a", definition).await.ok(200);
    assert_eq!(made["namesThreads"], names_threads);
    agent
}

fn said(content: &str) -> Vec<Value> {
    vec![
        json!({ "type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant" }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": content }),
        json!({ "type": "TEXT_MESSAGE_END", "messageId": "m" }),
        json!({ "type": "RUN_FINISHED", "threadId": "x", "runId": "y" }),
    ]
}

/// Has the agent do a run.
async fn ask(client: &Client, agent: &FakeAgent, run: &str) {
    let input =
        json!({ "messages": [{ "id": format!("u-{run}"), "role": "user", "content": "Plan a trip to Ghent" }] });
    client.post("/v1/threads/t/runs", json!({ "runId": run, "agentId": "a", "input": input })).await.ok(201);
    agent.call().await.finish(&said("Gladly: on Monday …")).await;
}

everywhere! {
    async fn an_agent_that_names_threads_is_called_beside_its_run(server) {
        let dev = server.client();
        let agent = agent(&dev, true).await;
        dev.thread("t").await;
        ask(&dev, &agent, "r").await;
        let call = agent.call().await;
        let input = call.input();
        assert_ne!((text(&input, "threadId"), text(&input, "runId")), ("t", "r"), "the agent's own memory of it is left alone");
        let messages = input["messages"].as_array().expect("messages");
        assert_eq!((messages.len(), &messages[0]["role"]), (1, &json!("user")));
        let asked = text(&messages[0], "content");
        assert!(asked.contains("two to five words") && asked.contains("Plan a trip to Ghent"), "{asked}");
        assert_eq!(input["forwardedProps"], json!({ "threadline": { "task": "name-thread" } }));
        assert_eq!((&input["tools"], &input["state"]), (&json!([]), &json!({})));
        // Naming is no run: the thread is free, and has no follower.
        assert_eq!(look(&dev, "t").await["activeRun"], Value::Null);
        let before = dev.types("t").await;
        call.finish(&said("Ghent Trip Plan")).await;
        named(&dev, "t", "Ghent Trip Plan", "title").await;
        assert_eq!(dev.types("t").await, before);
        let runs = dev.get("/v1/threads/t/runs").await.ok(200);
        assert_eq!(runs["runs"].as_array().map(Vec::len), Some(1), "{runs}");
        let threads = dev.get("/v1/threads").await.ok(200);
        assert_eq!(threads["threads"].as_array().map(Vec::len), Some(1), "{threads}");
        assert_eq!(agent.requests(), 2);
    }
}

everywhere! {
    async fn a_tool_call_is_no_name(server) {
        let dev = server.client();
        let agent = agent(&dev, true).await;
        dev.thread("t").await;
        ask(&dev, &agent, "r").await;
        let mut call = agent.call().await;
        call.say(&[json!({ "type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "name_thread" })]).await;
        // It is heard no further.
        call.hung_up().await;
        outcome(server, "rejected", 1.0).await;
        named(&dev, "t", "Plan a trip to Ghent", "auto").await;
    }
}

#[tokio::test]
async fn agents_that_do_not_name_threads_are_not_called() {
    let server = Server::start(Options::memory()).await;
    let dev = server.client();
    let agent = agent(&dev, false).await;
    dev.thread("t").await;
    ask(&dev, &agent, "r").await;
    named(&dev, "t", "Plan a trip to Ghent", "auto").await;
    // Nor is one whose run has failed.
    dev.put("/v1/agents/a", json!({ "url": agent.url, "namesThreads": true })).await.ok(200);
    let input = json!({ "messages": [{ "role": "user", "content": "Again" }] });
    dev.post("/v1/threads/t/runs", json!({ "runId": "s", "agentId": "a", "input": input })).await.ok(201);
    agent.call().await.finish(&[json!({ "type": "RUN_ERROR", "message": "no" })]).await;
    eventually("its end", async || {
        let run = dev.get("/v1/threads/t/runs/s").await.ok(200);
        (run["status"] == "error").then_some(())
    })
    .await;
    server.stop().await;
    assert_eq!(agent.requests(), 2);
}

#[tokio::test]
async fn an_endpoint_for_names_is_asked_instead() {
    with_model(Backend::Memory, async |server: &Server, model: &FakeAgent| {
        let dev = server.client();
        let agent = agent(&dev, true).await;
        dev.thread("t").await;
        ask(&dev, &agent, "r").await;
        answer(model.call().await, "Trip to Ghent").await;
        named(&dev, "t", "Trip to Ghent", "title").await;
        assert_eq!(agent.requests(), 1);
    })
    .await;
}
