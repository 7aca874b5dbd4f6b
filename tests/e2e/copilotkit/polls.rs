//! Long-polling, used by the client on a Node without a WebSocket.

use std::time::Duration;

use super::*;
use crate::harness::everywhere;

/// A session of a client.
struct Polls<'s> {
    server: &'s Server,
    path: String,
    key: Option<&'static str>,
    token: String,
    waiting: Vec<Value>,
}

impl<'s> Polls<'s> {
    async fn open(server: &'s Server, path: &str, key: Option<&'static str>) -> Self {
        let mut polls = Self { server, path: path.to_owned(), key, token: String::new(), waiting: Vec::new() };
        let opened = polls.ask().await.ok(200);
        assert_eq!(opened["status"], 410);
        polls.token = format!("token={}", text(&opened, "token"));
        polls
    }

    async fn ask(&self) -> Answer {
        let url = format!("http://{}{}{}", self.server.addr, self.path, self.token);
        let request = self.server.project().http.get(url).header("accept", "application/json");
        send(match self.key {
            Some(key) => request.header("x-phoenix-authtoken", key),
            None => request,
        })
        .await
    }

    async fn say(&self, frames: &[Value]) {
        let lines: Vec<_> = frames.iter().map(Value::to_string).collect();
        let url = format!("http://{}{}{}", self.server.addr, self.path, self.token);
        let request = self.server.project().http.post(url).header("content-type", "application/x-ndjson");
        assert_eq!(send(request.body(lines.join("\n"))).await.ok(200), json!({ "status": 200 }));
    }

    async fn hear(&mut self) -> Value {
        while self.waiting.is_empty() {
            let answer = self.ask().await.ok(200);
            if answer["status"] == 200 {
                let messages = answer["messages"].as_array().expect("messages").iter();
                self.waiting =
                    messages.map(|text| serde_json::from_str(text.as_str().expect("a text")).expect("JSON")).collect();
            } else {
                assert_eq!(answer["status"], 204, "{answer}");
            }
            assert_eq!(format!("token={}", text(&answer, "token")), self.token);
        }
        self.waiting.remove(0)
    }
}

everywhere! {
    async fn a_run_is_produced_and_followed_by_long_polls(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let token = lock(server, "t", "r").await;
        let mut runner = Polls::open(server, "/runner/longpoll?vsn=2.0.0&", Some(KEY)).await;
        let client = format!("/client/longpoll?join_token={token}&vsn=2.0.0&");
        let mut page = Polls::open(server, &client, None).await;
        runner.say(&[json!(["6", "6", "ingestion:r", "phx_join", { "thread_id": "t", "run_id": "r" }])]).await;
        let joined = runner.hear().await;
        assert_eq!(joined[4]["response"], json!({ "capabilities": ["runner_event_batch_v1"] }));
        page.say(&[json!(["1", "1", "thread:t", "phx_join", { "stream_mode": "run", "run_id": "r" }])]).await;
        assert_eq!(page.hear().await[4]["status"], "ok");
        let events = said("t", "r", "Hello world");
        let pushes: Vec<_> = events.chunks(2).zip(7..).map(|(events, reference)| {
            json!(["6", reference.to_string(), "ingestion:r", "events", { "events": events }])
        }).collect();
        runner.say(&pushes[..1]).await;
        runner.say(&pushes[1..]).await;
        for (_, reference) in pushes.iter().zip(7..) {
            let reply = json!({ "status": "ok", "response": {} });
            assert_eq!(runner.hear().await, json!(["6", reference.to_string(), "ingestion:r", "phx_reply", reply]));
        }
        for event in &events {
            assert_eq!(page.hear().await, json!(["1", null, "thread:t", "ag_ui_event", event]));
        }
        assert_eq!(inspected(server, "t").await, events);
    }
}

everywhere! {
    async fn a_poll_without_a_credential_is_refused(server: |options| options.with_key(KEY)) {
        thread(server, "t").await;
        let token = lock(server, "t", "r").await;
        let runner = Polls::open(server, "/runner/longpoll?vsn=2.0.0&", Some(KEY)).await;
        for (path, key, http, status) in [
            ("/runner/longpoll?vsn=2.0.0&", None, 401, 403),
            ("/runner/longpoll?vsn=2.0.0&", Some("wrong"), 401, 403),
            ("/runner/longpoll?vsn=1.0.0&", Some(KEY), 400, 500),
            ("/client/longpoll?vsn=2.0.0&", None, 403, 403),
            ("/client/longpoll?vsn=2.0.0&join_token=tlj_x&", None, 403, 403),
            ("/client/longpoll?vsn=2.0.0&", Some(KEY), 403, 403),
        ] {
            let polls = Polls { server, path: path.to_owned(), key, token: String::new(), waiting: Vec::new() };
            let refused = polls.ask().await;
            assert_eq!((refused.status, &refused.json()["status"]), (http, &json!(status)), "{path}");
        }
        // A session without the key of the client that opened it.
        let path = format!("/runner/longpoll?vsn=2.0.0&{}", runner.token);
        assert_eq!(server.user("eve").get(&path).await.ok(200), json!({ "status": 410 }));
        // A page's join token is used up by its session.
        let client = format!("/client/longpoll?join_token={token}&vsn=2.0.0&");
        let page = Polls::open(server, &client, None).await;
        assert_eq!(Frames::page(server, &token).await.map(drop), Err(403));
        assert!(tokio::time::timeout(Duration::from_millis(200), page.ask()).await.is_err(), "it waits");
    }
}
