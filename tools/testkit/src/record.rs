//! What the clients sent and what they were told.

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

/// What is known of events that were sent together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Answered with success: these events begin at this seq.
    Acked(u64),
    /// Given up without a clear answer.
    Unknown,
    /// Refused clearly.
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
    /// Its own events, in the order of their producerSeq.
    pub events: Vec<String>,
    pub batches: Vec<Sent>,
    /// Its start was acknowledged.
    pub started: bool,
    /// Its end was acknowledged.
    pub ended: bool,
    /// The server cuts the batches as it likes.
    pub streamed: bool,
}

impl RunRecord {
    /// New events, with ids of their own, that are about to be sent. Their fate is unknown.
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

    /// A batch as JSON.
    pub fn array(&self, batch: usize) -> String {
        let Sent { from, to, .. } = self.batches[batch];
        format!("[{}]", self.events[from..to].join(","))
    }
}

/// A thread that lives through the whole test.
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

/// What the whole load counts, and tells the one who kills.
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

    /// When the first acknowledgement came since the last time this was asked.
    pub fn take_first_ack(&self) -> Option<Instant> {
        self.first_ack.lock().expect("not poisoned").take()
    }

    pub fn retried(&self, times: u32) {
        self.retried.fetch_add(u64::from(times), Ordering::Relaxed);
    }

    /// Something that must not be.
    pub fn violation(&self, what: String) {
        self.violations.lock().expect("not poisoned").push(what);
    }

    /// All that must not be and was.
    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().expect("not poisoned").clone()
    }

    pub fn assert_clean(&self) {
        let violations = self.violations();
        let shown: Vec<_> = violations.iter().take(20).map(String::as_str).collect();
        assert!(shown.is_empty(), "{} promises were broken:\n{}", violations.len(), shown.join("\n"));
    }
}
