//! Agents over the API: what they are, and what is never shown.

use serde_json::{Value, json};
use threadline_core::{AgentId, ProjectId};
use threadline_http::egress::Network;

use super::{ask, ended, finished};
use crate::harness::{agent::FakeAgent, everywhere, text};

fn ids(list: &Value) -> Vec<&str> {
    list["agents"].as_array().expect("agents").iter().map(|agent| text(agent, "agentId")).collect()
}

everywhere! {
    async fn agents_are_made_changed_listed_and_forgotten(server) {
        let dev = server.client();
        assert_eq!(ids(&dev.get("/v1/agents").await.ok(200)), ["demo"]);
        dev.get("/v1/agents/b").await.problem(404, "agent-not-found");
        assert_eq!(dev.delete("/v1/agents/b").await.status, 204);
        let made = dev.put("/v1/agents/b", json!({ "url": "http://127.0.0.1:1024/x" })).await.ok(200);
        assert_eq!(made, json!({
            "agentId": "b", "kind": "ag-ui", "onDisconnect": "continue", "idleTimeoutSeconds": 120, "namesThreads": false, "approvals": "user",
            "clientMay": { "for": "untrusted", "history": "reference", "system": "context", "state": true, "tools": true, "results": "own" },
            "reservedTools": [], "record": "digest", "recovery": "retry", "toolsRepeatable": false, "busy": "reject", "origin": "api",
            "url": "http://127.0.0.1:1024/x", "headerNames": []
        }));
        let changed = json!({
            "kind": "openai", "baseUrl": "https://models.test/v1/", "model": "m", "apiKey": "k", "onDisconnect": "stop"
        });
        for _ in 0..2 {
            let changed = dev.put("/v1/agents/b", changed.clone()).await.ok(200);
            assert_eq!((&changed["kind"], &changed["model"]), (&json!("openai"), &json!("m")));
            assert_eq!(changed["onDisconnect"], "stop");
        }
        dev.put("/v1/agents/%C3%A9%20a", json!({ "kind": "demo" })).await.ok(200);
        assert_eq!(ids(&dev.get("/v1/agents").await.ok(200)), ["b", "demo", "é a"]);
        assert_eq!(dev.delete("/v1/agents/b").await.status, 204);
        assert_eq!(dev.delete("/v1/agents/b").await.status, 204);
        assert_eq!(ids(&dev.get("/v1/agents").await.ok(200)), ["demo", "é a"]);
        dev.put("/v1/agents/demo", json!({ "url": "http://x" })).await.problem(409, "agent-configured");
        dev.delete("/v1/agents/demo").await.problem(409, "agent-configured");
    }
}

everywhere! {
    async fn secrets_are_never_shown(server) {
        let dev = server.client();
        let headers = json!({ "Authorization": "Bearer s3cret", "X-Key": "s3cret" });
        let secret = json!({ "url": "http://127.0.0.1:1024/", "headers": headers });
        let openai = json!({
            "kind": "openai", "baseUrl": "http://x", "model": "m", "apiKey": "s3cret", "instructions": "s3cret"
        });
        let mut answers = vec![
            dev.put("/v1/agents/a", secret).await,
            dev.put("/v1/agents/o", openai).await,
            dev.get("/v1/agents").await,
            dev.get("/v1/agents/a").await,
            dev.get("/v1/agents/o").await,
        ];
        assert_eq!(answers[3].ok(200)["headerNames"], json!(["Authorization", "X-Key"]));
        // Nor in what a mistake is answered with.
        for bad in [
            json!({ "url": "http://127.0.0.1:1024/", "headers": { "X-Key": "s3cret\n" } }),
            json!({ "url": "http://user:s3cret@127.0.0.1/" }),
            json!({ "kind": "openai", "baseUrl": "http://x", "model": "m", "apiKey": "s3cret\u{7}" }),
            json!({ "kind": "demo", "apiKey": "s3cret" }),
        ] {
            let answer = dev.put("/v1/agents/bad", bad).await;
            answer.problem(422, "invalid-agent");
            answers.push(answer);
        }
        for answer in answers {
            assert!(!answer.text().contains("s3cret"), "{}", answer.text());
        }
    }
}

everywhere! {
    async fn invalid_definitions_are_refused(server) {
        let dev = server.client();
        for bad in [
            json!({}),
            json!({ "kind": "openai", "baseUrl": "http://x", "model": "m", "apiKeyEnv": "HOME" }),
            json!({ "url": "http://x", "apiKeyEnv": "HOME" }),
            json!({ "url": "ftp://x" }),
            json!({ "url": "http://x", "idleTimeoutSeconds": 0 }),
            json!({ "url": format!("http://x/{}", "x".repeat(70_000)) }),
        ] {
            dev.put("/v1/agents/bad", bad).await.problem(422, "invalid-agent");
        }
        for bad in [json!([]), json!({ "uri": "http://x" }), json!({ "url": 7 }), json!({ "kind": "magic" })] {
            dev.put("/v1/agents/bad", bad).await.problem(400, "invalid-request");
        }
        let long = "x".repeat(257);
        dev.put(&format!("/v1/agents/{long}"), json!({ "kind": "demo" })).await.problem(400, "invalid-request");
        assert_eq!(ids(&dev.get("/v1/agents").await.ok(200)), ["demo"]);
    }
}

everywhere! {
    async fn agents_are_the_projects_business(
        server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])
    ) {
        let (project, ann) = (server.project(), server.user("ann"));
        let agent = FakeAgent::start().await;
        let definition = json!({ "url": agent.url, "headers": { "X-Key": "k" } });
        ann.put("/v1/agents/a", definition.clone()).await.problem(403, "forbidden");
        project.put("/v1/agents/a", definition.clone()).await.ok(200);
        ann.delete("/v1/agents/a").await.problem(403, "forbidden");
        // Users see that it is there, and not where.
        for answer in [ann.get("/v1/agents/a").await, ann.get("/v1/agents").await] {
            let text = answer.text();
            assert!(text.contains("\"a\"") && !text.contains(&agent.url) && !text.contains("X-Key"), "{text}");
        }
        assert_eq!(project.get("/v1/agents/a").await.ok(200)["url"], agent.url);
        // Another project's agents are not ours: there is one project so far, so this one stands in the store only.
        let (other, id) = (ProjectId::new("other").expect("an id"), AgentId::new("theirs").expect("an id"));
        server.store.put_agent(&other, &id, &definition.to_string(), None).await.expect("kept");
        project.get("/v1/agents/theirs").await.problem(404, "agent-not-found");
        assert_eq!(ids(&project.get("/v1/agents").await.ok(200)), ["a", "demo"]);
        // Users run the agent; a run of an agent that is deleted meanwhile continues.
        ann.thread("t").await;
        ann.post("/v1/threads/t/runs", ask("r", json!([]))).await.ok(201);
        let call = agent.call().await;
        assert_eq!(project.delete("/v1/agents/a").await.status, 204);
        call.finish(&[finished("r")]).await;
        assert_eq!(ended(&ann, "r").await["status"], "finished");
        ann.post("/v1/threads/t/runs", ask("s", json!([]))).await.problem(404, "agent-not-found");
    }
}
