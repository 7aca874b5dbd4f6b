//! API keys and projects, from creation to end.

use std::time::Duration;

use serde_json::{Value, json};
use threadline_core::Scope;

use super::key;
use crate::harness::{Client, Options, Server, Socket, everywhere, http::send, run, text};

everywhere! {
    async fn a_key_that_acts_for_a_user_changes_no_agents(server: |options| options.with_key("secret")) {
        let backend = key(server, "default", &[Scope::Read, Scope::Agents]).await;
        backend.put("/v1/agents/a", json!({ "kind": "demo" })).await.ok(200);
        let for_ann = Client { user: Some("ann".into()), ..backend.clone() };
        for refused in [
            for_ann.put("/v1/agents/a", json!({ "kind": "demo" })).await,
            for_ann.delete("/v1/agents/a").await,
        ] {
            let problem = refused.problem(403, "forbidden");
            assert!(text(&problem, "detail").contains("Threadline-User"), "{problem}");
        }
        assert_eq!(backend.delete("/v1/agents/a").await.status, 204);
    }
}

everywhere! {
    async fn a_key_is_shown_once_and_ends_when_it_is_revoked(server: |options| {
        options.with_key("secret").with_timeouts(|patience| patience.credentials = Duration::from_millis(20))
    }) {
        let operator = server.project();
        let made = operator.post("/v1/keys", json!({ "keyId": "backend" })).await.ok(201);
        let secret = text(&made, "key").to_owned();
        assert!(secret.starts_with("tl_") && secret.len() > 40);
        assert_eq!(made["scopes"], json!(["read", "chat", "approve", "produce", "agents", "tokens"]));
        operator.post("/v1/keys", json!({ "keyId": "backend" })).await.problem(409, "key-exists");
        let listed = operator.get("/v1/keys").await;
        assert!(!listed.text().contains(&secret) && !operator.get("/v1/audit").await.text().contains(&secret));
        assert_eq!(listed.ok(200)["keys"][0]["keyId"], "backend");
        let backend = Client { key: Some(secret), ..server.user("ann") };
        backend.thread("t").await;
        backend.run("t", "r").await;
        let mut socket = Socket::open(&backend).await;
        let mut follower = crate::harness::sse::Events::open(backend.request(reqwest::Method::GET, "/v1/threads/t/events")).await;
        follower.named("hello").await;
        // A key cannot grant scopes that it lacks, and a key of one project cannot change those of another.
        let admin = Client { user: None, ..key(server, "default", &[Scope::Admin, Scope::Read]).await };
        admin.post("/v1/keys", json!({ "scopes": ["chat"] })).await.problem(403, "forbidden");
        admin.post("/v1/keys", json!({ "scopes": ["read"] })).await.ok(201);
        operator.put("/v1/projects/q", json!({})).await.ok(201);
        let foreign = key(server, "q", Scope::ALL).await;
        foreign.delete("/v1/keys/backend").await.problem(404, "key-not-found");
        assert_eq!(foreign.get("/v1/keys").await.ok(200)["keys"].as_array().map(Vec::len), Some(1));

        let revoked = admin.delete("/v1/keys/backend").await.ok(200);
        assert!(revoked["revokedAt"].is_string());
        assert_eq!(admin.delete("/v1/keys/backend").await.ok(200), revoked, "once more is the same");
        backend.get("/v1/threads/t").await.problem(401, "unauthorized");
        let closing = socket.frame("closing").await;
        assert_eq!((closing["code"].as_u64(), closing["reconnect"].as_bool()), (Some(4501), Some(false)));
        let said = loop {
            let event = follower.next().await.expect("it says why it ends");
            if event.event.as_deref() == Some("closing") {
                break event.json();
            }
        };
        assert_eq!(said["reason"], "credential-over");
        assert_eq!(follower.next().await, None);
        // The run did not fail: it is left to its lease.
        assert_eq!(server.user("ann").get("/v1/threads/t/runs/r").await.ok(200)["status"], "running");
        let audit = operator.get("/v1/audit").await.ok(200);
        let actions: Vec<_> = audit["entries"].as_array().expect("entries").iter().map(|entry| text(entry, "action")).collect();
        assert_eq!(actions, ["key.revoked", "key.created", "key.created", "key.created"]);
        let first = operator.get("/v1/audit?limit=1").await.ok(200);
        let rest = operator.get(&format!("/v1/audit?cursor={}", text(&first, "nextCursor"))).await.ok(200);
        let entries = |page: &Value| page["entries"].as_array().expect("entries").clone();
        assert_eq!(entries(&rest), entries(&audit)[1..]);
        operator.get("/v1/audit?cursor=1").await.problem(400, "invalid-cursor");
    }
}

