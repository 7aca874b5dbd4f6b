//! Tests of the driver over a connection in memory, with a client from another library and paused time.

mod closing;
mod serving;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use threadline_engine::{
    close_schedule::CloseSchedule,
    limits::{BudgetOwner, MemoryBudget, MemoryKind},
    metrics::{GaugeSnapshot, Metrics},
};
use tokio::{
    io::{DuplexStream, duplex},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, advance, sleep, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message, Utf8Bytes,
        protocol::{CloseFrame, Role, frame::coding::CloseCode as WireCode},
    },
};
use tokio_util::sync::CancellationToken;

use super::{
    Terms, WebSocket,
    close::CloseCode,
    driver::{SocketEnv, drive, refuse},
    protocol::{Binary, CloseFrames, Closing, HandOver, Outbox, Protocol, Reading},
};
use crate::auth::watch::CredentialWatch;

const HEARTBEAT: Duration = Duration::from_secs(15);
const IDLE: Duration = Duration::from_secs(40);
const WRITE: Duration = Duration::from_secs(30);
const CLOSE: Duration = Duration::from_secs(1);
const SLOWEST_READ: usize = 1_000;
const LONG: Duration = Duration::from_secs(600);

/// Record of what the driver did with a protocol.
#[derive(Default)]
struct Seen {
    /// Texts of each turn.
    turns: Vec<Vec<String>>,
    written: usize,
    over: bool,
    hand_over: Option<HandOver>,
}

/// Protocol that records texts, and sends what the test sends. Without `THOROUGH` it is as strict as the native socket,
/// with it as patient as Phoenix.
struct Echo<const THOROUGH: bool> {
    seen: Arc<Mutex<Seen>>,
    outgoing: mpsc::UnboundedReceiver<Result<String, CloseCode>>,
    turn: Vec<String>,
    out: Outbox,
    reading: Arc<Mutex<Reading>>,
}

impl<const THOROUGH: bool> Protocol for Echo<THOROUGH> {
    const BINARY: Binary = if THOROUGH { Binary::Ignored } else { Binary::Refused };
    const CLOSING: Closing = if THOROUGH { Closing::Thorough } else { Closing::Prompt };

    async fn receive(&mut self, text: Utf8Bytes) -> Result<(), CloseCode> {
        self.turn.push(text.to_string());
        if text.as_str() == "full" {
            *self.reading.lock().expect("no panic") = Reading::PausedUntil(Instant::now() + LONG);
        }
        Ok(())
    }

    fn takes_more(&self) -> bool {
        self.turn.len() < 3 && *self.reading.lock().expect("no panic") == Reading::Open
    }

    async fn end_turn(&mut self) -> Result<(), CloseCode> {
        if !self.turn.is_empty() {
            self.seen.lock().expect("no panic").turns.push(std::mem::take(&mut self.turn));
        }
        Ok(())
    }

    fn reading(&self) -> Reading {
        let mut reading = self.reading.lock().expect("no panic");
        if matches!(*reading, Reading::PausedUntil(until) if until <= Instant::now()) {
            *reading = Reading::Open;
        }
        *reading
    }

    async fn ready(&mut self) -> Result<(), CloseCode> {
        match self.outgoing.recv().await {
            Some(text) => self.out.text(text?.into()),
            None => std::future::pending().await,
        }
        Ok(())
    }

    fn gather(&mut self) -> Result<(), CloseCode> {
        while let Ok(text) = self.outgoing.try_recv() {
            self.out.text(text?.into());
        }
        Ok(())
    }

    fn beat(&mut self) {
        self.out.text("beat".into());
    }

    fn out(&mut self) -> &mut Outbox {
        &mut self.out
    }

    fn written(&mut self) {
        self.seen.lock().expect("no panic").written += 1;
    }

    fn close_frames(code: CloseCode) -> CloseFrames {
        CloseFrames { text: (!THOROUGH).then(|| code.reason().into()), code: code.code() }
    }

    fn be_over(&mut self) {
        self.seen.lock().expect("no panic").over = true;
    }

    async fn end(&mut self, hand_over: HandOver) {
        self.seen.lock().expect("no panic").hand_over = Some(hand_over);
    }
}

