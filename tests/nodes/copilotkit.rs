//! A runtime on one node, a page on another: CopilotKit's topics across nodes, in raw frames.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::Instant};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use crate::cluster::*;

struct Frames(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Frames {
    /// A socket that has joined a topic.
    async fn joined(cluster: &Cluster, node: usize, path: &str, topic: &str, params: Value) -> Self {
        let url = cluster.nodes[node].url.replace("http://", "ws://");
        let (stream, _) = connect_async(format!("{url}{path}{}vsn=2.0.0", if path.contains('?') { '&' } else { '?' }))
            .await
            .expect("a socket");
        let mut frames = Self(stream);
        frames.say(json!(["1", "1", topic, "phx_join", params])).await;
        assert_eq!(frames.hear("phx_reply").await["status"], "ok");
        frames
    }

    async fn say(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.expect("sent");
    }

    /// The payload of the next frame of this event.
    async fn hear(&mut self, event: &str) -> Value {
        let hear = async {
            loop {
                let Message::Text(text) = self.0.next().await.expect("open").expect("a message") else { continue };
                let mut frame: Value = serde_json::from_str(&text).expect("JSON");
                if frame[3] == event {
                    return frame[4].take();
                }
            }
        };
        in_time(PATIENCE, event, hear).await
    }
}

async fn post(cluster: &Cluster, node: usize, path: &str, body: Value) -> Value {
    let url = format!("{}{path}", cluster.nodes[node].url);
    let answer = reqwest::Client::new().post(url).json(&body).send().await.expect("an answer");
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    answer.json().await.expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_stop_and_the_events_of_a_run_cross_nodes() {
    let cluster = Cluster::start(3);
    let (runtime, pages, lists) = (0, 1, 2);
    let made = json!({ "threadId": "t", "userId": "ann", "agentId": "agent" });
    post(&cluster, lists, "/api/threads", made).await;
    let token = post(&cluster, lists, "/api/threads/subscribe", json!({ "userId": "ann" })).await;
    let list = format!("{}/api/threads?userId=ann", cluster.nodes[lists].url);
    let list: Value = reqwest::get(list).await.expect("an answer").json().await.expect("JSON");
    let path = format!("/client/websocket?join_token={}", token["joinToken"].as_str().expect("a token"));
    let topic = format!("user_meta:{}", list["joinCode"].as_str().expect("a code"));
    let mut tab = Frames::joined(&cluster, lists, &path, &topic, json!({})).await;
    // A few rounds: one that came by the recheck could be quick by chance.
    for round in 1..=5 {
        let run = format!("r{round}");
        let lock = json!({ "runId": run, "userId": "ann", "agentId": "agent", "ttlSeconds": 60 });
        let locked = post(&cluster, runtime, "/api/threads/t/lock", lock).await;
        let params = json!({ "thread_id": "t", "run_id": run });
        let topic = format!("ingestion:{run}");
        let mut runner = Frames::joined(&cluster, runtime, "/runner/websocket", &topic, params).await;
        let path = format!("/client/websocket?join_token={}", locked["joinToken"].as_str().expect("a token"));
        let params = json!({ "stream_mode": "run", "run_id": run });
        let mut page = Frames::joined(&cluster, pages, &path, "thread:t", params).await;
        for (number, kind) in [(1, "RUN_STARTED"), (2, "RUN_FINISHED")] {
            if number == 2 {
                let begun = Instant::now();
                page.say(json!(["1", "2", "thread:t", "stop_run", { "run_id": run }])).await;
                let (stop, answer) = tokio::join!(runner.hear("ag-ui"), page.hear("phx_reply"));
                assert_eq!((&stop["name"], &answer["status"]), (&json!("stop"), &json!("ok")));
                println!("round {round}: the stop was heard after {:?}", begun.elapsed());
                assert!(begun.elapsed() < BY_THE_BUS, "by the bus, not after {:?}", begun.elapsed());
            }
            let metadata = json!({ "cpki_event_id": format!("{run}-{number}"), "cpki_event_seq": number });
            let event = json!({ "type": kind, "threadId": "t", "runId": run, "metadata": metadata });
            let begun = Instant::now();
            runner.say(json!(["1", kind, topic, "events", { "events": [event] }])).await;
            assert_eq!(page.hear("ag_ui_event").await, event);
            assert!(begun.elapsed() < BY_THE_BUS, "by the bus, not after {:?}", begun.elapsed());
            assert_eq!(runner.hear("phx_reply").await["status"], "ok");
            let pushed = tab.hear("thread_run_activity").await;
            assert_eq!((&pushed["runId"], &pushed["eventType"]), (&json!(run), &json!(kind)));
        }
    }
}
