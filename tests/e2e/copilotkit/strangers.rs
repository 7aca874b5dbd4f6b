//! A client can do nothing over these sockets with the threads, runs and lists of another user.

use threadline_core::Scope;

use super::*;
use crate::{
    harness::everywhere,
    identity::{key, token},
};

everywhere! {
    async fn no_client_joins_topics_of_another_user(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        lock(server, "t", "r").await;
        let mut runner = Frames::producing(server, "t", "r").await;
        let events = said("t", "r", "a secret");
        runner.sends(&events[..3]).await;
        server.project().put("/v1/projects/q", json!({})).await.ok(201);
        let others =
            [key(server, "q", Scope::ALL).await, token(server, "eve").await].map(|client| client.key.expect("a key"));
        for other in &others {
            let mut eve = Frames::runner_with(server, other).await.expect("accepted");
            let refused = eve.joins_run("t", "r").await.expect_err("it is not hers");
            assert_eq!(eve.joins_run("none", "r").await, Err(refused), "as if there were none");
            for event in ["event", "events", "stop_run", "phx_join_more"] {
                eve.push(event, json!({ "events": [events[3]], "run_id": "r" })).await;
                assert_eq!(eve.reply().await, Err(json!({ "reason": "unmatched topic" })));
            }
            // The refused topic is not followed either.
            runner.sends(std::slice::from_ref(&events[2])).await;
            eve.is_silent().await;
            for (page, with) in [("thread:t", json!({ "stream_mode": "run", "run_id": "r" })), ("user_meta:x", json!({}))] {
                assert!(eve.join(page, with).await.is_err(), "{page} is no topic of a runtime");
            }
            // A key opens no socket of a page.
            assert_eq!(Frames::page(server, other).await.map(drop), Err(403));
        }
        // A user who follows a thread of her own reaches no other from there.
        let own = json!({ "threadId": "e", "userId": "eve", "agentId": "agent" });
        post(server, "/api/threads", own).await.ok(201);
        let body = json!({ "runId": "s", "userId": "eve", "agentId": "agent" });
        let locked = post(server, "/api/threads/e/lock", body).await.ok(200);
        let mut eve = Frames::of_run(server, text(&locked, "joinToken"), "e", "s").await;
        eve.push("stop_run", json!({ "run_id": "r" })).await;
        assert_eq!(eve.reply().await, Err(json!({ "reason": "run_not_active" })));
        let params = json!({ "stream_mode": "run", "run_id": "r" });
        for topic in ["thread:t", "ingestion:r"] {
            assert_eq!(eve.join(topic, params.clone()).await, Err(json!({ "reason": "unauthorized" })));
        }
        let (topic, _) = feed(server).await;
        let hers = post(server, "/api/threads/subscribe", json!({ "userId": "eve" })).await.ok(200);
        let mut eve = Frames::page(server, text(&hers, "joinToken")).await.expect("accepted");
        assert_eq!(eve.join(&topic, json!({})).await, Err(json!({ "reason": "unauthorized" })));
        assert_eq!(inspected(server, "t").await, events[..3]);
        assert!(server.project().get("/v1/threads/t/runs/r").await.ok(200)["stopRequested"] == false);
    }
}
