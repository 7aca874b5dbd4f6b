//! Events that a subscriber has received, over any transport: they must be exactly the log.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{judge::Event, record::Tally, reply::slug};

/// Events of one log that a subscriber has received.
#[derive(Debug, Default)]
pub struct Seen {
    pub epoch: Option<String>,
    pub events: Vec<Event>,
    subscribed: bool,
}

/// Events of all logs that a subscriber has received.
#[derive(Debug)]
pub struct Sight {
    logs: BTreeMap<String, Seen>,
    tally: Arc<Tally>,
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

/// Parses one line of NDJSON or one `data:` of SSE.
pub fn envelope(text: &str) -> (u64, Event) {
    let Envelope { seq, run_id, event } = serde_json::from_str(text).expect("an envelope");
    (seq, Event { run: run_id, payload: event.get().to_owned() })
}

impl Sight {
    pub fn new(threads: impl IntoIterator<Item = String>, tally: Arc<Tally>) -> Self {
        Self { logs: threads.into_iter().map(|thread| (thread, Seen::default())).collect(), tally }
    }

    /// Number of received events of a log.
    pub fn count(&self, thread: &str) -> usize {
        self.logs[thread].events.len()
    }

    fn seen(&mut self, thread: &str) -> &mut Seen {
        self.logs.get_mut(thread).expect("asked for")
    }

    /// Begins a new connection, without subscriptions.
    pub fn begin(&mut self) {
        self.logs.values_mut().for_each(|seen| seen.subscribed = false);
    }

    /// Returns frames that subscribe to all logs without a subscription, each after the last received event.
    pub fn ask(&mut self) -> Vec<String> {
        let unasked = self.logs.iter_mut().filter(|(_, seen)| !seen.subscribed);
        let ask = unasked.map(|(thread, seen)| {
            seen.subscribed = true;
            let ask = json!({ "threadId": thread, "after": seen.events.len(), "epoch": seen.epoch });
            json!({ "id": thread, "subscribe": ask }).to_string()
        });
        ask.collect()
    }

    /// Returns the query string that reads a log over HTTP, after the last received event.
    pub fn query(&self, thread: &str) -> String {
        let Seen { epoch, events, .. } = &self.logs[thread];
        let epoch = epoch.as_ref().map(|epoch| format!("&epoch={epoch}")).unwrap_or_default();
        format!("after={}{epoch}", events.len())
    }

    /// Adds an event, which must be the next one.
    pub fn take(&mut self, thread: &str, seq: u64, event: Event) {
        let seen = self.seen(thread);
        let had = seen.events.len();
        seen.events.push(event);
        if seq != had as u64 + 1 {
            self.tally.violation(format!("a subscriber of {thread} has {had} events and was sent {seq}"));
        }
    }

    fn caught_up(&self, thread: &str, at: &Value) {
        let had = self.count(thread);
        if at["seq"] != had {
            self.tally.violation(format!("a subscriber of {thread} has {had} events, but caught up at {at}"));
        }
    }

    /// Processes a frame of the socket.
    pub fn frame(&mut self, text: &str) {
        if let Some(frame) = text.strip_prefix(r#"{"events":"#) {
            let frame: Frame<'_> = serde_json::from_str(&frame[..frame.len() - 1]).expect("a frame of events");
            let asked = &self.logs[&frame.thread_id].epoch;
            if asked.as_ref() != Some(&frame.epoch) {
                let what = format!("events of epoch {} in a subscription of {asked:?}", frame.epoch);
                self.tally.violation(what);
            }
            for batch in frame.batches {
                for (seq, event) in (batch.seq..).zip(batch.events) {
                    let event = Event { run: batch.run_id.clone(), payload: event.get().to_owned() };
                    self.take(&frame.thread_id, seq, event);
                }
            }
            return;
        }
        let frame: Value = serde_json::from_str(text).expect("JSON");
        let thread = |body: &Value| body["threadId"].as_str().expect("a thread").to_owned();
        if let Some(hello) = frame.get("hello") {
            self.hello(&thread(hello), hello);
        } else if let Some(at) = frame.get("caughtUp") {
            self.caught_up(&thread(at), at);
        } else if let Some(ended) = frame.get("ended") {
            *self.seen(&thread(ended)) = Seen::default();
        } else if let Some(problem) = frame.get("error") {
            let thread = frame["id"].as_str().expect("the id of a subscribe");
            match slug(problem).as_str() {
                "thread-not-found" | "log-replaced" => *self.seen(thread) = Seen::default(),
                "draining" | "store-unavailable" => self.seen(thread).subscribed = false,
                _ => self.tally.violation(format!("a subscriber of {thread} got {problem}")),
            }
        }
    }

    fn hello(&mut self, thread: &str, hello: &Value) {
        let epoch = hello["epoch"].as_str().map(str::to_owned);
        let had = self.seen(thread).epoch.take();
        if had.is_some() && had != epoch {
            self.tally.violation(format!("{thread}: requested epoch {had:?}, got {epoch:?}"));
        }
        self.seen(thread).epoch = epoch;
    }

    /// Processes the complete messages at the beginning of `buffer`, which holds received bytes of an event stream.
    pub fn messages(&mut self, thread: &str, buffer: &mut Vec<u8>) {
        // An incomplete message does not count.
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let message = String::from_utf8(buffer.drain(..end + 2).collect()).expect("UTF-8");
            let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name));
            let Some(data) = field("data: ") else { continue };
            let parsed = || serde_json::from_str::<Value>(data).expect("JSON");
            match field("event: ") {
                None => {
                    let (seq, event) = envelope(data);
                    let epoch = self.seen(thread).epoch.clone();
                    if field("id: ").map(str::to_owned) != epoch.as_ref().map(|epoch| format!("{epoch}:{seq}")) {
                        self.tally.violation(format!("SSE of {thread}: the id is not {epoch:?}:{seq}: {message}"));
                    }
                    self.take(thread, seq, event);
                }
                Some("hello") => self.hello(thread, &parsed()),
                Some("caught_up") => self.caught_up(thread, &parsed()),
                Some(_) => {}
            }
        }
    }

    /// Returns the logs with events that were not received.
    pub fn behind(&self, logs: &HashMap<String, Vec<Event>>) -> Vec<String> {
        let short = |(thread, seen): (&String, &Seen)| {
            let tail = logs[thread].len();
            (seen.events.len() < tail).then(|| format!("{thread} {} of {tail}", seen.events.len()))
        };
        self.logs.iter().filter_map(short).collect()
    }

    /// Compares all received events with the logs, byte for byte.
    pub fn compare(&self, kind: &str, logs: &HashMap<String, Vec<Event>>) {
        for (thread, seen) in &self.logs {
            if let Some(at) = (0..seen.events.len()).find(|at| logs[thread].get(*at) != Some(&seen.events[*at])) {
                let is = logs[thread].get(at);
                self.tally.violation(format!(
                    "a {kind} subscriber received at {thread}:{} {:?}, the log has {is:?}",
                    at + 1,
                    seen.events[at]
                ));
            }
        }
    }
}
