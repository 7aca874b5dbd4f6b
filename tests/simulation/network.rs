//! The simulated network: what the nodes listen on, and what the clients speak over it.

use std::{io, net::SocketAddr, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response, body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use threadline::server::Listener;
use tokio::time::timeout;
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};
use turmoil::net::{TcpListener, TcpStream};

use crate::reply::Reply;

/// The key of the project.
pub const KEY: &str = "simulated";
/// The user that owns the threads.
pub const USER: &str = "alice";
const PORT: u16 = 7420;
/// A client gives up an answer after this time.
const PATIENCE: Duration = Duration::from_secs(3);

/// A port of a simulated host.
pub struct Port(TcpListener);

impl Port {
    pub async fn bind() -> io::Result<Self> {
        TcpListener::bind(("0.0.0.0", PORT)).await.map(Self)
    }
}

impl Listener for Port {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        self.0.accept().await.map(|(stream, _)| stream)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

async fn connect(node: &str) -> Option<TcpStream> {
    timeout(PATIENCE, TcpStream::connect((node, PORT))).await.ok()?.ok()
}

/// Sends a request over a connection of its own; `None` if no answer begins.
pub async fn open(node: &str, method: Method, path: &str, accept: &str, body: &str) -> Option<Response<Incoming>> {
    let stream = connect(node).await?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", node)
        .header("authorization", format!("Bearer {KEY}"))
        .header("threadline-user", USER)
        .header("content-type", "application/json")
        .header("accept", accept)
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
        .expect("a request");
    let answer = async {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        sender.send_request(request).await.ok()
    };
    timeout(PATIENCE, answer).await.ok()?
}

/// A request with its whole answer.
pub async fn ask(node: &str, method: Method, path: &str, body: &str) -> Reply {
    let Some(answer) = open(node, method, path, "*/*", body).await else {
        return Reply::Unknown("no answer".into());
    };
    let status = answer.status().as_u16();
    match timeout(PATIENCE, answer.into_body().collect()).await {
        Ok(Ok(body)) => Reply::of(status, serde_json::from_slice(&body.to_bytes()).unwrap_or_default()),
        _ => Reply::Unknown("half an answer".into()),
    }
}

pub type Socket = WebSocketStream<TcpStream>;

/// Opens a socket; `None` if that does not succeed.
pub async fn socket(node: &str) -> Option<Socket> {
    let stream = connect(node).await?;
    let request = Request::builder()
        .uri(format!("ws://{node}/v1/socket"))
        .header("host", node)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", tokio_tungstenite::tungstenite::handshake::client::generate_key())
        .header("sec-websocket-protocol", "threadline.v1")
        .header("authorization", format!("Bearer {KEY}"))
        .header("threadline-user", USER)
        .body(())
        .expect("a request");
    let (socket, _) = timeout(PATIENCE, client_async(request, stream)).await.ok()?.ok()?;
    Some(socket)
}

/// What a socket gave within a time.
pub enum Heard {
    /// A frame of text that is no heartbeat.
    Frame(String),
    /// A sign of life.
    Beat,
    Nothing,
    /// It is closed, or broken.
    End,
}

/// Listens to a socket for a time.
pub async fn listen(socket: &mut Socket, time: Duration) -> Heard {
    match timeout(time, socket.next()).await {
        Err(_) => Heard::Nothing,
        Ok(Some(Ok(Message::Text(text)))) if text.starts_with(r#"{"heartbeat""#) => Heard::Beat,
        Ok(Some(Ok(Message::Text(text)))) => Heard::Frame(text.as_str().to_owned()),
        Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) => Heard::End,
        Ok(Some(Ok(_))) => Heard::Beat,
    }
}

/// The next frame of text that is no heartbeat; `None` once the socket is broken, or silent for too long.
pub async fn frame(socket: &mut Socket) -> Option<String> {
    loop {
        match listen(socket, PATIENCE).await {
            Heard::Frame(text) => return Some(text),
            Heard::Beat => {}
            Heard::Nothing | Heard::End => return None,
        }
    }
}
