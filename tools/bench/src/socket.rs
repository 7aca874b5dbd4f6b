//! Socket client with minimal cost: reads only the parts that a measurement needs.

use std::{collections::VecDeque, net::SocketAddr, time::Instant};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        Message, Utf8Bytes,
        client::IntoClientRequest,
        http::{HeaderValue, header::SEC_WEBSOCKET_PROTOCOL},
        protocol::WebSocketConfig,
    },
};

use super::BenchError;

pub struct Socket {
    stream: WebSocketStream<TcpStream>,
}

impl Socket {
    /// Opens the socket of a Threadline server.
    pub async fn open(server: SocketAddr) -> Result<Self, BenchError> {
        let mut socket = Self::connect(server, "/v1/socket", Some("threadline.v1")).await?;
        let welcome = socket.next().await?;
        if welcome.starts_with("{\"welcome\"") { Ok(socket) } else { Err(BenchError::Unexpected(welcome.to_string())) }
    }

    /// Opens a socket of a baseline server.
    pub async fn echo(peer: SocketAddr, path: &str) -> Result<Self, BenchError> {
        Self::connect(peer, path, None).await
    }

    /// Opens the socket to which CopilotKit's runtimes send their runs.
    pub async fn of_a_runtime(server: SocketAddr) -> Result<Self, BenchError> {
        // A server without keys ignores the key.
        let protocols = format!("phoenix, base64url.bearer.phx.{}", STANDARD_NO_PAD.encode("bench"));
        Self::connect(server, "/runner/websocket?vsn=2.0.0", Some(&protocols)).await
    }

    /// Follows a thread from its beginning. Returns after it has caught up.
    pub async fn follow(&mut self, thread: &str) -> Result<(), BenchError> {
        self.follow_after(thread, 0, None).await
    }

    /// Follows a thread after a cursor. Returns after it has caught up.
    pub async fn follow_after(&mut self, thread: &str, after: u64, epoch: Option<&str>) -> Result<(), BenchError> {
        let after = serde_json::json!({ "threadId": thread, "after": after, "epoch": epoch });
        self.send(format!("{{\"subscribe\":{after}}}")).await?;
        while !self.next().await?.starts_with("{\"caughtUp\"") {}
        Ok(())
    }

    /// Ends the subscription of a thread.
    pub async fn leave(&mut self, thread: &str) -> Result<(), BenchError> {
        self.send(format!("{{\"unsubscribe\":{{\"threadId\":\"{thread}\"}}}}")).await?;
        while !self.next().await?.starts_with("{\"ended\"") {}
        Ok(())
    }

    /// Returns the connection itself. No frames may be in flight on it.
    pub fn into_connection(self) -> TcpStream {
        self.stream.into_inner()
    }

    async fn connect(server: SocketAddr, path: &str, protocols: Option<&str>) -> Result<Self, BenchError> {
        let mut request = format!("ws://{server}{path}").into_client_request()?;
        if let Some(protocols) = protocols {
            let protocols =
                HeaderValue::from_str(protocols).map_err(|error| BenchError::Unexpected(error.to_string()))?;
            request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, protocols);
        }
        let stream = TcpStream::connect(server).await.map_err(BenchError::Connection)?;
        stream.set_nodelay(true).map_err(BenchError::Connection)?;
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let (stream, _) = client_async_with_config(request, stream, Some(config)).await?;
        Ok(Self { stream })
    }

    /// Buffers a frame for the next flush.
    pub async fn feed(&mut self, frame: String) -> Result<(), BenchError> {
        Ok(self.stream.feed(Message::text(frame)).await?)
    }

    /// Writes all buffered frames.
    pub async fn flush(&mut self) -> Result<(), BenchError> {
        Ok(self.stream.flush().await?)
    }

    /// Writes one frame at once.
    pub async fn send(&mut self, frame: String) -> Result<(), BenchError> {
        self.feed(frame).await?;
        self.flush().await
    }

    /// Waits for the next frame. An error frame of the server is an error.
    pub async fn next(&mut self) -> Result<Utf8Bytes, BenchError> {
        loop {
            let message = self.stream.next().await;
            if let Some(text) = read(message)? {
                return Ok(text);
            }
        }
    }

    /// Returns the next frame if it is available.
    pub fn ready(&mut self) -> Result<Option<Utf8Bytes>, BenchError> {
        while let Some(message) = self.stream.next().now_or_never() {
            if let Some(text) = read(message)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}

fn read(
    message: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>,
) -> Result<Option<Utf8Bytes>, BenchError> {
    match message {
        Some(Ok(Message::Text(text))) if text.starts_with("{\"error\"") || text.starts_with("{\"closing\"") => {
            Err(BenchError::Unexpected(text.to_string()))
        }
        Some(Ok(Message::Text(text))) => Ok((!text.starts_with("{\"heartbeat\"")).then_some(text)),
        Some(Ok(Message::Close(_))) | None => Err(BenchError::Unexpected("the socket was closed".to_owned())),
        Some(Ok(_)) => Ok(None),
        Some(Err(error)) => Err(error.into()),
    }
}

/// Run that accepts events.
#[derive(Debug, Clone)]
pub struct Run {
    /// Id of its thread.
    pub thread: String,
    /// Id of the run.
    pub run: String,
    /// producerSeq of its next event.
    pub next: u64,
}

impl Run {
    /// Builds a frame that appends `count` events; `events` has the form of the inside of a JSON array.
    pub fn append(&mut self, count: usize, events: &str) -> String {
        let (thread, run, first) = (&self.thread, &self.run, self.next);
        self.next += count as u64;
        format!(
            "{{\"append\":{{\"threadId\":\"{thread}\",\"runId\":\"{run}\",\"producerSeq\":{first},\"events\":[{events}]}}}}"
        )
    }
}

/// Creates threads with one run each, over HTTP.
pub async fn start_runs(server: SocketAddr, count: usize) -> Result<Vec<Run>, BenchError> {
    let http = Http::new(server);
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        let thread = http.create().await?;
        runs.push(http.start(&thread).await?);
    }
    Ok(runs)
}

