//! Runs that continue one that has ended: clients give them its id.

use serde_json::{Value, json};

use super::{agent, asks, connect, finished, input, kinds, rest, said, until, user, whole};
use crate::harness::{Client, everywhere, sse::Events, text};

fn waiting(run: &str, id: &str) -> Value {
    let mut event = finished(run);
    event["outcome"] = json!({ "type": "interrupt", "interrupts": [{ "id": id, "reason": "confirmation" }] });
    event
}

/// The run `r` once more, with this in its input.
async fn again(client: &Client, more: Value) -> Events {
    let mut body = input("r", json!([]));
    more.as_object().expect("members").iter().for_each(|(name, value)| body[name] = value.clone());
    Events::open(asks(client, "/agent/a/run", &body)).await
}

fn yes(id: &str) -> Value {
    json!({ "resume": [{ "interruptId": id, "status": "resolved", "payload": true }] })
}

async fn runs(client: &Client) -> Vec<String> {
    let page = client.get("/v1/threads/t/runs").await.ok(200);
    page["runs"].as_array().expect("runs").iter().map(|run| text(run, "runId").to_owned()).collect()
}

everywhere! {
    async fn an_interrupt_survives_a_reload_and_is_answered_once(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        whole(&dev, &agent, "r", json!([user("u", "do it")]), &[&said("a", "May I?")[..], &[waiting("r", "i1")]].concat()).await;
        let received = rest(&mut connect(&dev, json!([])).await).await;
        assert_eq!(received.last(), Some(&waiting("r", "i1")));

        let mut resumed = again(&dev, yes("i1")).await;
        let mut call = agent.call().await;
        assert_eq!(call.input()["resume"], yes("i1")["resume"]);
        let started = until(&mut resumed, "RUN_STARTED").await;
        let id = text(&started[0], "runId").to_owned();
        assert!(id.starts_with("r~") && runs(&dev).await == [id.clone(), "r".to_owned()], "{id}");
        // While it is active it is stopped under the id that the client knows.
        let stop = |run: &str| json!({ "runId": run });
        let other = dev.post("/copilotkit/agent/a/stop/t", stop("x")).await.ok(200);
        assert_eq!(other["stopped"], false);
        // The answer sent again is the same run.
        let mut same = again(&dev, yes("i1")).await;
        call.say(&said("b", "Done")).await;
        call.finish(&[finished(&id)]).await;
        let (one, two) = (rest(&mut resumed).await, rest(&mut same).await);
        assert_eq!((&one, kinds(&two)[0]), (&two[1..].to_vec(), "RUN_STARTED"));
        let after = rest(&mut again(&dev, yes("i1")).await).await;
        assert_eq!((after, agent.requests()), (two, 2));
        // Nothing waits any more.
        let received = rest(&mut connect(&dev, json!([])).await).await;
        assert!(received.last().expect("an end")["outcome"].is_null());
    }
}

everywhere! {
    async fn a_failed_answer_to_an_interrupt_can_be_repeated(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        whole(&dev, &agent, "r", json!([user("u", "do it")]), &[waiting("r", "i1")]).await;
        for _ in 0..2 {
            let mut resumed = again(&dev, yes("i1")).await;
            agent.call().await.finish(&[json!({ "type": "RUN_ERROR", "message": "busy" })]).await;
            assert_eq!(kinds(&rest(&mut resumed).await).last(), Some(&"RUN_ERROR"));
            let received = rest(&mut connect(&dev, json!([])).await).await;
            assert_eq!(received.last().expect("an end")["outcome"]["interrupts"][0]["id"], "i1");
        }
        assert_eq!(runs(&dev).await.len(), 3);
    }
}

everywhere! {
    async fn new_messages_under_an_old_run_id_start_a_run_and_repeated_ones_do_not(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let mut asked = input("r", json!([user("u", "hi")]));
        asked["tools"] = json!([{ "name": "map", "description": "d", "parameters": {} }]);
        let mut stream = Events::open(asks(&dev, "/agent/a/run", &asked)).await;
        let call = [
            json!({ "type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "map", "parentMessageId": "a" }),
            json!({ "type": "TOOL_CALL_END", "toolCallId": "c" }),
        ];
        agent.call().await.finish(&[&said("a", "Hello")[..], &call, &[finished("r")]].concat()).await;
        let first = rest(&mut stream).await;
        let same = rest(&mut again(&dev, json!({ "messages": [user("u", "hi")] })).await).await;
        assert_eq!((same, agent.requests()), (first, 1));
        for more in [
            json!({ "messages": [user("u", "hi"), { "id": "res", "role": "tool", "toolCallId": "c", "content": "42" }] }),
            json!({ "forwardedProps": { "command": { "resume": "yes" } } }),
        ] {
            let mut stream = again(&dev, more).await;
            agent.call().await.finish(&[finished("r")]).await;
            assert!(text(&rest(&mut stream).await[0], "runId").starts_with("r~"));
        }
        assert_eq!((runs(&dev).await.len(), agent.requests()), (3, 3));
    }
}

everywhere! {
    async fn a_continuation_is_stopped_under_the_id_that_the_client_knows(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        whole(&dev, &agent, "r", json!([user("u", "do it")]), &[waiting("r", "i1")]).await;
        let mut resumed = again(&dev, yes("i1")).await;
        let mut call = agent.call().await;
        until(&mut resumed, "RUN_STARTED").await;
        let stopped = dev.post("/copilotkit/agent/a/stop/t", json!({ "runId": "r" })).await.ok(200);
        assert_eq!(stopped["stopped"], true);
        call.hung_up().await;
        assert_eq!(kinds(&rest(&mut resumed).await), ["RUN_FINISHED"]);
    }
}
