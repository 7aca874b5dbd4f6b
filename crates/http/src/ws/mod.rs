//! WebSockets: the handshake (RFC 6455, section 4.2), a socket whose messages must be complete before a timeout, and
//! one [`driver`] for the protocols that use it.

pub mod close;
mod deadline;
pub mod driver;
mod frames;
pub mod protocol;
#[cfg(test)]
mod tests;

use std::time::Duration;

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig},
    },
};

use close::CloseCode;

use deadline::MessageDeadline;
use threadline_core::{
    Principal,
    limits::{SOCKET_READ_BUFFER, SOCKET_WRITE_BUFFER, UNTRUSTED_FRAME_BYTES},
};
use threadline_engine::limits::{BudgetOwner, BudgetPermit};

use crate::{HttpState, problem::Problem};

pub use deadline::is_overdue;

/// A valid handshake, before protocols are switched.
pub struct Upgrade {
    accept: String,
    protocols: Vec<HeaderValue>,
    on_upgrade: OnUpgrade,
}

/// Subprotocol of a socket, and limits of its messages.
#[derive(Debug)]
pub struct Terms {
    /// The subprotocol of the socket, if the client requests it.
    pub protocol: &'static str,
    /// The largest message, in bytes.
    pub largest: usize,
    /// Timeout of a complete message.
    pub message: Duration,
    /// Permit for the memory of incomplete messages.
    pub memory: BudgetPermit,
}

impl Terms {
    /// Terms of a principal's socket. `trusted` is the largest message, in bytes, of a client that is not untrusted; others have
    /// [`UNTRUSTED_FRAME_BYTES`], because a partial message occupies memory until the rest arrives.
    pub fn new(http: &HttpState, principal: &Principal, protocol: &'static str, trusted: usize) -> Self {
        let largest = if principal.is_untrusted() { UNTRUSTED_FRAME_BYTES } else { trusted };
        let memory = http.bodies.of_socket(&BudgetOwner::of(principal));
        Self { protocol, largest, message: http.quota.limits().message, memory }
    }
}

fn token(headers: &HeaderMap, name: HeaderName, wanted: &str) -> bool {
    let lists = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|token| token.trim().eq_ignore_ascii_case(wanted))
}

impl<S: Send + Sync> FromRequestParts<S> for Upgrade {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let headers = &parts.headers;
        let invalid = |what: &str| Problem::invalid(format!("invalid WebSocket handshake: {what}"));
        if parts.method != Method::GET {
            return Err(invalid("the method of a handshake is GET"));
        }
        if !token(headers, header::CONNECTION, "upgrade") || !token(headers, header::UPGRADE, "websocket") {
            return Err(invalid("the headers `Connection: Upgrade` and `Upgrade: websocket` are missing"));
        }
        if !token(headers, header::SEC_WEBSOCKET_VERSION, "13") {
            return Err(invalid("the header Sec-WebSocket-Version is not 13"));
        }
        let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY) else {
            return Err(invalid("the header Sec-WebSocket-Key is missing"));
        };
        let accept = derive_accept_key(key.as_bytes());
        let lists = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter();
        let protocols = lists
            .flat_map(|list| list.as_bytes().split(|byte| *byte == b','))
            .filter_map(|name| HeaderValue::from_bytes(name.trim_ascii()).ok())
            .collect();
        let on_upgrade = parts.extensions.remove::<OnUpgrade>();
        let on_upgrade = on_upgrade.ok_or_else(|| invalid("the connection cannot be upgraded"))?;
        Ok(Self { accept, protocols, on_upgrade })
    }
}

impl Upgrade {
    /// Subprotocols that the client requested.
    pub fn requested_protocols(&self) -> &[HeaderValue] {
        &self.protocols
    }

    /// Switches protocols, and serves the socket in a task of its own.
    pub fn open<F: Future<Output = ()> + Send + 'static>(
        self,
        terms: Terms,
        serve: impl FnOnce(WebSocket) -> F + Send + 'static,
    ) -> Response {
        let (on_upgrade, protocol) = (self.on_upgrade, terms.protocol);
        tokio::spawn(async move {
            // A client that disconnected before the switch is not served.
            let Ok(upgraded) = on_upgrade.await else { return };
            serve(WebSocket::accepted(TokioIo::new(upgraded), terms).await).await;
        });
        let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::from_str(&self.accept) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        if self.protocols.iter().any(|asked| asked == protocol) {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        }
        response
    }
}

/// Open socket, with a deadline for each message.
#[derive(Debug)]
pub struct WebSocket<T = TokioIo<Upgraded>>(WebSocketStream<MessageDeadline<T>>);

impl<T: AsyncRead + AsyncWrite + Unpin> WebSocket<T> {
    /// The server's side of a connection after the handshake.
    async fn accepted(io: T, terms: Terms) -> Self {
        let io = MessageDeadline::new(io, terms.message, terms.memory);
        let config = WebSocketConfig::default()
            .read_buffer_size(SOCKET_READ_BUFFER)
            .write_buffer_size(SOCKET_WRITE_BUFFER)
            .max_message_size(Some(terms.largest))
            .max_frame_size(Some(terms.largest));
        Self(WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await)
    }

    /// The next message; `None` once the client has disconnected. Dropping the future loses no message.
    pub async fn recv(&mut self) -> Option<Result<Message, Error>> {
        self.0.next().await
    }

    /// Queues a message behind the messages that are not written yet.
    pub async fn feed(&mut self, message: Message) -> Result<(), Error> {
        self.0.feed(message).await
    }

    /// Writes what is queued.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.0.flush().await
    }

    /// Queues a message and writes all that is queued.
    pub async fn send(&mut self, message: Message) -> Result<(), Error> {
        self.0.send(message).await
    }

    /// Closes a socket that is not served, with a reason, and waits for the client's end of it.
    pub async fn close(&mut self, code: CloseCode, reason: String, patience: Duration) {
        let frame = CloseFrame { code: code.code().into(), reason: reason.into() };
        let closing = async {
            if self.send(Message::Close(Some(frame))).await.is_ok() {
                while let Some(Ok(_)) = self.recv().await {}
            }
        };
        // A client that does not answer is disconnected.
        let _ = time::timeout(patience, closing).await;
    }

    /// True if an incomplete message has had its time.
    fn is_overdue(&self) -> bool {
        self.0.get_ref().is_overdue()
    }

    /// Restarts the timeout of an incomplete message, because the client was not read meanwhile.
    pub fn restart_deadline(&mut self) {
        self.0.get_mut().restart();
    }
}
