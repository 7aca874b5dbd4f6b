//! Readers: each reconnects with its cursor after a broken connection, to any node, until it has received every event.

use std::{collections::BTreeMap, time::Duration};

use futures_util::SinkExt;
use http_body_util::BodyExt;
use hyper::{Method, body::Incoming};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::{
    client::Client,
    network::{self, Heard, Socket},
    plan::Plan,
    planted::Design,
    reply::{Reply, slug},
    seen::Sight,
};

/// Time within which a reader receives every event once the logs no longer change: the timeout of a silent connection,
/// the reconnect to another node, and the recheck.
const CATCH_UP: Duration = Duration::from_secs(9);
/// Interval at which a reader checks whether it is done.
const LOOK: Duration = Duration::from_millis(400);
/// Checks without any received byte after which a connection counts as broken.
const SILENT: usize = 7;

/// A reader of logs.
struct Reader {
    client: Client,
    sight: Sight,
    kind: &'static str,
    /// Time at which the logs no longer changed.
    settled: Option<Duration>,
}

impl Reader {
    fn new(client: Client, threads: impl IntoIterator<Item = String>, kind: &'static str) -> Self {
        let sight = Sight::new(threads, client.world.tally.clone());
        Self { client, sight, kind, settled: None }
    }

    /// True if the reader has received every event, or [`CATCH_UP`] has passed.
    fn is_done(&mut self) -> bool {
        let Some(logs) = self.client.world.logs.get() else { return false };
        let now = self.client.world.now();
        let settled = *self.settled.get_or_insert(now);
        let behind = self.sight.behind(logs);
        if behind.is_empty() {
            self.sight.compare(self.kind, logs);
            return true;
        }
        if now > settled + CATCH_UP {
            let what = format!("{} ({}) did not catch up: {behind:?}", self.client.name, self.kind);
            self.client.world.tally.violation(what);
            return true;
        }
        false
    }

    /// Waits until the threads exist, since the server refuses a reader of a missing thread.
    async fn see_threads(&mut self) {
        for thread in 0..self.client.world.plan.threads {
            let path = format!("/v1/threads/{}", Plan::thread(thread));
            while !matches!(self.client.send(Method::GET, &path, "").await, Reply::Done(..)) {
                self.client.pause(20, 100).await;
            }
        }
    }

    /// Returns frames that subscribe after the reader's cursors; planted bugs shift the cursors.
    fn ask(&mut self) -> Vec<String> {
        let shift = match self.client.world.design {
            Design::InclusiveCursor => -1,
            Design::SkipsAhead => 1,
            _ => 0,
        };
        let shifted = |frame: String| {
            let mut frame: Value = serde_json::from_str(&frame).expect("JSON");
            let after = frame["subscribe"]["after"].as_i64().filter(|after| *after > 0);
            if let Some(after) = after {
                frame["subscribe"]["after"] = json!(after + shift);
            }
            frame.to_string()
        };
        self.sight.ask().into_iter().map(shifted).collect()
    }
}

/// Opens a socket, at the first node that accepts it.
async fn connect(client: &mut Client) -> Socket {
    loop {
        if let Some(socket) = network::socket(&client.node()).await {
            client.note(format_args!("socket at {}", client.node()));
            return socket;
        }
        client.note(format_args!("no socket at {}", client.node()));
        client.move_on().await;
    }
}

/// Follows all threads over one socket.
pub async fn socket(client: Client) {
    let threads: Vec<_> = client.world.lanes.iter().map(|lane| lane.thread.clone()).collect();
    let mut reader = Reader::new(client, threads, "socket");
    reader.see_threads().await;
    while !reader.is_done() {
        let mut socket = connect(&mut reader.client).await;
        reader.sight.begin();
        reader.follow(&mut socket).await;
        reader.client.note("the socket is over");
        reader.client.move_on().await;
    }
}

impl Reader {
    async fn follow(&mut self, socket: &mut Socket) {
        let mut silent = 0;
        while silent < SILENT && !self.is_done() {
            for frame in self.ask() {
                if socket.send(Message::text(frame)).await.is_err() {
                    return;
                }
            }
            match network::listen(socket, LOOK).await {
                Heard::Frame(text) => {
                    silent = 0;
                    self.take(&text);
                }
                Heard::Beat => silent = 0,
                Heard::Nothing => silent += 1,
                Heard::End => return,
            }
        }
    }

