//! The audit log: what it has, and how it is followed.

use serde_json::{Value, json};
use threadline_core::Scope;

use super::{bearer, key};
use crate::harness::{Client, Options, Server, everywhere, number, run, sse::Events, text};

async fn entries(server: &Server, action: &str) -> Vec<Value> {
    let audit = server.project().get("/v1/audit?limit=500").await.ok(200);
    let entries = audit["entries"].as_array().expect("entries").iter();
    entries.filter(|entry| entry["action"] == action).cloned().collect()
}

everywhere! {
    async fn tokens_and_refusals_are_summed(server: |options| options.with_key("secret")) {
        let body = json!({ "keyId": "mint", "scopes": ["read", "tokens"] });
        let mint = bearer(server, text(&server.project().post("/v1/keys", body).await.ok(201), "key"));
        for _ in 0..13 {
            mint.post("/v1/tokens", json!({ "userId": "ann", "scopes": ["read"], "expiresInSeconds": 60 })).await.ok(201);
        }
        for _ in 0..3 {
            mint.post("/v1/threads", json!({})).await.problem(403, "forbidden");
            bearer(server, "tl_wrong").get("/v1/threads").await.problem(401, "unauthorized");
        }
        bearer(server, "").get("/v1/threads").await.problem(401, "unauthorized");
        server.sum_trail().await;
        let made = entries(server, "token.created").await;
        assert_eq!(made.len(), 10);
        assert_eq!((&made[0]["actor"], &made[0]["facts"]["scopes"]), (&json!("key:mint"), &json!("read")));
        assert!((59..=60).contains(&number(&made[0]["facts"], "seconds")), "{}", made[0]);
        assert!(text(&made[0]["facts"], "userDigest").len() == 64 && !made[0].to_string().contains("ann"));
        let more = entries(server, "tokens.created").await;
        assert_eq!(more.iter().map(|entry| &entry["facts"]["count"]).collect::<Vec<_>>(), [&json!(3)]);
        let refused = entries(server, "requests.refused").await;
        assert_eq!(refused.len(), 1, "one for the node and the time");
        let groups = refused[0]["facts"]["refused"].as_array().expect("groups");
        let has = |group: Value| groups.contains(&group);
        assert!(has(json!({ "reason": "scope-missing", "keyId": "mint", "count": 3 })), "{groups:?}");
        assert!(has(json!({ "reason": "wrong-key", "network": "127.0.0.0/24", "count": 3 })), "{groups:?}");
        assert!(has(json!({ "reason": "no-credential", "network": "127.0.0.0/24", "count": 1 })), "{groups:?}");
        assert_eq!(refused[0]["facts"]["other"], 0);
        // A revoked key is refused by its name.
        server.project().delete("/v1/keys/mint").await.ok(200);
        mint.get("/v1/agents").await.problem(401, "unauthorized");
        server.sum_trail().await;
        let refused = entries(server, "requests.refused").await;
        assert_eq!(refused[0]["facts"]["refused"], json!([{ "reason": "wrong-key", "keyId": "mint", "count": 1 }]));
    }
}

everywhere! {
    async fn changed_settings_are_in_the_audit_with_those_before(server: |options| options.with_key("secret")) {
        let operator = server.project();
        operator.put("/v1/projects/p", json!({ "maxTokenSeconds": 60 })).await.ok(201);
        operator.put("/v1/projects/p", json!({ "maxTokenSeconds": 90 })).await.ok(200);
        let admin = key(server, "p", &[Scope::Admin]).await;
        let audit = admin.get("/v1/audit").await.ok(200);
        let entries = audit["entries"].as_array().expect("entries");
        let changed = entries.iter().find(|entry| entry["action"] == "project.changed").expect("an entry");
        let [before, after] = ["before", "after"].map(|side| &changed["facts"][side]["maxTokenSeconds"]);
        assert_eq!((before, after), (&json!(60), &json!(90)));
        let created = entries.iter().find(|entry| entry["action"] == "project.created").expect("an entry");
        assert_eq!(created["facts"]["after"]["maxTokenSeconds"], 60);
    }
}

