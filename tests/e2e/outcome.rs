//! A request whose response was lost: the problem says whether it may be sent again.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{everywhere, intercept::Failing, socket::Socket, text};

/// The facts by which a client decides.
fn facts(problem: &Value) -> (&Value, &Value, bool) {
    (&problem["retryable"], &problem["outcome"], problem.get("retryAfterMs").is_some())
}

everywhere! {
    async fn an_append_without_a_number_is_not_called_repeatable(server: |options| options.with_glass()) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let unnumbered = "/v1/threads/t/runs/r/events";
        for (type_, failing) in [("A", Failing::After), ("never", Failing::Before)] {
            server.intercept().fail(&[failing]);
            let problem = dev.post(unnumbered, json!([{ "type": type_ }])).await.problem(503, "outcome-unknown");
            assert_eq!(facts(&problem), (&json!(false), &json!("unknown"), false), "{problem}");
        }
        // With a number the store recognizes it.
        server.intercept().fail(&[Failing::After]);
        let problem = dev.append("t", "r", 2, json!([{ "type": "B" }])).await.problem(503, "store-unavailable");
        assert_eq!(facts(&problem), (&json!(true), &Value::Null, true), "{problem}");
        dev.append("t", "r", 2, json!([{ "type": "B" }])).await.ok(200);
        let mut socket = Socket::open(&dev).await;
        for (seq, slug, retryable) in [(None, "/problems/outcome-unknown", false), (Some(4), "/problems/store-unavailable", true)] {
            server.intercept().fail(&[Failing::After]);
            let mut append = json!({ "threadId": "t", "runId": "r", "events": [{ "type": "C" }] });
            if let Some(seq) = seq {
                append["producerSeq"] = json!(seq);
            }
            socket.send(json!({ "id": "1", "append": append })).await;
            let (_, error) = socket.answer("error").await;
            assert_eq!((text(&error, "type"), &error["retryable"]), (slug, &json!(retryable)), "{error}");
        }
        assert_eq!(dev.types("t").await, ["A", "B", "C", "C"]);
    }
}

everywhere! {
    async fn a_start_and_a_creation_are_repeatable_only_by_their_id(server: |options| options.with_glass()) {
        let dev = server.client();
        let lost = async |method: Method, path: &str, body: Value| {
            server.intercept().fail(&[Failing::After]);
            crate::harness::http::send(dev.request(method, path).json(&body)).await
        };
        let unknown = |problem: Value| assert_eq!(facts(&problem), (&json!(false), &json!("unknown"), false), "{problem}");
        let (threads, runs) = ("/v1/threads", "/v1/threads/t/runs");
        unknown(lost(Method::POST, threads, json!({})).await.problem(503, "outcome-unknown"));
        let named = json!({ "threadId": "t" });
        lost(Method::POST, threads, named.clone()).await.problem(503, "store-unavailable");
        dev.post(threads, named).await.ok(200);
        assert_eq!(dev.get(threads).await.ok(200)["threads"].as_array().map(Vec::len), Some(2));

        // A run holds its thread, so each start has one of its own.
        dev.thread("t1").await;
        unknown(lost(Method::POST, "/v1/threads/t1/runs", json!({})).await.problem(503, "outcome-unknown"));
        dev.thread("t2").await;
        server.intercept().fail(&[Failing::After]);
        let streamed = dev.ndjson(Method::POST, "/v1/threads/t2/runs", "{\"type\":\"A\"}\n").await;
        unknown(streamed.problem(503, "outcome-unknown"));
        lost(Method::POST, runs, json!({ "runId": "r" })).await.problem(503, "store-unavailable");
        assert_eq!(dev.post(runs, json!({ "runId": "r" })).await.ok(200)["run"]["runId"], "r");
        // A repeated request to end a run changes nothing.
        lost(Method::POST, "/v1/threads/t/runs/r/finish", json!({})).await.problem(503, "store-unavailable");
        assert_eq!(dev.act("t", "r", "finish").await.ok(200)["status"], "finished");
        assert_eq!(dev.types("t").await, ["RUN_STARTED", "RUN_FINISHED"]);
        // The run of an agent comes last: the server takes it up, and a later failure might meet one of its appends.
        dev.thread("t3").await;
        let driven = json!({ "agentId": "demo", "input": { "messages": [{ "role": "user", "content": "Hello" }] } });
        unknown(lost(Method::POST, "/v1/threads/t3/runs", driven).await.problem(503, "outcome-unknown"));
    }
}
