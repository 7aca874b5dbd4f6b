//! Checks 31–43: the topic of a thread.

use super::{frames::handshake, *};
use crate::harness::everywhere;

/// The id by which a cursor names an event.
fn id(event: &Value) -> &str {
    text(&event["metadata"], "cpki_event_id")
}

/// Receives pushes up to `stream_idle`: the events, and its payload. `replay_complete` must come once, before it.
async fn until_idle(page: &mut Frames) -> (Vec<Value>, Value) {
    let (mut events, mut complete) = (Vec::new(), 0);
    loop {
        let (name, payload) = page.pushed().await;
        let newest = events.last().map(id);
        if name != "ag_ui_event" && newest.is_some() {
            assert_eq!(payload["latestEventId"].as_str(), newest, "{name} names the last event");
        }
        match name.as_str() {
            "ag_ui_event" => events.push(payload),
            "replay_complete" => complete += 1,
            "stream_idle" => {
                assert_eq!(complete, 1);
                return (events, payload);
            }
            other => panic!("{other}"),
        }
    }
}

everywhere! {
    async fn c31_an_ended_run_is_delivered_once(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let token = lock(server, "t", "r").await;
        let mut runner = Frames::producing(server, "t", "r").await;
        let events = said("t", "r", "Hello world");
        runner.sends(&events).await;
        let mut page = Frames::of_run(server, &token, "t", "r").await;
        page.hears(&events).await;
        page.is_silent().await;
    }
}

everywhere! {
    async fn c32_run_mode_delivers_no_other_run(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        ran(server, "t", "a").await;
        let token = lock(server, "t", "b").await;
        let mut page = Frames::of_run(server, &token, "t", "b").await;
        let mut runner = Frames::producing(server, "t", "b").await;
        let events = said("t", "b", "Hello world");
        for event in &events {
            runner.sends(std::slice::from_ref(event)).await;
        }
        ran(server, "t", "c").await;
        page.hears(&events).await;
        page.is_silent().await;
    }
}

everywhere! {
    async fn c33_an_idle_thread_is_replayed_from_the_beginning(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let events = [ran(server, "t", "a").await, ran(server, "t", "b").await].concat();
        let mut page = Frames::of_thread(server, &connect(server, "t").await, "t", None).await;
        page.hears(&events).await;
        for control in ["replay_complete", "stream_idle"] {
            assert_eq!(page.pushed_as(control).await, json!({ "latestEventId": "b-6" }));
        }
        ran(server, "t", "c").await;
        page.is_silent().await;
    }
}

everywhere! {
    async fn c34_a_cursor_at_the_tail_receives_no_events(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        ran(server, "t", "a").await;
        let mut page = Frames::of_thread(server, &connect(server, "t").await, "t", Some("a-6")).await;
        for control in ["replay_complete", "stream_idle"] {
            assert_eq!(page.pushed_as(control).await, json!({ "latestEventId": "a-6" }));
        }
        page.is_silent().await;
    }
}

everywhere! {
    async fn c35_any_cursor_gives_exactly_the_later_events(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let events = [ran(server, "t", "a").await, ran(server, "t", "b").await].concat();
        for (at, event) in events.iter().enumerate() {
            let token = connect(server, "t").await;
            let mut page = Frames::of_thread(server, &token, "t", Some(id(event))).await;
            let (rest, idle) = until_idle(&mut page).await;
            assert_eq!(rest, events[at + 1..]);
            assert_eq!(idle["latestEventId"], "b-6");
        }
        for unknown in ["nonsense", "", "cpki_ingested_1", "tl-0123456789abcdef-3"] {
            let mut page = Frames::of_thread(server, &connect(server, "t").await, "t", Some(unknown)).await;
            assert_eq!(until_idle(&mut page).await.0, events, "{unknown:?} is no cursor: everything");
        }
    }
}

everywhere! {
    async fn c36_an_active_run_is_replayed_and_then_followed_live(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let before = ran(server, "t", "a").await;
        lock(server, "t", "b").await;
        let mut runner = Frames::producing(server, "t", "b").await;
        let events = said("t", "b", "Hello world");
        runner.sends(&events[..3]).await;
        let mut page = Frames::of_thread(server, &connect(server, "t").await, "t", Some("a-2")).await;
        page.hears(&before[2..]).await;
        page.hears(&events[..3]).await;
        assert_eq!(page.pushed_as("replay_complete").await["latestEventId"], "b-3");
        page.is_silent().await;
        for event in &events[3..] {
            runner.sends(std::slice::from_ref(event)).await;
        }
        page.hears(&events[3..]).await;
        assert_eq!(page.pushed_as("stream_idle").await["latestEventId"], "b-6");
        page.is_silent().await;
    }
}

