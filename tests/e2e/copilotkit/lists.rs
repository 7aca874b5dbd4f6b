//! Checks 44–48: the topic of a user's list.

use super::*;
use crate::harness::everywhere;

/// The next change of a thread: its operation and thread.
async fn change(page: &mut Frames) -> (String, Value) {
    loop {
        let (name, mut pushed) = page.pushed().await;
        if name == "thread_metadata" {
            let thread = pushed["thread"].take();
            return (text(&pushed, "operation").to_owned(), thread);
        }
    }
}

async fn edit(server: &Server, body: Value) -> Value {
    patch(server, "/api/threads/t", body).await.ok(200)["thread"].take()
}

everywhere! {
    async fn c44_another_tab_receives_events_in_order(server: |options| options.with_key(KEY)) {
        let (mut one, mut other) = (listening(server).await, listening(server).await);
        // One change at a time: of concurrent changes only the newest is sent, since each shows the whole thread.
        let made = thread(server, "t").await;
        for page in [&mut one, &mut other] {
            assert_eq!(change(page).await, ("created".to_owned(), made.clone()));
        }
        let named = edit(server, json!({ "userId": "ann", "name": "N" })).await;
        for page in [&mut one, &mut other] {
            assert_eq!(change(page).await, ("renamed".to_owned(), named.clone()));
        }
        let archived = edit(server, json!({ "userId": "ann", "archived": true })).await;
        for page in [&mut one, &mut other] {
            assert_eq!(change(page).await, ("archived".to_owned(), archived.clone()));
        }
        delete(server, "/api/threads/t", json!({ "userId": "ann" })).await;
        for page in [&mut one, &mut other] {
            assert_eq!(change(page).await.0, "deleted");
        }
        // No change of another user's thread is sent.
        let foreign = json!({ "threadId": "b", "userId": "bob", "agentId": "agent" });
        post(server, "/api/threads", foreign).await.ok(201);
        thread(server, "u").await;
        assert_eq!(change(&mut one).await.1["id"], "u");
    }
}

everywhere! {
    async fn c45_an_old_token_is_valid_and_missed_changes_are_sent(
        server: |options| options.with_key(KEY).with_manual_clock()
    ) {
        let (topic, token) = feed(server).await;
        let mut page = Frames::page(server, &token).await.expect("accepted");
        page.joins(&topic, json!({})).await;
        thread(server, "t").await;
        assert_eq!(change(&mut page).await.0, "created");
        drop(page);
        let named = edit(server, json!({ "userId": "ann", "name": "N" })).await;
        thread(server, "u").await;
        delete(server, "/api/threads/u", json!({ "userId": "ann" })).await;
        server.pass(3_600);
        let mut page = Frames::page(server, &token).await.expect("accepted");
        page.joins(&topic, json!({})).await;
        // The current state. A list's pushes follow the change, so a thread that was created and deleted may still appear.
        let (mut shown, mut gone) = (Value::Null, false);
        while !gone || shown != named {
            let (operation, thread) = change(&mut page).await;
            match operation.as_str() {
                "deleted" => gone = true,
                _ if thread["id"] == "t" => shown = thread,
                _ => assert_eq!((operation.as_str(), gone), ("created", false), "{thread}"),
            }
        }
    }
}

everywhere! {
    async fn c46_every_change_of_an_archived_thread_is_called_archived(server: |options| options.with_key(KEY)) {
        let mut page = listening(server).await;
        thread(server, "t").await;
        assert_eq!(change(&mut page).await.0, "created");
        edit(server, json!({ "userId": "ann", "archived": true })).await;
        assert_eq!(change(&mut page).await.0, "archived");
        ran(server, "t", "r").await;
        edit(server, json!({ "userId": "ann", "name": "last" })).await;
        loop {
            let (operation, thread) = change(&mut page).await;
            assert_eq!((operation.as_str(), &thread["archived"]), ("archived", &json!(true)));
            if thread["name"] == "last" {
                break;
            }
        }
    }
}

everywhere! {
    async fn c47_a_run_elsewhere_is_delivered_once_it_is_visible(server: |options| options.with_key(KEY)) {
        let mut page = listening(server).await;
        thread(server, "t").await;
        for run in ["a", "b"] {
            lock(server, "t", run).await;
            let mut runner = Frames::producing(server, "t", run).await;
            let events = said("t", run, "Hello world");
            runner.sends(&events[..2]).await;
            let activity = async |page: &mut Frames| loop {
                let (name, pushed) = page.pushed().await;
                if name == "thread_run_activity" {
                    return pushed;
                }
            };
            let pushed = activity(&mut page).await;
            assert_eq!((text(&pushed, "threadId"), text(&pushed, "runId")), ("t", run));
            let record = server.project().get(&format!("/v1/threads/t/runs/{run}")).await.ok(200);
            assert_eq!((text(&pushed, "agentId"), text(&pushed, "eventType")), ("agent", "RUN_STARTED"), "{record}");
            // A reader that the announcement wakes follows the run to its end.
            let mut woken = Frames::of_thread(server, &connect(server, "t").await, "t", None).await;
            for event in &events[2..] {
                runner.sends(std::slice::from_ref(event)).await;
            }
            let pushed = activity(&mut page).await;
            assert_eq!((text(&pushed, "runId"), text(&pushed, "eventType")), (run, "RUN_FINISHED"));
            assert_eq!(pushed["latestEventId"], format!("{run}-6"));
            let mut seen = 0;
            loop {
                let (name, payload) = woken.pushed().await;
                if name == "stream_idle" {
                    assert_eq!(payload["latestEventId"], format!("{run}-6"));
                    break;
                }
                seen += usize::from(name == "ag_ui_event" && payload["runId"] == run);
            }
            assert_eq!(seen, events.len());
        }
    }
}

everywhere! {
    async fn c48_a_deleted_thread_delivers_nothing(server: |options| options.with_key(KEY)) {
        let mut page = listening(server).await;
        thread(server, "t").await;
        let token = lock(server, "t", "r").await;
        let mut runner = Frames::producing(server, "t", "r").await;
        let events = said("t", "r", "Hello world");
        runner.sends(&events[..2]).await;
        let mut follower = Frames::of_run(server, &token, "t", "r").await;
        follower.hears(&events[..2]).await;
        let mut reader = Frames::of_thread(server, &connect(server, "t").await, "t", Some("r-2")).await;
        assert_eq!(reader.pushed_as("replay_complete").await["latestEventId"], "r-2");
        delete(server, "/api/threads/t", json!({ "userId": "ann" })).await;
        let gone = runner.batch(&events[2..]).await.expect_err("it is gone");
        assert_eq!(gone, json!({ "reason": "thread_deleted", "retryable": false }));
        assert_eq!(follower.pushed_as("ag_ui_event").await["type"], "RUN_ERROR");
        reader.pushed_as("stream_idle").await;
        while change(&mut page).await.0 != "deleted" {}
        // The next change is of another thread; a push may be repeated.
        thread(server, "u").await;
        let (operation, thread) = loop {
            let (operation, thread) = change(&mut page).await;
            if operation != "deleted" {
                break (operation, thread);
            }
        };
        assert_eq!((operation.as_str(), &thread["id"]), ("created", &json!("u")));
    }
}
