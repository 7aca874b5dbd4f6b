//! An agent that speaks AG-UI and does what the test says, step by step: the test is the agent.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Mutex, mpsc},
    task::JoinHandle,
};

use super::soon;

/// The head of an event stream.
const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// An endpoint whose requests wait to be answered by the test.
pub struct FakeAgent {
    pub url: String,
    requests: Arc<AtomicUsize>,
    calls: Mutex<mpsc::UnboundedReceiver<Call>>,
    task: JoinHandle<()>,
}

/// One run that was asked of the agent.
pub struct Call {
    /// The head of the request, in lower case.
    pub head: String,
    /// The RunAgentInput, as it came.
    pub body: String,
    socket: TcpStream,
    begun: bool,
}

impl FakeAgent {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let (sender, calls) = mpsc::unbounded_channel();
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = requests.clone();
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.expect("a connection");
                let (sender, counter) = (sender.clone(), counter.clone());
                tokio::spawn(async move {
                    if let Some(call) = Call::read(socket).await {
                        counter.fetch_add(1, SeqCst);
                        // A test that is over wants no more calls.
                        let _ = sender.send(call);
                    }
                });
            }
        });
        Self { url, requests, calls: Mutex::new(calls), task }
    }

    /// The next run that is asked of it.
    pub async fn call(&self) -> Call {
        soon(async { self.calls.lock().await.recv().await }).await.expect("the agent is asked")
    }

    /// How often it was asked.
    pub fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Call {
    async fn read(mut socket: TcpStream) -> Option<Self> {
        let mut read = Vec::new();
        loop {
            if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head = String::from_utf8(read[..end].to_vec()).expect("text").to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                let (length, start) = (length.unwrap_or(0usize), end + 4);
                if read.len() >= start + length {
                    let body = String::from_utf8(read.split_off(start)).expect("text");
                    return Some(Self { head, body, socket, begun: false });
                }
            }
            if socket.read_buf(&mut read).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// The RunAgentInput.
    pub fn input(&self) -> Value {
        serde_json::from_str(&self.body).expect("the input is JSON")
    }

    /// The ids of the messages given.
    pub fn message_ids(&self) -> Vec<String> {
        let input = self.input();
        let messages = input["messages"].as_array().expect("messages");
        messages.iter().map(|message| message["id"].as_str().expect("an id").to_owned()).collect()
    }

    /// Bytes as they are.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        soon(self.socket.write_all(bytes.as_ref())).await.expect("the agent is read");
    }

    /// The head of an event stream, if it was not sent yet.
    pub async fn begin(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            self.write(STREAM).await;
        }
    }

    /// A piece of the stream.
    pub async fn send(&mut self, text: &str) {
        self.begin().await;
        self.write(format!("{:x}\r\n{text}\r\n", text.len())).await;
    }

    /// Events.
    pub async fn say(&mut self, events: &[Value]) {
        self.send(&events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>()).await;
    }

    /// The end of the stream, as it should be.
    pub async fn end(&mut self) {
        self.begin().await;
        self.write("0\r\n\r\n").await;
    }

    /// Events, then the end.
    pub async fn finish(mut self, events: &[Value]) {
        self.say(events).await;
        self.end().await;
        self.hung_up().await;
    }

    /// Waits until the other side has closed the connection.
    pub async fn hung_up(&mut self) {
        soon(async { while !matches!(self.socket.read(&mut [0; 64]).await, Ok(0) | Err(_)) {} }).await;
    }

    /// The connection, for a test that writes as fast as it can.
    pub fn into_socket(self) -> TcpStream {
        self.socket
    }
}
