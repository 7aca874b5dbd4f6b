//! The listener: an accept loop of our own, because a silent or half-sent request must not hold a connection for ever.

use std::{io, net::SocketAddr, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    domain::{
        Limits,
        limits::{
            AGENT_PATIENCE, BODY_ROOM_WAIT, CLOSE_TIMEOUT, CREDENTIAL_CHECK, DRAIN_TIMEOUT, HEARTBEAT_INTERVAL,
            MAX_HEAD_BYTES, MAX_HEADERS, WRITE_GRACE,
        },
    },
    lingering::{Connection, Lingering},
    timed_io::TimedWrites,
};

/// A peer that vanished without a word is noticed after about a minute of silence.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10)).with_retries(3);

/// Where connections come from: a port of this machine, or of a simulated one.
pub trait Listener: Send {
    /// A connection.
    type Stream: Connection;

    /// The next connection, ready to be served. Dropping the future loses none.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// The address bound.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<Self::Stream> {
        let (stream, _) = self.accept().await?;
        stream.set_nodelay(true)?;
        SockRef::from(&stream).set_tcp_keepalive(&KEEPALIVE)?;
        Ok(stream)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }
}

/// How long the listener bears with its clients.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Time to send the whole head of a request; also how long an idle connection stays open between requests.
    pub header: Duration,
    /// Time that one write may take.
    pub write: Duration,
    /// Bytes a second that must be read while something is written.
    pub slowest_read: usize,
    /// Time for requests under way to end after the listener was told to.
    pub drain: Duration,
    /// Longest silence inside a request body.
    pub body: Duration,
    /// How long a request body waits for room.
    pub room: Duration,
    /// Time between the heartbeats of sockets and event streams.
    pub heartbeat: Duration,
    /// Time that a client has to answer when its socket is closed.
    pub close: Duration,
    /// How long an agent's events may wait for the store.
    pub agents: Duration,
    /// How often it is looked whether the key or token behind a socket or stream is valid still.
    pub credentials: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self::within(&Limits::default())
    }
}

impl Patience {
    /// Within the limits of a node.
    pub fn within(limits: &Limits) -> Self {
        Self {
            header: limits.header,
            write: limits.write + WRITE_GRACE,
            slowest_read: limits.slowest_read,
            drain: DRAIN_TIMEOUT,
            body: limits.body_idle,
            room: BODY_ROOM_WAIT,
            heartbeat: HEARTBEAT_INTERVAL,
            close: CLOSE_TIMEOUT,
            agents: AGENT_PATIENCE,
            credentials: CREDENTIAL_CHECK,
        }
    }
}

/// Serves until `draining` is cancelled, then lets the requests under way end. `connections` counts what is open,
/// sockets included; beyond `most` of them clients wait.
pub async fn serve(
    listener: impl Listener,
    router: Router,
    connections: TaskTracker,
    draining: CancellationToken,
    most: usize,
    patience: Patience,
) {
    let places = std::sync::Arc::new(Semaphore::new(most));
    loop {
        let accepted = tokio::select! {
            accepted = async {
                // Beyond the limit clients wait in the listener's queue.
                let place = places.clone().acquire_owned().await;
                listener.accept().await.map(|stream| (stream, place))
            } => accepted,
            () = draining.cancelled() => break,
        };
        match accepted {
            Ok((stream, place)) => {
                let stream = Lingering::new(stream, place.ok());
                connections.spawn(serve_one(stream, router.clone(), draining.clone(), patience));
            }
            Err(error) => {
                // Out of file descriptors, most likely: wait for some to be freed.
                tracing::warn!(%error, "cannot accept a connection");
                time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if time::timeout(patience.drain, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections are cut that did not end in time");
    }
}

async fn serve_one(
    stream: Lingering<impl Connection>,
    router: Router,
    draining: CancellationToken,
    patience: Patience,
) {
    let io = TokioIo::new(TimedWrites::new(stream, patience.write, patience.slowest_read));
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.header)
        .max_headers(MAX_HEADERS)
        // Larger heads are answered 431.
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(io, service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = draining.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}
