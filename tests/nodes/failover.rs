//! A primary with a standby at one address, and clients of the socket that note every event which they are given.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use crate::{
    backing::{Cut, Postgres, Proxy, Standby},
    cluster::Cluster,
};

/// A primary behind an address, and its standby.
pub struct Pair {
    pub primary: Postgres,
    pub standby: Standby,
    proxy: Proxy,
    database: String,
}

impl Pair {
    pub fn start() -> Self {
        let primary = Postgres::start(&[]);
        let own = primary.fresh_database();
        let database = own.rsplit('/').next().expect("a name").to_owned();
        let (proxy, standby) = (Proxy::start(primary.port()), Standby::of(&primary));
        Self { primary, standby, proxy, database }
    }

    /// Nodes that reach the database at the address.
    pub fn cluster(&self, nodes: usize) -> Cluster {
        Cluster::over(self.primary.url_by(&self.proxy.address().to_string(), &self.database), nodes)
    }

    /// From now on the standby lags.
    pub fn lag(&self) {
        self.standby.catch_up(&self.primary);
        self.standby.disconnect();
    }

    /// The standby takes the primary's place and address.
    pub fn fail_over(&self) {
        self.primary.kill();
        self.standby.promote();
        self.proxy.retarget(self.standby.port());
        self.proxy.cut(Cut::Reset);
    }

    /// A number that the primary knows.
    pub fn before(&self, sql: &str) -> i64 {
        self.primary.psql(&self.database, sql).parse().expect("a number")
    }

    /// A number that the standby knows.
    pub fn after(&self, sql: &str) -> i64 {
        self.standby.psql(&self.database, sql).parse().expect("a number")
    }
}

/// Thread, epoch and seq.
type Place = (String, String, u64);

/// Every event that was given to anyone, or acknowledged: one for each place.
#[derive(Default)]
pub struct Bodies(Mutex<HashMap<Place, String>>);

impl Bodies {
    pub fn note(&self, thread: &str, epoch: &str, seq: u64, body: &str) {
        let mut bodies = self.0.lock().expect("not poisoned");
        let known = bodies.entry((thread.into(), epoch.into(), seq)).or_insert_with(|| body.into());
        assert_eq!(known, body, "two bodies for seq {seq} of {thread} under epoch {epoch}");
    }

    pub fn count(&self) -> usize {
        self.0.lock().expect("not poisoned").len()
    }
}

/// Shortest time between two tries of a client.
const PACE: Duration = Duration::from_millis(20);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn connect(url: &str) -> Socket {
    let url = format!("{}/v1/socket", url.replacen("http", "ws", 1));
    let mut pace = time::interval(PACE);
    loop {
        pace.tick().await;
        if let Ok((socket, _)) = connect_async(url.as_str()).await {
            return socket;
        }
    }
}

