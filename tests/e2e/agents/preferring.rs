//! Preference of an agent for requests that meet an active run, which counts where a request does not choose.

use super::*;
use crate::harness::{agent::Call, everywhere, http::send, sse::Events};

fn start_of(run: &str) -> Value {
    ask(run, json!([user(run, run)]))
}

/// A thread in which run `first` of an agent with this preference is active.
async fn busy(client: &Client, busy: &str) -> (FakeAgent, Call) {
    client.thread("t").await;
    let agent = agent_that(client, json!({ "busy": busy })).await;
    client.post("/v1/threads/t/runs", start_of("first")).await.ok(201);
    let call = agent.call().await;
    (agent, call)
}

everywhere! {
    async fn a_request_that_does_not_choose_waits_if_its_agent_prefers_it(server) {
        let dev = server.client();
        let (agent, call) = busy(&dev, "enqueue").await;
        assert_eq!(dev.get("/v1/agents/a").await.ok(200)["busy"], "enqueue");
        dev.post("/v1/threads/t/runs", start_of("a")).await.ok(202);
        dev.post("/v1/threads/t/runs", start_of("a")).await.ok(202);
        let mut waits = Events::open(agui(&dev, "b", json!([user("b", "b")]))).await;
        // The choice of a request counts more.
        let mut refused = start_of("c");
        refused["busy"] = json!("reject");
        dev.post("/v1/threads/t/runs", refused).await.problem(409, "run-active");
        send(agui(&dev, "c", json!([user("c", "c")])).header("threadline-busy", "reject")).await.problem(409, "run-active");
        let mut first = start_of("c");
        first["busy"] = json!("interrupt");
        assert_eq!(dev.post("/v1/threads/t/runs", first).await.ok(202)["queued"]["place"], 1);
        let next = agent.call().await;
        assert_eq!(next.message_ids().last().map(String::as_str), Some("c"));
        drop(call);
        next.finish(&whole("c", "m1", "yes")).await;
        agent.call().await.finish(&whole("a", "m2", "yes")).await;
        agent.call().await.finish(&whole("b", "m3", "bye")).await;
        let mut types = Vec::new();
        while let Some(event) = waits.next().await {
            if event.comment.is_none() {
                types.push(text(&event.json(), "type").to_owned());
            }
        }
        assert_eq!((types.first().map(String::as_str), types.last().map(String::as_str)), (Some("RUN_STARTED"), Some("RUN_FINISHED")));
    }
}

everywhere! {
    async fn an_agent_that_interrupts_goes_on_with_the_newest_words(server) {
        let dev = server.client();
        let (agent, call) = busy(&dev, "interrupt").await;
        dev.post("/v1/threads/t/runs", start_of("a")).await.ok(202);
        let next = agent.call().await;
        assert_eq!(next.message_ids().last().map(String::as_str), Some("a"));
        assert_eq!(ended(&dev, "first").await["status"], "stopped");
        drop(call);
        next.finish(&whole("a", "m1", "bye")).await;
        assert_eq!(ended(&dev, "a").await["status"], "finished");
    }
}

everywhere! {
    async fn an_answer_to_an_interrupt_does_not_wait_whatever_the_agent_prefers(server) {
        let dev = server.client();
        let (agent, call) = busy(&dev, "enqueue").await;
        let mut answer = ask("answer", json!([]));
        answer["input"]["resume"] = json!([{ "interruptId": "i", "status": "resolved", "payload": {} }]);
        let asks = json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "first",
            "outcome": { "type": "interrupt", "interrupts": [{ "id": "i", "reason": "x" }] } });
        call.finish(&[asks]).await;
        assert_eq!(ended(&dev, "first").await["status"], "finished");
        dev.post("/v1/threads/t/runs", answer).await.ok(201);
        agent.call().await.finish(&whole("answer", "m1", "done")).await;
        assert_eq!(ended(&dev, "answer").await["status"], "finished");
        let wrong = dev.put("/v1/agents/a", json!({ "url": agent.url, "busy": "later" })).await.problem(400, "invalid-request");
        assert!(wrong.to_string().contains("later"), "{wrong}");
    }
}
