//! A page's join token permits no more than the key or token that requested it, and is valid no longer.

use threadline_core::{Scope, limits::FEED_BASELINE};

use super::*;
use crate::{
    harness::{eventually, everywhere, http::send},
    identity::{bearer, key},
};

fn run(id: &str) -> Value {
    json!({ "stream_mode": "run", "run_id": id })
}

everywhere! {
    async fn a_page_with_read_access_stops_no_run(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        lock(server, "t", "r").await;
        let mut runner = Frames::producing(server, "t", "r").await;
        runner.sends(&said("t", "r", "Hello world")[..2]).await;
        let reader = key(server, "default", &[Scope::Read]).await;
        let connected = reader.post("/api/threads/t/connect", json!({ "userId": "ann" })).await.ok(200);
        let mut page = Frames::page(server, text(&connected, "joinToken")).await.expect("accepted");
        page.joins("thread:t", run("r")).await;
        page.push("stop_run", json!({ "run_id": "r" })).await;
        assert_eq!(page.reply_among_pushes().await, Err(json!({ "reason": "forbidden" })));
        let record = server.project().get("/v1/threads/t/runs/r").await.ok(200);
        assert_eq!(record["stopRequested"], false);
    }
}

everywhere! {
    async fn a_list_subscription_expires_with_the_token_that_opened_it(
        server: |options| options.with_key(KEY).with_manual_clock()
    ) {
        let asked = json!({ "userId": "ann", "expiresInSeconds": 60 });
        let made = server.project().post("/v1/tokens", asked).await.ok(201);
        let ann = bearer(server, text(&made, "token"));
        let list = ann.get("/copilotkit/threads?agentId=agent").await.ok(200);
        let subscribed = ann.post("/copilotkit/threads/subscribe", json!({})).await.ok(200);
        let (topic, token) = (format!("user_meta:{}", text(&list, "joinCode")), text(&subscribed, "joinToken"));
        let mut page = Frames::page(server, token).await.expect("accepted");
        page.joins(&topic, json!({})).await;
        server.pass(90);
        assert_eq!(Frames::page(server, token).await.map(drop), Err(403));
    }
}

everywhere! {
    async fn a_list_subscription_ends_when_its_key_is_revoked(server: |options| options.with_key(KEY)) {
        let asked = json!({ "keyId": "backend", "scopes": ["read", "chat"] });
        let made = server.project().post("/v1/keys", asked).await.ok(201);
        let backend = bearer(server, text(&made, "key"));
        let subscribed = backend.post("/api/threads/subscribe", json!({ "userId": "ann" })).await.ok(200);
        let token = text(&subscribed, "joinToken");
        drop(Frames::page(server, token).await.expect("accepted"));
        let revoke = server.project().request(Method::DELETE, "/v1/keys/backend");
        send(revoke).await.ok(200);
        assert_eq!(Frames::page(server, token).await.map(drop), Err(403));
    }
}

everywhere! {
    async fn renaming_a_thread_does_not_announce_its_old_run(server: |options| options.with_key(KEY)) {
        thread(server, "old").await;
        lock(server, "old", "r").await;
        let mut runner = Frames::producing(server, "old", "r").await;
        runner.sends(&said("old", "r", "Hello world")).await;
        for number in 0..FEED_BASELINE {
            thread(server, &format!("t{number}")).await;
        }
        // Changes that the feed still lacks would be announced behind the new name.
        let fed = async || server.store.dirty_feeds(1).await.expect("lists").is_empty().then_some(());
        eventually("the feed has the threads", fed).await;
        let mut page = listening(server).await;
        patch(server, "/api/threads/old", json!({ "userId": "ann", "name": "N" })).await.ok(200);
        loop {
            let (name, pushed) = page.pushed().await;
            assert_eq!(name, "thread_metadata", "{pushed}");
            if pushed["thread"]["name"] == "N" {
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
        let mut page = Frames::page(server, &token).await.expect("accepted");
        page.say(json!(["9".repeat(65), "1", "thread:t", "phx_join", run("r")])).await;
        assert_eq!(page.closed().await, 1007);
    })
    .await;
}

everywhere! {
    async fn a_topic_joined_again_after_leaving_it_begins_at_the_given_cursor(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let events = ran(server, "t", "r").await;
        let token = connect(server, "t").await;
        let mut page = Frames::of_thread(server, &token, "t", None).await;
        page.hears(&events).await;
        page.pushed_as("replay_complete").await;
        page.pushed_as("stream_idle").await;
        page.leaves().await;
        // As after a join that timed out: the client has used none of the events.
        page.joins("thread:t", json!({ "stream_mode": "connect", "last_seen_event_id": null })).await;
        page.hears(&events).await;
        page.pushed_as("replay_complete").await;
        page.pushed_as("stream_idle").await;
    }
}

everywhere! {
    async fn a_topic_of_a_recreated_thread_replays_the_new_log(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let events = ran(server, "t", "r").await;
        let token = connect(server, "t").await;
        let mut page = Frames::of_thread(server, &token, "t", None).await;
        page.hears(&events).await;
        page.pushed_as("replay_complete").await;
        page.pushed_as("stream_idle").await;
        delete(server, "/api/threads/t", json!({ "userId": "ann" })).await;
        thread(server, "t").await;
        let events = [ran(server, "t", "s").await, ran(server, "t", "u").await].concat();
        page.joins("thread:t", json!({ "stream_mode": "connect", "last_seen_event_id": null })).await;
        page.hears(&events).await;
        page.pushed_as("replay_complete").await;
    }
}

everywhere! {
    async fn the_feed_has_all_changes_since_the_list_was_read(server: |options| options.with_key(KEY)) {
        for number in 0..40 {
            thread(server, &format!("t{number}")).await;
        }
        let list = get(server, "/api/threads?userId=ann&agentId=agent").await.ok(200);
        for number in 0..40 {
            let path = format!("/api/threads/t{number}");
            patch(server, &path, json!({ "userId": "ann", "name": "N" })).await.ok(200);
        }
        let token = post(server, "/api/threads/subscribe", json!({ "userId": "ann" })).await.ok(200);
        let mut page = Frames::page(server, text(&token, "joinToken")).await.expect("accepted");
        page.joins(&format!("user_meta:{}", text(&list, "joinCode")), json!({})).await;
        let mut renamed = std::collections::BTreeSet::new();
        while renamed.len() < 40 {
            let change = page.pushed_as("thread_metadata").await;
            if change["thread"]["name"] == "N" {
                renamed.insert(text(&change, "threadId").to_owned());
            }
        }
    }
}
