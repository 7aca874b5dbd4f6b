//! Subscribers that come again with their cursor after each break, and must see exactly the log.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    api::{Api, slug},
    check::Event,
    record::Tally,
    sockets::{Socket, connect, frame},
};

/// What a subscriber has seen of one log.
#[derive(Debug, Default)]
struct Seen {
    epoch: Option<String>,
    events: Vec<Event>,
    subscribed: bool,
}

type All = Arc<Mutex<HashMap<String, Seen>>>;

pub struct Follower {
    kind: &'static str,
    all: All,
    tally: Arc<Tally>,
    task: JoinHandle<()>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    seq: u64,
    run_id: String,
    #[serde(borrow)]
    event: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame<'a> {
    thread_id: String,
    epoch: String,
    #[serde(borrow)]
    batches: Vec<FrameBatch<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameBatch<'a> {
    seq: u64,
    run_id: String,
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
}

/// One line of NDJSON or one `data:` of SSE.
pub fn envelope(text: &str) -> (u64, Event) {
    let Envelope { seq, run_id, event } = serde_json::from_str(text).expect("an envelope");
    (seq, Event { run: run_id, payload: event.get().to_owned() })
}

impl Follower {
    /// All threads over one socket.
    pub fn socket(api: Api, threads: Vec<String>, tally: Arc<Tally>) -> Self {
        let all: All = Arc::new(Mutex::new(threads.into_iter().map(|thread| (thread, Seen::default())).collect()));
        let task = tokio::spawn(follow_socket(api, all.clone(), tally.clone()));
        Self { kind: "socket", all, tally, task }
    }

    /// One thread over SSE.
    pub fn sse(api: Api, thread: String, tally: Arc<Tally>) -> Self {
        let all: All = Arc::new(Mutex::new(HashMap::from([(thread.clone(), Seen::default())])));
        let task = tokio::spawn(follow_sse(api, thread, all.clone(), tally.clone()));
        Self { kind: "SSE", all, tally, task }
    }

    /// Waits until it has caught up, and compares all that it saw, byte for byte.
    pub async fn compare(self, logs: &HashMap<String, Vec<Event>>) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let behind = || {
            let all = self.all.lock().expect("not poisoned");
            let short = |(thread, seen): (&String, &Seen)| {
                let tail = logs[thread].len();
                (seen.events.len() < tail).then(|| format!("{thread} {} of {tail}", seen.events.len()))
            };
            all.iter().filter_map(short).collect::<Vec<_>>()
        };
        while !behind().is_empty() && Instant::now() < deadline {
            sleep(Duration::from_millis(50)).await;
        }
        assert!(behind().is_empty(), "a {} subscriber did not catch up: {:?}", self.kind, behind());
        self.task.abort();
        let all = self.all.lock().expect("not poisoned");
        for (thread, seen) in all.iter() {
            if let Some(at) = (0..seen.events.len()).find(|at| logs[thread].get(*at) != Some(&seen.events[*at])) {
                let is = logs[thread].get(at);
                self.tally.violation(format!(
                    "a {} subscriber saw at {thread}:{} {:?}, the log has {is:?}",
                    self.kind,
                    at + 1,
                    seen.events[at]
                ));
            }
        }
    }
}

/// Takes an event in; it must be the next one.
fn take(seen: &mut Seen, thread: &str, seq: u64, event: Event, tally: &Tally) {
    if seq != seen.events.len() as u64 + 1 {
        tally.violation(format!("a subscriber of {thread} has {} events and was sent {seq}", seen.events.len()));
    }
    seen.events.push(event);
}

async fn follow_socket(api: Api, all: All, tally: Arc<Tally>) {
    loop {
        let mut socket = connect(&api).await;
        all.lock().expect("not poisoned").values_mut().for_each(|seen| seen.subscribed = false);
        loop {
            if subscribe(&mut socket, &all).await.is_none() {
                break;
            }
            match timeout(Duration::from_millis(300), frame(&mut socket)).await {
                Ok(Some(text)) => understand(&text, &all, &tally),
                Ok(None) => break,
                // Time to look again for threads that were not there.
                Err(_) => {}
            }
        }
    }
}

