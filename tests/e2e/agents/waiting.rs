//! Runs that end with a question: interrupts, and tools of the front end.

use reqwest::Method;
use serde_json::json;

use super::{agent, ask, ended, events_of, finished, messages, said, user, whole};
use crate::harness::{everywhere, http::send};

everywhere! {
    async fn an_interrupt_is_answered_by_a_client_that_has_just_been_loaded(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        let question = json!({ "id": "i1", "reason": "confirm", "message": "Delete it?" });
        for api in [0, 1] {
            let (asks, answers) = (format!("asks{api}"), format!("answers{api}"));
            dev.post("/v1/threads/t/runs", ask(&asks, json!([user(&format!("u{api}"), "delete it")]))).await.ok(201);
            let mut call = agent.call().await;
            call.say(&said(&format!("m{api}"), "Shall I?")).await;
            let outcome = json!({ "type": "interrupt", "interrupts": [question] });
            let last = json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": asks, "outcome": outcome });
            call.finish(&[last]).await;
            assert_eq!(ended(&dev, &asks).await["status"], "finished");

            let page = messages(&dev).await;
            assert_eq!(page["interrupts"], json!([question]));
            let resume = json!([{ "interruptId": "i1", "status": "resolved", "payload": { "yes": true } }]);
            if api == 0 {
                let body = json!({ "runId": answers, "agentId": "a", "input": { "resume": resume } });
                dev.post("/v1/threads/t/runs", body).await.ok(201);
            } else {
                let body = json!({ "threadId": "t", "runId": answers, "resume": resume });
                tokio::spawn(send(dev.request(Method::POST, "/agui/a").json(&body)));
            }
            let call = agent.call().await;
            let input = call.input();
            assert_eq!((&input["messages"], &input["resume"]), (&page["messages"], &resume));
            // It waits until the run that answers it has ended well.
            assert_eq!(messages(&dev).await["interrupts"], json!([question]));
            call.finish(&whole(&answers, &format!("n{api}"), "Done.")).await;
            ended(&dev, &answers).await;
            let after = messages(&dev).await;
            let count = after["messages"].as_array().map(Vec::len);
            assert_eq!((&after["interrupts"], count), (&json!([]), Some(3 + 3 * api)));
            assert_eq!(events_of(&dev, &answers).await[0]["input"]["resume"], resume);
        }
    }
}

everywhere! {
    async fn a_tool_of_the_front_end_is_answered_by_its_result_alone(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        let tool = json!({ "name": "color", "description": "picks one", "parameters": { "type": "object" } });
        let input = json!({ "messages": [user("u", "which color?")], "tools": [tool] });
        dev.post("/v1/threads/t/runs", json!({ "runId": "r1", "agentId": "a", "input": input })).await.ok(201);
        let call = agent.call().await;
        assert_eq!(call.input()["tools"], json!([tool]));
        call.finish(&[
            json!({ "type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "color", "parentMessageId": "m" }),
            json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{\"dark\":" }),
            json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "true}" }),
            json!({ "type": "TOOL_CALL_END", "toolCallId": "c1" }),
            finished("r1"),
        ])
        .await;
        ended(&dev, "r1").await;
        let page = messages(&dev).await;
        assert_eq!(page["pendingToolCallIds"], json!(["c1"]));
        let function = json!({ "name": "color", "arguments": "{\"dark\":true}" });
        assert_eq!(page["messages"][1]["toolCalls"][0]["function"], function);

        let result = json!({ "id": "t1", "role": "tool", "toolCallId": "c1", "content": "navy" });
        // The first agent fails; then the same result is sent again.
        for run in ["r2", "r3"] {
            dev.post("/v1/threads/t/runs", ask(run, json!([result]))).await.ok(201);
            assert_eq!(messages(&dev).await["pendingToolCallIds"], json!([]));
            let mut call = agent.call().await;
            assert_eq!(call.message_ids(), ["u", "m", "t1"], "{run}");
            assert_eq!(call.input()["messages"][2], result);
            if run == "r2" {
                call.end().await;
                ended(&dev, run).await;
            } else {
                call.finish(&whole(run, "n", "Navy it is.")).await;
                assert_eq!(ended(&dev, run).await["status"], "finished");
            }
        }
        assert_eq!(messages(&dev).await["messages"].as_array().map(Vec::len), Some(4));
    }
}
