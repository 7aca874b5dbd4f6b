//! A chat with any endpoint in the shape of OpenAI's, over the API from beginning to end.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::{Options, Server, eventually, run, text};

type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// Answers with tokens, as such endpoints do; the word `teapot` is refused.
async fn complete(State(asked): State<Asked>, headers: HeaderMap, body: String) -> Response {
    let request: Value = serde_json::from_str(&body).expect("JSON");
    let key = headers.get(header::AUTHORIZATION).and_then(|key| key.to_str().ok()).unwrap_or_default();
    asked.lock().expect("lock").push((key.to_owned(), request.clone()));
    if body.contains("teapot") {
        return (StatusCode::UNAUTHORIZED, "{\"error\":{\"message\":\"wrong key k-secret\"}}").into_response();
    }
    let turns = request["messages"].as_array().map_or(0, Vec::len);
    let mut lines = String::new();
    for word in ["Turn ", &turns.to_string(), " it is."] {
        let chunk = json!({ "choices": [{ "index": 0, "delta": { "content": word } }] });
        lines.push_str(&format!("data: {chunk}\n\n"));
    }
    let stop = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10 } });
    lines.push_str(&format!("data: {stop}\n\ndata: {usage}\n\ndata: [DONE]\n\n"));
    ([(header::CONTENT_TYPE, "text/event-stream")], lines).into_response()
}

async fn endpoint() -> (String, Asked) {
    let asked = Asked::default();
    let router = Router::new().route("/v1/chat/completions", post(complete)).with_state(asked.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, asked)
}

#[tokio::test]
async fn a_chat_continues_from_turn_to_turn() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        let (url, asked) = endpoint().await;
        let definition = json!({
            "kind": "openai", "baseUrl": url, "model": "m-1", "apiKey": "k-secret", "instructions": "Be brief."
        });
        let shown = dev.put("/v1/agents/chat", definition).await.ok(200);
        assert!(!shown.to_string().contains("secret"), "{shown}");
        dev.thread("t").await;
        let say = async |words: &str| {
            let input = json!({ "messages": [{ "role": "user", "content": words }] });
            let started = dev.post("/v1/threads/t/runs", json!({ "agentId": "chat", "input": input })).await.ok(201);
            let path = format!("/v1/threads/t/runs/{}", text(&started["run"], "runId"));
            eventually("the end of the run", async || {
                let run = dev.get(&path).await.ok(200);
                (!run["endedAt"].is_null()).then_some(run)
            })
            .await
        };
        let first = say("Hello").await;
        assert_eq!(first["status"], "finished", "{first}");
        assert_eq!(first["usage"], json!([{ "model": "m-1", "inputTokens": 7, "outputTokens": 3, "totalTokens": 10 }]));
        say("And again").await;
        let messages = dev.get("/v1/threads/t/messages").await.ok(200);
        let said: Vec<_> = messages["messages"].as_array().expect("a list").iter().map(|it| &it["content"]).collect();
        // The second request had the instructions, the first turn and the new message.
        assert_eq!(said, [&json!("Hello"), &json!("Turn 2 it is."), &json!("And again"), &json!("Turn 4 it is.")]);
        {
            let asked = asked.lock().expect("lock");
            assert_eq!(asked.len(), 2);
            assert!(asked.iter().all(|(key, request)| key == "Bearer k-secret" && request["model"] == "m-1"));
            assert_eq!(asked[1].1["messages"][0], json!({ "role": "system", "content": "Be brief." }));
        }
        // What the endpoint says of the key is for the log, not for users.
        let refused = say("teapot").await;
        assert_eq!((&refused["status"], &refused["errorCode"]), (&json!("error"), &json!("agent-unreachable")));
        assert!(!dev.get("/v1/threads/t/events").await.text().contains("k-secret"));
    })
    .await;
}
