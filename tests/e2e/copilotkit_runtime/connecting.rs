//! Coming back to a thread: all of it, once, in a form that the client accepts.

use serde_json::{Value, json};

use super::{agent, connect, finished, folded, held, input, kinds, next, rest, run, said, until, user, whole};
use crate::harness::{everywhere, text};

everywhere! {
    async fn an_empty_thread_sends_no_event(server) {
        let dev = server.client();
        let _agent = agent(&dev).await;
        assert_eq!(rest(&mut connect(&dev, json!([])).await).await, [] as [Value; 0]);
        dev.thread("t").await;
        assert_eq!(rest(&mut connect(&dev, json!([])).await).await, [] as [Value; 0]);
        dev.post("/copilotkit/agent/none/connect", input("r", json!([]))).await.problem(404, "agent-not-found");
        dev.post("/copilotkit/agent/a/connect", json!({ "messages": [] })).await.problem(400, "invalid-request");
    }
}

everywhere! {
    async fn runs_of_every_api_come_back_as_one_history(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let mut events = vec![
            json!({ "type": "STATE_SNAPSHOT", "snapshot": { "n": 1 } }),
            json!({ "type": "ACTIVITY_SNAPSHOT", "messageId": "p", "activityType": "PLAN", "content": { "a": 1 } }),
            json!({ "type": "REASONING_START", "messageId": "why" }),
            json!({ "type": "REASONING_MESSAGE_START", "messageId": "why", "role": "reasoning" }),
            json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": "why", "delta": "because" }),
            json!({ "type": "REASONING_MESSAGE_END", "messageId": "why" }),
            json!({ "type": "REASONING_END", "messageId": "why" }),
            json!({ "type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "a1" }),
            json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}" }),
            json!({ "type": "TOOL_CALL_END", "toolCallId": "c" }),
            json!({ "type": "TOOL_CALL_RESULT", "messageId": "res", "toolCallId": "c", "content": "42" }),
        ];
        events.extend(said("a2", "Hello"));
        events.push(finished("r1"));
        whole(&dev, &agent, "r1", json!([user("u1", "hi")]), &events).await;
        // Pushed by a producer that is no AG-UI agent: no beginning, types of its own, null where nothing should be.
        dev.run("t", "r2").await;
        let pushed = json!([
            { "type": "OURS", "x": 1 },
            { "type": "TEXT_MESSAGE_START", "messageId": "b1", "timestamp": "today" },
            { "type": "TEXT_MESSAGE_CONTENT", "messageId": "b1", "delta": "pushed" },
            { "type": "TOOL_CALL_START", "toolCallId": "d", "toolCallName": "g", "parentMessageId": null },
            { "type": "TOOL_CALL_RESULT", "messageId": "dr", "toolCallId": "d", "content": [{ "type": "text", "text": "x" }] },
            { "type": "STATE_DELTA", "delta": [{ "op": "add", "path": "/m", "value": 2 }] },
        ]);
        dev.append("t", "r2", 1, pushed).await.ok(200);
        dev.post("/v1/threads/t/runs/r2/fail", json!({ "message": "broke" })).await.ok(200);
        let all = rest(&mut connect(&dev, json!([])).await).await;
        assert_eq!(kinds(&all), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"]);
        assert_eq!((text(&all[0], "runId"), text(&all[3], "threadId")), ("r2", "t"));
        let held = held(&dev).await;
        assert_eq!(held.0.as_array().map(Vec::len), Some(9), "{}", held.0);
        // Clients know no result that is a list.
        let mut held = held;
        held.0[8]["content"] = json!(held.0[8]["content"].to_string());
        assert_eq!(folded(json!([]), &all), held);
        // So it does for a client that has all of it, or a part.
        assert_eq!(folded(held.0.clone(), &all), held);
        assert_eq!(folded(json!([user("u1", "hi"), { "id": "a2", "role": "assistant", "content": "He" }]), &all).0[1]["content"], "Hello");
    }
}

everywhere! {
    async fn an_active_run_is_delivered_once_and_to_its_end(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        whole(&dev, &agent, "r1", json!([user("u1", "hi")]), &[&said("a1", "Hello")[..], &[finished("r1")]].concat()).await;
        let mut first = run(&dev, "r2", json!([user("u2", "more")])).await;
        let mut call = agent.call().await;
        let step = json!({ "type": "STEP_STARTED", "stepName": "s" });
        let [start, half, end] = said("a3", "Hel");
        call.say(&[vec![step.clone()], said("a2", "Now").to_vec(), vec![start, half.clone()]].concat()).await;
        until(&mut first, "STEP_STARTED").await;
        until(&mut first, "TEXT_MESSAGE_END").await;
        until(&mut first, "TEXT_MESSAGE_CONTENT").await;

        // One page is new; one has all but the run; one has the beginning of it.
        let before = [
            json!([]),
            json!([user("u1", "hi"), { "id": "a1", "role": "assistant", "content": "Hello" }]),
            json!([user("u1", "hi"), { "id": "a1", "role": "assistant", "content": "Hello" }, user("u2", "more"),
                { "id": "a2", "role": "assistant", "content": "Now" }, { "id": "a3", "role": "assistant", "content": "H" }]),
        ];
        let mut pages = Vec::new();
        for messages in before {
            let mut page = connect(&dev, messages.clone()).await;
            let received = until(&mut page, "TEXT_MESSAGE_CONTENT").await;
            assert_eq!(
                kinds(&received),
                ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED", "RUN_STARTED", "STEP_STARTED",
                    "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"],
            );
            assert_eq!((text(&received[0], "runId"), text(&received[3], "runId"), &received[4]), ("r1", "r2", &step));
            pages.push((page, received, messages));
        }
        call.say(&[json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "a3", "delta": "lo" }), end]).await;
        call.finish(&[json!({ "type": "STEP_FINISHED", "stepName": "s" }), finished("r2")]).await;
        let live = rest(&mut first).await;
        let held = held(&dev).await;
        for (mut page, mut received, messages) in pages {
            let tail = rest(&mut page).await;
            assert_eq!(tail, live);
            received.extend(tail);
            assert_eq!(folded(messages, &received), held);
        }
        assert_eq!(held.0[4]["content"], "Hello");
    }
}