everywhere! {
    async fn entries_are_kept_for_the_days_that_their_project_says(server: |options| {
        options.with_key("secret").with_manual_clock()
    }) {
        const DAY: u64 = 24 * 3_600;
        let operator = server.project();
        operator.put("/v1/projects/p", json!({ "auditDays": 2 })).await.ok(201);
        operator.put("/v1/projects/q", json!({})).await.ok(201);
        let (in_p, in_q) = (key(server, "p", &[Scope::Admin]).await, key(server, "q", &[Scope::Admin]).await);
        let actions = async |admin: &Client| {
            let audit = admin.get("/v1/audit").await.ok(200);
            let entries = audit["entries"].as_array().expect("entries").iter();
            entries.map(|entry| text(entry, "action").to_owned()).collect::<Vec<_>>()
        };
        server.pass(DAY);
        in_p.post("/v1/users/ann/sign-out", json!({})).await.ok(200);
        server.pass(DAY);
        server.sweep_credentials().await;
        assert_eq!(actions(&in_p).await, ["user.signed-out", "key.created", "project.created"], "none is older");
        server.pass(1);
        server.sweep_credentials().await;
        assert_eq!(actions(&in_p).await, ["user.signed-out"]);
        assert_eq!(actions(&in_q).await, ["key.created", "project.created"]);
        // Another number of days holds for the entries that are there; the change is the newest of them.
        operator.put("/v1/projects/q", json!({ "auditDays": 1 })).await.ok(200);
        operator.put("/v1/projects/p", json!({ "auditDays": 9 })).await.ok(200);
        server.pass(DAY);
        server.sweep_credentials().await;
        assert_eq!(actions(&in_p).await, ["project.changed", "user.signed-out"]);
        assert_eq!(actions(&in_q).await, ["project.changed"]);
    }
}

everywhere! {
    async fn the_audit_is_followed_without_a_gap(server: |options| options.with_key("secret")) {
        let operator = server.project();
        operator.post("/v1/keys", json!({ "keyId": "one" })).await.ok(201);
        // Young entries are sent later, when none with a smaller number can appear.
        let young = operator.get("/v1/audit?after=0").await.ok(200);
        let follow = |path: &str| operator.request(reqwest::Method::GET, path);
        let mut all = Events::open(follow("/v1/audit?after=0&follow=true")).await;
        let first = all.message().await;
        assert_eq!((text(&first.json(), "action"), &first.json()["facts"]["keyId"]), ("key.created", &json!("one")));
        let at = number(&first.json(), "number");
        assert_eq!(first.id, Some(at.to_string()));
        let page = operator.get("/v1/audit?after=0").await.ok(200);
        assert_eq!(page["entries"][0], first.json());
        assert!(page["nextCursor"].is_null());
        // The machine may have been slow, but the entry was not given before its time.
        assert!(young["entries"].as_array().is_some_and(|young| young.len() <= 1));
        let mut newer = Events::open(follow("/v1/audit?follow=true")).await;
        let resumed = follow("/v1/audit?follow=true&after=0").header("last-event-id", at);
        let mut resumed = Events::open(resumed).await;
        operator.post("/v1/keys", json!({ "keyId": "two" })).await.ok(201);
        for reader in [&mut all, &mut newer, &mut resumed] {
            assert_eq!(reader.message().await.json()["facts"]["keyId"], "two");
        }
        for wrong in ["after=x", "follow=1", "after=1&cursor=x", "follow=true&cursor=x"] {
            operator.get(&format!("/v1/audit?{wrong}")).await.problem(400, "invalid-request");
        }
        let wrong = follow("/v1/audit?follow=true").header("last-event-id", "x");
        crate::harness::http::send(wrong).await.problem(400, "invalid-request");
    }
}

#[tokio::test]
async fn who_follows_the_audit_is_let_go_with_the_key() {
    let options = Options::memory().with_key("secret").with_timeouts(|patience| {
        patience.credentials = std::time::Duration::from_millis(20);
    });
    run(options, async |server: &Server| {
        let body = json!({ "keyId": "watcher", "scopes": ["admin"] });
        let watcher = bearer(server, text(&server.project().post("/v1/keys", body).await.ok(201), "key"));
        let mut followed = Events::open(watcher.request(reqwest::Method::GET, "/v1/audit?follow=true")).await;
        server.project().delete("/v1/keys/watcher").await.ok(200);
        while let Some(event) = followed.next().await {
            if event.event.as_deref() == Some("closing") {
                assert_eq!(event.json()["code"], 4501);
                return;
            }
        }
        panic!("the stream ended without a word");
    })
    .await;
}
