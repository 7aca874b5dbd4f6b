//! What a page was lent with somebody's key or token: no more than that, and no longer.

use threadline::domain::{Scope, limits::FEED_BASELINE};

use super::*;
use crate::{
    harness::{everywhere, http::send},
    identity::{bearer, key},
};

fn run(id: &str) -> Value {
    json!({ "stream_mode": "run", "run_id": id })
}

everywhere! {
    async fn who_may_only_read_stops_nothing(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        lock(server, "t", "r").await;
        let mut runner = Frames::producing(server, "t", "r").await;
        runner.sends(&said("t", "r", "Hello world")[..2]).await;
        let reader = key(server, "default", &[Scope::Read]).await;
        let connected = reader.post("/api/threads/t/connect", json!({ "userId": "ann" })).await.ok(200);
        let mut page = Frames::page(server, text(&connected, "joinToken")).await.expect("let in");
        page.joins("thread:t", run("r")).await;
        page.push("stop_run", json!({ "run_id": "r" })).await;
        assert_eq!(page.reply_among_pushes().await, Err(json!({ "reason": "forbidden" })));
        let record = server.project().get("/v1/threads/t/runs/r").await.ok(200);
        assert_eq!(record["stopRequested"], false);
    }
}

everywhere! {
    async fn a_list_is_shown_no_longer_than_the_token_that_got_it(
        server: |options| options.with_key(KEY).with_manual_clock()
    ) {
        let asked = json!({ "userId": "ann", "expiresInSeconds": 60 });
        let made = server.project().post("/v1/tokens", asked).await.ok(201);
        let ann = bearer(server, text(&made, "token"));
        let list = ann.get("/copilotkit/threads?agentId=agent").await.ok(200);
        let subscribed = ann.post("/copilotkit/threads/subscribe", json!({})).await.ok(200);
        let (topic, token) = (format!("user_meta:{}", text(&list, "joinCode")), text(&subscribed, "joinToken"));
        let mut page = Frames::page(server, token).await.expect("let in");
        page.joins(&topic, json!({})).await;
        server.pass(90);
        assert_eq!(Frames::page(server, token).await.map(drop), Err(403));
    }
}

everywhere! {
    async fn a_list_is_shown_no_longer_than_the_key_is_good(server: |options| options.with_key(KEY)) {
        let asked = json!({ "keyId": "backend", "scopes": ["read", "write"] });
        let made = server.project().post("/v1/keys", asked).await.ok(201);
        let backend = bearer(server, text(&made, "key"));
        let subscribed = backend.post("/api/threads/subscribe", json!({ "userId": "ann" })).await.ok(200);
        let token = text(&subscribed, "joinToken");
        drop(Frames::page(server, token).await.expect("let in"));
        let revoke = server.project().request(Method::DELETE, "/v1/keys/backend");
        send(revoke).await.ok(200);
        assert_eq!(Frames::page(server, token).await.map(drop), Err(403));
    }
}

everywhere! {
    async fn an_old_run_is_no_news_when_its_thread_is_renamed(server: |options| options.with_key(KEY)) {
        thread(server, "old").await;
        lock(server, "old", "r").await;
        let mut runner = Frames::producing(server, "old", "r").await;
        runner.sends(&said("old", "r", "Hello world")).await;
        for number in 0..FEED_BASELINE {
            thread(server, &format!("t{number}")).await;
        }
        let mut page = listening(server).await;
        patch(server, "/api/threads/old", json!({ "userId": "ann", "name": "N" })).await.ok(200);
        loop {
            let (name, told) = page.pushed().await;
            assert_eq!(name, "thread_metadata", "{told}");
            if told["thread"]["name"] == "N" {
                break;
            }
        }
        page.is_silent().await;
    }
}

#[tokio::test]
async fn names_in_frames_are_short() {
    crate::harness::run(crate::harness::Options::memory().with_key(KEY), async |server: &Server| {
        thread(server, "t").await;
        lock(server, "t", "r").await;
        let token = connect(server, "t").await;
        let mut page = Frames::page(server, &token).await.expect("let in");
        page.say(json!(["9".repeat(65), "1", "thread:t", "phx_join", run("r")])).await;
        assert_eq!(page.closed().await, 1007);
    })
    .await;
}
