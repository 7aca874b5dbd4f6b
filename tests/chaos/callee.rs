//! An agent at an address of its own: it counts its calls, and carries out one effect in about every second run, once the log
//! has the tool call. A call goes on when its node is gone, as a process does that has not noticed.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use threadline_testkit::rng::Rng;
use tokio::{
    net::TcpListener,
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::{
    history::{History, Line, digest, now},
    world::{PATIENCE, World},
};

/// Values of `recovery` that the agents have, which are their names as well.
pub const RECOVERIES: [&str; 3] = ["retry", "none", "continue"];
/// Time for which a call waits until its tool call is in the log.
const LOGGED_WITHIN: Duration = Duration::from_secs(20);
/// Events of an answer that may wait for their node.
const WAITING: usize = 64;

/// The endpoint of all agents.
pub struct Callee {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

/// World and history of all calls.
struct Shared {
    world: Arc<World>,
    history: History,
}

impl Callee {
    pub async fn start(world: Arc<World>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let history = world.history("calls");
        let router = Router::new().route("/{recovery}", post(called)).with_state(Arc::new(Shared { world, history }));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("it is served") });
        Self { address, serving }
    }

    /// Defines the agents at a node.
    pub async fn define(&self, world: &World) {
        for recovery in RECOVERIES {
            let definition = json!({ "url": format!("http://{}/{recovery}", self.address), "recovery": recovery });
            let url = format!("{}/v1/agents/{recovery}", world.urls[0]);
            let answer = world.http.put(url).json(&definition).send().await.expect("a node answers");
            assert!(answer.status().is_success(), "{answer:?}");
        }
    }
}

impl Drop for Callee {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// One call, with what its node has sent.
struct Call {
    shared: Arc<Shared>,
    input: Value,
    run: String,
    attempt: u64,
    rng: Rng,
    to_node: mpsc::Sender<Bytes>,
}

async fn called(
    State(shared): State<Arc<Shared>>,
    Path(recovery): Path<String>,
    head: HeaderMap,
    body: Bytes,
) -> Response {
    let input: Value = serde_json::from_slice(&body).expect("an input");
    let text = |name: &str| input[name].as_str().expect("an id").to_owned();
    let (thread, run) = (text("threadId"), text("runId"));
    let attempt = head.get("threadline-attempt").and_then(|number| number.to_str().ok()?.parse().ok()).unwrap_or(0);
    let line = Line::Called { at: now(), thread, run: run.clone(), attempt, recovery };
    shared.history.write(&line);
    shared.history.flush();
    let rng = Rng::new(shared.world.seed ^ u64::from(digest(&run, b"")), attempt);
    let (to_node, events) = mpsc::channel(WAITING);
    tokio::spawn(Call { shared, input, run, attempt, rng, to_node }.answer());
    let events = stream::unfold(events, async |mut events| Some((Ok::<_, Infallible>(events.recv().await?), events)));
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

impl Call {
    async fn answer(mut self) {
        self.say(json!({ "type": "RUN_STARTED", "threadId": self.input["threadId"], "runId": self.run })).await;
        let acts = digest(&self.run, b"acts").is_multiple_of(2);
        for message in 0..3 {
            self.write(&format!("said-{}-{}-{message}", self.run, self.attempt)).await;
            if message == 0 && acts && !self.has_acted() {
                self.act().await;
            }
        }
        self.say(json!({ "type": "RUN_FINISHED", "threadId": self.input["threadId"], "runId": self.run })).await;
    }

    /// True if an attempt before has carried the effect out, or may have.
    fn has_acted(&self) -> bool {
        let of_run = format!("call-{}-", self.run);
        let is_own = |call: &Value| call["toolCallId"].as_str().is_some_and(|id| id.starts_with(&of_run));
        let all = |list: &Value| list.as_array().is_some_and(|list| list.iter().any(is_own));
        all(&self.input["messages"]) || all(&self.input["forwardedProps"]["threadline"]["recovery"]["unverified"])
    }

    /// Writes a message, word by word.
    async fn write(&mut self, id: &str) {
        self.say(json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" })).await;
        for _ in 0..self.rng.between(2, 8) {
            self.pause(200).await;
            self.say(json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": "word " })).await;
        }
        self.say(json!({ "type": "TEXT_MESSAGE_END", "messageId": id })).await;
    }

    /// Logs a tool call, and carries its effect out once it is in the log.
    async fn act(&mut self) {
        let call = format!("call-{}-{}", self.run, self.attempt);
        self.say(json!({ "type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "pay" })).await;
        self.say(json!({ "type": "TOOL_CALL_END", "toolCallId": call })).await;
        if !self.is_logged(&call).await {
            return;
        }
        let thread = self.input["threadId"].as_str().unwrap_or_default().to_owned();
        self.shared.history.write(&Line::Effect { at: now(), thread, run: self.run.clone(), call: call.clone() });
        self.shared.history.flush();
        self.pause(300).await;
        let result = json!({ "type": "TOOL_CALL_RESULT", "messageId": format!("{call}-result"), "toolCallId": call,
            "content": "paid" });
        self.say(result).await;
    }

    /// Waits until a node shows the tool call; false if none does in time.
    async fn is_logged(&mut self, call: &str) -> bool {
        let world = self.shared.world.clone();
        let path = format!("/v1/threads/{}/messages", self.input["threadId"].as_str().unwrap_or_default());
        let began = Instant::now();
        while began.elapsed() < LOGGED_WITHIN {
            let url = &world.urls[self.rng.between(0, world.urls.len() as u64 - 1) as usize];
            let shown = async { world.http.get(format!("{url}{path}")).send().await?.text().await };
            if let Ok(Ok(text)) = timeout(PATIENCE, shown).await
                && text.contains(&format!("\"{call}\""))
            {
                return true;
            }
            self.pause(200).await;
        }
        false
    }

    /// Time that an agent or its tool takes: up to so many milliseconds.
    async fn pause(&mut self, most: u64) {
        sleep(Duration::from_millis(self.rng.between(0, most))).await;
    }

    /// Sends an event to the node, which may be gone or stand still.
    async fn say(&self, event: Value) {
        let _ = timeout(PATIENCE, self.to_node.send(format!("data: {event}\n\n").into())).await;
    }
}
