//! What an agent is given, and what of it is stored.

use reqwest::Method;
use serde_json::{Value, json};
use threadline_core::AgentId;
use threadline_http::egress::Network;

use super::{agent, agent_that, ask, ended, events_of, finished, messages, said, start, types_of, user, whole};
use crate::harness::{Backend, Options, Server, everywhere, http::send, run, sse::Events};
use threadline::agents::Definition;

use crate::harness::agent::FakeAgent;

everywhere! {
    async fn new_messages_are_enough_and_are_there_before_the_agent_has_answered(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.post("/v1/threads/t/runs", ask("r1", json!([user("u1", "hi")]))).await.ok(201);
        let mut call = agent.call().await;
        let state = json!({ "type": "STATE_SNAPSHOT", "snapshot": { "step": 1 } });
        call.say(&said("a1", "hello")).await;
        call.finish(&[state, finished("r1")]).await;
        ended(&dev, "r1").await;

        let mut follower = {
            let path = format!("/v1/threads/t/events?after=6&epoch={}", dev.epoch("t").await);
            Events::open(dev.request(Method::GET, &path)).await
        };
        follower.named("hello").await;
        follower.named("caught_up").await;
        let body = ask("r2", json!([{ "role": "user", "content": "more" }]));
        let answer = dev.post("/v1/threads/t/runs", body).await.ok(201);
        let run = &answer["run"];
        assert_eq!((&answer["cursor"], &run["status"], &run["agentId"]), (&json!(6), &json!("running"), &json!("a")));
        // The agent's request has not been read yet.
        let started = follower.message().await.json();
        let first = &started["event"];
        assert_eq!((&started["seq"], &first["type"]), (&json!(7), &json!("RUN_STARTED")));
        let news = first["input"]["messages"].as_array().expect("messages");
        assert_eq!((news.len(), &news[0]["content"]), (1, &json!("more")), "only what is new");
        let given = messages(&dev).await["messages"].clone();
        assert_eq!(given[2]["content"], "more");

        let call = agent.call().await;
        let input = call.input();
        assert_eq!((&input["threadId"], &input["runId"]), (&json!("t"), &json!("r2")));
        assert_eq!(input["messages"], given, "history and news, with the id that was made up");
        assert_eq!(input["state"], json!({ "step": 1 }));
        for (member, empty) in [("tools", json!([])), ("context", json!([])), ("forwardedProps", json!({}))] {
            assert_eq!(input[member], empty);
        }
        let head = &call.head;
        assert!(head.starts_with("post / http/1.1") && head.contains("\naccept: text/event-stream"), "{head}");
        call.finish(&whole("r2", "a2", "there")).await;
        assert_eq!(ended(&dev, "r2").await["status"], "finished");
        assert_eq!(follower.message().await.json()["event"]["type"], "TEXT_MESSAGE_START");
        assert_eq!(agent.requests(), 2);
    }
}

everywhere! {
    async fn a_whole_input_is_handed_on_as_it_is(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let dev = server.user("ann");
        dev.thread("t").await;
        let agent = agent(&server.project()).await;
        dev.post("/v1/threads/t/runs", ask("r1", json!([user("u1", "hi")]))).await.ok(201);
        agent.call().await.finish(&whole("r1", "a1", "hello")).await;
        ended(&dev, "r1").await;
        let input = json!({
            "threadId": "t", "runId": "r2", "parentRunId": "r1",
            "messages": [{ "id": "u1", "role": "user", "content": "hi", "later": { "kept": 1 } }, user("u2", "again")],
            "state": { "mine": true },
            "tools": [{ "name": "map", "description": "secretTool", "parameters": {} }],
            "context": [{ "description": "where", "value": "secretPlace" }],
            "forwardedProps": { "token": "secretToken" },
            "resume": [{ "interruptId": "i1", "status": "resolved", "payload": { "ok": true } }],
            "aMemberToCome": [1, { "b": null }],
        });
        dev.post("/v1/threads/t/runs", json!({ "agentId": "a", "input": input })).await.ok(201);
        let call = agent.call().await;
        assert_eq!(call.input(), input);
        call.finish(&[finished("r2")]).await;
        ended(&dev, "r2").await;
        let events = events_of(&dev, "r2").await;
        assert_eq!(events[0]["input"]["messages"], json!([user("u2", "again")]));
        assert_eq!((&events[0]["parentRunId"], &events[0]["input"]["resume"]), (&json!("r1"), &input["resume"]));
        assert_eq!(events[1], json!({ "type": "STATE_SNAPSHOT", "snapshot": { "mine": true } }));
        let log = dev.get("/v1/threads/t/events").await;
        assert!(!log.text().contains("secret") && !log.text().contains("aMemberToCome"), "{}", log.text());
        assert_eq!(dev.get("/v1/threads/t/state").await.ok(200)["state"], json!({ "mine": true }));
    }
}

