//! More runs of agents than a server takes.

use serde_json::json;

use super::{agent, agui, ask, ended, finished, start, user};
use crate::harness::{Options, Server, http::send, run};

#[tokio::test]
async fn one_run_too_many_gets_retry_after() {
    run(Options::memory().with_agent_runs(1), async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        dev.thread("u").await;
        let agent = agent(&dev).await;
        dev.post("/v1/threads/u/runs", ask("first", json!([]))).await.ok(201);
        let call = agent.call().await;
        let chat = json!({ "id": "t", "message": { "role": "user", "parts": [{ "type": "text", "text": "hi" }] } });
        let asked = json!({ "assistant_id": "a", "input": { "messages": "hi" } });
        for refused in [
            send(start(&dev, ask("r", json!([])))).await,
            send(agui(&dev, "r", json!([user("m", "hi")]))).await,
            dev.post("/ai/a", chat).await,
            dev.post("/langgraph/threads/t/runs", asked.clone()).await,
            dev.post("/langgraph/threads/t/commands", json!({ "id": 1, "method": "run.start", "params": asked })).await,
        ] {
            assert_eq!(refused.problem(429, "rate-limited")["retryable"], true);
            assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds > 0));
        }
        // What is there already needs no place.
        dev.post("/v1/threads/u/runs", ask("first", json!([]))).await.ok(200);
        assert_eq!((agent.requests(), dev.types("t").await.len()), (1, 0));
        call.finish(&[finished("first")]).await;
        let place = async || {
            let answer = send(start(&dev, ask("r", json!([])))).await;
            (answer.status != 429).then(|| answer.ok(201))
        };
        crate::harness::eventually("a place is free again", place).await;
        agent.call().await.finish(&[finished("r")]).await;
        assert_eq!(ended(&dev, "r").await["status"], "finished");
    })
    .await;
}
