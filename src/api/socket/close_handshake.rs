//! The end of a socket: a frame with the reason, then the close handshake (RFC 6455, section 7).

use std::time::Duration;

use serde_json::json;
use threadline_http::ws::{WebSocket, close::CloseCode};
use tokio::time;
use tokio_tungstenite::tungstenite::{
    Error, Message, Utf8Bytes,
    protocol::{CloseFrame, frame::coding::CloseCode as WireCode},
};

use super::frames::frame;

/// Reads until the connection ends, which also answers the client's close frame, if one was sent.
pub async fn answer(socket: &mut WebSocket, timeout: Duration) {
    let _ = time::timeout(timeout, async { while let Some(Ok(_)) = socket.recv().await {} }).await;
}

/// Sends the reason and the close frame, and waits for the client to answer.
pub async fn close(socket: &mut WebSocket, code: CloseCode, timeout: Duration) {
    let closing = json!({
        "code": code.code(),
        "reason": code.reason(),
        "reconnect": code.retry_after().is_some(),
        "retryAfterMs": code.retry_after().map(|wait| wait.as_millis() as u64),
    });
    let handshake = async {
        socket.send(Message::Text(frame(None, "closing", &closing).into())).await?;
        let close = CloseFrame { code: WireCode::from(code.code()), reason: Utf8Bytes::from_static(code.reason()) };
        socket.send(Message::Close(Some(close))).await?;
        while let Some(Ok(_)) = socket.recv().await {}
        Ok::<_, Error>(())
    };
    // A client that does not read cannot receive the reason: its connection ends at the timeout.
    let _ = time::timeout(timeout, handshake).await;
}