everywhere! {
    async fn the_agui_api_creates_threads_and_streams_bare_events(server) {
        let dev = server.client();
        let agent = agent_that(&dev, json!({ "headers": { "X-Key": "k3y" } })).await;
        let mut body = json!({ "messages": [user("u1", "hi")], "state": {}, "tools": [], "context": [] });
        body["forwardedProps"] = json!({});
        let asked = dev.request(Method::POST, "/agui/a").json(&body);
        let response = crate::harness::http::open(asked).await;
        let header = |name: &str| response.headers()[name].to_str().expect("text").to_owned();
        let (thread, run) = (header("threadline-thread-id"), header("threadline-run-id"));
        assert_eq!(header("content-type"), "text/event-stream");
        let call = agent.call().await;
        assert!(call.head.contains("x-key: k3y"), "{}", call.head);
        assert_eq!((&call.input()["threadId"], &call.input()["runId"]), (&json!(thread), &json!(run)));
        let last = json!({ "type": "RUN_FINISHED", "threadId": thread, "runId": run });
        call.finish(&[said("a1", "x"), vec![last.clone()]].concat()).await;
        let text = crate::harness::soon(response.text()).await.expect("a whole answer");
        let epoch = dev.get(&format!("/v1/threads/{thread}")).await.ok(200)["epoch"].as_str().expect("text").to_owned();
        assert!(text.starts_with(&format!("id: {epoch}:1\ndata: {{\"type\":\"RUN_STARTED\"")), "{text}");
        assert!(text.ends_with(&format!("id: {epoch}:5\ndata: {last}\n\n")), "{text}");
        assert_eq!(dev.types(&thread).await.len(), 5);
    }
}

everywhere! {
    async fn invalid_inputs_are_refused_and_store_nothing(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        dev.thread("u").await;
        for bad in [json!([7]), json!([{ "id": "x" }]), json!([user("x", "1"), user("x", "2")])] {
            let body = json!({ "agentId": "a", "input": { "messages": bad } });
            dev.post("/v1/threads/u/runs", body).await.problem(400, "invalid-request");
            let body = json!({ "threadId": "t", "messages": bad });
            dev.post("/agui/a", body).await.problem(400, "invalid-request");
        }
        dev.post("/v1/threads/u/runs", json!({ "input": {} })).await.problem(400, "invalid-request");
        let other = json!({ "agentId": "a", "input": { "threadId": "v" } });
        dev.post("/v1/threads/u/runs", other).await.problem(400, "invalid-request");
        dev.post("/v1/threads/u/runs", json!({ "agentId": "b", "input": {} })).await.problem(404, "agent-not-found");
        dev.post("/agui/b", json!({ "threadId": "t" })).await.problem(404, "agent-not-found");
        dev.post("/v1/threads/t/runs", ask("r", json!([]))).await.problem(404, "thread-not-found");
        assert_eq!((dev.types("u").await.len(), agent.requests()), (0, 0));
        // A thread is made by a run, not by an attempt.
        dev.get("/v1/threads/t").await.problem(404, "thread-not-found");
    }
}

