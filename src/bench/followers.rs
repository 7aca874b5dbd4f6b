//! Many followers that cost next to nothing: one thread reads all their sockets into one buffer and counts the events
//! in it, without looking at frames.

use std::{
    cell::RefCell,
    io,
    net::SocketAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::{
    net::TcpStream,
    runtime,
    sync::oneshot,
    task::{JoinSet, LocalSet},
};

use super::{BenchError, socket::Socket};

/// Stands in every event exactly once, and nowhere else.
const MARK: &[u8] = b"\"type\":\"";
/// Read at once. It is the same memory for all sockets.
const BUFFER: usize = 256 * 1_024;

/// Whom to follow.
#[derive(Debug, Clone)]
pub enum Source {
    /// A thread of a Threadline server.
    Thread(String),
    /// Everything that a naive server is told.
    Everything,
}

/// Sockets that follow one source. They are closed when this is dropped.
#[derive(Debug)]
pub struct Followers {
    count: u64,
    delivered: Arc<AtomicU64>,
    reader: Option<JoinHandle<Result<(), BenchError>>>,
    over: Option<oneshot::Sender<()>>,
}

impl Followers {
    /// Opens them; they have caught up when this returns.
    pub async fn open(server: SocketAddr, source: Source, count: usize) -> Result<Self, BenchError> {
        let delivered = Arc::new(AtomicU64::new(0));
        let (over, wait) = oneshot::channel();
        let (opened, open) = oneshot::channel();
        let counter = delivered.clone();
        let reader = std::thread::spawn(move || {
            let local = runtime::Builder::new_current_thread().enable_all().build().map_err(BenchError::Connection)?;
            LocalSet::new().block_on(&local, read_all(server, source, count, counter, opened, wait))
        });
        let mut followers = Self { count: count as u64, delivered, reader: Some(reader), over: Some(over) };
        if open.await.is_err() {
            followers.result()?;
        }
        Ok(followers)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Events that all of them together have received so far.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Waits until each has received `events`; an error if one does not come, or one too many.
    pub async fn have(&mut self, events: u64) -> Result<(), BenchError> {
        let (wanted, mut still) = (events * self.count, 0);
        while self.delivered() < wanted && still < 1_000 {
            let before = self.delivered();
            tokio::time::sleep(Duration::from_millis(10)).await;
            still = if self.delivered() == before { still + 1 } else { 0 };
            if self.reader.as_ref().is_some_and(JoinHandle::is_finished) {
                self.result()?;
            }
        }
        let delivered = self.delivered();
        if delivered == wanted {
            return Ok(());
        }
        Err(BenchError::Unexpected(format!("{delivered} of {wanted} deliveries came")))
    }

    fn result(&mut self) -> Result<(), BenchError> {
        let failed = || BenchError::Unexpected("the followers ended early".to_owned());
        self.reader.take().map_or(Ok(()), |reader| reader.join().unwrap_or_else(|_| Err(failed())))?;
        Err(failed())
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(reader) = self.reader.take()
            && let Ok(Err(error)) = reader.join()
        {
            tracing::warn!(%error, "the followers failed");
        }
    }
}

async fn read_all(
    server: SocketAddr,
    source: Source,
    count: usize,
    delivered: Arc<AtomicU64>,
    opened: oneshot::Sender<()>,
    over: oneshot::Receiver<()>,
) -> Result<(), BenchError> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = match &source {
            Source::Thread(thread) => {
                let mut socket = Socket::open(server).await?;
                socket.follow(thread).await?;
                socket
            }
            Source::Everything => Socket::echo(server, "/follow").await?,
        };
        connections.push(socket.into_connection());
    }
    let buffer = Rc::new(RefCell::new(vec![0; BUFFER]));
    let mut readers = JoinSet::new();
    for connection in connections {
        readers.spawn_local(count_events(connection, buffer.clone(), delivered.clone()));
    }
    if opened.send(()).is_err() {
        return Ok(());
    }
    tokio::select! {
        _ = over => Ok(()),
        Some(ended) = readers.join_next() => ended?.map_err(BenchError::Connection),
    }
}

/// Counts what comes in on one connection until it ends.
async fn count_events(
    connection: TcpStream,
    buffer: Rc<RefCell<Vec<u8>>>,
    delivered: Arc<AtomicU64>,
) -> io::Result<()> {
    let mark = memchr::memmem::Finder::new(MARK);
    // The end of what came before, in which a mark may have begun.
    let mut carry = Vec::with_capacity(MARK.len());
    loop {
        connection.readable().await?;
        let mut buffer = buffer.borrow_mut();
        let start = carry.len();
        buffer[..start].copy_from_slice(&carry);
        let end = match connection.try_read(&mut buffer[start..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => start + read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        delivered.fetch_add(mark.find_iter(&buffer[..end]).count() as u64, Ordering::Relaxed);
        carry.clear();
        carry.extend_from_slice(&buffer[end.saturating_sub(MARK.len() - 1)..end]);
    }
}
