//! A store that counts, that can be held up, and that can take its time.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use threadline_store::{StoreError, StoreResult, memory::MemoryStore};
use tokio::sync::watch;

use crate::{
    support::Rng,
    through::{Call, Pass, Through},
};

/// Lets calls through, or holds them until it is opened.
pub struct Gate {
    open: watch::Sender<bool>,
}

impl Gate {
    fn new() -> Self {
        Self { open: watch::Sender::new(true) }
    }

    pub fn hold(&self) {
        self.open.send_replace(false);
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    async fn pass(&self) {
        if !*self.open.borrow() {
            self.open.subscribe().wait_for(|open| *open).await.expect("the gate is there");
        }
    }
}

/// A memory store behind an intercept.
pub type Probe = Through<Intercept>;

/// See [`Probe`].
pub struct Intercept {
    jitter: Option<Mutex<Rng>>,
    /// Calls of `read`.
    pub reads: AtomicUsize,
    /// Calls of `start`.
    starts: AtomicUsize,
    /// Calls of `append`, each with the events of its entries.
    pub appends: Mutex<Vec<Vec<usize>>>,
    /// Holds `append`.
    pub append_gate: Gate,
    /// Holds `read`.
    pub read_gate: Gate,
    /// Holds `run`.
    pub run_gate: Gate,
    /// Holds `take_up`.
    pub take_gate: Gate,
    /// Holds `put_beat`.
    pub node_beats: Gate,
    /// Calls of `heartbeat` that are still to fail.
    pub failing_beats: AtomicUsize,
}

impl Intercept {
    pub fn before(inner: Arc<MemoryStore>) -> Probe {
        Probe::new(inner, Self::new(None))
    }

    /// A intercept whose calls take up to 2 ms, before and after the effect.
    pub fn slow(inner: Arc<MemoryStore>, rng: Rng) -> Probe {
        Probe::new(inner, Self::new(Some(Mutex::new(rng))))
    }
}

impl Intercept {
    fn new(jitter: Option<Mutex<Rng>>) -> Self {
        Self {
            jitter,
            reads: AtomicUsize::new(0),
            starts: AtomicUsize::new(0),
            appends: Mutex::default(),
            append_gate: Gate::new(),
            read_gate: Gate::new(),
            run_gate: Gate::new(),
            take_gate: Gate::new(),
            node_beats: Gate::new(),
            failing_beats: AtomicUsize::new(0),
        }
    }

    pub fn take_reads(&self) -> usize {
        self.reads.swap(0, SeqCst)
    }

    pub fn starts(&self) -> usize {
        self.starts.load(SeqCst)
    }

    pub fn take_appends(&self) -> Vec<Vec<usize>> {
        std::mem::take(&mut self.appends.lock().expect("lock"))
    }

    async fn jitter(&self) {
        let Some(rng) = &self.jitter else { return };
        let (wait, time) = {
            let mut rng = rng.lock().expect("lock");
            (rng.below(4), rng.millis(3))
        };
        match wait {
            0 => tokio::time::sleep(time).await,
            1 => tokio::task::yield_now().await,
            _ => {}
        }
    }
}

impl Pass for Intercept {
    async fn pass<T: Send>(&self, call: Call<'_>, work: impl Future<Output = StoreResult<T>> + Send) -> StoreResult<T> {
        match call.name {
            "read" => {
                self.reads.fetch_add(1, SeqCst);
                self.read_gate.pass().await;
            }
            "append" => {
                let counts = call.appends.iter().map(|append| append.events.count()).collect();
                self.appends.lock().expect("lock").push(counts);
                self.append_gate.pass().await;
            }
            "start" => drop(self.starts.fetch_add(1, SeqCst)),
            "run" => self.run_gate.pass().await,
            "take_up" => self.take_gate.pass().await,
            "put_beat" => self.node_beats.pass().await,
            "heartbeat" if self.failing_beats.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() => {
                return Err(StoreError::Unavailable("a failure was requested".to_owned()));
            }
            _ => {}
        }
        self.jitter().await;
        let done = work.await;
        self.jitter().await;
        done
    }
}