/// Runs that exist on no server, for a server that saves nothing.
pub fn unsaved_runs(count: usize) -> Vec<Run> {
    let id = || uuid::Uuid::now_v7().to_string();
    (0..count).map(|_| Run { thread: id(), run: id(), next: 1 }).collect()
}

/// HTTP client of a server, with persistent connections.
pub struct Http {
    client: reqwest::Client,
    threads: String,
}

impl Http {
    /// Starts a client for this server.
    pub fn new(server: SocketAddr) -> Self {
        Self { client: reqwest::Client::new(), threads: format!("http://{server}/v1/threads") }
    }

    /// Creates a thread, and returns its id.
    pub async fn create(&self) -> Result<String, BenchError> {
        let thread = uuid::Uuid::now_v7().to_string();
        let create = serde_json::json!({ "threadId": thread });
        self.client.post(&self.threads).json(&create).send().await?.error_for_status()?;
        Ok(thread)
    }

    /// Epoch of a thread's log.
    pub async fn epoch(&self, thread: &str) -> Result<String, BenchError> {
        let thread = look_up(&format!("{}/{thread}", self.threads)).await?;
        let epoch = thread["epoch"].as_str().map(str::to_owned);
        epoch.ok_or_else(|| BenchError::Unexpected(thread.to_string()))
    }

    /// Starts a run in a thread.
    pub async fn start(&self, thread: &str) -> Result<Run, BenchError> {
        let run = uuid::Uuid::now_v7().to_string();
        self.ask_to_start(thread, &run).await?.error_for_status()?;
        Ok(Run { thread: thread.to_owned(), run, next: 1 })
    }

    /// Starts a second run in a thread with an active one, which must be refused.
    pub async fn failed_start(&self, thread: &str) -> Result<(), BenchError> {
        let answer = self.ask_to_start(thread, &uuid::Uuid::now_v7().to_string()).await?;
        if answer.status() != reqwest::StatusCode::CONFLICT {
            return Err(BenchError::Unexpected(format!("a second start was answered with {}", answer.status())));
        }
        answer.bytes().await?;
        Ok(())
    }

    async fn ask_to_start(&self, thread: &str, run: &str) -> Result<reqwest::Response, BenchError> {
        let start = serde_json::json!({ "runId": run, "leaseSeconds": 3600 });
        let url = format!("{}/{thread}/runs", self.threads);
        Ok(self.client.post(url).json(&start).send().await?)
    }
}

/// Tail of a thread, over HTTP.
pub async fn tail(server: SocketAddr, thread: &str) -> Result<u64, BenchError> {
    let thread = look_up(&format!("http://{server}/v1/threads/{thread}")).await?;
    thread["tail"].as_u64().ok_or_else(|| BenchError::Unexpected(thread.to_string()))
}

async fn look_up(thread: &str) -> Result<serde_json::Value, BenchError> {
    Ok(reqwest::get(thread).await?.error_for_status()?.json().await?)
}

/// Appends over one socket, with a bounded number of frames in flight.
pub struct Producer {
    socket: Socket,
    runs: VecDeque<Run>,
    bodies: Vec<String>,
    batch: usize,
    sent: usize,
}

impl Producer {
    /// Producer of batches of `batch` events; each body has the form of the inside of a JSON array.
    pub fn new(socket: Socket, runs: Vec<Run>, batch: usize, bodies: Vec<String>) -> Self {
        Self { socket, runs: runs.into(), bodies, batch, sent: 0 }
    }

    /// Appends as fast as answers arrive until `end`, then waits for the frames in flight. Returns the number of
    /// acknowledged events.
    pub async fn pump(&mut self, window: usize, end: Instant) -> Result<u64, BenchError> {
        let (mut under_way, mut done) = (0u64, 0u64);
        loop {
            let more = Instant::now() < end || done + under_way == 0;
            while more && under_way < window as u64 {
                self.append().await?;
                under_way += 1;
            }
            if under_way == 0 {
                return Ok(done);
            }
            self.socket.flush().await?;
            let mut answer = Some(self.socket.next().await?);
            while let Some(text) = answer {
                acknowledged(&text)?;
                under_way -= 1;
                done += self.batch as u64;
                answer = self.socket.ready()?;
            }
        }
    }

    async fn append(&mut self) -> Result<(), BenchError> {
        let Some(mut run) = self.runs.pop_front() else { return Ok(()) };
        let body = &self.bodies[self.sent % self.bodies.len()];
        self.sent += 1;
        let frame = run.append(self.batch, body);
        self.runs.push_back(run);
        self.socket.feed(frame).await
    }

    /// Runs with their positions.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }
}

/// Checks that a frame is the answer to an append.
pub fn acknowledged(text: &str) -> Result<(), BenchError> {
    if text.starts_with("{\"appended\"") { Ok(()) } else { Err(BenchError::Unexpected(text.to_owned())) }
}
