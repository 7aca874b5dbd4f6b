//! Followers at minimal cost: one thread reads all their sockets into one buffer and counts the events in it, without
//! parsing frames.

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

/// Text that every event contains exactly once, and nothing else contains.
const MARK: &[u8] = b"\"type\":\"";
/// Bytes of one read. All sockets share this memory.
const BUFFER: usize = 256 * 1_024;

/// Source of the events.
#[derive(Debug, Clone)]
pub enum Source {
    /// Thread of a Threadline server.
    Thread(String),
    /// All messages of a naive server.
    Everything,
}

/// Sockets that follow one source. Dropping this closes them.
#[derive(Debug)]
pub struct Followers {
    count: u64,
    delivered: Arc<AtomicU64>,
    reader: Option<JoinHandle<Result<(), BenchError>>>,
    over: Option<oneshot::Sender<()>>,
}

impl Followers {
    /// Opens the sockets. Returns after all have caught up.
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

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Events that all followers together have received so far.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Waits until each follower has received `events`. Fails if one event is missing, or one is surplus.
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

/// Counts the events on one connection until its end.
async fn count_events(
    connection: TcpStream,
    buffer: Rc<RefCell<Vec<u8>>>,
    delivered: Arc<AtomicU64>,
) -> io::Result<()> {
    let mark = memchr::memmem::Finder::new(MARK);
    // End of the previous read, in which a mark may have begun.
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