everywhere! {
    async fn events_that_a_client_would_refuse_are_left_out_completely(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let mut events = said("m", "half").to_vec();
        events[0]["role"] = json!("king");
        events.extend(said("n", "whole"));
        events.push(finished("r"));
        let received = whole(&dev, &agent, "r", json!([user("u", "hi")]), &events).await;
        assert_eq!(received[1..], events[3..]);
        assert_eq!(folded(json!([]), &received), held(&dev).await);
    }
}

everywhere! {
    async fn a_run_without_a_word_and_one_without_a_beginning_are_followed(server) {
        let dev = server.client();
        let _agent = agent(&dev).await;
        dev.thread("t").await;
        dev.run("t", "r").await;
        let mut page = connect(&dev, json!([])).await;
        dev.append("t", "r", 1, json!([{ "type": "OURS" }, said("m", "x")[0], said("m", "x")[1]])).await.ok(200);
        assert_eq!(kinds(&until(&mut page, "TEXT_MESSAGE_CONTENT").await), ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]);
        let mut late = connect(&dev, json!([])).await;
        assert_eq!(text(&next(&mut late).await, "type"), "RUN_STARTED");
        dev.act("t", "r", "finish").await.ok(200);
        assert_eq!(kinds(&rest(&mut page).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
        assert_eq!(kinds(&rest(&mut late).await).last(), Some(&"RUN_FINISHED"));
    }
}

everywhere! {
    async fn partially_delivered_reasoning_is_replayed_from_its_beginning(server) {
        let dev = server.client();
        let _agent = agent(&dev).await;
        dev.thread("t").await;
        dev.run("t", "r").await;
        let think = |delta: &str| json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": "why", "delta": delta });
        let begin = json!([
            { "type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": { "messages": [user("u", "hi")] } },
            { "type": "REASONING_START", "messageId": "why" },
            { "type": "REASONING_MESSAGE_START", "messageId": "why", "role": "reasoning" },
            think("be"), think("ca"),
        ]);
        dev.append("t", "r", 1, begin).await.ok(200);
        let has = json!([user("u", "hi"), { "id": "why", "role": "reasoning", "content": "be" }]);
        let (mut old, mut new) = (connect(&dev, has.clone()).await, connect(&dev, json!([])).await);
        let end = json!([think("use"), { "type": "REASONING_MESSAGE_END", "messageId": "why" }, { "type": "REASONING_END", "messageId": "why" }]);
        dev.append("t", "r", 6, end).await.ok(200);
        dev.act("t", "r", "finish").await.ok(200);
        let held = held(&dev).await;
        assert_eq!(held.0[1]["content"], "because");
        for (page, before) in [(&mut old, has), (&mut new, json!([]))] {
            let received = rest(page).await;
            assert_eq!(folded(before, &received), held);
            assert_eq!(kinds(&received).iter().filter(|kind| **kind == "REASONING_START").count(), 1);
        }
    }
}

everywhere! {
    async fn the_last_runs_events_are_replayed_and_its_error_is_not(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let custom = |value: &str| json!({ "type": "CUSTOM", "name": "on_interrupt", "value": value });
        for (run, value) in [("r1", "old"), ("r2", "new")] {
            let end = json!({ "type": "RUN_ERROR", "message": "no" });
            whole(&dev, &agent, run, json!([user(run, "hi")]), &[custom(value), end]).await;
        }
        let received = rest(&mut connect(&dev, json!([])).await).await;
        assert_eq!(kinds(&received), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "CUSTOM", "RUN_FINISHED"]);
        assert_eq!(received[2], custom("new"));
        assert_eq!(folded(json!([]), &received), held(&dev).await);
    }
}

everywhere! {
    async fn a_thread_that_is_deleted_ends_its_streams(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let mut asked = run(&dev, "r", json!([user("u", "hi")])).await;
        let mut call = agent.call().await;
        call.say(&said("m", "x")[..2]).await;
        until(&mut asked, "TEXT_MESSAGE_CONTENT").await;
        let mut page = connect(&dev, json!([])).await;
        until(&mut page, "TEXT_MESSAGE_CONTENT").await;
        dev.delete("/copilotkit/threads/t").await.ok(200);
        for stream in [&mut asked, &mut page] {
            let last = rest(stream).await;
            assert_eq!((kinds(&last), text(&last[0], "code")), (vec!["RUN_ERROR"], "THREAD_DELETED"));
        }
        assert_eq!(rest(&mut connect(&dev, json!([])).await).await, [] as [Value; 0]);
    }
}
