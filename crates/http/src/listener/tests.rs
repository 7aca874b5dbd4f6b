use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{extract::Path, routing::get};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Barrier,
};

use super::*;

/// Requests that a client sends in one piece.
const SENT_AT_ONCE: usize = 64;

/// Sends its requests, and reads until the server closes the connection.
async fn pipelined(address: std::net::SocketAddr, client: &str) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let more = format!("GET /{client} HTTP/1.1\r\nHost: x\r\n\r\n").repeat(SENT_AT_ONCE - 1);
    let last = format!("GET /{client} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all((more + &last).as_bytes()).await.expect("sent");
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.expect("answers");
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), SENT_AT_ONCE);
}

#[tokio::test]
async fn connections_with_many_requests_in_their_buffer_take_turns() {
    let (order, both) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Barrier::new(2)));
    let noted = order.clone();
    let router = Router::new().route(
        "/{client}",
        get(async move |Path(client): Path<String>| {
            let is_first = {
                let mut order = noted.lock().expect("no panic");
                order.push(client.clone());
                order.iter().filter(|other| **other == client).count() == 1
            };
            // Both have sent all that they send.
            if is_first {
                both.wait().await;
            }
        }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let draining = CancellationToken::new();
    let served = tokio::spawn(serve(
        listener,
        Serving {
            router,
            connections: TaskTracker::new(),
            draining: draining.clone(),
            bounds: ConnectionBounds::new(16),
            timeouts: Timeouts::default(),
            metrics: None,
        },
    ));
    let work = async { tokio::join!(pipelined(address, "a"), pipelined(address, "b")) };
    time::timeout(Duration::from_secs(60), work).await.expect("in time");
    draining.cancel();
    served.await.expect("no panic");
    let order = order.lock().expect("no panic");
    assert_eq!(order.len(), 2 * SENT_AT_ONCE);
    let in_a_row = order.chunk_by(|one, next| one == next).map(<[_]>::len).max().expect("requests");
    assert!(in_a_row <= 4, "{in_a_row} requests of one connection in a row: {order:?}");
}
