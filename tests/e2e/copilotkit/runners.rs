//! Checks 21–29: the topic of a run's producer.

use super::{
    frames::{bearer, handshake},
    *,
};
use crate::harness::{everywhere, intercept::Failing, soon};

async fn begun(server: &Server) -> Frames {
    thread(server, "t").await;
    lock(server, "t", "r").await;
    Frames::producing(server, "t", "r").await
}

everywhere! {
    async fn c21_the_key_is_read_from_a_subprotocol(server: |options| options.with_key("s?>~ÿ")) {
        // The standard alphabet, which browsers and Node write, and the URL-safe one that the subprotocol's name promises.
        for key in ["cz8+fsO/", "cz8-fsO_"] {
            let protocols = format!("phoenix, base64url.bearer.phx.{key}");
            // `/` is not allowed in a token, but some clients send it.
            let opened = Frames::open(handshake(server, "/runner/websocket?vsn=2.0.0", Some(&protocols))).await;
            assert_eq!(opened.map(|(_, protocol)| protocol), Ok(Some("phoenix".to_owned())), "{key}");
        }
    }
}

everywhere! {
    async fn c22_a_runner_joins_its_run_and_no_other(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        thread(server, "u").await;
        lock(server, "t", "r").await;
        let mut runner = Frames::producing(server, "t", "r").await;
        for (topic, params, reason) in [
            ("ingestion:r", json!({ "thread_id": "t", "run_id": "s" }), "unauthorized"),
            ("ingestion:s", json!({ "thread_id": "t", "run_id": "s" }), "run_not_found"),
            ("ingestion:r", json!({ "thread_id": "u", "run_id": "r" }), "run_not_found"),
            ("ingestion:r", json!({ "thread_id": "none", "run_id": "r" }), "thread_deleted"),
            ("ingestion:r", json!({}), "malformed"),
        ] {
            let refused = runner.join(topic, params).await.expect_err("refused");
            assert_eq!((text(&refused, "reason"), &refused["retryable"]), (reason, &json!(false)), "{refused}");
        }
        assert!(runner.join("thread:t", json!({ "stream_mode": "run", "run_id": "r" })).await.is_err());
    }
}

everywhere! {
    async fn c23_an_evicted_runner_gets_an_error(server: |options| options.with_key(KEY).with_manual_clock()) {
        let mut runner = begun(server).await;
        let events = said("t", "r", "Hello world");
        runner.sends(&events[..2]).await;
        server.pass(21);
        has(server, "t", 4).await;
        let evicted = json!({ "reason": "runner_evicted", "retryable": false });
        assert_eq!(runner.batch(&events[2..]).await, Err(evicted.clone()));
        assert_eq!(runner.joins_run("t", "r").await, Err(evicted));
        assert_eq!(inspected(server, "t").await.len(), 4, "no event was stored after the end");
    }
}

everywhere! {
    async fn a_runner_whose_run_was_taken_up_is_evicted(server: |options| options.with_key(KEY)) {
        let mut runner = begun(server).await;
        let events = said("t", "r", "Hello world");
        runner.sends(&events[..3]).await;
        let again = json!({ "runId": "r", "attemptId": "other", "onExisting": "continue" });
        let taken = post(server, "/v1/threads/t/runs", again).await.ok(200);
        let stored = inspected(server, "t").await;
        let evicted = Err(json!({ "reason": "runner_evicted", "retryable": false }));
        assert_eq!(runner.batch(&events[3..4]).await, evicted, "it is not told that they are stored");
        assert_eq!(runner.batch(&events[4..]).await, evicted, "nor with the end of the run");
        assert_eq!(Frames::runner(server).await.expect("accepted").joins_run("t", "r").await, evicted);
        assert_eq!(inspected(server, "t").await, stored);
        // The end of the run is that of its successor.
        let finish = format!("/v1/threads/t/runs/r/finish?attempt={}", taken["attempt"]);
        post(server, &finish, json!({})).await.ok(200);
        let stored = inspected(server, "t").await;
        assert_eq!(runner.batch(&events[3..]).await, evicted);
        assert_eq!(inspected(server, "t").await, stored);
    }
}

everywhere! {
    async fn c24_a_batch_is_acknowledged_once_it_is_durable(server: |options| options.with_key(KEY)) {
        let mut runner = begun(server).await;
        let content = |n| event("t", "r", n, json!({ "type": "CUSTOM", "name": "n", "value": n }));
        let start = event("t", "r", 1, json!({ "type": "RUN_STARTED" }));
        runner.sends(&[start]).await;
        for batch in 0..3 {
            let events: Vec<_> = (0..32).map(|n| content(2 + batch * 32 + n)).collect();
            runner.sends(&events).await;
            let stored = inspected(server, "t").await;
            assert_eq!(stored[stored.len() - 32..], events);
        }
    }
}

