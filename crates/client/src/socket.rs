//! One WebSocket with the subprotocol `threadline.v1`: frames are sent and received as they are.
//!
//! Memory is bounded on both sides: a frame has at most [`MAX_FRAME`] bytes, and no frame is queued here. A connection
//! that is not read stops the server's writing; the server then closes it (4008), and the reader continues from its
//! cursor on a new one, as [`Client::tail`] does automatically.

use std::time::Duration;

use futures_util::{
    Sink, SinkExt, Stream, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_with_config,
    tungstenite::{
        Error as WsError, Message, Utf8Bytes,
        client::IntoClientRequest,
        handshake::client::Request,
        http::{
            HeaderValue,
            header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL},
        },
        protocol::WebSocketConfig,
    },
};

use super::{
    Client, ClientError, ClientFrame, Problem, ServerFrame,
    http::{PROJECT_HEADER, USER_HEADER, causes, is_token},
};
use threadline_core::limits::{HEARTBEAT_INTERVAL, MAX_BATCH_BYTES};

const PROTOCOL: &str = "threadline.v1";

/// Largest frame in either direction, in bytes: a full batch with the members around it.
const MAX_FRAME: usize = MAX_BATCH_BYTES + 1_024 * 1_024;

type WebSocket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// One WebSocket connection to the server.
#[derive(Debug)]
pub struct Socket {
    stream: WebSocket,
    peer: Peer,
    heartbeat: Duration,
}

/// Sending half of a [`Socket`].
#[derive(Debug)]
pub struct SocketWriter {
    sink: SplitSink<WebSocket, Message>,
    url: String,
}

/// Receiving half of a [`Socket`].
#[derive(Debug)]
pub struct SocketReader {
    stream: SplitStream<WebSocket>,
    peer: Peer,
}

/// Facts that explain the end of a connection.
#[derive(Debug)]
struct Peer {
    url: String,
    retry_after: Option<Duration>,
}

impl Client {
    /// Connects, and waits for the server's welcome.
    ///
    /// Errors: [`ClientError::Unreachable`], [`ClientError::Transport`], a problem (`unauthorized`, `draining`, …),
    /// [`ClientError::Protocol`] if the other side is no Threadline server.
    pub async fn socket(&self) -> Result<Socket, ClientError> {
        let limit = self.config().connect_timeout;
        match timeout(limit, self.open_socket()).await {
            Ok(result) => result,
            Err(_) => Err(ClientError::Unreachable {
                url: self.config().url.clone(),
                cause: format!("no welcome within {} s", limit.as_secs_f32()),
            }),
        }
    }

    async fn open_socket(&self) -> Result<Socket, ClientError> {
        let options = WebSocketConfig::default()
            .max_message_size(Some(MAX_FRAME))
            .max_frame_size(Some(MAX_FRAME))
            .max_write_buffer_size(2 * MAX_FRAME);
        let peer = Peer { url: self.config().url.clone(), retry_after: None };
        let (stream, response) = connect_async_with_config(self.socket_request()?, Some(options), true)
            .await
            .map_err(|error| peer.refused(error))?;
        if response.headers().get(SEC_WEBSOCKET_PROTOCOL).is_none_or(|chosen| chosen != PROTOCOL) {
            return Err(ClientError::Protocol(format!("the other side does not speak {PROTOCOL}")));
        }
        let mut socket = Socket { stream, peer, heartbeat: HEARTBEAT_INTERVAL };
        match socket.next().await?.1 {
            ServerFrame::Welcome { heartbeat, .. } => socket.heartbeat = heartbeat.max(Duration::from_secs(1)),
            ServerFrame::Error(problem) => return Err(ClientError::Problem(problem)),
            // A server that is shutting down announces it first; the close follows.
            ServerFrame::Closing { code, reason, retry_after } => {
                return Err(ClientError::Closed { code, reason, retry_after });
            }
            _ => return Err(ClientError::Protocol("the first frame is not a welcome".to_owned())),
        }
        Ok(socket)
    }

    fn socket_request(&self) -> Result<Request, ClientError> {
        let unusable = || ClientError::Config("the address of the server cannot be used for a WebSocket".to_owned());
        let mut url = self.url(&["socket"])?;
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        url.set_scheme(scheme).map_err(|()| unusable())?;
        let mut request = url.as_str().into_client_request().map_err(|_| unusable())?;
        let secret = |text: String| -> Result<HeaderValue, ClientError> {
            let mut value: HeaderValue = text.parse().map_err(|_| unusable())?;
            value.set_sensitive(true);
            Ok(value)
        };
        let mut protocols = PROTOCOL.to_owned();
        match &self.config().api_key {
            Some(key) if is_token(key) => protocols.push_str(&format!(", bearer.{key}")),
            // A key of other characters cannot be the name of a subprotocol.
            Some(key) => drop(request.headers_mut().insert(AUTHORIZATION, secret(format!("Bearer {key}"))?)),
            None => {}
        }
        request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, secret(protocols)?);
        if let Some(user) = &self.config().user {
            request.headers_mut().insert(USER_HEADER, user.parse().map_err(|_| unusable())?);
        }
        if let Some(project) = &self.config().project {
            request.headers_mut().insert(PROJECT_HEADER, project.parse().map_err(|_| unusable())?);
        }
        Ok(request)
    }
}

