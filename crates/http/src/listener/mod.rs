//! Listener with Threadline's own accept loop, because a silent or incomplete request must not hold a connection
//! forever.

mod lingering_close;
mod write_timeout;

use std::{io, net::SocketAddr, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use socket2::{SockRef, TcpKeepalive};
use threadline_core::{
    Limits,
    limits::{
        AGENT_STORE_TIMEOUT, BODY_ROOM_WAIT, CLOSE_TIMEOUT, CREDENTIAL_CHECK, DRAIN_TIMEOUT, HEARTBEAT_INTERVAL,
        MAX_HEAD_BYTES, MAX_HEADERS, WRITE_GRACE,
    },
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::listener::{
    lingering_close::{Connection, LingeringClose},
    write_timeout::WriteTimeout,
};

/// TCP keepalive: a peer that vanished is detected after about one minute without a packet.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10)).with_retries(3);

/// Source of connections: a port of this machine, or of a simulated one.
pub trait Listener: Send {
    /// Type of a connection.
    type Stream: Connection;

    /// Accepts the next connection, ready to be served. Dropping the future loses no connection.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Address and port that are bound.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

impl<L: Listener + Sync> Listener for &L {
    type Stream = L::Stream;

    async fn accept(&self) -> io::Result<Self::Stream> {
        L::accept(self).await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        L::local_addr(self)
    }
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

/// Timeouts of the server towards its clients.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Time to send the complete head of a request; also how long a connection may be idle between requests.
    pub header: Duration,
    /// Timeout of one write.
    pub write: Duration,
    /// Least rate, in bytes a second, at which a client must read while data is written to it.
    pub slowest_read: usize,
    /// Time for active requests to end after the shutdown has started.
    pub drain: Duration,
    /// Read timeout within a request body.
    pub body: Duration,
    /// Longest wait of a request body for memory.
    pub room: Duration,
    /// Interval of the heartbeats of sockets and event streams.
    pub heartbeat: Duration,
    /// Time that a client has for the close handshake of its socket.
    pub close: Duration,
    /// Timeout for an agent's events that wait for the store.
    pub agents: Duration,
    /// Interval of the checks whether the credential of a socket or stream is still valid.
    pub credentials: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self::within(&Limits::default())
    }
}

impl Timeouts {
    /// Timeouts for the limits of a node.
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
            agents: AGENT_STORE_TIMEOUT,
            credentials: CREDENTIAL_CHECK,
        }
    }
}

/// Serves until `draining` is cancelled, then completes the active requests. `connections` counts open connections,
/// sockets included; clients beyond `most` connections wait.
pub async fn serve(
    listener: impl Listener,
    router: Router,
    connections: TaskTracker,
    draining: CancellationToken,
    most: usize,
    timeouts: Timeouts,
) {
    let places = std::sync::Arc::new(Semaphore::new(most));
    loop {
        let accepted = tokio::select! {
            accepted = async {
                // Clients beyond the limit wait in the listener's queue.
                let place = places.clone().acquire_owned().await;
                listener.accept().await.map(|stream| (stream, place))
            } => accepted,
            () = draining.cancelled() => break,
        };
        match accepted {
            Ok((stream, place)) => {
                let stream = LingeringClose::new(stream, place.ok());
                connections.spawn(serve_one(stream, router.clone(), draining.clone(), timeouts));
            }
            Err(error) => {
                // Most likely the process has no file descriptors left: wait until some are closed.
                tracing::warn!(%error, "cannot accept a connection");
                time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if time::timeout(timeouts.drain, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "closing connections that did not end before the timeout");
    }
}

async fn serve_one(
    stream: LingeringClose<impl Connection>,
    router: Router,
    draining: CancellationToken,
    timeouts: Timeouts,
) {
    let io = TokioIo::new(WriteTimeout::new(stream, timeouts.write, timeouts.slowest_read));
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeouts.header)
        .max_headers(MAX_HEADERS)
        // Larger heads are answered with 431.
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