type Client = WebSocketStream<DuplexStream>;

struct Served {
    client: Client,
    seen: Arc<Mutex<Seen>>,
    outgoing: mpsc::UnboundedSender<Result<String, CloseCode>>,
    reading: Arc<Mutex<Reading>>,
    draining: CancellationToken,
    metrics: Metrics,
    begun: Instant,
    served: JoinHandle<()>,
}

/// Serves one client. The connection holds `buffer` bytes that are not read.
async fn serve<const THOROUGH: bool>(buffer: usize, expires: Option<Duration>, refused: bool) -> Served {
    let (near, far) = duplex(buffer);
    let (outgoing, sent) = mpsc::unbounded_channel();
    let seen = Arc::<Mutex<Seen>>::default();
    let reading = Arc::new(Mutex::new(Reading::Open));
    let protocol = Echo::<THOROUGH> {
        seen: seen.clone(),
        outgoing: sent,
        turn: Vec::new(),
        out: Outbox::default(),
        reading: reading.clone(),
    };
    let draining = CancellationToken::new();
    let metrics = Metrics::default();
    let env = SocketEnv {
        turn: CloseSchedule::new(draining.clone()).turn(),
        credential: CredentialWatch::after(expires),
        heartbeat: HEARTBEAT,
        idle: IDLE,
        write: WRITE,
        slowest_read: SLOWEST_READ,
        close: CLOSE,
        metrics: metrics.clone(),
    };
    let memory = MemoryBudget::new(1 << 20, 0).place(MemoryKind::Frame, &BudgetOwner::default());
    let terms = Terms { protocol: "test", largest: 1 << 20, message: Duration::from_secs(20), memory };
    let socket = WebSocket::accepted(near, terms).await;
    let served = tokio::spawn(async move {
        if refused {
            refuse(socket, Box::new(protocol), env, CloseCode::UnsupportedVersion).await;
        } else {
            drive(socket, Box::new(protocol), env).await;
        }
    });
    let client = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
    Served { client, seen, outgoing, reading, draining, metrics, begun: Instant::now(), served }
}

async fn native() -> Served {
    serve::<false>(1 << 20, None, false).await
}

async fn phoenix() -> Served {
    serve::<true>(1 << 20, None, false).await
}

impl Served {
    async fn say(&mut self, text: &str) {
        self.client.send(Message::text(text)).await.expect("sent");
    }

    fn push(&self, text: impl Into<String>) {
        assert!(self.outgoing.send(Ok(text.into())).is_ok(), "the driver is there");
    }

    /// Reads, and answers pings, until the connection ends: the texts, and the close frame.
    async fn read_to_end(&mut self) -> (Vec<String>, Option<CloseFrame>) {
        let (mut texts, mut close) = (Vec::new(), None);
        while let Some(Ok(message)) = self.client.next().await {
            match message {
                Message::Text(text) => texts.push(text.to_string()),
                Message::Close(frame) => close = frame,
                _ => {}
            }
        }
        (texts, close)
    }

    /// Code with which the server closes the socket of a client that reads.
    async fn code(&mut self) -> u16 {
        self.read_to_end().await.1.map(|close| close.code.into()).expect("a close frame")
    }

    /// Seconds until the driver has ended.
    async fn ended(&mut self) -> u64 {
        (&mut self.served).await.expect("no panic");
        self.begun.elapsed().as_secs()
    }

    fn look<V>(&self, look: impl FnOnce(&Seen) -> V) -> V {
        look(&self.seen.lock().expect("no panic"))
    }

    fn turns(&self) -> Vec<Vec<String>> {
        self.look(|seen| seen.turns.clone())
    }

    /// True if the driver has closed the socket for this reason. A client that reads no more cannot be asked.
    fn was_closed(&self, code: CloseCode) -> bool {
        self.metrics.text(&GaugeSnapshot::default()).contains(&format!("reason=\"{}\"}} 1", code.reason()))
    }

    fn hand_over(&self) -> Option<HandOver> {
        self.look(|seen| seen.hand_over)
    }
}

/// Lets all tasks come to rest; less than any timeout passes.
async fn rest() {
    sleep(Duration::from_millis(1)).await;
}
