//! A TCP proxy that injects network faults while it runs.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU16, AtomicU64, Ordering},
    },
    time::Duration,
};

use socket2::SockRef;
use threadline_testkit::rng::Rng;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    runtime::Runtime,
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until},
};

use super::ports::free_port;

const CHUNK: usize = 16 * 1_024;
/// Most chunks under way in one direction; enough that a delay alone does not throttle.
const ON_THE_WAY: usize = 64;

/// Treatment of the bytes of one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Flow {
    /// Bytes are forwarded at once.
    Pass,
    /// Bytes are delayed by this time plus a random part of the jitter, and stay in order.
    Delay(Duration, Duration),
    /// Bytes per second.
    Bandwidth(u64),
    /// Connections stay open, but no bytes are forwarded.
    Stall,
}

/// Direction of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToServer,
    ToClient,
    Both,
}

/// Kind of the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The connection ends as if the other side had closed it.
    Fin,
    /// The connection ends as if the other side had crashed.
    Reset,
}

/// State of one direction of all connections.
#[derive(Debug)]
struct Direction {
    flow: watch::Sender<Flow>,
    /// Bytes until the requested cut; negative if no cut was requested.
    left: AtomicI64,
    moved: AtomicU64,
}

impl Direction {
    fn new() -> Self {
        Self { flow: watch::Sender::new(Flow::Pass), left: AtomicI64::new(-1), moved: AtomicU64::new(0) }
    }

    /// Bytes of a chunk that are forwarded before the cut, if the cut is within the chunk.
    fn cut_within(&self, length: usize) -> Option<usize> {
        let take = |left: i64| (left >= 0).then(|| if left <= length as i64 { -1 } else { left - length as i64 });
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        (before <= length as i64).then_some(before as usize)
    }
}

#[derive(Debug)]
struct Shared {
    /// Port of the server on 127.0.0.1.
    target: AtomicU16,
    seed: u64,
    to_server: Direction,
    to_client: Direction,
    /// Kind of the cut after a number of bytes.
    cut_after: watch::Sender<Cut>,
    /// Number and kind of the last cut of all connections.
    cut: watch::Sender<(u64, Cut)>,
    refusing: watch::Sender<bool>,
    connections: AtomicU64,
}

