//! Agent whose events say when they were sent.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::header,
    response::IntoResponse,
    routing::post,
    serve::ListenerExt,
};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle, time};

use crate::BenchError;

/// Name under which the agent is registered.
pub const NAME: &str = "paced";
/// Events in a piece of an answer without a pace.
const PIECE: u32 = 32;
/// Beginning of the mark in a delta: `sent-<number>-<nanoseconds>.`, which no API escapes.
pub const MARK: &[u8] = b"sent-";

/// Events of a run after its first one.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Number of events.
    pub count: u32,
    /// Time between two events; without one, the events follow as fast as the server reads.
    pub pace: Option<Duration>,
}

struct Shared {
    zero: Instant,
    work: Mutex<Work>,
    /// Permit for the run that waits.
    gate: Notify,
}

/// Agent in this process. Dropping it ends it.
pub struct Agent {
    shared: Arc<Shared>,
    address: SocketAddr,
    task: JoinHandle<io::Result<()>>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Agent {
    pub async fn start() -> Result<Self, BenchError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(BenchError::Connection)?;
        let address = listener.local_addr().map_err(BenchError::Connection)?;
        let work = Mutex::new(Work { count: 0, pace: None });
        let shared = Arc::new(Shared { zero: Instant::now(), work, gate: Notify::new() });
        let router = Router::new().route("/", post(answer)).with_state(shared.clone());
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let task = tokio::spawn(async { axum::serve(listener, router).await });
        Ok(Self { shared, address, task })
    }

    /// Registers it with a server.
    pub async fn register(&self, server: SocketAddr) -> Result<(), BenchError> {
        let definition = json!({ "url": format!("http://{}/", self.address) });
        let put = reqwest::Client::new().put(format!("http://{server}/v1/agents/{NAME}")).json(&definition);
        put.send().await?.error_for_status()?;
        Ok(())
    }

    /// Sets what the next run says.
    pub fn takes(&self, work: Work) {
        *self.shared.work.lock().unwrap_or_else(PoisonError::into_inner) = work;
    }

    /// Lets the run go on after its first event.
    pub fn goes_on(&self) {
        self.shared.gate.notify_one();
    }

    /// Time on the clock of the marks.
    pub fn now(&self) -> Duration {
        self.shared.zero.elapsed()
    }
}

/// Place in an answer.
enum At {
    Start,
    Gate,
    /// Number of the next event, and the time at which the first one was due.
    Events(u32, time::Instant),
    End,
}

async fn answer(State(shared): State<Arc<Shared>>, body: Bytes) -> impl IntoResponse {
    let input: Value = serde_json::from_slice(&body).unwrap_or_default();
    let work = *shared.work.lock().unwrap_or_else(PoisonError::into_inner);
    let ids = format!("\"threadId\":{},\"runId\":{}", input["threadId"], input["runId"]);
    let pieces = stream::unfold(At::Start, move |at| {
        let (shared, ids) = (shared.clone(), ids.clone());
        async move {
            let (text, next) = match at {
                At::Start => {
                    let start = "{\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"m\",\"role\":\"assistant\"}";
                    let text =
                        format!("data: {{\"type\":\"RUN_STARTED\",{ids}}}\n\ndata: {start}\n\n{}", event(&shared, 0));
                    (text, At::Gate)
                }
                At::Gate => {
                    shared.gate.notified().await;
                    (String::from(": goes on\n\n"), At::Events(1, time::Instant::now()))
                }
                At::Events(first, begin) if first <= work.count => {
                    let count = if let Some(pace) = work.pace {
                        time::sleep_until(begin + pace * first).await;
                        1
                    } else {
                        PIECE.min(work.count + 1 - first)
                    };
                    let text = (first..first + count).map(|number| event(&shared, number)).collect();
                    (text, At::Events(first + count, begin))
                }
                At::Events(..) => {
                    let end = "{\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"m\"}";
                    (format!("data: {end}\n\ndata: {{\"type\":\"RUN_FINISHED\",{ids}}}\n\n"), At::End)
                }
                At::End => return None,
            };
            Some((Ok::<_, io::Error>(text), next))
        }
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(pieces))
}

/// Event with a mark, of about as many bytes as a token of a model.
fn event(shared: &Shared, number: u32) -> String {
    let sent = shared.zero.elapsed().as_nanos();
    format!("data: {{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"sent-{number}-{sent}. \"}}\n\n")
}
