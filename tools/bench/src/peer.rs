//! Baseline server: a WebSocket server that acknowledges without saving, and a stream of bytes.

use std::io;

use axum::{
    Router,
    extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade},
    routing::any,
    serve::ListenerExt,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::process;

/// Answer to every frame, as long as a real one.
pub const ACKNOWLEDGED: &str = r#"{"appended":{"threadId":"0195b7a2-1111-7000-8000-000000000000","runId":"0195b7a2-2222-7000-8000-000000000000","firstSeq":100001,"lastSeq":100032,"producerSeq":100032,"epoch":"5c2f9d3b7a01","stopRequested":false,"leaseUntil":"2026-11-21T10:11:15.123Z"}}"#;

/// Serves until released: `GET /` is the socket, the second address the stream of bytes.
pub async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let source = TcpListener::bind("127.0.0.1:0").await?;
    process::announce(&[listener.local_addr()?, source.local_addr()?]);
    let router = Router::new().route(
        "/",
        any(async |upgrade: WebSocketUpgrade| {
            upgrade.max_message_size(64 << 20).max_frame_size(64 << 20).on_upgrade(acknowledge)
        }),
    );
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    tokio::select! {
        served = async { axum::serve(listener, router).await } => served,
        streamed = bytes(source) => streamed,
        () = process::released() => Ok(()),
    }
}

async fn acknowledge(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        let answer = Message::Text(Utf8Bytes::from_static(ACKNOWLEDGED));
        if matches!(message, Message::Text(_)) && socket.send(answer).await.is_err() {
            return;
        }
    }
}

/// Answers each number (8 bytes, big endian) with that many bytes.
async fn bytes(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            if let Err(error) = pour(stream).await {
                tracing::debug!(%error, "a stream of bytes ended");
            }
        });
    }
}

async fn pour(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let block = vec![b'x'; 64 * 1_024];
    loop {
        let mut left = stream.read_u64().await?;
        while left > 0 {
            let next = left.min(block.len() as u64);
            stream.write_all(&block[..next as usize]).await?;
            left -= next;
        }
    }
}