/// Proxy between clients and a server on 127.0.0.1. Runs on an OS thread of its own.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Proxy {
    /// Starts a proxy to the server on this port.
    pub fn start(port: u16) -> Self {
        Self::seeded(port, 0)
    }

    /// Starts a proxy with a seed for its random choices.
    pub fn seeded(port: u16, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            target: AtomicU16::new(port),
            seed,
            to_server: Direction::new(),
            to_client: Direction::new(),
            cut_after: watch::Sender::new(Cut::Reset),
            cut: watch::Sender::new((0, Cut::Fin)),
            refusing: watch::Sender::new(false),
            connections: AtomicU64::new(0),
        });
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("proxy").enable_all().build().expect("a thread");
        let address = (Ipv4Addr::LOCALHOST, free_port()).into();
        let listener = std::net::TcpListener::bind(address).expect("a free port");
        runtime.spawn(accept(shared.clone(), listener, address));
        Self { shared, address, runtime: Some(runtime) }
    }

    /// Address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connects later connections to the server on this port; open ones continue.
    pub fn retarget(&self, port: u16) {
        self.shared.target.store(port, Ordering::Relaxed);
    }

    /// Changes the treatment of bytes, also on open connections.
    pub fn set(&self, way: Way, flow: Flow) {
        if way != Way::ToClient {
            self.shared.to_server.flow.send_replace(flow);
        }
        if way != Way::ToServer {
            self.shared.to_client.flow.send_replace(flow);
        }
    }

    /// Cuts all connections.
    pub fn cut(&self, how: Cut) {
        self.shared.cut.send_modify(|(turn, cut)| (*turn, *cut) = (*turn + 1, how));
    }

    /// Cuts one connection, once: the one that carries the last of the next `bytes`, directly after that byte.
    pub fn cut_after(&self, way: Way, bytes: u64, how: Cut) {
        self.shared.cut_after.send_replace(how);
        let direction = if way == Way::ToClient { &self.shared.to_client } else { &self.shared.to_server };
        direction.left.store(bytes as i64, Ordering::Relaxed);
    }

    /// Refuses new connections; open ones continue.
    pub fn refuse(&self) {
        self.shared.refusing.send_replace(true);
    }

    /// Cuts all connections, and refuses new ones.
    pub fn partition(&self) {
        self.refuse();
        self.cut(Cut::Reset);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.set(Way::Both, Flow::Pass);
        self.shared.to_server.left.store(-1, Ordering::Relaxed);
        self.shared.to_client.left.store(-1, Ordering::Relaxed);
        self.shared.refusing.send_replace(false);
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Bytes forwarded so far, in both directions.
    pub fn moved(&self) -> u64 {
        self.shared.to_server.moved.load(Ordering::Relaxed) + self.shared.to_client.moved.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The drop may happen on a thread of another runtime, which must not block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(shared: Arc<Shared>, first: std::net::TcpListener, address: SocketAddr) {
    first.set_nonblocking(true).expect("set");
    let mut listener = TcpListener::from_std(first).ok();
    let mut refusing = shared.refusing.subscribe();
    loop {
        if *refusing.borrow_and_update() {
            listener = None;
            if refusing.changed().await.is_err() {
                return;
            }
            continue;
        }
        let Some(open) = &listener else {
            match TcpListener::bind(address).await {
                Ok(bound) => listener = Some(bound),
                Err(_) => sleep(Duration::from_millis(5)).await,
            }
            continue;
        };
        tokio::select! {
            accepted = open.accept() => if let Ok((client, _)) = accepted {
                let number = shared.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(connection(shared.clone(), client, number));
            },
            changed = refusing.changed() => if changed.is_err() { return },
        }
    }
}

/// End of one direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The sender has closed the connection, and all bytes were forwarded.
    Closed,
    /// One of the sides has broken the connection.
    Broken,
    /// The connection was cut by [`Proxy::cut_after`].
    Cut,
}

/// Serves one connection to its end.
async fn connection(shared: Arc<Shared>, mut client: TcpStream, number: u64) {
    let mut cut = shared.cut.subscribe();
    let target = (Ipv4Addr::LOCALHOST, shared.target.load(Ordering::Relaxed));
    let Ok(mut server) = TcpStream::connect(target).await else { return end(&[&client], Cut::Reset) };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let how = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let rng = |way| Rng::new(shared.seed, 2 * number + way);
        let both = async {
            let up = pump(from_client, to_server, &shared.to_server, rng(0));
            let down = pump(from_server, to_client, &shared.to_client, rng(1));
            tokio::pin!(up, down);
            let first = tokio::select! {
                ended = &mut up => (ended, true),
                ended = &mut down => (ended, false),
            };
            match first {
                // The other direction continues until it is closed as well.
                (End::Closed, true) => down.await,
                (End::Closed, false) => up.await,
                (ended, _) => ended,
            }
        };
        tokio::select! {
            ended = both => match ended {
                End::Closed => Cut::Fin,
                End::Broken => Cut::Reset,
                End::Cut => *shared.cut_after.borrow(),
            },
            _ = cut.changed() => cut.borrow().1,
        }
    };
    end(&[&client, &server], how);
}

/// Sets how these sockets are closed when they are dropped.
fn end(sockets: &[&TcpStream], how: Cut) {
    if how == Cut::Reset {
        for socket in sockets {
            // A broken socket needs no reset.
            let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
        }
    }
}

/// Forwards one direction of a connection. Up to [`ON_THE_WAY`] chunks are read ahead of writing.
async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, direction: &Direction, mut rng: Rng) -> End {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(ON_THE_WAY);
    let reading = async move {
        loop {
            let mut chunk = vec![0; CHUNK];
            match from.read(&mut chunk).await {
                Ok(0) => return true,
                Ok(length) => chunk.truncate(length),
                Err(_) => return false,
            }
            let later = match *direction.flow.borrow() {
                Flow::Delay(delay, jitter) => delay + jitter.mul_f64(rng.between(0, 1_000) as f64 / 1_000.0),
                _ => Duration::ZERO,
            };
            if sender.send((Instant::now() + later, chunk)).await.is_err() {
                return false;
            }
        }
    };
    let writing = async move {
        let mut flow = direction.flow.subscribe();
        while let Some((due, chunk)) = receiver.recv().await {
            sleep_until(due).await;
            while *flow.borrow_and_update() == Flow::Stall {
                if flow.changed().await.is_err() {
                    return End::Broken;
                }
            }
            let within = direction.cut_within(chunk.len());
            let through = &chunk[..within.unwrap_or(chunk.len())];
            if to.write_all(through).await.is_err() {
                return End::Broken;
            }
            direction.moved.fetch_add(through.len() as u64, Ordering::Relaxed);
            if within.is_some() {
                return End::Cut;
            }
            let now = *flow.borrow();
            if let Flow::Bandwidth(each_second) = now {
                sleep(Duration::from_secs_f64(through.len() as f64 / each_second.max(1) as f64)).await;
            }
        }
        if to.shutdown().await.is_ok() { End::Closed } else { End::Broken }
    };
    tokio::pin!(reading, writing);
    tokio::select! {
        biased;
        ended = &mut writing => ended,
        closed = &mut reading => if closed { writing.await } else { End::Broken },
    }
}
