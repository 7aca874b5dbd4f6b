//! Checks 49–51, as far as they need no package: the projections of a log.

use super::*;
use crate::harness::everywhere;

async fn messages(server: &Server) -> Value {
    get(server, "/api/threads/t/messages?userId=ann").await.ok(200)["messages"].take()
}

/// A run of these events between its start and its end.
async fn runs(server: &Server, run: &str, events: &[Value]) {
    lock(server, "t", run).await;
    let mut runner = Frames::producing(server, "t", run).await;
    let all = [&[json!({ "type": "RUN_STARTED" })], events, &[json!({ "type": "RUN_FINISHED" })]].concat();
    let all: Vec<_> = all.into_iter().zip(1..).map(|(value, number)| event("t", run, number, value)).collect();
    runner.sends(&all).await;
    runner.leaves().await;
}

everywhere! {
    async fn c49_messages_are_shown_as_the_runtime_reads_them(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        assert_eq!(messages(server).await, json!([]));
        lock(server, "t", "a").await;
        let mut runner = Frames::producing(server, "t", "a").await;
        let input = json!({ "messages": [
            { "id": "u1", "role": "user", "content": [{ "type": "text", "text": "look" }] }
        ] });
        let steps = [
            json!({ "type": "RUN_STARTED", "input": input }),
            json!({ "type": "REASONING_MESSAGE_START", "messageId": "think", "role": "reasoning" }),
            json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": "think", "delta": "hm" }),
            json!({ "type": "REASONING_MESSAGE_END", "messageId": "think" }),
            json!({ "type": "TEXT_MESSAGE_START", "messageId": "a1", "role": "assistant" }),
            json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "a1", "delta": "I call" }),
            json!({ "type": "TEXT_MESSAGE_END", "messageId": "a1" }),
            json!({ "type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "f", "parentMessageId": "a1" }),
            json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{\"x\":" }),
            json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "1}" }),
            json!({ "type": "TOOL_CALL_END", "toolCallId": "c1" }),
            json!({ "type": "TOOL_CALL_RESULT", "messageId": "r1", "toolCallId": "c1", "content": "one" }),
            json!({ "type": "TOOL_CALL_START", "toolCallId": "c2", "toolCallName": "g" }),
            json!({ "type": "TOOL_CALL_END", "toolCallId": "c2" }),
            json!({ "type": "ACTIVITY_SNAPSHOT", "messageId": "act", "activityType": "PLAN", "content": { "n": 1 } }),
            json!({ "type": "ACTIVITY_DELTA", "messageId": "act", "activityType": "PLAN",
                "patch": [{ "op": "replace", "path": "/n", "value": 2 }] }),
            json!({ "type": "RUN_FINISHED" }),
        ];
        for (value, number) in steps.into_iter().zip(1..) {
            runner.sends(&[event("t", "a", number, value)]).await;
        }
        let shown = messages(server).await;
        assert_eq!(shown, json!([
            { "id": "u1", "role": "user", "content": [{ "type": "text", "text": "look" }] },
            { "id": "think", "role": "reasoning", "content": "hm" },
            { "id": "a1", "role": "assistant", "content": "I call",
                "toolCalls": [{ "id": "c1", "name": "f", "args": "{\"x\":1}" }] },
            { "id": "r1", "role": "tool", "content": "one", "toolCallId": "c1" },
            { "id": "c2", "role": "assistant", "toolCalls": [{ "id": "c2", "name": "g", "args": "" }] },
            { "id": "act", "role": "activity", "activityType": "PLAN", "content": { "n": 2 } }
        ]));
        // A tool result from the page comes with the next run, together with its content.
        lock(server, "t", "b").await;
        let mut runner = Frames::producing(server, "t", "b").await;
        let input = json!({ "messages": [
            { "id": "r2", "role": "tool", "toolCallId": "c2", "content": "two" }
        ] });
        let start = event("t", "b", 1, json!({ "type": "RUN_STARTED", "input": input }));
        runner.sends(&[start]).await;
        let ids: Vec<_> = messages(server).await.as_array().expect("a list").iter().map(|it| it["id"].clone()).collect();
        assert_eq!(json!(ids), json!(["u1", "think", "a1", "r1", "c2", "act", "r2"]), "an acknowledged event is visible");
    }
}

everywhere! {
    async fn c51_a_state_is_the_newest_snapshot_with_the_later_deltas(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let state = async || get(server, "/api/_inspect/threads/t/state").await.ok(200);
        let delta = |path: &str, value: Value| {
            json!({ "type": "STATE_DELTA", "delta": [{ "op": "replace", "path": path, "value": value }] })
        };
        runs(server, "a", &[delta("/n", json!(1))]).await;
        assert_eq!(state().await, json!({ "kind": "no-snapshot" }));
        let snapshot = json!({ "type": "STATE_SNAPSHOT", "snapshot": { "n": 0, "list": [] } });
        runs(server, "b", &[snapshot, delta("/n", json!(2)), delta("/none/there", json!(3))]).await;
        runs(server, "c", &[delta("/list", json!([1]))]).await;
        let expected = json!({ "kind": "snapshot", "state": { "n": 2, "list": [1] }, "skippedDeltas": 1 });
        assert_eq!(state().await, expected);
    }
}