    fn take(&mut self, text: &str) {
        if self.client.world.design == Design::DropsFrames && self.client.rng.chance(5) {
            return;
        }
        if !text.starts_with(r#"{"welcome""#) {
            self.sight.frame(text);
        }
        // Epochs differ between two executions of a seed, so the trace omits them.
        let without_epochs =
            [r#""epoch":""#, r#""nextCursor":""#].iter().fold(text.to_owned(), |text, name| blank(&text, name));
        self.client.note(without_epochs);
    }
}

/// Follows one thread as server-sent events.
pub async fn sse(client: Client, thread: String) {
    let mut reader = Reader::new(client, [thread.clone()], "SSE");
    reader.see_threads().await;
    while !reader.is_done() {
        let path = format!("/v1/threads/{thread}/events?{}", reader.sight.query(&thread));
        let answer = network::open(&reader.client.node(), Method::GET, &path, "text/event-stream", "").await;
        match answer.as_ref().map(|answer| answer.status().as_u16()) {
            Some(200) => reader.client.note(format_args!("events from {}", reader.client.node())),
            Some(503) | None => {}
            Some(status) => reader.client.world.tally.violation(format!("SSE of {path}: {status}")),
        }
        if let Some(answer) = answer.filter(|answer| answer.status() == 200) {
            reader.stream(answer.into_body(), &thread).await;
            reader.client.note("the events are over");
        }
        reader.client.move_on().await;
    }
}

impl Reader {
    async fn stream(&mut self, mut body: Incoming, thread: &str) {
        let (mut silent, mut buffer) = (0, Vec::new());
        while silent < SILENT && !self.is_done() {
            match timeout(LOOK, body.frame()).await {
                Ok(Some(Ok(chunk))) => {
                    silent = 0;
                    buffer.extend_from_slice(&chunk.into_data().unwrap_or_default());
                    self.sight.messages(thread, &mut buffer);
                    self.client.note(format_args!("has {}", self.sight.count(thread)));
                }
                Ok(Some(Err(_)) | None) => return,
                Err(_) => silent += 1,
            }
        }
    }
}

/// Follows the feed: in the end, the newest entry of each thread must agree with the thread.
pub async fn feed(client: Client) {
    let mut feed = Feed { client, cursor: 0, epoch: None, threads: BTreeMap::new(), settled: None };
    while !feed.is_done() {
        let mut socket = connect(&mut feed.client).await;
        feed.follow(&mut socket).await;
        feed.client.note("the feed is over");
        feed.client.move_on().await;
    }
}

/// A frame without the values of the members of this name.
fn blank(frame: &str, name: &str) -> String {
    let mut parts = frame.split(name);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |blanked, part| blanked + name + part.split_once('"').map_or("", |(_, rest)| rest))
}

struct Feed {
    client: Client,
    cursor: u64,
    /// Epoch of the cursor, once the server has named it.
    epoch: Option<Value>,
    /// For each thread: true if a run is active, and the time at which the last run began or ended.
    threads: BTreeMap<String, (bool, String)>,
    settled: Option<Duration>,
}

impl Feed {
    fn is_done(&mut self) -> bool {
        let Some(at_rest) = self.client.world.at_rest.get() else { return false };
        let now = self.client.world.now();
        let settled = *self.settled.get_or_insert(now);
        let right = self.threads == *at_rest;
        if !right && now > settled + CATCH_UP {
            let what = format!("the feed ended with {:?}, the threads are {at_rest:?}", self.threads);
            self.client.world.tally.violation(what);
        }
        right || now > settled + CATCH_UP
    }

    async fn follow(&mut self, socket: &mut Socket) {
        let ask = json!({ "id": "feed", "subscribeFeed": { "after": self.cursor, "epoch": self.epoch } }).to_string();
        if socket.send(Message::text(ask)).await.is_err() {
            return;
        }
        let mut silent = 0;
        while silent < SILENT && !self.is_done() {
            match network::listen(socket, LOOK).await {
                Heard::Frame(text) => {
                    silent = 0;
                    if !self.take(&serde_json::from_str(&text).expect("JSON")) {
                        return;
                    }
                }
                Heard::Beat => silent = 0,
                Heard::Nothing => silent += 1,
                Heard::End => return,
            }
        }
    }

    /// Processes a frame; false if the reader must open another socket.
    fn take(&mut self, frame: &Value) -> bool {
        let wrong = |what: String| self.client.world.tally.violation(what);
        if let Some(problem) = frame.get("error") {
            if !matches!(slug(problem).as_str(), "draining" | "store-unavailable") {
                wrong(format!("the feed after {}: {problem}", self.cursor));
            }
            return false;
        }
        if let Some(named) = frame.get("feedHello").or(frame.get("feedRebased")) {
            self.epoch = Some(named["epoch"].clone());
        }
        for entry in frame["feed"]["entries"].as_array().into_iter().flatten() {
            let at = entry["cursor"].as_u64().unwrap_or(0);
            if at <= self.cursor {
                wrong(format!("the feed after {} returned {entry}", self.cursor));
            }
            self.cursor = at;
            let (id, thread) = (entry["threadId"].as_str().expect("an id"), &entry["thread"]);
            self.client.world.trace.note(&self.client.name, format_args!("feed {at} {id} {}", thread["tail"]));
            self.threads.insert(id.to_owned(), how_it_is(thread));
        }
        true
    }
}

/// The members of a thread that its feed entry must agree with.
pub fn how_it_is(thread: &Value) -> (bool, String) {
    (!thread["activeRun"].is_null(), thread["lastRunAt"].as_str().unwrap_or_default().to_owned())
}
