//! A store behind an intercept: it counts calls, can delay them, and can fail for a while.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use threadline_store::{LogPage, StoreError, StoreResult};
use tokio::sync::watch;

use crate::through::{Call, Pass, Through};

/// Lets calls through, or holds them until it is opened.
pub struct Gate {
    open: watch::Sender<bool>,
    arrived: watch::Sender<usize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { open: watch::Sender::new(true), arrived: watch::Sender::new(0) }
    }
}

impl Gate {
    pub fn hold(&self) {
        self.arrived.send_replace(0);
        self.open.send_replace(false);
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until a call stands before the gate, or has passed it since it was closed.
    pub async fn reached(&self) {
        super::soon(self.arrived.subscribe().wait_for(|count| *count > 0)).await.map(drop).expect("the gate is there");
    }

    async fn pass(&self) {
        self.arrived.send_modify(|count| *count += 1);
        self.open.subscribe().wait_for(|open| *open).await.map(drop).expect("the gate is there");
    }
}

/// What a call that is to fail does.
#[derive(Clone, Copy)]
pub enum Failing {
    /// Nothing.
    Before,
    /// What it was asked; only the answer is lost.
    After,
}

/// See above.
pub type Intercept = Through<Pane>;

/// What the calls go through.
#[derive(Default)]
pub struct Pane {
    /// Calls of `read` and the events that they gave.
    pub reads: AtomicUsize,
    pub events_read: AtomicUsize,
    /// Calls of `snapshot`.
    pub snapshots: AtomicUsize,
    /// Calls of `append`.
    pub appends: AtomicUsize,
    /// Holds `append`.
    pub append_gate: Gate,
    /// Beats of the node, and the gate that holds them.
    pub beats: AtomicUsize,
    pub beat_gate: Gate,
    /// Holds `start`.
    pub start_gate: Gate,
    /// Holds `take_turn`.
    pub take_gate: Gate,
    /// Calls of `forget_user` and of `sweep_tickets`.
    pub forgets: AtomicUsize,
    pub sweeps: AtomicUsize,
    /// Whether `read` fails.
    pub unreadable: AtomicBool,
    /// True if all calls fail.
    pub away: AtomicBool,
    /// Calls about credentials and users, in their order.
    pub credentials: std::sync::Mutex<Vec<&'static str>>,
    failures: std::sync::Mutex<Vec<Failing>>,
}

impl Pane {
    /// The next calls of `advance`, `append`, `close`, `create_thread`, `heartbeat`, `request_stop` and `start` fail like this, in
    /// this order.
    pub fn fail(&self, failures: &[Failing]) {
        self.failures.lock().expect("lock").splice(0..0, failures.iter().rev().copied());
    }

    /// How many failures are left.
    pub fn failures(&self) -> usize {
        self.failures.lock().expect("lock").len()
    }
}

impl Pass for Pane {
    async fn pass<T: Send>(&self, call: Call<'_>, work: impl Future<Output = StoreResult<T>> + Send) -> StoreResult<T> {
        match call.name {
            "start" => self.start_gate.pass().await,
            "take_turn" => self.take_gate.pass().await,
            "append" => {
                self.appends.fetch_add(1, SeqCst);
                self.append_gate.pass().await;
            }
            "put_beat" => {
                self.beats.fetch_add(1, SeqCst);
                self.beat_gate.pass().await;
            }
            "read" => drop(self.reads.fetch_add(1, SeqCst)),
            "forget_user" => drop(self.forgets.fetch_add(1, SeqCst)),
            "sweep_tickets" => drop(self.sweeps.fetch_add(1, SeqCst)),
            "snapshot" => drop(self.snapshots.fetch_add(1, SeqCst)),
            "cutoffs" | "put_cutoff" | "key" | "key_named" | "projects" | "footprint" | "delete_thread" => {
                self.credentials.lock().expect("lock").push(call.name);
            }
            _ => {}
        }
        if self.away.load(SeqCst) {
            return Err(StoreError::Unavailable("the test has taken it away".into()));
        }
        if call.name == "read" && self.unreadable.load(SeqCst) {
            return Err(StoreError::Unavailable("the test has taken it away".into()));
        }
        let fails = ["advance", "append", "close", "create_thread", "heartbeat", "request_stop", "start"];
        if !fails.contains(&call.name) {
            return work.await;
        }
        let failing = self.failures.lock().expect("lock").pop();
        if !matches!(failing, Some(Failing::Before)) {
            let done = work.await;
            if failing.is_none() {
                return done;
            }
        }
        Err(StoreError::Unavailable("the test has taken it away".into()))
    }

    fn read(&self, page: &LogPage) {
        self.events_read.fetch_add(page.slice.count() as usize, SeqCst);
    }
}