#[tokio::test]
async fn a_key_ends_at_its_time() {
    run(Options::memory().with_key("secret").with_manual_clock(), async |server: &Server| {
        let made = server.project().post("/v1/keys", json!({ "expiresInSeconds": 60 })).await.ok(201);
        let brief = Client { key: Some(text(&made, "key").to_owned()), ..server.user("ann") };
        brief.get("/v1/threads").await.ok(200);
        server.pass(59);
        brief.get("/v1/threads").await.ok(200);
        server.pass(1);
        brief.get("/v1/threads").await.problem(401, "unauthorized");
    })
    .await;
}

#[tokio::test]
async fn keys_that_make_no_sense_are_refused() {
    run(Options::memory().with_key("secret"), async |server: &Server| {
        let operator = server.project();
        for body in [
            json!({ "scopes": [] }),
            json!({ "scopes": ["fly"] }),
            json!({ "keyId": "" }),
            json!({ "keyId": ".." }),
            json!({ "expiresInSeconds": 0 }),
            json!({ "expiresInSeconds": 3_153_600_001_u64 }),
            json!({ "expiresInSeconds": 9_223_372_036_854_775_u64 }),
            json!({ "expiresInSeconds": u64::MAX }),
            json!({ "key": "chosen" }),
        ] {
            operator.post("/v1/keys", body).await.problem(400, "invalid-request");
        }
        let longest = operator.post("/v1/keys", json!({ "expiresInSeconds": 3_153_600_000_u64 })).await.ok(201);
        assert!(text(&longest, "expiresAt") > "2100", "{longest}");
        operator.delete("/v1/keys/none").await.problem(404, "key-not-found");
        for settings in [
            json!({ "retention": { "deleteAfterDays": 0 } }),
            json!({ "retention": { "deleteAfterDays": 36_501 } }),
            json!({ "retention": { "after": 3 } }),
            json!({ "retention": { "deleteAfterDays": 1, "graceDays": 0 } }),
            json!({ "retention": { "deleteAfterDays": 1, "graceDays": 91 } }),
            json!({ "issuer": { "issuer": "i", "audience": "a", "jwksUrl": "nowhere" } }),
            json!({ "issuer": { "issuer": "i", "audience": "", "jwksUrl": "https://x/" } }),
            json!({ "issuer": { "issuer": "i" } }),
        ] {
            operator.put("/v1/projects/p", settings).await.problem(400, "invalid-request");
        }
        operator.get("/v1/projects/p").await.problem(404, "project-not-found");
        operator.post("/v1/projects/p/token-secret", json!({})).await.problem(404, "project-not-found");
        let request = operator.request(reqwest::Method::GET, "/v1/keys").header("threadline-project", "none");
        send(request).await.problem(404, "project-not-found");
    })
    .await;
}

#[tokio::test]
async fn a_key_revoked_on_one_node_is_refused_by_the_other() {
    let store = std::sync::Arc::new(threadline_store::memory::MemoryStore::new(Options::memory().clock));
    let one = Server::over(store.clone(), Options::memory().with_key("secret")).await;
    let two = Server::over(store, Options::memory().with_key("secret")).await;
    let made = one.project().post("/v1/keys", json!({ "keyId": "k" })).await.ok(201);
    let there = Client { key: Some(text(&made, "key").to_owned()), ..two.user("ann") };
    there.get("/v1/threads").await.ok(200);
    one.project().delete("/v1/keys/k").await.ok(200);
    crate::harness::eventually("the other node forgets the key", async || {
        (there.get("/v1/threads").await.status == 401).then_some(())
    })
    .await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn no_credential_outlives_or_outranks_the_key_that_issued_it() {
    run(Options::memory().with_key("secret").with_manual_clock(), async |server: &Server| {
        let asked = json!({ "expiresInSeconds": 60, "scopes": ["admin", "read", "tokens"] });
        let made = server.project().post("/v1/keys", asked).await.ok(201);
        let brief = Client { key: Some(text(&made, "key").to_owned()), ..server.project() };
        for lifetime in [json!({}), json!({ "expiresInSeconds": 3_600 })] {
            let mut asked = lifetime.clone();
            asked["scopes"] = json!(["read"]);
            assert_eq!(brief.post("/v1/keys", asked).await.ok(201)["expiresAt"], made["expiresAt"]);
            let mut asked = lifetime;
            asked["userId"] = json!("ann");
            assert_eq!(brief.post("/v1/tokens", asked).await.ok(201)["expiresAt"], made["expiresAt"]);
        }
        // The secret can sign a token of any user, so it needs every scope of users, and `tokens`.
        let secret = "/v1/projects/default/token-secret";
        assert_eq!(brief.post(secret, json!({})).await.problem(403, "forbidden")["scope"], "chat");
        let whole = [Scope::Admin, Scope::Tokens, Scope::Read, Scope::Chat, Scope::Approve, Scope::Produce];
        key(server, "default", &whole).await.post(secret, json!({})).await.ok(201);
    })
    .await;
}
