//! Agents keep their origin, unless an administrator moves them.

use serde_json::{Value, json};
use threadline_core::Scope;

use super::key;
use crate::harness::{Options, Server, everywhere, run, text};

everywhere! {
    async fn an_agent_is_moved_by_an_administrator_alone(server: |options| options.with_key("secret")) {
        let operator = server.project();
        let deployer = key(server, "default", &[Scope::Read, Scope::Agents]).await;
        let at = |url: &str| json!({ "url": url });
        deployer.put("/v1/agents/a", at("https://a.example/run")).await.ok(200);
        // The same origin, also written otherwise; all else may change.
        deployer.put("/v1/agents/a", at("https://A.example:443/other")).await.ok(200);
        let elsewhere = ["https://b.example/run", "http://a.example/run", "https://a.example:8443/run"];
        for url in elsewhere {
            let refused = deployer.put("/v1/agents/a", at(url)).await.problem(403, "forbidden");
            assert_eq!(refused["scope"], "admin", "{url}");
        }
        deployer.put("/v1/agents/a", json!({ "kind": "demo" })).await.problem(403, "forbidden");
        // A name that was deleted is no new name.
        assert_eq!(deployer.delete("/v1/agents/a").await.status, 204);
        for url in elsewhere {
            deployer.put("/v1/agents/a", at(url)).await.problem(403, "forbidden");
        }
        deployer.put("/v1/agents/a", at("https://a.example/run")).await.ok(200);
        // An administrator may, and from then on the new origin is the agent's.
        operator.put("/v1/agents/a", at("https://b.example/run")).await.ok(200);
        deployer.put("/v1/agents/a", at("https://a.example/run")).await.problem(403, "forbidden");
        deployer.put("/v1/agents/a", at("https://b.example/v2")).await.ok(200);
        // Origins that the project names are free.
        let origins = |origins: Value| json!({ "agentOrigins": origins });
        for wrong in [json!(["b"]), json!(["https://c.example/"]), json!(["https://c.example/run"]), json!(["ftp://c"]), json!([""])] {
            operator.put("/v1/projects/default", origins(wrong)).await.problem(400, "invalid-request");
        }
        operator.put("/v1/projects/default", origins(json!(["https://c.example"]))).await.ok(200);
        deployer.put("/v1/agents/a", at("https://c.example/run")).await.ok(200);
        deployer.put("/v1/agents/a", at("https://d.example/run")).await.problem(403, "forbidden");
        let audit = operator.get("/v1/audit").await.ok(200);
        let entries = audit["entries"].as_array().expect("entries").iter();
        let moves: Vec<_> = entries
            .filter(|entry| text(entry, "action").starts_with("agent."))
            .map(|entry| (text(entry, "action"), entry["facts"]["originBefore"].as_str(), entry["facts"]["origin"].as_str()))
            .collect();
        let [a, b, c] = ["https://a.example", "https://b.example", "https://c.example"].map(Some);
        assert_eq!(moves, [
            ("agent.changed", None, c),
            ("agent.origin-changed", b, c),
            ("agent.changed", None, b),
            ("agent.changed", None, b),
            ("agent.origin-changed", a, b),
            ("agent.created", None, a),
            ("agent.deleted", None, a),
            ("agent.changed", None, a),
            ("agent.created", None, a),
            ("agent.origin-changed", None, a),
        ]);
    }
}

#[tokio::test]
async fn an_agent_from_before_origins_were_stored_keeps_its_own() {
    run(Options::memory().with_key("secret"), async |server: &Server| {
        let deployer = key(server, "default", &[Scope::Agents]).await;
        let project = threadline_core::ProjectId::new("default").expect("id");
        for name in ["a", "b"] {
            let id = threadline_core::AgentId::new(name).expect("id");
            server.store.put_agent(&project, &id, r#"{"url":"https://a.example/"}"#, None).await.expect("kept");
        }
        let elsewhere = json!({ "url": "https://b.example/" });
        deployer.put("/v1/agents/a", elsewhere.clone()).await.problem(403, "forbidden");
        assert_eq!(deployer.delete("/v1/agents/b").await.status, 204);
        deployer.put("/v1/agents/b", elsewhere).await.problem(403, "forbidden");
        deployer.put("/v1/agents/b", json!({ "url": "https://a.example/" })).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn ports_of_other_services_are_refused() {
    run(Options::memory().with_key("secret"), async |server: &Server| {
        for url in ["http://a.example:22/", "https://a.example:1023/", "http://a.example:25/x"] {
            let refused = server.project().put("/v1/agents/a", json!({ "url": url })).await;
            let problem = refused.problem(422, "invalid-agent");
            assert!(text(&problem, "detail").contains("port"), "{problem}");
        }
        for url in ["http://a.example:80/", "http://a.example:443/", "http://a.example:1024/", "http://a.example/"] {
            server.project().put("/v1/agents/a", json!({ "url": url })).await.ok(200);
        }
    })
    .await;
}
