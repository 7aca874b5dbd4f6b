//! Server as one would write it without Threadline: axum, a broadcast channel, and one `send` per message and
//! subscriber, without storage, checks or replay. The server is also the agent whose first event is measured.

use std::io;

use axum::{
    Router,
    extract::{
        State,
        ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade},
    },
    http::header,
    response::IntoResponse,
    routing::{any, post},
    serve::ListenerExt,
};
use tokio::{
    net::TcpListener,
    sync::broadcast::{self, Receiver, Sender, error::RecvError},
};

use super::{peer::ACKNOWLEDGED, process};

/// Most messages that a slow subscriber may be behind: enough that none is lost here.
const CAPACITY: usize = 16_384;

/// Serves until released: a message to `/publish` is sent to every socket that is open on `/follow`.
pub async fn serve() -> io::Result<()> {
    process::raise_file_limit();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    process::announce(&[listener.local_addr()?]);
    let (room, _) = broadcast::channel(CAPACITY);
    let router = Router::new()
        .route(
            "/publish",
            any(async |State(room): State<Sender<Utf8Bytes>>, upgrade: WebSocketUpgrade| {
                upgrade.on_upgrade(move |socket| publish(socket, room))
            }),
        )
        .route(
            "/follow",
            any(async |State(room): State<Sender<Utf8Bytes>>, upgrade: WebSocketUpgrade| {
                let messages = room.subscribe();
                upgrade.on_upgrade(move |socket| follow(socket, messages))
            }),
        )
        .route("/agent", post(agent))
        .with_state(room);
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    tokio::select! {
        served = async { axum::serve(listener, router).await } => served,
        () = process::released() => Ok(()),
    }
}

/// Agent that answers at once.
async fn agent() -> impl IntoResponse {
    let events = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"];
    let ids = "\"threadId\":\"t\",\"runId\":\"r\",\"messageId\":\"m\",\"role\":\"assistant\"";
    let body: String = events.iter().map(|name| format!("data: {{\"type\":\"{name}\",{ids}}}\n\n")).collect();
    ([(header::CONTENT_TYPE, "text/event-stream")], body)
}

async fn publish(mut socket: WebSocket, room: Sender<Utf8Bytes>) {
    while let Some(Ok(message)) = socket.recv().await {
        let Message::Text(text) = message else { continue };
        // Fails only if there are no followers.
        let _ = room.send(text);
        if socket.send(Message::Text(Utf8Bytes::from_static(ACKNOWLEDGED))).await.is_err() {
            return;
        }
    }
}

async fn follow(mut socket: WebSocket, mut messages: Receiver<Utf8Bytes>) {
    loop {
        match messages.recv().await {
            Ok(text) => {
                if socket.send(Message::Text(text)).await.is_err() {
                    return;
                }
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}