everywhere! {
    async fn c37_no_event_is_lost_or_doubled_between_replay_and_live(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        lock(server, "t", "r").await;
        let mut events = vec![event("t", "r", 1, json!({ "type": "RUN_STARTED" }))];
        events.extend((2..400).map(|n| event("t", "r", n, json!({ "type": "CUSTOM", "name": "n", "value": n }))));
        events.push(event("t", "r", 400, json!({ "type": "RUN_FINISHED" })));
        let mut runner = Frames::producing(server, "t", "r").await;
        // The first batches are stored first, so that the cursors exist.
        runner.sends(&events[..14]).await;
        let produce = async {
            for batch in events[14..].chunks(7) {
                runner.sends(batch).await;
            }
        };
        let follow = async {
            let mut pages = Vec::new();
            for n in 0..12 {
                let cursor = (n > 6).then(|| format!("r-{n}"));
                let token = connect(server, "t").await;
                pages.push((n, Frames::of_thread(server, &token, "t", cursor.as_deref()).await));
            }
            for (n, mut page) in pages {
                let (seen, idle) = until_idle(&mut page).await;
                let from = if n > 6 { n } else { 0 };
                assert_eq!(seen, events[from..], "page {n}");
                assert_eq!(idle["latestEventId"], "r-400");
            }
        };
        tokio::join!(produce, follow);
    }
}

everywhere! {
    async fn c38_readers_wait_for_a_run_without_events_until_its_lock_is_released(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let token = lock(server, "t", "r").await;
        let mut page = Frames::of_run(server, &token, "t", "r").await;
        let mut reader = Frames::of_thread(server, &connect(server, "t").await, "t", None).await;
        assert_eq!(reader.pushed_as("replay_complete").await["latestEventId"], Value::Null);
        page.is_silent().await;
        reader.is_silent().await;
        assert_eq!(delete(server, "/api/threads/t/lock", json!({ "runId": "r" })).await.status, 204);
        reader.pushed_as("stream_idle").await;
        // Without an end the page would wait forever.
        let end = page.pushed_as("ag_ui_event").await;
        assert_eq!(end["type"], "RUN_ERROR", "{end}");
    }
}

everywhere! {
    async fn c39_connecting_to_an_empty_thread_is_204(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        for id in ["t", "none"] {
            let answer = post(server, &format!("/api/threads/{id}/connect"), json!({ "userId": "ann" })).await;
            assert_eq!((answer.status, answer.body.len()), (204, 0));
        }
        let body = json!({ "threadId": "u", "userId": "ann", "agentId": "agent" });
        post(server, "/api/threads", body).await.ok(201);
        lock(server, "u", "r").await;
        connect(server, "u").await;
    }
}

everywhere! {
    async fn c40_a_reader_that_was_cut_off_needs_another_token(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let token = lock(server, "t", "r").await;
        let mut runner = Frames::producing(server, "t", "r").await;
        let events = said("t", "r", "Hello world");
        let mut page = Frames::of_run(server, &token, "t", "r").await;
        assert_eq!(Frames::page(server, &token).await.map(drop), Err(403), "it is in use");
        runner.sends(&events[..3]).await;
        page.hears(&events[..2]).await;
        // The third event may have been lost on its way.
        drop(page);
        for _ in 0..3 {
            assert_eq!(Frames::page(server, &token).await.map(drop), Err(403));
        }
        let mut page = Frames::of_thread(server, &connect(server, "t").await, "t", Some("r-2")).await;
        runner.sends(&events[3..]).await;
        assert_eq!(until_idle(&mut page).await.0, events[2..]);
    }
}

everywhere! {
    async fn a_token_that_delivered_no_event_is_still_valid(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let token = lock(server, "t", "r").await;
        let joined = async || {
            // The token is usable again a moment after its socket is gone.
            let mut page = eventually("the token", async || Frames::page(server, &token).await.ok()).await;
            page.joins("thread:t", json!({ "stream_mode": "run", "run_id": "r" })).await;
            page
        };
        for _ in 0..3 {
            // Cut off before the first frame, and after a join that has delivered nothing yet.
            drop(eventually("the token", async || Frames::page(server, &token).await.ok()).await);
            drop(joined().await);
        }
        let mut page = joined().await;
        let mut runner = Frames::producing(server, "t", "r").await;
        let events = said("t", "r", "Hello world");
        runner.sends(&events).await;
        page.hears(&events).await;
    }
}

