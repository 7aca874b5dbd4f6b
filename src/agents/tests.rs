//! Endpoint for tests: real sockets, one request, and then the answer that the test gives.

use futures_util::StreamExt;
use threadline_core::{RunId, ThreadId};
use threadline_http::egress::{EgressClient, EgressPolicy};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::source::{AgentFailure, EventStream, RunInput, Trust};

/// HTTP client that may connect to this machine.
pub(super) fn outbound() -> EgressClient {
    EgressClient::new(EgressPolicy::Anywhere)
}

/// Answer of the endpoint after it has read a request.
pub(super) enum Then {
    /// Sends these bytes and closes the connection.
    Send(Vec<u8>),
    /// Sends these bytes and waits until the peer closes the connection.
    Hold(Vec<u8>),
}

pub(super) struct Endpoint {
    /// Base URL of the endpoint, `http://127.0.0.1:<port>`.
    pub(super) url: String,
    served: JoinHandle<(String, String)>,
}

impl Endpoint {
    /// Starts an endpoint that serves one request.
    pub(super) async fn start(then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let served = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            let request = read_request(&mut socket).await;
            let (Then::Send(bytes) | Then::Hold(bytes)) = &then;
            // A client that has read enough may have disconnected.
            let _ = socket.write_all(bytes).await;
            if matches!(then, Then::Hold(_)) {
                let _ = socket.read(&mut [0]).await;
            }
            request
        });
        Self { url, served }
    }

    /// Waits until the request has been served. Returns its head and its body.
    pub(super) async fn request(self) -> (String, String) {
        self.served.await.expect("served")
    }
}

async fn read_request(socket: &mut TcpStream) -> (String, String) {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8(read[..end].to_vec()).expect("text").to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
            if read.len() == end + 4 + length {
                return (head, String::from_utf8(read.split_off(end + 4)).expect("text"));
            }
        }
        assert!(socket.read_buf(&mut read).await.expect("a request") > 0, "the request is cut off");
    }
}

/// Event stream that ends with the connection.
pub(super) fn answer(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{body}").into_bytes()
}

/// Event stream that is incomplete: its last chunk is missing.
pub(super) fn torn(body: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked";
    format!("{head}\r\n\r\n{:x}\r\n{body}\r\n", body.len()).into_bytes()
}

/// Input with empty parts.
pub(super) fn input() -> RunInput {
    RunInput {
        rest: Vec::new(),
        thread_mark: None,
        call: None,
        continuation: None,
        thread_id: ThreadId::new("thread").expect("an id"),
        run_id: RunId::new("run").expect("an id"),
        parent_run_id: None,
        messages: "[]".into(),
        state: "null".into(),
        tools: "[]".into(),
        context: "[]".into(),
        trust: Trust::Key,
        forwarded_props: "{}".into(),
        resume: None,
    }
}

/// Collects all events, and the failure that ended the stream.
pub(super) async fn collect(mut events: EventStream) -> (Vec<String>, Option<AgentFailure>) {
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => all.push(String::from_utf8(event.into()).expect("UTF-8")),
            Err(failure) => {
                assert_eq!(events.next().await, None, "nothing follows a failure");
                return (all, Some(failure));
            }
        }
    }
    (all, None)
}
