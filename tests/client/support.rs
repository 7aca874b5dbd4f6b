//! Throw-away servers on a free port.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade},
    http::HeaderMap,
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};
use threadline_client::{Backoff, Client, ClientConfig};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::task::AbortOnDropHandle;

/// A server that is gone when this is dropped.
pub struct Server {
    pub url: String,
    _task: AbortOnDropHandle<()>,
}

impl Server {
    pub async fn start(router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("serving") });
        Self { url, _task: AbortOnDropHandle::new(task) }
    }

    /// A client with waits that a test can afford.
    pub fn client(&self) -> Client {
        Client::new(self.config()).expect("a client")
    }

    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new(&self.url);
        config.backoff = Backoff { base: Duration::from_millis(1), max: Duration::from_millis(4) };
        config
    }
}

/// An address without a listener.
pub async fn closed_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

/// What a scripted socket does next.
pub enum Act {
    Send(Value),
    Close(u16),
    /// The connection breaks, without a word.
    Cut,
    /// Waits for a frame of the client's.
    Receive,
}

/// What a scripted socket has seen.
#[derive(Debug)]
pub enum Seen {
    Headers(HeaderMap),
    Frame(Value),
}

/// A socket server: for the n-th connection (from 0) and its first frame, `script` says what to do. Then the
/// connection stays open and silent.
pub async fn socket_server(
    script: impl Fn(usize, &Value) -> Vec<Act> + Send + Sync + 'static,
) -> (Server, mpsc::UnboundedReceiver<Seen>) {
    let (route, receiver) = socket_route(script);
    (Server::start(route).await, receiver)
}

/// The route of [`socket_server`], for a server that has others as well.
pub fn socket_route(
    script: impl Fn(usize, &Value) -> Vec<Act> + Send + Sync + 'static,
) -> (Router, mpsc::UnboundedReceiver<Seen>) {
    let (seen, receiver) = mpsc::unbounded_channel();
    let script = Arc::new(script);
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let upgrade = async move |headers: HeaderMap, upgrade: WebSocketUpgrade| -> Response {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        seen.send(Seen::Headers(headers)).ok();
        let (seen, script) = (seen.clone(), script.clone());
        upgrade
            .protocols(["threadline.v1"])
            .on_upgrade(async move |mut socket| {
                let _ = play(&mut socket, n, &*script, &seen).await;
            })
            .into_response()
    };
    (Router::new().route("/v1/socket", get(upgrade)), receiver)
}

async fn play(
    socket: &mut WebSocket,
    n: usize,
    script: &(dyn Fn(usize, &Value) -> Vec<Act> + Send + Sync),
    seen: &mpsc::UnboundedSender<Seen>,
) -> Option<()> {
    let welcome = json!({"welcome": {"protocol": "threadline.v1", "heartbeatSeconds": 15}});
    socket.send(Message::text(welcome.to_string())).await.ok()?;
    let first = receive(socket, seen).await?;
    for act in script(n, &first) {
        match act {
            Act::Send(frame) => socket.send(Message::text(frame.to_string())).await.ok()?,
            Act::Close(code) => {
                let frame = CloseFrame { code, reason: "because".into() };
                socket.send(Message::Close(Some(frame))).await.ok()?;
            }
            Act::Cut => return None,
            Act::Receive => drop(receive(socket, seen).await?),
        }
    }
    while receive(socket, seen).await.is_some() {}
    None
}

async fn receive(socket: &mut WebSocket, seen: &mpsc::UnboundedSender<Seen>) -> Option<Value> {
    loop {
        if let Message::Text(text) = socket.recv().await?.ok()? {
            let frame: Value = serde_json::from_str(&text).expect("JSON from the client");
            seen.send(Seen::Frame(frame.clone())).ok();
            return Some(frame);
        }
    }
}

/// The next frame that the client sent.
pub async fn next_frame(seen: &mut mpsc::UnboundedReceiver<Seen>) -> Value {
    loop {
        if let Seen::Frame(frame) = seen.recv().await.expect("a frame") {
            return frame;
        }
    }
}

pub fn hello(after: u64) -> Value {
    json!({"hello": {"threadId": "t", "epoch": "e", "tail": 6, "after": after}})
}

pub fn event(seq: u64) -> Value {
    json!({"type": "TEXT_MESSAGE_CONTENT", "delta": format!("word {seq}")})
}

/// A frame with the events `first ..= last`.
pub fn events(first: u64, last: u64) -> Value {
    let list: Vec<_> = (first..=last).map(event).collect();
    json!({"events": {"threadId": "t", "epoch": "e", "batches": [
        {"seq": first, "runId": "r", "at": "2026-11-21T10:11:15.123Z", "events": list}]}})
}

pub fn caught_up(seq: u64) -> Value {
    json!({"caughtUp": {"threadId": "t", "epoch": "e", "seq": seq}})
}

pub fn ended(reason: &str) -> Value {
    json!({"ended": {"threadId": "t", "epoch": "e", "seq": null, "reason": reason}})
}

pub fn problem(slug: &str, status: u16, retryable: bool) -> Value {
    json!({"type": format!("https://threadline.dev/problems/{slug}"), "title": slug, "status": status,
           "detail": "in this test", "retryable": retryable})
}

pub fn run_json(status: &str, producer_seq: u64, stop_requested: bool) -> Value {
    json!({"runId": "r", "threadId": "t", "agentId": null, "status": status, "errorCode": null, "errorMessage": null,
           "firstSeq": 1, "lastSeq": producer_seq, "producerSeq": producer_seq,
           "startedAt": "2026-11-21T10:11:15.123Z", "endedAt": null, "leaseUntil": null,
           "stopRequested": stop_requested})
}

pub fn thread_json(id: &str) -> Value {
    json!({"threadId": id, "name": format!("Name of {id}"), "nameSource": "auto", "agentId": null, "userId": "dev",
           "archived": false, "metadata": {}, "createdAt": "2026-11-21T10:11:15.123Z",
           "updatedAt": "2026-11-21T10:11:15.123Z", "lastRunAt": null, "tail": 7, "epoch": "e", "activeRun": null, "lastRun": null})
}