/// The next frame; `None` if the socket is broken.
async fn frame(socket: &mut Socket) -> Option<Value> {
    loop {
        match socket.next().await?.ok()? {
            Message::Text(text) => {
                let frame: Value = serde_json::from_str(&text).expect("JSON");
                if frame.get("heartbeat").is_none() {
                    return Some(frame);
                }
                socket.send(Message::text("{\"ping\":{}}")).await.ok()?;
            }
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

/// Appends an event on a socket, which then watches the run: the node keeps the newest events of the thread in memory as
/// long as the socket is open.
pub async fn append_and_hold(url: &str, thread: &str, run: &str, number: u64, event: &Value) -> Held {
    let mut socket = connect(url).await;
    let append = json!({ "append": { "threadId": thread, "runId": run, "producerSeq": number, "events": [event] } });
    socket.send(Message::text(append.to_string())).await.expect("sends");
    while let Some(frame) = frame(&mut socket).await {
        assert!(frame.get("error").is_none(), "{frame}");
        if frame.get("appended").is_some() {
            // Read for ever, so that heartbeats are answered.
            return Held(tokio::spawn(async move { while self::frame(&mut socket).await.is_some() {} }));
        }
    }
    panic!("the socket was closed");
}

/// A socket that is read until this is dropped.
pub struct Held(tokio::task::JoinHandle<()>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn slug(problem: &Value) -> &str {
    problem["type"].as_str().and_then(|name| name.rsplit(['/', '#']).next()).unwrap_or_default()
}

/// A reader's view of a log.
#[derive(Debug, Default, Clone)]
pub struct View {
    pub epoch: Option<String>,
    pub seen: Vec<String>,
    /// Number of events seen, and how many of them are common to both histories, for each loss.
    pub replaced: Vec<(usize, usize)>,
    /// Number of events seen at each change of the epoch.
    pub rebased: Vec<usize>,
    /// Times that the end of the stored events was reached.
    pub caught_up: usize,
}

/// A reader that continues over reconnects, until it is dropped.
pub struct Follower {
    view: Arc<Mutex<View>>,
    task: tokio::task::JoinHandle<()>,
}

impl Follower {
    pub fn start(url: &str, thread: &str, bodies: &Arc<Bodies>) -> Self {
        let view = Arc::<Mutex<View>>::default();
        let task = follow(url.into(), thread.into(), view.clone(), bodies.clone());
        Self { view, task: tokio::spawn(task) }
    }

    pub fn view(&self) -> View {
        assert!(!self.task.is_finished(), "the reader has failed");
        self.view.lock().expect("not poisoned").clone()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(url: String, thread: String, view: Arc<Mutex<View>>, bodies: Arc<Bodies>) {
    let mut pace = time::interval(PACE);
    loop {
        pace.tick().await;
        let mut socket = connect(&url).await;
        let (after, epoch) = {
            let view = view.lock().expect("not poisoned");
            (view.seen.len(), view.epoch.clone())
        };
        let subscribe = json!({ "subscribe": { "threadId": thread, "after": after, "epoch": epoch } });
        if socket.send(Message::text(subscribe.to_string())).await.is_err() {
            continue;
        }
        while let Some(frame) = frame(&mut socket).await {
            if !view.lock().expect("not poisoned").take(&thread, &frame, &bodies) {
                break;
            }
        }
    }
}

impl View {
    /// Takes a frame; false if the reader must subscribe again.
    fn take(&mut self, thread: &str, frame: &Value, bodies: &Bodies) -> bool {
        let (name, body) = frame.as_object().and_then(|frame| frame.iter().next()).expect("a frame");
        let text = |field: &str| body[field].as_str().unwrap_or_else(|| panic!("no {field} in {frame}")).to_owned();
        match name.as_str() {
            "hello" => assert_eq!(self.epoch.get_or_insert(text("epoch")), &text("epoch"), "{frame}"),
            "events" => {
                assert_eq!(self.epoch.as_ref(), Some(&text("epoch")), "{frame}");
                for batch in body["batches"].as_array().expect("batches") {
                    let first = batch["seq"].as_u64().expect("a seq");
                    for (seq, event) in (first..).zip(batch["events"].as_array().expect("events")) {
                        assert_eq!(seq as usize, self.seen.len() + 1, "no gap, no duplicate: {thread}");
                        let event = event.to_string();
                        bodies.note(thread, &text("epoch"), seq, &event);
                        self.seen.push(event);
                    }
                }
            }
            "rebased" => {
                assert_eq!(self.epoch.replace(text("epoch")), Some(text("from")), "{frame}");
                assert_eq!(body["after"].as_u64(), Some(self.seen.len() as u64), "{frame}");
                self.rebased.push(self.seen.len());
            }
            "caughtUp" => self.caught_up += 1,
            "ended" => {
                assert_eq!(body["reason"], "log-replaced", "{frame}");
                self.replace(body);
                return false;
            }
            "error" if slug(body) == "log-replaced" => {
                self.replace(body);
                return false;
            }
            "error" => {
                assert_eq!(body["retryable"], true, "{frame}");
                return false;
            }
            _ => {}
        }
        true
    }

    fn replace(&mut self, facts: &Value) {
        let common = facts["commonUpTo"].as_u64().unwrap_or_else(|| panic!("nothing is common: {facts}")) as usize;
        assert!(common < self.seen.len(), "the reader has seen nothing of what was lost: {facts}");
        self.replaced.push((self.seen.len(), common));
        self.seen.truncate(common);
        self.epoch = facts["epoch"].as_str().map(str::to_owned);
    }
}

/// An append that was acknowledged.
#[derive(Debug, Clone)]
pub struct Acknowledged {
    pub epoch: String,
    pub first_seq: u64,
    pub events: Vec<String>,
    /// True if the standby had it, because it was acknowledged before the standby began to lag.
    pub safe: bool,
}

/// A producer that appends to one run until it is stopped, and continues where the store has lost its events.
pub struct Producer {
    pub acknowledged: Arc<Mutex<Vec<Acknowledged>>>,
    pub stop: Arc<AtomicBool>,
    pub task: tokio::task::JoinHandle<()>,
}

impl Producer {
    /// Appends to the active run `run` of a thread. `lags` becomes true when the standby begins to lag.
    pub fn start(url: &str, thread: &str, run: &str, bodies: &Arc<Bodies>, lags: &Arc<AtomicBool>) -> Self {
        let (acknowledged, stop) = (Arc::<Mutex<Vec<Acknowledged>>>::default(), Arc::<AtomicBool>::default());
        let work = Work {
            url: url.into(),
            thread: thread.into(),
            run: run.into(),
            bodies: bodies.clone(),
            lags: lags.clone(),
            acknowledged: acknowledged.clone(),
            stop: stop.clone(),
        };
        Self { acknowledged, stop, task: tokio::spawn(work.produce()) }
    }

    pub fn count(&self) -> usize {
        assert!(!self.task.is_finished(), "the producer has failed");
        self.acknowledged.lock().expect("not poisoned").len()
    }

    /// Ends after the append that is in progress.
    pub async fn end(self) -> Vec<Acknowledged> {
        self.stop.store(true, SeqCst);
        self.task.await.expect("no failure");
        self.acknowledged.lock().expect("not poisoned").clone()
    }
}

struct Work {
    url: String,
    thread: String,
    run: String,
    bodies: Arc<Bodies>,
    lags: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<Vec<Acknowledged>>>,
    stop: Arc<AtomicBool>,
}

/// Number of the next event: no two events are the same.
static NUMBER: AtomicU64 = AtomicU64::new(1);

impl Work {
    async fn produce(self) {
        let mut socket = connect(&self.url).await;
        let mut next = 1;
        while !self.stop.load(SeqCst) {
            let count = 1 + NUMBER.load(SeqCst) % 3;
            let event = |_| json!({ "type": "CUSTOM", "name": "n", "value": NUMBER.fetch_add(1, SeqCst) });
            let events: Vec<Value> = (0..count).map(event).collect();
            next = self.append(&mut socket, next, &events).await;
        }
    }

    /// Appends until there is an answer; returns the number of the next event.
    async fn append(&self, socket: &mut Socket, number: u64, events: &[Value]) -> u64 {
        let append = json!({ "id": number.to_string(), "append": {
            "threadId": self.thread, "runId": self.run, "producerSeq": number, "events": events,
        } });
        let mut pace = time::interval(PACE);
        loop {
            pace.tick().await;
            let sent = socket.send(Message::text(append.to_string())).await.is_ok();
            let answer = if sent { self.answer(socket, number).await } else { None };
            let Some(answer) = answer else {
                *socket = connect(&self.url).await;
                continue;
            };
            if let Some(receipt) = answer.get("appended") {
                self.note(receipt, events);
                return number + events.len() as u64;
            }
            let problem = &answer["error"];
            match slug(problem) {
                "producer-seq-gap" => return problem["expected"].as_u64().expect("a number"),
                _ => assert_eq!(problem["retryable"], true, "{problem}"),
            }
        }
    }

    async fn answer(&self, socket: &mut Socket, number: u64) -> Option<Value> {
        let id = number.to_string();
        loop {
            let frame = frame(socket).await?;
            if frame["id"] == id.as_str() {
                return Some(frame);
            }
        }
    }

    fn note(&self, receipt: &Value, events: &[Value]) {
        let epoch = receipt["epoch"].as_str().expect("an epoch").to_owned();
        let first_seq = receipt["firstSeq"].as_u64().expect("a seq");
        let events: Vec<String> = events.iter().map(Value::to_string).collect();
        for (seq, event) in (first_seq..).zip(&events) {
            self.bodies.note(&self.thread, &epoch, seq, event);
        }
        // The answer is here, so the append was committed before the lag if that has not begun yet.
        let safe = !self.lags.load(SeqCst);
        self.acknowledged.lock().expect("not poisoned").push(Acknowledged { epoch, first_seq, events, safe });
    }
}