async fn configured(backend: Backend) {
    let agent = FakeAgent::start().await;
    let definition =
        Definition { headers: [("X-Key".into(), "s3cret".into())].into(), ..Definition::ag_ui(&agent.url) };
    let named = definition.into_agent(AgentId::new("fixed").expect("an id"), |_| None).expect("an agent");
    run(Options::new(backend).with_agents(vec![named]), async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        let body = json!({ "runId": "r", "agentId": "fixed", "input": { "messages": [user("u1", "hi")] } });
        let asked = tokio::spawn(send(start(&dev, body).header("accept", "text/event-stream")));
        let call = agent.call().await;
        assert!(call.head.contains("x-key: s3cret"), "{}", call.head);
        call.finish(&whole("r", "a1", "hello")).await;
        let events = asked.await.expect("answered");
        assert_eq!(events.status, 200, "{}", events.text());
        assert!(
            events.text().contains("event: ended\ndata: {\"reason\":\"run-ended\",\"seq\":5}"),
            "{}",
            events.text()
        );
        let view = dev.get("/v1/agents/fixed").await;
        assert_eq!((&view.ok(200)["origin"], view.text().contains("s3cret")), (&json!("configuration"), false));
        dev.put("/v1/agents/fixed", json!({ "kind": "demo" })).await.problem(409, "agent-configured");
        dev.delete("/v1/agents/fixed").await.problem(409, "agent-configured");
    })
    .await;
}

#[tokio::test]
async fn agents_of_the_configuration_are_there_for_all_on_memory() {
    configured(Backend::Memory).await;
}

#[tokio::test]
async fn agents_of_the_configuration_are_there_for_all_on_sqlite() {
    configured(Backend::Sqlite).await;
}

everywhere! {
    async fn inputs_that_clients_could_not_read_back_are_refused_and_store_nothing(server) {
        let dev = server.client();
        for message in [
            json!({ "id": "b", "role": "banana", "content": "x" }),
            json!({ "id": "b", "role": "user", "content": { "x": 1 } }),
            json!({ "id": "b", "role": "tool", "content": "x" }),
        ] {
            let input = json!({ "threadId": "t", "messages": [message] });
            dev.post("/agui/demo", input).await.problem(400, "invalid-request");
        }
        dev.get("/v1/threads/t").await.problem(404, "thread-not-found");
        dev.thread("t").await;
        let start = |body: Value| dev.post("/v1/threads/t/runs", body);
        start(json!({ "agentId": "demo", "input": null })).await.problem(400, "invalid-request");
        let two = json!({ "agentId": "demo", "runId": "a", "input": { "runId": "b" } });
        start(two).await.problem(400, "invalid-request");
        let large = json!([user("u", &"x".repeat(9 * 1024 * 1024))]);
        start(json!({ "agentId": "demo", "input": { "messages": large } })).await.problem(413, "too-large");
        assert_eq!(dev.types("t").await, [""; 0]);
    }
}

everywhere! {
    async fn a_run_is_of_one_agent(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.post("/v1/threads/t/runs", ask("r", json!([]))).await.ok(201);
        let other = json!({ "agentId": "demo", "runId": "r", "input": {} });
        dev.post("/v1/threads/t/runs", other).await.problem(409, "run-exists");
        dev.post("/agui/demo", json!({ "threadId": "t", "runId": "r" })).await.problem(409, "run-exists");
        // Its own RUN_STARTED is dropped, however it is written.
        let mut call = agent.call().await;
        call.send("data: {\"type\":\"RUN_\\u0053TARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n").await;
        call.finish(&[finished("r")]).await;
        ended(&dev, "r").await;
        assert_eq!(types_of(&dev, "r").await, ["RUN_STARTED", "RUN_FINISHED"]);
    }
}