async fn subscribe(socket: &mut Socket, all: &All) -> Option<()> {
    let mut frames = Vec::new();
    for (thread, seen) in all.lock().expect("not poisoned").iter_mut().filter(|(_, seen)| !seen.subscribed) {
        seen.subscribed = true;
        let ask = json!({ "threadId": thread, "after": seen.events.len(), "epoch": seen.epoch });
        frames.push(json!({ "id": thread, "subscribe": ask }).to_string());
    }
    for frame in frames {
        socket.send(Message::text(frame)).await.ok()?;
    }
    Some(())
}

fn understand(text: &str, all: &All, tally: &Tally) {
    let mut all = all.lock().expect("not poisoned");
    if let Some(frame) = text.strip_prefix(r#"{"events":"#) {
        let frame: Frame<'_> = serde_json::from_str(&frame[..frame.len() - 1]).expect("a frame of events");
        let seen = all.get_mut(&frame.thread_id).expect("asked for");
        if seen.epoch.as_ref() != Some(&frame.epoch) {
            tally.violation(format!("events of epoch {} in a subscription of {:?}", frame.epoch, seen.epoch));
        }
        for batch in frame.batches {
            for (seq, event) in (batch.seq..).zip(batch.events) {
                let event = Event { run: batch.run_id.clone(), payload: event.get().to_owned() };
                take(seen, &frame.thread_id, seq, event, tally);
            }
        }
        return;
    }
    let frame: Value = serde_json::from_str(text).expect("JSON");
    let thread = |body: &Value| body["threadId"].as_str().map(str::to_owned);
    if let Some(hello) = frame.get("hello") {
        let thread = thread(hello).expect("a thread");
        let seen = all.get_mut(&thread).expect("asked for");
        let epoch = hello["epoch"].as_str().map(str::to_owned);
        if seen.epoch.is_some() && seen.epoch != epoch {
            tally.violation(format!("{thread}: asked for epoch {:?}, was given {epoch:?}", seen.epoch));
        }
        seen.epoch = epoch;
    } else if let Some(ended) = frame.get("ended") {
        *all.get_mut(&thread(ended).expect("a thread")).expect("asked for") = Seen::default();
    } else if let Some(problem) = frame.get("error") {
        let thread = frame["id"].as_str().expect("the id of a subscribe");
        match slug(problem).as_str() {
            "thread-not-found" | "log-replaced" => *all.get_mut(thread).expect("asked for") = Seen::default(),
            "draining" | "store-unavailable" => all.get_mut(thread).expect("asked for").subscribed = false,
            _ => tally.violation(format!("a subscriber of {thread} was told {problem}")),
        }
    }
}

async fn follow_sse(api: Api, thread: String, all: All, tally: Arc<Tally>) {
    loop {
        let (after, epoch) = {
            let all = all.lock().expect("not poisoned");
            (all[&thread].events.len(), all[&thread].epoch.clone())
        };
        let epoch = epoch.map(|epoch| format!("&epoch={epoch}")).unwrap_or_default();
        let path = format!("/v1/threads/{thread}/events?after={after}{epoch}");
        if let Ok(response) = api.open(&path, "text/event-stream").await {
            match response.status().as_u16() {
                200 => read_sse(response, &thread, &all, &tally).await,
                404 | 503 => {}
                other => tally.violation(format!("SSE of {thread} after {after}: {other}")),
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
}

async fn read_sse(response: reqwest::Response, thread: &str, all: &All, tally: &Tally) {
    let mut body = response.bytes_stream();
    let mut buffer: Vec<u8> = Vec::new();
    while let Some(Ok(chunk)) = body.next().await {
        buffer.extend_from_slice(&chunk);
        // A message that did not come whole does not count.
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let message = String::from_utf8(buffer.drain(..end + 2).collect()).expect("UTF-8");
            let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name));
            let Some(data) = field("data: ") else { continue };
            let mut all = all.lock().expect("not poisoned");
            let seen = all.get_mut(thread).expect("asked for");
            match field("event: ") {
                None => {
                    let (seq, event) = envelope(data);
                    if field("id: ").and_then(|id| id.parse().ok()) != Some(seq) {
                        tally.violation(format!("SSE of {thread}: the id is not {seq}: {message}"));
                    }
                    take(seen, thread, seq, event, tally);
                }
                Some("hello") => {
                    let hello: Value = serde_json::from_str(data).expect("JSON");
                    seen.epoch = hello["epoch"].as_str().map(str::to_owned);
                }
                Some(_) => {}
            }
        }
    }
}