everywhere! {
    async fn c25_repeated_events_are_stored_once(server: |options| options.with_key(KEY)) {
        let mut runner = begun(server).await;
        let events = said("t", "r", "Hello world");
        runner.sends(&events[..4]).await;
        runner.sends(&events[..4]).await;
        runner.sends(&events[2..5]).await;
        // Another socket, of a runner that has joined again.
        let mut again = Frames::producing(server, "t", "r").await;
        again.sends(&events[1..3]).await;
        runner.sends(&events[3..]).await;
        again.sends(&events).await;
        again.sends(&events[5..]).await;
        assert_eq!(inspected(server, "t").await, events);
        let mut late = Frames::producing(server, "t", "r").await;
        late.sends(&events).await;
        late.sends(&[event("t", "r", 7, json!({ "type": "CUSTOM", "name": "late" }))]).await;
        late.push("event", events[3].clone()).await;
        assert_eq!(late.reply().await, Ok(json!({})), "a single event is acknowledged alike");
        assert_eq!(inspected(server, "t").await, events, "events after the end are ignored");
    }
}

everywhere! {
    async fn c26_a_batch_that_the_store_refused_can_be_sent_again(server: |options| options.with_key(KEY).with_glass()) {
        let mut runner = begun(server).await;
        let events = said("t", "r", "Hello world");
        runner.sends(&events[..2]).await;
        for (batch, failing) in [(2..3, Failing::Before), (3..4, Failing::After), (4..6, Failing::After)] {
            server.intercept().fail(&[failing]);
            let refused = runner.batch(&events[batch.clone()]).await.expect_err("the store is unavailable");
            assert_ne!(refused["retryable"], json!(false), "{refused}");
            runner.sends(&events[batch]).await;
        }
        assert_eq!(inspected(server, "t").await, events);
        lock(server, "t", "s").await;
    }
}

everywhere! {
    async fn c27_an_invalid_event_is_refused_permanently(server: |options| options.with_key(KEY)) {
        let mut runner = begun(server).await;
        let good = said("t", "r", "Hello world");
        let without = |member: &str| {
            let mut event = good[1].clone();
            event.as_object_mut().expect("an object").shift_remove(member);
            event
        };
        let mut foreign = good[1].clone();
        foreign["run_id"] = json!("s");
        for bad in [json!(7), json!({}), without("type"), without("metadata"), foreign] {
            for batch in [json!([bad]), json!([good[0], bad])] {
                runner.push("events", json!({ "events": batch })).await;
                let refused = runner.reply().await.expect_err("refused");
                assert_eq!((&refused["reason"], &refused["retryable"]), (&json!("invalid_event_batch"), &json!(false)));
            }
        }
        for payload in [json!({}), json!({ "events": {} })] {
            runner.push("events", payload).await;
            assert_eq!(runner.reply().await.expect_err("refused")["retryable"], json!(false));
        }
        assert_eq!(inspected(server, "t").await, [] as [Value; 0], "a batch is stored whole or not at all");
        runner.push("dance", json!({})).await;
        assert_eq!(runner.reply().await, Err(json!({ "reason": "unknown_event" })));
        // A valid event of an unknown type.
        runner.sends(&[good[0].clone(), event("t", "r", 2, json!({ "type": "NEVER_HEARD_OF", "x": [1.50, "é"] }))]).await;
        assert_eq!(types(&inspected(server, "t").await), ["RUN_STARTED", "NEVER_HEARD_OF"]);
    }
}

everywhere! {
    async fn c28_a_stop_reaches_the_runner(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let token = lock(server, "t", "r").await;
        let mut page = Frames::of_run(server, &token, "t", "r").await;
        let mut runner = Frames::producing(server, "t", "r").await;
        let events = said("t", "r", "Hello world");
        runner.sends(&events[..2]).await;
        page.hears(&events[..2]).await;
        page.push("stop_run", json!({ "run_id": "none" })).await;
        assert_eq!(page.reply().await, Err(json!({ "reason": "run_not_active" })));
        page.push("stop_run", json!({ "run_id": "r" })).await;
        assert_eq!(page.reply_among_pushes().await, Ok(json!({})));
        let is_stop = |stop: &Value| stop["type"] == "CUSTOM" && stop["name"] == "stop";
        assert!(is_stop(&runner.pushed_as("ag-ui").await));
        // A runner that was disconnected meanwhile receives the stop when it joins again.
        drop(runner);
        let mut runner = Frames::producing(server, "t", "r").await;
        assert!(is_stop(&runner.pushed_as("ag-ui").await));
        runner.sends(&events[2..]).await;
        page.hears(&events[2..]).await;
        page.push("stop_run", json!({ "run_id": "r" })).await;
        assert_eq!(page.reply().await, Err(json!({ "reason": "run_not_active" })), "it has ended");
    }
}

