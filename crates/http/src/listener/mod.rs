//! Listener with Threadline's own accept loop, because a silent or incomplete request must not hold a connection
//! forever.

mod lingering_close;
mod refusal;
mod write_timeout;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd,
    time::Duration,
};

use axum::{
    Router,
    http::{Request, StatusCode},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use threadline_core::{
    Limits,
    limits::{
        AGENT_STORE_TIMEOUT, BODY_ROOM_WAIT, CLOSE_TIMEOUT, CREDENTIAL_CHECK, DRAIN_TIMEOUT, HEARTBEAT_INTERVAL,
        KEPT_FILES, MAX_HEAD_BYTES, MAX_HEADERS, SPARE_CONNECTIONS, WRITE_GRACE,
    },
};
use threadline_engine::{
    limits::{ConnectionPlace, ConnectionRefused, Connections, Peer},
    metrics::Metrics,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use crate::egress::Network;
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

    /// Number of the file descriptor of a connection; `None` if the connection is no file.
    fn descriptor(_stream: &Self::Stream) -> Option<i32> {
        None
    }

    /// Address of the peer of a connection; `None` if it is not known.
    fn peer(_stream: &Self::Stream) -> Option<IpAddr> {
        None
    }

    /// Address and port that are bound.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// Address of the peer of the connection that a request came over. An extension of the request, so no client can set it.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress(pub IpAddr);

impl<L: Listener + Sync> Listener for &L {
    type Stream = L::Stream;

    async fn accept(&self) -> io::Result<Self::Stream> {
        L::accept(self).await
    }

    fn descriptor(stream: &L::Stream) -> Option<i32> {
        L::descriptor(stream)
    }

    fn peer(stream: &L::Stream) -> Option<IpAddr> {
        L::peer(stream)
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

    fn descriptor(stream: &TcpStream) -> Option<i32> {
        Some(stream.as_raw_fd())
    }

    fn peer(stream: &TcpStream) -> Option<IpAddr> {
        stream.peer_addr().ok().map(|peer| peer.ip())
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }
}

/// Connections that a listener takes.
#[derive(Debug, Clone)]
pub struct ConnectionBounds {
    /// Connections served at once, sockets included.
    most: usize,
    /// First file descriptor that is kept back from this listener.
    kept_from: Option<i32>,
    strangers: Option<Strangers>,
}

/// Bounds of connections of other machines.
#[derive(Debug, Clone)]
struct Strangers {
    /// Connections of one address; 0 is no limit.
    per_address: usize,
    proxies: Vec<Network>,
}

impl ConnectionBounds {
    /// Takes up to `most` connections.
    pub fn new(most: usize) -> Self {
        Self { most, kept_from: None, strangers: None }
    }

    /// Bounds the connections of each other machine, and all unknown ones. Proxies are exempt.
    pub fn of_strangers(self, per_address: usize, proxies: Vec<Network>) -> Self {
        Self { strangers: Some(Strangers { per_address, proxies }), ..self }
    }

    fn connections(&self) -> Connections {
        Connections::new(self.most, self.strangers.as_ref().map_or(0, |strangers| strangers.per_address))
    }

    fn peer(&self, address: Option<IpAddr>) -> Peer {
        match (address, &self.strangers) {
            (Some(address), Some(strangers)) if !Network::Loopback.holds(address) => {
                let is_proxy = strangers.proxies.iter().any(|network| network.holds(address));
                if is_proxy { Peer::Proxy } else { Peer::Address(address) }
            }
            _ => Peer::Loopback,
        }
    }

    /// Keeps the last [`KEPT_FILES`] of `files`, the number of files that this process may have open, for other uses: at
    /// most a quarter.
    pub fn keeping_files(self, files: u64) -> Self {
        let kept_from = files - (files / 4).min(KEPT_FILES);
        Self { kept_from: i32::try_from(kept_from).ok(), ..self }
    }

    /// True if a connection has one of the files that are kept back. A new file gets the lowest free number, so almost
    /// all lower numbers are in use then.
    fn exceeds_files(&self, descriptor: Option<i32>) -> bool {
        self.kept_from.zip(descriptor).is_some_and(|(kept_from, number)| number >= kept_from)
    }
}

/// Names of the limits of connections in the metrics.
const CONNECTION_LIMIT: &str = "connections";
const ADDRESS_LIMIT: &str = "connectionsPerAddress";

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

/// Content and bounds of a listener.
pub struct Serving {
    pub router: Router,
    /// Counts open connections, sockets included.
    pub connections: TaskTracker,
    /// Once it is cancelled, no connection is accepted, and the active requests are completed.
    pub draining: CancellationToken,
    pub bounds: ConnectionBounds,
    pub timeouts: Timeouts,
    /// Metrics in which refused connections are counted.
    pub metrics: Option<Metrics>,
}

/// Serves until the node is draining, then completes the active requests. Beyond the limit, a few connections are
/// answered with 503 `too-many-connections`; the others are closed.
pub async fn serve<L: Listener>(listener: L, serving: Serving) {
    let Serving { router, connections, draining, bounds, timeouts, metrics } = serving;
    if let Some(metrics) = &metrics {
        metrics.know_limits([CONNECTION_LIMIT, ADDRESS_LIMIT]);
    }
    let (places, spare) = (bounds.connections(), Connections::new(SPARE_CONNECTIONS, 0));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = draining.cancelled() => break,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                // Most likely the process has no file descriptors left: wait until some are closed.
                tracing::warn!(%error, "cannot accept a connection");
                time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let peer = L::peer(&stream);
        let place = if bounds.exceeds_files(L::descriptor(&stream)) {
            Err(ConnectionRefused::All)
        } else {
            places.enter(bounds.peer(peer))
        };
        let refused = match place {
            Ok(place) => {
                connections.spawn(serve_one(stream, peer, place, router.clone(), draining.clone(), timeouts));
                continue;
            }
            Err(refused) => refused,
        };
        if let Some(metrics) = &metrics {
            metrics.limited(match refused {
                ConnectionRefused::All => CONNECTION_LIMIT,
                ConnectionRefused::Address => ADDRESS_LIMIT,
            });
        }
        // Without a spare place the connection is closed at once.
        if let Ok(place) = spare.enter(Peer::Loopback) {
            tokio::spawn(refusal::refuse(LingeringClose::new(stream, Some(place)), refused));
        }
    }
    drop(listener);
    connections.close();
    if time::timeout(timeouts.drain, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "closing connections that did not end before the timeout");
    }
}

async fn serve_one(
    stream: impl Connection,
    peer: Option<IpAddr>,
    place: ConnectionPlace,
    router: Router,
    draining: CancellationToken,
    timeouts: Timeouts,
) {
    let mark = place.mark();
    let stream = LingeringClose::new(stream, Some(place));
    let io = TokioIo::new(WriteTimeout::new(stream, timeouts.write, timeouts.slowest_read));
    let service = service_fn(|mut request: Request<Incoming>| {
        mark.is_served();
        request.extensions_mut().insert(mark.clone());
        if let Some(peer) = peer {
            request.extensions_mut().insert(PeerAddress(peer));
        }
        let answer = router.clone().oneshot(request);
        let mark = mark.clone();
        async move {
            // A connection with many requests in its buffer answers one, and then lets the other connections have their turn.
            tokio::task::yield_now().await;
            let answer = answer.await;
            // Only the authenticated get a socket.
            let is_socket = answer.as_ref().is_ok_and(|answer| answer.status() == StatusCode::SWITCHING_PROTOCOLS);
            if is_socket {
                mark.is_known()
            } else {
                mark.waits()
            }
            answer
        }
    });
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
        () = mark.cut() => {
            tracing::debug!("an unknown connection gives way to others");
            return;
        }
        () = draining.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests;