everywhere! {
    async fn a_topic_joined_again_on_one_socket_continues_at_its_cursor(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let token = lock(server, "t", "r").await;
        let mut runner = Frames::producing(server, "t", "r").await;
        let events = said("t", "r", "Hello world");
        runner.sends(&events[..3]).await;
        let mut page = Frames::of_run(server, &token, "t", "r").await;
        page.hears(&events[..3]).await;
        page.joins("thread:t", json!({ "stream_mode": "run", "run_id": "r" })).await;
        runner.sends(&events[3..]).await;
        page.hears(&events[3..]).await;
        let mut page = Frames::of_thread(server, &connect(server, "t").await, "t", None).await;
        assert_eq!(until_idle(&mut page).await.0, events);
        page.joins("thread:t", json!({ "stream_mode": "connect", "last_seen_event_id": null })).await;
        let (none, idle) = until_idle(&mut page).await;
        assert_eq!((none.len(), &idle["latestEventId"]), (0, &json!("r-6")));
    }
}

everywhere! {
    async fn c42_a_token_is_valid_for_its_topic_until_it_expires(server: |options| options.with_key(KEY).with_manual_clock()) {
        thread(server, "t").await;
        thread(server, "u").await;
        lock(server, "u", "s").await;
        let token = lock(server, "t", "r").await;
        let (topic, meta) = feed(server).await;
        for bad in ["", "nonsense", "tlj_", "tlj_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", KEY, "a.b.c"] {
            assert_eq!(Frames::page(server, bad).await.map(drop), Err(403), "{bad}");
        }
        let without = handshake(server, "/client/websocket?vsn=2.0.0", None);
        assert_eq!(Frames::open(without).await.map(drop), Err(403));
        let old = handshake(server, &format!("/client/websocket?join_token={token}&vsn=1.0.0"), None);
        assert_eq!(Frames::open(old).await.map(drop), Err(400), "and the token is not used up");
        let mut page = Frames::page(server, &token).await.expect("accepted");
        let run = |run: &str| json!({ "stream_mode": "run", "run_id": run });
        for (other, params) in [
            ("thread:u", run("s")), ("thread:none", run("r")), (topic.as_str(), json!({})),
            ("ingestion:r", json!({ "thread_id": "t", "run_id": "r" })), ("nonsense", json!({}))
        ] {
            let refused = page.join(other, params).await.expect_err("refused");
            assert_eq!(text(&refused, "reason"), "unauthorized", "{other}");
        }
        assert_eq!(page.join("thread:t", run("s")).await, Err(json!({ "reason": "run_not_found" })));
        assert!(page.join("thread:t", json!({ "stream_mode": "both" })).await.is_err());
        page.joins("thread:t", run("r")).await;
        page.push("dance", json!({})).await;
        assert_eq!(page.reply().await, Err(json!({ "reason": "unknown_event" })));
        let mut page = Frames::page(server, &meta).await.expect("accepted");
        for other in ["thread:t", "user_meta:", "user_meta:other"] {
            let refused = page.join(other, run("r")).await.expect_err("refused");
            assert_eq!(text(&refused, "reason"), "unauthorized", "{other}");
        }
        page.joins(&topic, json!({})).await;
        let unused = connect(server, "t").await;
        server.pass(601);
        assert_eq!(Frames::page(server, &unused).await.map(drop), Err(403), "it is too old");
    }
}

everywhere! {
    async fn c43_heartbeats_are_answered_topics_are_left_and_stale_frames_ignored(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let token = lock(server, "t", "r").await;
        let mut page = Frames::of_run(server, &token, "t", "r").await;
        page.is_silent().await;
        page.say(json!(["99", "100", "thread:t", "stop_run", { "run_id": "r" }])).await;
        page.is_silent().await;
        let shown = get(server, "/api/threads/t?userId=ann").await.ok(200);
        assert_eq!(shown["thread"]["id"], "t");
        let mut runner = Frames::producing(server, "t", "r").await;
        runner.is_silent().await;
        page.leaves().await;
        page.push("stop_run", json!({ "run_id": "r" })).await;
        assert_eq!(page.reply().await, Err(json!({ "reason": "unmatched topic" })));
        runner.leaves().await;
        page.say(json!([null, "7", "phoenix", "dance", {}])).await;
        let unmatched = json!({ "status": "error", "response": { "reason": "unmatched topic" } });
        assert_eq!(page.hear().await, json!([null, "7", "phoenix", "phx_reply", unmatched]));
        use futures_util::SinkExt;
        page.stream.send("nonsense".into()).await.expect("sent");
        assert_eq!(page.closed().await, 1007);
    }
}
