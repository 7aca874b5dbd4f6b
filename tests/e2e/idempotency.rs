//! `Idempotency-Key`: a start and a creation without an ID that are sent again.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Client, everywhere, http, intercept::Failing, text};

const THREADS: &str = "/v1/threads";

async fn send(client: &Client, method: Method, path: &str, key: &str, body: &Value) -> Answer {
    http::send(client.request(method, path).header("idempotency-key", key).json(body)).await
}

async fn post(client: &Client, path: &str, key: &str, body: Value) -> Answer {
    send(client, Method::POST, path, key, &body).await
}

everywhere! {
    async fn a_creation_with_a_key_is_one_thread_however_often_it_is_sent(server) {
        let dev = server.client();
        let body = json!({ "name": "Trips" });
        let made = post(&dev, THREADS, "k1", body.clone()).await.ok(201);
        let id = text(&made, "threadId");
        assert_eq!(post(&dev, THREADS, "k1", body.clone()).await.ok(200), made);
        assert_ne!(post(&dev, THREADS, "k2", body.clone()).await.ok(201)["threadId"], id);
        post(&dev, THREADS, "k1", json!({ "name": "Journeys" })).await.problem(409, "thread-exists");
        // An ID of the client's choice counts, and the key means nothing then.
        let own = json!({ "threadId": "own" });
        assert_eq!(post(&dev, THREADS, "k1", own.clone()).await.ok(201)["threadId"], "own");
        // The keys of one user are not those of another.
        let other = Client { user: Some("somebody".into()), ..dev.clone() };
        assert_ne!(post(&other, THREADS, "k1", body.clone()).await.ok(201)["threadId"], id);

        // A retry that comes after the deletion does not bring the thread back.
        assert_eq!(dev.delete(&format!("{THREADS}/{id}")).await.status, 204);
        for _ in 0..2 {
            let problem = post(&dev, THREADS, "k1", body.clone()).await.problem(410, "thread-deleted");
            assert_eq!(problem["retryable"], json!(false));
        }
        dev.get(&format!("{THREADS}/{id}")).await.problem(404, "thread-not-found");
        assert_eq!(dev.delete(&format!("{THREADS}/own")).await.status, 204);
        post(&dev, THREADS, "k1", own).await.ok(201);
    }
}

everywhere! {
    async fn a_start_with_a_key_is_one_run_however_often_it_is_sent(server) {
        let dev = server.client();
        dev.thread("t").await;
        let runs = "/v1/threads/t/runs";
        let begun = post(&dev, runs, "k1", json!({ "leaseSeconds": 600 })).await.ok(201);
        let run = text(&begun["run"], "runId");
        assert_eq!(text(&post(&dev, runs, "k1", json!({})).await.ok(200)["run"], "runId"), run);
        post(&dev, runs, "k2", json!({})).await.problem(409, "run-active");
        dev.act("t", run, "finish").await.ok(200);
        let ended = post(&dev, runs, "k1", json!({})).await.ok(200);
        assert_eq!((text(&ended["run"], "runId"), &ended["run"]["status"]), (run, &json!("finished")));

        let stream = async || {
            let request = dev.request(Method::POST, runs).header("idempotency-key", "k3");
            http::send(request.header("content-type", "application/x-ndjson").body("{\"type\":\"A\"}\n")).await
        };
        let streamed = stream().await.ok(201);
        assert_eq!(stream().await.ok(200)["run"], streamed["run"]);
        let input = json!({ "agentId": "demo", "input": { "messages": [{ "id": "m", "role": "user", "content": "Hi" }] } });
        let asked = post(&dev, runs, "k4", input.clone()).await.ok(201);
        assert_eq!(post(&dev, runs, "k4", input).await.ok(200)["run"]["runId"], asked["run"]["runId"]);
        assert_eq!(dev.get(runs).await.ok(200)["runs"].as_array().map(Vec::len), Some(3));
        // A run that the client names is that run.
        let named = post(&dev, runs, "k4", json!({ "runId": run })).await.ok(200);
        assert_eq!(text(&named["run"], "runId"), run);
    }
}

everywhere! {
    async fn a_request_with_a_key_is_repeatable_after_a_lost_response(server: |options| options.with_glass()) {
        let dev = server.client();
        server.intercept().fail(&[Failing::After]);
        let lost = post(&dev, THREADS, "k", json!({})).await.problem(503, "store-unavailable");
        assert_eq!(lost["retryable"], json!(true));
        let made = post(&dev, THREADS, "k", json!({})).await.ok(200);
        let runs = format!("{THREADS}/{}/runs", text(&made, "threadId"));
        server.intercept().fail(&[Failing::After]);
        assert_eq!(post(&dev, &runs, "k", json!({})).await.problem(503, "store-unavailable")["retryable"], json!(true));
        post(&dev, &runs, "k", json!({})).await.ok(200);
        assert_eq!(dev.get(THREADS).await.ok(200)["threads"].as_array().map(Vec::len), Some(1));
        assert_eq!(dev.get(&runs).await.ok(200)["runs"].as_array().map(Vec::len), Some(1));
    }
}

everywhere! {
    async fn a_key_is_visible_text_and_means_nothing_on_other_routes(server) {
        let dev = server.client();
        dev.thread("t").await;
        let long = "x".repeat(129);
        for key in ["", "two words", "caf\u{e9}", &long] {
            for path in [THREADS, "/v1/threads/t/runs"] {
                let problem = post(&dev, path, key, json!({})).await.problem(400, "invalid-request");
                assert!(text(&problem, "detail").contains("Idempotency-Key"), "{problem}");
            }
            send(&dev, Method::PATCH, "/v1/threads/t", key, &json!({ "name": "Trips" })).await.ok(200);
        }
        let twice = dev.request(Method::POST, THREADS).header("idempotency-key", "a").header("idempotency-key", "a");
        http::send(twice.json(&json!({}))).await.problem(400, "invalid-request");
        post(&dev, THREADS, &"x".repeat(128), json!({})).await.ok(201);
    }
}
