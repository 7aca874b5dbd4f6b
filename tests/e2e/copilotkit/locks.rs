//! Checks 13–20: the lock of a thread.

use super::*;
use crate::harness::everywhere;

async fn renew(server: &Server, run: &str) -> Answer {
    patch(server, "/api/threads/t/lock", json!({ "runId": run, "ttlSeconds": 20 })).await
}

async fn release(server: &Server, run: &str) -> u16 {
    delete(server, "/api/threads/t/lock", json!({ "runId": run })).await.status
}

everywhere! {
    async fn c13_a_free_thread_is_locked(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let body = json!({ "runId": "r", "userId": "ann", "agentId": "agent", "lockKeyPrefix": "p", "ttlSeconds": 30 });
        let answer = post(server, "/api/threads/t/lock", body).await.ok(200);
        assert_eq!((text(&answer, "threadId"), text(&answer, "runId")), ("t", "r"));
        assert!(text(&answer, "joinToken").len() > 32);
        assert_eq!(answer["lock"], json!({ "key": "p:t", "ttlSeconds": 30 }));
        post(server, "/api/threads/none/lock", json!({ "runId": "r", "userId": "ann" })).await.problem(404, "thread-not-found");
        post(server, "/api/threads/t/lock", json!({ "runId": "r", "userId": "eve" })).await.problem(403, "foreign-thread");
    }
}

everywhere! {
    async fn c14_a_held_lock_refuses_every_acquire(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        lock(server, "t", "r").await;
        for run in ["s", "r"] {
            try_lock(server, "t", run).await.problem(409, "run-active");
        }
        let mut runner = Frames::producing(server, "t", "r").await;
        runner.sends(&said("t", "r", "hi")[..1]).await;
        try_lock(server, "t", "r").await.problem(409, "run-active");
    }
}

everywhere! {
    async fn c15_only_the_holder_renews_a_lock(server: |options| options.with_key(KEY).with_manual_clock()) {
        thread(server, "t").await;
        lock(server, "t", "r").await;
        // Well beyond the first 20 s.
        for _ in 0..3 {
            server.pass(15);
            assert_eq!(renew(server, "r").await.ok(200)["ttlSeconds"], 20);
        }
        try_lock(server, "t", "s").await.problem(409, "run-active");
        assert_eq!(renew(server, "none").await.status, 404);
        let mut runner = Frames::producing(server, "t", "r").await;
        runner.sends(&said("t", "r", "hi")).await;
        assert_eq!(renew(server, "r").await.status, 200, "it ended a moment ago");
        lock(server, "t", "s").await;
        server.pass(10);
        renew(server, "s").await.ok(200);
        release(server, "s").await;
        server.pass(120);
        lock(server, "t", "u").await;
        for over in ["r", "s"] {
            assert_eq!(renew(server, over).await.status, 409, "{over} ended long ago");
        }
    }
}

everywhere! {
    async fn c16_only_the_holder_releases_a_lock(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let body = json!({ "runId": "r", "userId": "ann", "agentId": "agent", "lockKeyPrefix": "mine" });
        post(server, "/api/threads/t/lock", body).await.ok(200);
        assert_eq!(release(server, "other").await, 204);
        try_lock(server, "t", "s").await.problem(409, "run-active");
        for _ in 0..2 {
            assert_eq!(release(server, "r").await, 204);
        }
        lock(server, "t", "s").await;
        // Releasing a run that has ended changes nothing.
        assert_eq!(release(server, "r").await, 204);
        try_lock(server, "t", "u").await.problem(409, "run-active");
    }
}

everywhere! {
    async fn c17_the_lock_is_free_before_a_reader_sees_the_end(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        for round in 0..20 {
            let run = format!("r{round}");
            let token = lock(server, "t", &run).await;
            let mut page = Frames::of_run(server, &token, "t", &run).await;
            let mut runner = Frames::producing(server, "t", &run).await;
            let events = said("t", &run, "Hello world");
            runner.push("events", json!({ "events": events })).await;
            page.hears(&events).await;
            // The next round begins with an acquire; by now the runner has its acknowledgement as well.
            assert_eq!(runner.reply().await, Ok(json!({})));
        }
    }
}

everywhere! {
    async fn c18_events_after_the_release_are_stored_and_delivered(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let token = lock(server, "t", "r").await;
        let mut page = Frames::of_run(server, &token, "t", "r").await;
        let mut reader = Frames::of_thread(server, &connect(server, "t").await, "t", None).await;
        let mut runner = Frames::producing(server, "t", "r").await;
        let events = said("t", "r", "Hello world");
        runner.sends(&events[..3]).await;
        assert_eq!(release(server, "r").await, 204);
        let last = event("t", "r", 4, json!({ "type": "RUN_ERROR", "message": "threw" }));
        runner.sends(std::slice::from_ref(&last)).await;
        page.hears(&[&events[..3], std::slice::from_ref(&last)].concat()).await;
        assert_eq!(reader.pushed_as("replay_complete").await["latestEventId"], Value::Null);
        reader.hears(&[&events[..3], std::slice::from_ref(&last)].concat()).await;
        assert_eq!(reader.pushed_as("stream_idle").await["latestEventId"], "r-4");
        assert_eq!(inspected(server, "t").await.len(), 4);
        lock(server, "t", "s").await;
    }
}

everywhere! {
    async fn c19_a_used_run_id_gives_another_run(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        ran(server, "t", "r").await;
        let again = try_lock(server, "t", "r").await.ok(200);
        let run = text(&again, "runId");
        assert!(run != "r" && !run.is_empty() && again["joinToken"].is_string());
        let mut runner = Frames::producing(server, "t", run).await;
        runner.sends(&said("t", run, "again")).await;
        assert_eq!(inspected(server, "t").await.len(), 12);
    }
}

everywhere! {
    async fn c20_a_run_without_a_runner_is_ended(server: |options| options.with_key(KEY).with_manual_clock()) {
        thread(server, "t").await;
        let token = lock(server, "t", "r").await;
        let mut page = Frames::of_run(server, &token, "t", "r").await;
        let mut reader = Frames::of_thread(server, &connect(server, "t").await, "t", None).await;
        assert_eq!(reader.pushed_as("replay_complete").await["latestEventId"], Value::Null);
        let mut runner = Frames::producing(server, "t", "r").await;
        let call = json!({ "type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "n" });
        let mut events = said("t", "r", "Hello world")[..3].to_vec();
        events.push(event("t", "r", 4, call));
        runner.sends(&events).await;
        drop(runner);
        page.hears(&events).await;
        reader.hears(&events).await;
        server.pass(21);
        let mut ends = Vec::new();
        while ends.last() != Some(&"RUN_ERROR".to_owned()) {
            let closer = page.pushed_as("ag_ui_event").await;
            assert_eq!(reader.pushed_as("ag_ui_event").await, closer);
            assert!(closer["metadata"]["cpki_event_id"].is_string(), "{closer}");
            ends.push(text(&closer, "type").to_owned());
        }
        for closer in ["TEXT_MESSAGE_END", "TOOL_CALL_END"] {
            assert!(ends.iter().any(|kind| kind == closer), "{ends:?}");
        }
        let stored = inspected(server, "t").await;
        assert_eq!(stored.len(), events.len() + ends.len());
        let idle = reader.pushed_as("stream_idle").await;
        lock(server, "t", "s").await;
        // The cursor of `stream_idle` is valid.
        let token = connect(server, "t").await;
        let mut next = Frames::of_thread(server, &token, "t", idle["latestEventId"].as_str()).await;
        assert_eq!(next.pushed_as("replay_complete").await, idle);
    }
}
