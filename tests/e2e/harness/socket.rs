//! Raw socket frames.

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{
        self, Message,
        client::IntoClientRequest,
        handshake::client::{Request, Response},
    },
};

use super::{Client, soon};

/// An open socket.
pub struct Socket {
    pub stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

/// A handshake of this client.
pub fn handshake(client: &Client) -> Request {
    let mut request = format!("ws://{}/v1/socket", client.addr).into_client_request().expect("a request");
    let headers = request.headers_mut();
    headers.insert("sec-websocket-protocol", "threadline.v1".parse().expect("a value"));
    if let Some(key) = &client.key {
        headers.insert("authorization", format!("Bearer {key}").parse().expect("a value"));
    }
    if let Some(user) = &client.user {
        headers.insert("threadline-user", user.parse().expect("a value"));
    }
    request
}

impl Socket {
    /// Opens one, and takes its welcome.
    pub async fn open(client: &Client) -> Self {
        let (mut socket, _) = Self::connect(handshake(client)).await.expect("a socket");
        let welcome = socket.frame("welcome").await;
        assert_eq!(welcome["protocol"], "threadline.v1");
        socket
    }

    pub async fn connect(request: Request) -> Result<(Self, Response), tungstenite::Error> {
        let (stream, response) = soon(tokio_tungstenite::connect_async(request)).await?;
        Ok((Self { stream }, response))
    }

    pub async fn send(&mut self, frame: Value) {
        self.send_text(frame.to_string()).await;
    }

    pub async fn send_text(&mut self, text: impl Into<String>) {
        soon(self.stream.send(Message::text(text.into()))).await.expect("sent");
    }

    /// The next text, whatever it is.
    pub async fn text(&mut self) -> String {
        loop {
            match soon(self.stream.next()).await.expect("the socket is open").expect("a message") {
                Message::Text(text) => return text.to_string(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    /// The next frame, whatever it is.
    pub async fn any(&mut self) -> Value {
        serde_json::from_str(&self.text().await).expect("a frame is JSON")
    }

    /// The next frame that is no heartbeat: it must be of this name. Its body.
    pub async fn frame(&mut self, name: &str) -> Value {
        self.answer(name).await.1
    }

    /// The same with its id.
    pub async fn answer(&mut self, name: &str) -> (Option<String>, Value) {
        loop {
            let mut frame = self.any().await;
            if frame.get("heartbeat").is_some() && name != "heartbeat" {
                continue;
            }
            assert!(frame.get(name).is_some(), "wanted {name}, got {frame}");
            return (frame["id"].as_str().map(str::to_owned), frame[name].take());
        }
    }

    /// Passes over frames until one of this name comes. Its id and body.
    pub async fn until(&mut self, name: &str) -> (Option<String>, Value) {
        soon(async {
            loop {
                let mut frame = self.any().await;
                if frame.get(name).is_some() {
                    return (frame["id"].as_str().map(str::to_owned), frame[name].take());
                }
            }
        })
        .await
    }

    /// An error answer to the frame with this id.
    pub async fn problem(&mut self, id: &str, status: u16, slug: &str) -> Value {
        let (answered, problem) = self.answer("error").await;
        assert_eq!(answered.as_deref(), Some(id), "{problem}");
        assert_eq!(problem["type"], format!("/problems/{slug}"), "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        problem
    }

    /// Reads to the end: the last frame, which must be `closing`, and the close code.
    pub async fn closed(&mut self) -> (Value, u16) {
        let mut last = Value::Null;
        loop {
            match soon(self.stream.next()).await.expect("a close comes first").expect("a message") {
                Message::Text(text) => last = serde_json::from_str(text.as_str()).expect("JSON"),
                Message::Close(Some(frame)) => return (last["closing"].take(), frame.code.into()),
                Message::Close(None) => panic!("closed without a code"),
                _ => {}
            }
        }
    }
}