impl Socket {
    /// Heartbeat interval of the server: the longest time without a frame on an idle connection.
    pub fn heartbeat(&self) -> Duration {
        self.heartbeat
    }

    /// Sends a frame. The answer carries the same `id`.
    pub async fn send(&mut self, id: Option<&str>, frame: &ClientFrame) -> Result<(), ClientError> {
        let sent = self.stream.send(Message::text(frame.to_text(id)?)).await;
        sent.map_err(|error| lost(&self.peer.url, error))
    }

    /// Receives the next frame, with the id of the frame that it answers.
    ///
    /// The end of the connection is an error: [`ClientError::Closed`] with the server's code, or
    /// [`ClientError::Transport`] if it just broke.
    pub async fn next(&mut self) -> Result<(Option<String>, ServerFrame), ClientError> {
        self.peer.frame(&mut self.stream).await
    }

    /// Receives the next frame as text, for [`ServerFrame::parse`] with borrowed events.
    pub async fn next_text(&mut self) -> Result<Utf8Bytes, ClientError> {
        self.peer.text(&mut self.stream).await
    }

    /// Splits the socket into its two directions, for two tasks.
    pub fn split(self) -> (SocketWriter, SocketReader) {
        let url = self.peer.url.clone();
        let (sink, stream) = self.stream.split();
        (SocketWriter { sink, url }, SocketReader { stream, peer: self.peer })
    }

    /// Closes the connection with the close handshake. Dropping the socket closes it without one.
    pub async fn close(mut self) -> Result<(), ClientError> {
        self.stream.close(None).await.map_err(|error| lost(&self.peer.url, error))
    }
}

impl SocketWriter {
    /// Sends a frame and all frames that were fed before.
    pub async fn send(&mut self, id: Option<&str>, frame: &ClientFrame) -> Result<(), ClientError> {
        self.feed(id, frame).await?;
        self.flush().await
    }

    /// Writes a frame into the buffer, which is sent when it is full, or by [`SocketWriter::flush`].
    pub async fn feed(&mut self, id: Option<&str>, frame: &ClientFrame) -> Result<(), ClientError> {
        self.feed_text(frame.to_text(id)?).await
    }

    /// [`SocketWriter::feed`] with a frame that is text already.
    pub async fn feed_text(&mut self, frame: impl Into<Utf8Bytes>) -> Result<(), ClientError> {
        self.sink.feed(Message::Text(frame.into())).await.map_err(|error| lost(&self.url, error))
    }

    /// Sends all frames that were fed.
    pub async fn flush(&mut self) -> Result<(), ClientError> {
        flush(&mut self.sink).await.map_err(|error| lost(&self.url, error))
    }
}

async fn flush(sink: &mut (impl Sink<Message, Error = WsError> + Unpin)) -> Result<(), WsError> {
    sink.flush().await
}

impl SocketReader {
    /// Receives the next frame, as [`Socket::next`] does.
    pub async fn next(&mut self) -> Result<(Option<String>, ServerFrame), ClientError> {
        self.peer.frame(&mut self.stream).await
    }

    /// Receives the next frame as text, as [`Socket::next_text`] does.
    pub async fn next_text(&mut self) -> Result<Utf8Bytes, ClientError> {
        self.peer.text(&mut self.stream).await
    }
}

impl Peer {
    async fn frame<S>(&mut self, stream: &mut S) -> Result<(Option<String>, ServerFrame), ClientError>
    where
        S: Stream<Item = Result<Message, WsError>> + Unpin,
    {
        let text = self.text(stream).await?;
        let (id, frame) = ServerFrame::parse(&text)?;
        if let ServerFrame::Closing { retry_after, .. } = &frame {
            self.retry_after = *retry_after;
        }
        Ok((id, frame))
    }

    async fn text<S>(&mut self, stream: &mut S) -> Result<Utf8Bytes, ClientError>
    where
        S: Stream<Item = Result<Message, WsError>> + Unpin,
    {
        loop {
            match stream.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text),
                Some(Ok(Message::Close(close))) => {
                    let (code, reason) =
                        close.map_or((1005, String::new()), |close| (close.code.into(), close.reason.to_string()));
                    return Err(ClientError::Closed { code, reason, retry_after: self.retry_after });
                }
                Some(Ok(Message::Binary(_))) => {
                    return Err(ClientError::Protocol("the server sent a binary frame".to_owned()));
                }
                // The library answers pings on its own.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(error)) => return Err(lost(&self.url, error)),
                None => return Err(lost(&self.url, WsError::ConnectionClosed)),
            }
        }
    }

    /// Error for a connection that was not made.
    fn refused(&self, error: WsError) -> ClientError {
        match error {
            WsError::Http(response) if response.status().is_success() => {
                ClientError::Protocol("the server answers, but not with a WebSocket".to_owned())
            }
            WsError::Http(response) => {
                let body = response.body().as_deref().unwrap_or_default();
                Problem::from_body(response.status().as_u16(), None, body).into()
            }
            WsError::Protocol(error) => ClientError::Protocol(format!("no WebSocket there: {error}")),
            error => ClientError::Unreachable { url: self.url.clone(), cause: causes(&error) },
        }
    }
}

/// Error for a connection that broke.
fn lost(url: &str, error: WsError) -> ClientError {
    match error {
        WsError::Capacity(error) => ClientError::Protocol(format!("a frame is too large: {error}")),
        error => ClientError::Transport { url: url.to_owned(), cause: causes(&error) },
    }
}