everywhere! {
    async fn c29_an_old_runner_that_leaves_at_once_loses_nothing(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        for (round, leaves) in [("a", true), ("b", false)] {
            lock(server, "t", round).await;
            let mut runner = Frames::producing(server, "t", round).await;
            let events = said("t", round, "Hello world");
            // The runner waits for no reply, and closes after the last push.
            for event in &events {
                runner.push("event", event.clone()).await;
            }
            if leaves {
                runner.push("phx_leave", json!({})).await;
            }
            soon(runner.stream.close(None)).await.expect("closed");
            drop(runner);
            has(server, "t", if leaves { 6 } else { 12 }).await;
        }
        let stored = inspected(server, "t").await;
        assert_eq!(stored, [said("t", "a", "Hello world"), said("t", "b", "Hello world")].concat());
    }
}

everywhere! {
    async fn a_runner_that_leaves_a_stopped_run_ends_it(server: |options| options.with_key(KEY).with_manual_clock()) {
        let mut runner = begun(server).await;
        runner.sends(&said("t", "r", "Hello world")[..3]).await;
        let stop = post(server, "/v1/threads/t/runs/r/stop", json!({})).await;
        assert_eq!(stop.status, 202, "{}", stop.text());
        runner.pushed_as("ag-ui").await;
        // The clock does not advance: nothing is overdue.
        runner.leaves().await;
        let stored = has(server, "t", 5).await;
        assert_eq!(types(&stored)[3..], ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
        lock(server, "t", "s").await;
    }
}

everywhere! {
    async fn a_run_that_its_runner_has_left_ends_soon(server: |options| options.with_key(KEY).with_manual_clock()) {
        let mut runner = begun(server).await;
        let events = said("t", "r", "Hello world");
        runner.sends(&events[..3]).await;
        runner.leaves().await;
        // The runner may rejoin for a moment.
        let mut runner = Frames::producing(server, "t", "r").await;
        runner.sends(&events[3..4]).await;
        runner.leaves().await;
        server.pass(4);
        let stored = has(server, "t", 6).await;
        assert_eq!(types(&stored)[4..], ["TEXT_MESSAGE_END", "RUN_ERROR"]);
        assert_eq!(stored[5]["code"], "lock-released");
    }
}

everywhere! {
    async fn an_old_runner_does_not_run_its_agent_twice(server: |options| options.with_key(KEY)) {
        let mut runner = begun(server).await;
        let events = said("t", "r", "Hello world");
        for event in &events[..3] {
            runner.push("event", event.clone()).await;
            assert_eq!(runner.reply().await, Ok(json!({})));
        }
        drop(runner);
        let mut runner = Frames::runner(server).await.expect("accepted");
        let refused = json!({ "reason": "legacy_runner_rejoin", "retryable": false });
        assert_eq!(runner.joins_run("t", "r").await, Err(refused));
    }
}

everywhere! {
    async fn a_run_that_is_started_twice_is_ended(server: |options| options.with_key(KEY)) {
        let mut runner = begun(server).await;
        let events = said("t", "r", "Hello world");
        runner.sends(&events[..3]).await;
        drop(runner);
        // Another node does not know yet that the runner is an old one.
        let mut runner = Frames::producing(server, "t", "r").await;
        let again = event("t", "r", 101, json!({ "type": "RUN_STARTED" }));
        runner.push("event", again).await;
        let refused = json!({ "reason": "legacy_runner_rejoin", "retryable": false });
        assert_eq!(runner.reply().await, Err(refused));
        // The runner ignores the refusal.
        for event in &events[3..] {
            runner.push("event", event.clone()).await;
            assert_eq!(runner.reply().await, Ok(json!({})));
        }
        let stored = inspected(server, "t").await;
        assert_eq!(types(&stored)[3..], ["TEXT_MESSAGE_END", "RUN_ERROR"]);
        assert_eq!(stored[4]["code"], "legacy-runner");
    }
}

#[tokio::test]
async fn the_subprotocol_of_a_runtime_is_what_node_sends() {
    assert_eq!(bearer("cpk_test_key"), "phoenix, base64url.bearer.phx.Y3BrX3Rlc3Rfa2V5");
}
