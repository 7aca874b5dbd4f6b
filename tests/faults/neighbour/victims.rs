//! Users who read a little, again and again, and the backend that writes for them.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt, future::join_all};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use super::{
    pace,
    world::{Caller, VICTIMS, World, text},
};

/// Number of users. Together with the pauses they are far below their quotas.
const USERS: usize = 3;
const PAUSE: Duration = Duration::from_millis(15);
/// Events of the thread that each of them reads.
const EVENTS: u64 = 200;
/// The last of an operation's four kinds: an append.
const APPEND: usize = 3;
/// An operation that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(40);

/// One user, with a thread to read and a thread that the backend appends to.
struct Victim {
    user: Caller,
    backend: Caller,
    name: String,
    epoch: String,
    appended: u64,
}

pub struct Victims(Vec<Victim>);

impl Victims {
    pub async fn settle(world: &World) -> Self {
        let settled = (0..USERS).map(|n| Victim::settle(world, format!("victim-{n}")));
        Self(join_all(settled).await)
    }

    /// Has all of them work for this time; returns how long each operation took.
    pub async fn work(&mut self, time: Duration) -> Vec<Duration> {
        let until = Instant::now() + time;
        let worked = join_all(self.0.iter_mut().map(|victim| victim.work(until))).await;
        worked.into_iter().flatten().collect()
    }
}

impl Victim {
    async fn settle(world: &World, name: String) -> Self {
        let (user, backend) = (world.user(VICTIMS, &name).await, world.backend(VICTIMS, &name).await);
        for kind in ["read", "live"] {
            let body = json!({ "threadId": format!("{name}-{kind}") }).to_string();
            backend.done(Method::POST, "/v1/threads", body).await;
        }
        let words = |n: u64| json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": format!("word {n} ") });
        let start = json!({ "type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant" });
        let end = json!({ "type": "TEXT_MESSAGE_END", "messageId": "m" });
        let events: Vec<Value> = [start].into_iter().chain((0..EVENTS).map(words)).chain([end]).collect();
        backend.done(Method::PUT, &format!("/v1/threads/{name}-read/runs/r"), json!(events).to_string()).await;
        let run = json!({ "runId": "r", "leaseSeconds": 3_600 }).to_string();
        backend.done(Method::POST, &format!("/v1/threads/{name}-live/runs"), run).await;
        let thread = user.done(Method::GET, &format!("/v1/threads/{name}-read"), String::new()).await;
        Self { user, backend, epoch: text(&thread, "epoch"), name, appended: 0 }
    }

    async fn work(&mut self, until: Instant) -> Vec<Duration> {
        let (mut took, mut pace) = (Vec::new(), pace(PAUSE));
        for turn in 0.. {
            pace.tick().await;
            let begun = Instant::now();
            if begun >= until {
                break;
            }
            let done = timeout(PATIENCE, self.operation(turn % 4)).await;
            assert!(done.is_ok(), "operation {} of a victim took longer than {PATIENCE:?}", turn % 4);
            took.push(begun.elapsed());
        }
        took
    }

    async fn operation(&mut self, kind: usize) {
        self.appended += u64::from(kind == APPEND);
        let Self { user, backend, name, epoch, appended } = &*self;
        let thread = format!("/v1/threads/{name}-read");
        match kind {
            0 => {
                let page = user.done(Method::GET, &format!("{thread}/events?limit=50"), String::new()).await;
                assert_eq!(page["events"].as_array().map(Vec::len), Some(50), "{page}");
            }
            1 => {
                let folded = user.done(Method::GET, &format!("{thread}/messages"), String::new()).await;
                assert_eq!(folded["messages"].as_array().map(Vec::len), Some(1), "{folded}");
            }
            2 => self.reconnect(&format!("{name}-read"), epoch).await,
            _ => {
                let path = format!("/v1/threads/{name}-live/runs/r/events?producerSeq={appended}");
                let event = json!([{ "type": "CUSTOM", "name": "step", "value": appended }]).to_string();
                backend.done(Method::POST, &path, event).await;
            }
        }
    }

    /// Opens a socket, and catches up from a cursor near the end of the thread.
    async fn reconnect(&self, thread: &str, epoch: &str) {
        let url = format!("{}/v1/socket", self.user.url.replacen("http", "ws", 1));
        let mut request = url.into_client_request().expect("a request");
        let bearer = format!("Bearer {}", self.user.credential).parse().expect("a header");
        request.headers_mut().insert("authorization", bearer);
        let (mut socket, _) = connect_async(request).await.expect("a socket");
        let subscribe = json!({ "subscribe": { "threadId": thread, "after": EVENTS - 20, "epoch": epoch } });
        socket.send(Message::text(subscribe.to_string())).await.expect("sent");
        loop {
            let Message::Text(frame) = socket.next().await.expect("a frame").expect("a message") else { continue };
            let frame: Value = serde_json::from_str(frame.as_str()).expect("JSON");
            assert!(frame.get("error").is_none() && frame.get("ended").is_none(), "{frame}");
            if frame.get("caughtUp").is_some() {
                return;
            }
        }
    }
}
