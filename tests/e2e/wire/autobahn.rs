//! Autobahn's cases for WebSocket.

use std::time::Duration;

use axum::{Router, response::Response, routing::get};
use threadline_core::limits::{MAX_BATCH_BYTES, MAX_CONNECTIONS, SOCKET_MESSAGE_TIMEOUT};
use threadline_engine::limits::{BudgetOwner, MemoryBudget, MemoryKind};
use threadline_http::{
    listener::{self, ConnectionBounds, Serving, Timeouts},
    ws::{Terms, Upgrade},
};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::passes;
use crate::harness::{Options, Server, run};

const LIMIT: Duration = Duration::from_secs(120);

/// Most cases wait for an echo, and `/v1/socket` has none. So they are put to one on the same accept loop and with the
/// same settings.
#[tokio::test]
async fn an_echo_on_our_listener() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("ws://{}/echo", listener.local_addr().expect("an address"));
    let (connections, draining) = (TaskTracker::new(), CancellationToken::new());
    let router = Router::new().route("/echo", get(echo));
    let serving = Serving {
        router,
        connections,
        draining: draining.clone(),
        bounds: ConnectionBounds::new(MAX_CONNECTIONS),
        timeouts: Timeouts::default(),
        metrics: None,
    };
    let serving = listener::serve(listener, serving);
    let (summary, ()) = tokio::join!(
        async {
            let summary = passes("autobahn.py", &["echo", &address], LIMIT).await;
            draining.cancel();
            summary
        },
        serving
    );
    println!("{summary}");
}

async fn echo(upgrade: Upgrade) -> Response {
    let memory = MemoryBudget::new(2 * MAX_BATCH_BYTES, 0).place(MemoryKind::Frame, &BudgetOwner::default());
    let terms = Terms { protocol: "echo", largest: MAX_BATCH_BYTES, message: SOCKET_MESSAGE_TIMEOUT, memory };
    upgrade.open(terms, async |mut socket| {
        while let Some(Ok(message)) = socket.recv().await {
            if matches!(message, Message::Text(_) | Message::Binary(_)) && socket.send(message).await.is_err() {
                break;
            }
        }
    })
}

/// The cases that wait for no echo, on the socket itself.
#[tokio::test]
async fn the_socket_itself() {
    run(Options::memory(), async |server: &Server| {
        let address = format!("ws://{}/v1/socket", server.addr);
        println!("{}", passes("autobahn.py", &["socket", &address], LIMIT).await);
    })
    .await;
}
