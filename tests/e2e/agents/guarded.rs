//! Where agents may be: the operator's anywhere, a project's on the public internet and where the operator allows it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use serde_json::json;
use threadline::agents::Definition;
use threadline_core::{AgentId, ProjectId};
use threadline_http::egress::Lookup;

use super::{ask, ended, finished};
use crate::harness::{Client, Options, Server, agent::FakeAgent, everywhere, run};

const KEY: &str = "secret";

/// Every name is this machine's, as in a foreign zone that says so.
fn here() -> Lookup {
    Arc::new(|_| Box::pin(async { Ok(vec![[127, 0, 0, 1].into()]) }))
}

/// The port of an endpoint that must not be connected to, and how often it was.
async fn untouched() -> (u16, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (port, connections) = (listener.local_addr().expect("an address").port(), Arc::new(AtomicUsize::new(0)));
    let counter = connections.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counter.fetch_add(1, SeqCst);
        }
    });
    (port, connections)
}

/// A run of agent `a` has ended because of where it is.
async fn forbidden(client: &Client, id: &str) {
    client.post("/v1/threads/t/runs", ask(id, json!([]))).await.ok(201);
    let run = ended(client, id).await;
    assert_eq!((&run["status"], &run["errorCode"]), (&json!("error"), &json!("agent-address-forbidden")), "{run}");
    let message = run["errorMessage"].as_str().expect("a message");
    assert!(message.contains("--allow-agent-networks") && !message.contains("127.0.0.1"), "{message}");
}

everywhere! {
    async fn an_address_that_is_not_public_is_refused_when_it_is_written_down(
        server: |options| options.with_key(KEY)
    ) {
        let project = server.project();
        for host in [
            "127.0.0.1:8000", "127.1", "2130706433", "0x7f.1", "localhost", "LOCALHOST.:1", "a.localhost", "0.0.0.0", "[::1]",
            "[::ffff:127.0.0.1]", "10.0.0.1", "169.254.169.254", "100.64.0.1", "[fe80::1]", "[fd12::1]", "[64:ff9b::10.0.0.1]",
        ] {
            for definition in [
                json!({ "url": format!("http://{host}/latest/meta-data") }),
                json!({ "kind": "openai", "baseUrl": format!("https://{host}/v1"), "model": "m" }),
            ] {
                let answer = project.put("/v1/agents/a", definition).await;
                answer.problem(422, "invalid-agent");
                assert!(answer.text().contains("--allow-agent-networks"), "{}", answer.text());
            }
        }
        project.get("/v1/agents/a").await.problem(404, "agent-not-found");
        for url in ["https://agents.example/", "http://8.8.8.8:8000/", "http://[2606:4700::1111]/"] {
            project.put("/v1/agents/a", json!({ "url": url })).await.ok(200);
        }
    }
}

everywhere! {
    async fn a_host_name_is_checked_by_its_address_at_each_call(
        server: |options| options.with_key(KEY).with_lookup(here())
    ) {
        let (project, ann) = (server.project(), server.user("ann"));
        let (port, connections) = untouched().await;
        ann.thread("t").await;
        project.put("/v1/agents/a", json!({ "url": format!("http://agents.example:{port}/") })).await.ok(200);
        forbidden(&ann, "named").await;
        let model = json!({ "kind": "openai", "baseUrl": format!("http://models.example:{port}/v1"), "model": "m" });
        project.put("/v1/agents/a", model).await.ok(200);
        forbidden(&ann, "model").await;
        // Made before there was a guard: what is stored is not trusted either.
        let (default, id) = (ProjectId::new("default").expect("an id"), AgentId::new("a").expect("an id"));
        let stored = json!({ "url": format!("http://127.0.0.1:{port}/") }).to_string();
        server.store.put_agent(&default, &id, &stored, None).await.expect("kept");
        forbidden(&ann, "stored").await;
        assert_eq!(connections.load(SeqCst), 0, "connections");
        // The thread is free.
        ann.post("/v1/threads/t/runs", json!({ "runId": "last", "agentId": "demo", "input": {} })).await.ok(201);
        assert_eq!(ended(&ann, "last").await["status"], "finished");
    }
}

everywhere! {
    async fn networks_can_be_allowed(
        server: |options| {
            let networks = vec!["127.0.0.1".parse().expect("a network")];
            options.with_key(KEY).with_agent_networks(networks).with_lookup(here())
        }
    ) {
        let (project, ann) = (server.project(), server.user("ann"));
        let agent = FakeAgent::start().await;
        let port = agent.url.rsplit(':').next().expect("a port");
        ann.thread("t").await;
        for (name, host) in [("literal", "127.0.0.1"), ("name", "agents.example")] {
            project.put("/v1/agents/a", json!({ "url": format!("http://{host}:{port}") })).await.ok(200);
            ann.post("/v1/threads/t/runs", ask(name, json!([]))).await.ok(201);
            agent.call().await.finish(&[finished(name)]).await;
            assert_eq!(ended(&ann, name).await["status"], "finished");
        }
        // Only this one.
        project.put("/v1/agents/b", json!({ "url": "http://127.0.0.2/" })).await.problem(422, "invalid-agent");
    }
}

#[tokio::test]
async fn the_operators_own_agents_may_be_anywhere() {
    let agent = FakeAgent::start().await;
    let id = AgentId::new("a").expect("an id");
    let configured = Definition::ag_ui(&agent.url).into_agent(id, |_| None).expect("an agent");
    let options = Options::memory().with_key(KEY).with_agents(vec![configured]);
    run(options, async |server: &Server| {
        let ann = server.user("ann");
        ann.thread("t").await;
        ann.post("/v1/threads/t/runs", ask("r", json!([]))).await.ok(201);
        agent.call().await.finish(&[finished("r")]).await;
        assert_eq!(ended(&ann, "r").await["status"], "finished");
    })
    .await;
}

everywhere! {
    async fn in_development_agents_may_be_on_this_machine(server) {
        let dev = server.client();
        for (url, status) in [
            ("http://127.0.0.1:8000/", 200),
            ("http://localhost:8000/", 200),
            ("http://[::1]:8000/", 200),
            ("http://10.0.0.1/", 422),
            ("http://169.254.169.254/", 422),
        ] {
            assert_eq!(dev.put("/v1/agents/a", json!({ "url": url })).await.status, status, "{url}");
        }
    }
}
