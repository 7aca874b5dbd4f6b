//! A client of Phoenix channels that sends raw frames.

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{self, Message, client::IntoClientRequest, handshake::client::Request},
};

use super::KEY;
use crate::harness::{Server, soon};

pub struct Frames {
    pub stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The topic of the last join.
    topic: String,
    join_ref: u64,
    reference: u64,
}

/// A handshake for this path and query, with these subprotocols.
pub fn handshake(server: &Server, path: &str, protocols: Option<&str>) -> Request {
    let mut request = format!("ws://{}{path}", server.addr).into_client_request().expect("a request");
    if let Some(protocols) = protocols {
        request.headers_mut().insert("sec-websocket-protocol", protocols.parse().expect("a value"));
    }
    request
}

/// The subprotocols of a runtime that has this key.
pub fn bearer(key: &str) -> String {
    format!("phoenix, base64url.bearer.phx.{}", STANDARD_NO_PAD.encode(key))
}

impl Frames {
    /// Opens a socket, or gives the status of the refusal.
    pub async fn open(request: Request) -> Result<(Self, Option<String>), u16> {
        match soon(tokio_tungstenite::connect_async(request)).await {
            Ok((stream, response)) => {
                let protocol = response.headers().get("sec-websocket-protocol");
                let protocol = protocol.map(|name| name.to_str().expect("text").to_owned());
                Ok((Self { stream, topic: String::new(), join_ref: 0, reference: 0 }, protocol))
            }
            Err(tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// The socket of a page.
    pub async fn page(server: &Server, token: &str) -> Result<Self, u16> {
        let path = format!("/client/websocket?join_token={token}&vsn=2.0.0");
        let (frames, protocol) = Self::open(handshake(server, &path, None)).await?;
        assert_eq!(protocol, None, "none was requested");
        Ok(frames)
    }

    /// The socket of a runtime.
    pub async fn runner(server: &Server) -> Result<Self, u16> {
        Self::runner_with(server, KEY).await
    }

    /// Like `runner`, with another key.
    pub async fn runner_with(server: &Server, key: &str) -> Result<Self, u16> {
        let request = handshake(server, "/runner/websocket?vsn=2.0.0", Some(&bearer(key)));
        let (frames, protocol) = Self::open(request).await?;
        assert_eq!(protocol.as_deref(), Some("phoenix"));
        Ok(frames)
    }

    /// The socket of a runtime that has joined a run's topic.
    pub async fn producing(server: &Server, thread: &str, run: &str) -> Self {
        let mut runner = Self::runner(server).await.expect("accepted");
        let joined = runner.joins_run(thread, run).await.expect("joined");
        assert_eq!(joined, json!({ "capabilities": ["runner_event_batch_v1"] }));
        runner
    }

    /// A page that follows a run.
    pub async fn of_run(server: &Server, token: &str, thread: &str, run: &str) -> Self {
        let mut page = Self::page(server, token).await.expect("accepted");
        page.joins(&format!("thread:{thread}"), json!({ "stream_mode": "run", "run_id": run })).await;
        page
    }

    /// A page that follows a thread from this cursor on.
    pub async fn of_thread(server: &Server, token: &str, thread: &str, cursor: Option<&str>) -> Self {
        let mut page = Self::page(server, token).await.expect("accepted");
        let params = json!({ "stream_mode": "connect", "last_seen_event_id": cursor });
        page.joins(&format!("thread:{thread}"), params).await;
        page
    }

    pub async fn say(&mut self, frame: Value) {
        soon(self.stream.send(Message::text(frame.to_string()))).await.expect("sent");
    }

    /// The next frame; `Err` is the code with which the socket is closed instead.
    pub async fn next(&mut self) -> Result<Value, u16> {
        loop {
            match soon(self.stream.next()).await {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).expect("JSON")),
                Some(Ok(Message::Close(close))) => return Err(close.map_or(1005, |close| close.code.into())),
                Some(Ok(_)) => {}
                Some(Err(error)) => panic!("{error}"),
                None => panic!("cut off"),
            }
        }
    }

    pub async fn hear(&mut self) -> Value {
        self.next().await.expect("a frame")
    }

    /// Joins a topic; the response, or that of the refusal.
    pub async fn join(&mut self, topic: &str, params: Value) -> Result<Value, Value> {
        self.reference += 1;
        self.join_ref = self.reference;
        self.topic = topic.to_owned();
        let reference = self.reference.to_string();
        self.say(json!([reference, reference, topic, "phx_join", params])).await;
        self.reply().await
    }

    /// Joins a topic, whose response is empty.
    pub async fn joins(&mut self, topic: &str, params: Value) {
        assert_eq!(self.join(topic, params).await, Ok(json!({})));
    }

    pub async fn joins_run(&mut self, thread: &str, run: &str) -> Result<Value, Value> {
        self.join(&format!("ingestion:{run}"), json!({ "thread_id": thread, "run_id": run })).await
    }

    /// The reply to the last frame sent, which is the next frame received.
    pub async fn reply(&mut self) -> Result<Value, Value> {
        let frame = self.hear().await;
        self.read_reply(&frame).unwrap_or_else(|| panic!("no reply: {frame}"))
    }

    /// Like `reply`; pushes that come before it are skipped.
    pub async fn reply_among_pushes(&mut self) -> Result<Value, Value> {
        loop {
            let frame = self.hear().await;
            if let Some(reply) = self.read_reply(&frame) {
                return reply;
            }
        }
    }

    fn read_reply(&self, frame: &Value) -> Option<Result<Value, Value>> {
        let (join_ref, reference) = (self.join_ref.to_string(), self.reference.to_string());
        let expected = json!([join_ref, reference, self.topic, "phx_reply", frame[4]]);
        (*frame == expected).then(|| match frame[4]["status"].as_str() {
            Some("ok") => Ok(frame[4]["response"].clone()),
            Some("error") => Err(frame[4]["response"].clone()),
            _ => panic!("{frame}"),
        })
    }

    /// Pushes to the joined topic, without waiting for a reply.
    pub async fn push(&mut self, event: &str, payload: Value) {
        self.reference += 1;
        let frame = json!([self.join_ref.to_string(), self.reference.to_string(), self.topic, event, payload]);
        self.say(frame).await;
    }

    /// Pushes events in one batch; returns the reply.
    pub async fn batch(&mut self, events: &[Value]) -> Result<Value, Value> {
        self.push("events", json!({ "events": events })).await;
        self.reply().await
    }

    /// Pushes events in one batch, which is accepted.
    pub async fn sends(&mut self, events: &[Value]) {
        assert_eq!(self.batch(events).await, Ok(json!({})));
    }

    pub async fn leaves(&mut self) {
        self.push("phx_leave", json!({})).await;
        assert_eq!(self.reply().await, Ok(json!({})));
        assert_eq!(self.hear().await, json!([self.join_ref.to_string(), null, self.topic, "phx_close", {}]));
    }

    /// The next push: its event and payload.
    pub async fn pushed(&mut self) -> (String, Value) {
        let mut frame = self.hear().await;
        let expected = json!([self.join_ref.to_string(), null, self.topic, frame[3], frame[4]]);
        assert_eq!(frame, expected, "a push to this join");
        (frame[3].as_str().expect("an event").to_owned(), frame[4].take())
    }

    /// The payload of the next push, which has this name.
    pub async fn pushed_as(&mut self, event: &str) -> Value {
        let (name, payload) = self.pushed().await;
        assert_eq!(name, event, "{payload}");
        payload
    }

    /// Receives exactly these events, without other pushes between them.
    pub async fn hears(&mut self, events: &[Value]) {
        for event in events {
            assert_eq!(self.pushed_as("ag_ui_event").await, *event);
        }
    }

    /// Asserts that no push is pending: a heartbeat is answered before anything else.
    pub async fn is_silent(&mut self) {
        self.say(json!([null, "beat", "phoenix", "heartbeat", {}])).await;
        let beat = json!([null, "beat", "phoenix", "phx_reply", { "status": "ok", "response": {} }]);
        assert_eq!(self.hear().await, beat);
    }

    /// The code with which the server closes; frames before it are skipped.
    pub async fn closed(&mut self) -> u16 {
        loop {
            if let Err(code) = self.next().await {
                // Read until the connection ends.
                while let Some(Ok(_)) = soon(self.stream.next()).await {}
                return code;
            }
        }
    }
}
