//! A proxy before Postgres that loses the answer of one chosen statement: the server has executed it, and nobody is told.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime::Runtime,
    sync::watch,
};

/// Code in place of a protocol version: the client asks for TLS. Its startup message follows.
const SSL_REQUEST: u32 = 80_877_103;
/// Head of the server's message that ends an answer, ReadyForQuery; the state of the session follows, in one byte.
const READY: [u8; 5] = [b'Z', 0, 0, 0, 5];

/// The statement whose answer is to be lost.
#[derive(Debug, Default)]
struct Target {
    /// Statements that are answered before it; `None`: no answer is to be lost.
    left: Option<usize>,
    lost: Option<String>,
}

struct Shared {
    port: u16,
    /// True for a statement whose answer may be lost.
    counts: Box<dyn Fn(&str) -> bool + Send + Sync>,
    target: Mutex<Target>,
}

impl Shared {
    /// True if the answer of this statement is to be lost.
    fn loses(&self, statement: &str) -> bool {
        if !(self.counts)(statement) {
            return false;
        }
        let mut target = self.target.lock().expect("a target");
        let Some(left) = target.left else { return false };
        *target = match left.checked_sub(1) {
            Some(left) => Target { left: Some(left), lost: None },
            None => Target { left: None, lost: Some(statement.to_owned()) },
        };
        target.lost.is_some()
    }
}

/// Proxy between clients without TLS and a Postgres on 127.0.0.1. Runs on an OS thread of its own.
pub struct AnswerProxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl AnswerProxy {
    /// Starts a proxy to the server on this port. Statements for which `counts` is false are always answered, and are not
    /// counted.
    pub fn start(port: u16, counts: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared { port, counts: Box::new(counts), target: Mutex::default() });
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("answers").enable_all().build().expect("a thread");
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("set");
        let accepting = shared.clone();
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connection(accepting.clone(), client));
            }
        });
        Self { shared, address, runtime: Some(runtime) }
    }

    /// Address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Loses one answer, after so many statements that are answered: its connection is reset once the server has executed
    /// the statement.
    pub fn lose_after(&self, statements: usize) {
        *self.shared.target.lock().expect("a target") = Target { left: Some(statements), lost: None };
    }

    /// Loses no answer from now on. Returns the statement whose answer was lost since [`AnswerProxy::lose_after`].
    pub fn heal(&self) -> Option<String> {
        std::mem::take(&mut *self.shared.target.lock().expect("a target")).lost
    }
}

impl Drop for AnswerProxy {
    fn drop(&mut self) {
        // The drop may happen on a thread of another runtime, which must not block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn connection(shared: Arc<Shared>, client: TcpStream) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.port)).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    // The reset of a connection that is broken already means nothing.
    let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let losing = watch::Sender::new(false);
    let answers = answers(from_server, to_client, losing.subscribe());
    tokio::select! {
        () = requests(&shared, from_client, to_server, &losing) => {}
        () = answers => {}
    }
}

/// Forwards the client's messages, one by one, and says when the answer of what follows is to be lost.
async fn requests(shared: &Shared, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, losing: &watch::Sender<bool>) {
    let (mut prepared, mut executed) = (HashMap::new(), None::<String>);
    while let Ok(true) = startup(&mut from, &mut to).await {}
    while let Ok(message) = tagged(&mut from).await {
        let mut texts = message[5..].split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
        let mut text = || texts.next().unwrap_or_default();
        match message[0] {
            // Parse: name, statement.
            b'P' => drop(prepared.insert(text(), text())),
            // Bind: portal, name.
            b'B' => {
                let (_portal, name) = (text(), text());
                executed = prepared.get(&name).cloned();
            }
            b'Q' => executed = Some(text()),
            _ => {}
        }
        // Sync, or a query by itself: the server answers.
        if matches!(message[0], b'S' | b'Q') && executed.take().is_some_and(|statement| shared.loses(&statement)) {
            losing.send_replace(true);
        }
        if to.write_all(&message).await.is_err() {
            return;
        }
    }
}

/// Forwards a message from before the session; true if another one follows.
async fn startup(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) -> std::io::Result<bool> {
    let length = from.read_u32().await?;
    let mut message = length.to_be_bytes().to_vec();
    message.resize(length as usize, 0);
    from.read_exact(&mut message[4..]).await?;
    to.write_all(&message).await?;
    Ok(message[4..8] == SSL_REQUEST.to_be_bytes())
}

/// The next message of a session: a tag, a length that counts itself, and as many bytes.
async fn tagged(from: &mut OwnedReadHalf) -> std::io::Result<Vec<u8>> {
    let mut message = vec![0; 5];
    from.read_exact(&mut message).await?;
    let length = u32::from_be_bytes([message[1], message[2], message[3], message[4]]);
    message.resize(length as usize + 1, 0);
    from.read_exact(&mut message[5..]).await?;
    Ok(message)
}

/// Forwards the server's bytes, until an answer is to be lost; then waits for the end of that.
async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, losing: watch::Receiver<bool>) {
    let mut answer = Vec::new();
    let mut buffer = vec![0; 64 * 1_024];
    loop {
        let Ok(length @ 1..) = from.read(&mut buffer).await else { return };
        if *losing.borrow() {
            answer.extend_from_slice(&buffer[..length]);
            if answer.len() > READY.len() && answer[..answer.len() - 1].ends_with(&READY) {
                return;
            }
        } else if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
