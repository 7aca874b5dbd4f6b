//! The simulated network: the listeners of nodes, and the HTTP and WebSocket clients.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response,
    body::{Frame, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use threadline_http::listener::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{sleep, timeout},
};
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};
use turmoil::net::{TcpListener, TcpStream};

use crate::{plan::Plan, reply::Reply, world::World};

/// The key of the project.
pub const KEY: &str = "simulated";
/// The user that owns the threads.
pub const USER: &str = "alice";
const PORT: u16 = 7420;
/// Timeout of a client for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Time after which a connection that has lost a packet is reset. The simulated network has neither retransmission nor
/// keep-alive, by which real ones detect such a loss.
const NOTICED: Duration = Duration::from_secs(4);

/// A port of a node.
pub struct Port {
    listener: TcpListener,
    world: Arc<World>,
    node: usize,
}

impl Port {
    pub async fn bind(world: Arc<World>, node: usize) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(("0.0.0.0", PORT)).await?, world, node })
    }
}

impl Listener for Port {
    type Stream = Line;

    async fn accept(&self) -> io::Result<Line> {
        let (stream, from) = self.listener.accept().await?;
        let client = turmoil::reverse_lookup(from.ip()).and_then(|name| Plan::number(&name));
        let cut = client.map(|client| self.world.cuts[self.node][client].subscribe());
        let lost = Box::pin(async move {
            if let Some(mut cut) = cut
                && cut.changed().await.is_ok()
            {
                return sleep(NOTICED).await;
            }
            std::future::pending().await
        });
        Ok(Line { stream, lost, reset: false })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A node's end of a connection.
pub struct Line {
    stream: TcpStream,
    lost: Pin<Box<dyn Future<Output = ()> + Send>>,
    reset: bool,
}

impl Line {
    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        if self.reset { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(Pin::new(&mut self.stream)) }
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = self.stream()?.poll_read(context, buf);
        self.reset = read.is_pending() && self.lost.as_mut().poll(context).is_ready();
        if self.reset { Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())) } else { read }
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }
}

async fn connect(node: &str) -> Option<TcpStream> {
    timeout(PATIENCE, TcpStream::connect((node, PORT))).await.ok()?.ok()
}

/// Sends a request over a new connection; `None` if no answer begins in time.
pub async fn open(node: &str, method: Method, path: &str, accept: &str, body: &str) -> Option<Response<Incoming>> {
    let body = Full::new(Bytes::copy_from_slice(body.as_bytes())).boxed_unsync();
    send(node, method, path, ["application/json", accept], body, PATIENCE).await
}

/// Sends a request whose body consists of lines, each after a pause in milliseconds, and waits for the answer.
pub async fn stream(node: &str, path: &str, lines: Vec<(u64, String)>) -> Reply {
    let most = PATIENCE + lines.iter().map(|(pause, _)| Duration::from_millis(*pause)).sum();
    let body = stream::unfold(lines.into_iter(), async |mut lines| {
        let (pause, line) = lines.next()?;
        sleep(Duration::from_millis(pause)).await;
        Some((Ok(Frame::data(Bytes::from(format!("{line}\n")))), lines))
    });
    let body = StreamBody::new(body).boxed_unsync();
    whole(send(node, Method::POST, path, ["application/x-ndjson", "*/*"], body, most).await).await
}

async fn send(
    node: &str,
    method: Method,
    path: &str,
    [content, accept]: [&str; 2],
    body: UnsyncBoxBody<Bytes, Infallible>,
    patience: Duration,
) -> Option<Response<Incoming>> {
    let stream = connect(node).await?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", node)
        .header("authorization", format!("Bearer {KEY}"))
        .header("threadline-user", USER)
        .header("content-type", content)
        .header("accept", accept)
        .body(body)
        .expect("a request");
    let answer = async {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        let connection = tokio::spawn(connection).abort_handle();
        let answer = timeout(patience, sender.send_request(request)).await;
        if answer.is_err() {
            // A client closes its connection after a timeout.
            connection.abort();
        }
        answer.ok()?.ok()
    };
    answer.await
}

/// Sends a request, and waits for its whole answer.
pub async fn ask(node: &str, method: Method, path: &str, body: &str) -> Reply {
    whole(open(node, method, path, "*/*", body).await).await
}

async fn whole(answer: Option<Response<Incoming>>) -> Reply {
    let Some(answer) = answer else {
        return Reply::Unknown("no answer".into());
    };
    let status = answer.status().as_u16();
    match timeout(PATIENCE, answer.into_body().collect()).await {
        Ok(Ok(body)) => Reply::of(status, serde_json::from_slice(&body.to_bytes()).unwrap_or_default()),
        _ => Reply::Unknown("half an answer".into()),
    }
}

pub type Socket = WebSocketStream<TcpStream>;

/// Opens a socket; `None` on failure.
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

/// Result of waiting for a frame of a socket.
pub enum Heard {
    /// A text frame other than a heartbeat.
    Frame(String),
    /// A heartbeat or a control frame.
    Beat,
    Nothing,
    /// The socket is closed or broken.
    End,
}

/// Waits up to `time` for a frame.
pub async fn listen(socket: &mut Socket, time: Duration) -> Heard {
    match timeout(time, socket.next()).await {
        Err(_) => Heard::Nothing,
        Ok(Some(Ok(Message::Text(text)))) if text.starts_with(r#"{"heartbeat""#) => Heard::Beat,
        Ok(Some(Ok(Message::Text(text)))) => Heard::Frame(text.as_str().to_owned()),
        Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) => Heard::End,
        Ok(Some(Ok(_))) => Heard::Beat,
    }
}

/// Returns the next text frame other than a heartbeat; `None` if the socket is broken, or silent for too long.
pub async fn frame(socket: &mut Socket) -> Option<String> {
    loop {
        match listen(socket, PATIENCE).await {
            Heard::Frame(text) => return Some(text),
            Heard::Beat => {}
            Heard::Nothing | Heard::End => return None,
        }
    }
}
