//! Record of the clients' requests and their answers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use tokio::sync::Notify;

use crate::rng::Rng;

/// Outcome of events that were sent together, as far as the client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The events were acknowledged, and begin at this seq.
    Acked(u64),
    /// The client stopped without a clear answer.
    Unknown,
    /// The events were refused.
    Refused,
}

/// Events `from..to` (counted from 0) of a run.
#[derive(Debug, Clone)]
pub struct Sent {
    pub from: usize,
    pub to: usize,
    pub fate: Fate,
}

/// A run as its producer knows it.
#[derive(Debug, Default)]
pub struct RunRecord {
    /// The producer's events, in the order of their producerSeq.
    pub events: Vec<String>,
    pub batches: Vec<Sent>,
    /// The start was acknowledged.
    pub started: bool,
    /// The end was acknowledged.
    pub ended: bool,
    /// The run was sent as one stream, which the server divides into batches.
    pub streamed: bool,
}

impl RunRecord {
    /// Creates a batch of events that is about to be sent. Its fate is unknown. Returns the number of the batch.
    pub fn prepare(&mut self, id: &str, count: usize, terminal: bool, rng: &mut Rng) -> usize {
        let from = self.events.len();
        for number in from..from + count {
            let long = if rng.chance(2) { 4_000 } else { 120 };
            let pad = "x".repeat(rng.between(10, long) as usize);
            let kind = match number {
                0 => "RUN_STARTED",
                _ if terminal && number + 1 == from + count => "RUN_FINISHED",
                _ => "CUSTOM",
            };
            self.events.push(format!(
                r#"{{"type":"{kind}","threadId":"t","runId":"{id}","id":"{id}#{number}","pad":"{pad}"}}"#
            ));
        }
        self.batches.push(Sent { from, to: from + count, fate: Fate::Unknown });
        self.batches.len() - 1
    }

    /// Returns a batch as JSON.
    pub fn array(&self, batch: usize) -> String {
        let Sent { from, to, .. } = self.batches[batch];
        format!("[{}]", self.events[from..to].join(","))
    }
}

/// A thread that exists during the whole test.
#[derive(Debug)]
pub struct Lane {
    pub thread: String,
    runs: Mutex<HashMap<String, RunRecord>>,
}

impl Lane {
    pub fn new(thread: String) -> Arc<Self> {
        Arc::new(Self { thread, runs: Mutex::default() })
    }

    pub fn runs(&self) -> MutexGuard<'_, HashMap<String, RunRecord>> {
        self.runs.lock().expect("not poisoned")
    }

    pub fn with<T>(&self, run: &str, change: impl FnOnce(&mut RunRecord) -> T) -> T {
        change(self.runs().entry(run.to_owned()).or_default())
    }
}

/// Counts of the whole load, and notifications for the task that kills servers.
#[derive(Debug, Default)]
pub struct Tally {
    pub acked: AtomicU64,
    /// Requests without a clear answer that were sent again.
    pub retried: AtomicU64,
    pub deletes: AtomicUsize,
    pub recreated: AtomicUsize,
    /// A delete is about to be sent.
    pub deleting: Notify,
    /// A run with enough events for a segment has ended.
    pub sealing: Notify,
    first_ack: Mutex<Option<Instant>>,
    violations: Mutex<Vec<String>>,
}

impl Tally {
    pub fn acked(&self, events: usize) {
        self.acked.fetch_add(events as u64, Ordering::Relaxed);
        self.first_ack.lock().expect("not poisoned").get_or_insert_with(Instant::now);
    }

    /// Returns the time of the first acknowledgement since the last call.
    pub fn take_first_ack(&self) -> Option<Instant> {
        self.first_ack.lock().expect("not poisoned").take()
    }

    pub fn retried(&self, times: u32) {
        self.retried.fetch_add(u64::from(times), Ordering::Relaxed);
    }

    /// Adds a violation of a promise.
    pub fn violation(&self, what: String) {
        self.violations.lock().expect("not poisoned").push(what);
    }

    /// Returns all violations of promises.
    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().expect("not poisoned").clone()
    }

    pub fn assert_clean(&self) {
        let violations = self.violations();
        let shown: Vec<_> = violations.iter().take(20).map(String::as_str).collect();
        assert!(shown.is_empty(), "{} promises were broken:\n{}", violations.len(), shown.join("\n"));
    }
}
