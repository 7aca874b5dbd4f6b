//! Seals logs, and removes deleted logs and expired tickets, in the background.

use std::sync::{Arc, atomic::Ordering};

use dashmap::DashMap;
use threadline_core::{
    LogSlice, ThreadKey,
    limits::{
        COMMIT_QUEUE, MAX_PAGE, PURGE_ROWS, SEAL_AFTER_BYTES, SEAL_REST, SEGMENT_MIN_EVENTS, SWEEP_INTERVAL,
        TICKET_SWEEP_INTERVAL,
    },
};
use threadline_store::{DynStore, StoreClock};
use tokio::{
    sync::{Notify, mpsc},
    time::{self, Instant},
};

use crate::{
    after_commit::{AfterCommit, Commit, RowChange},
    commit::pipeline::CommitCount,
    lifecycle::Lifecycle,
    records::ThreadRef,
};

/// Most threads whose unsealed events are counted. Beyond this number all counts restart, which only delays sealing.
const MAX_COUNTED: usize = 100_000;

/// Counts the events and bytes appended since a thread was last sealed, and queues the thread when a segment is due:
/// enough bytes, or the end of a run with enough events. Work lost with the process is found at the next start.
#[derive(Debug)]
pub(crate) struct Sealer {
    fresh: DashMap<ThreadKey, (u64, usize)>,
    due: mpsc::Sender<ThreadKey>,
    purge: Notify,
}

impl Sealer {
    pub fn new() -> (Self, mpsc::Receiver<ThreadKey>) {
        let (due, receiver) = mpsc::channel(COMMIT_QUEUE);
        (Self { fresh: DashMap::new(), due, purge: Notify::new() }, receiver)
    }

    /// Counts committed events; `ended` is true at the end of a run.
    fn note(&self, key: ThreadKey, slice: &LogSlice, ended: bool) {
        let mut fresh = self.fresh.entry(key).or_default();
        fresh.0 += slice.count();
        fresh.1 += slice.bytes();
        let (events, bytes) = *fresh;
        drop(fresh);
        if events >= SEGMENT_MIN_EVENTS && (ended || bytes >= SEAL_AFTER_BYTES) {
            // A full queue is harmless: the count stays, and the next commit of the thread tries again.
            if self.due.try_send(key).is_ok() {
                self.fresh.remove(&key);
            }
        } else if ended && self.fresh.len() > MAX_COUNTED {
            self.fresh.clear();
        }
    }
}

impl AfterCommit for Sealer {
    fn committed(&self, commit: &Commit<'_>) {
        if !commit.slice.0.is_empty() {
            self.note(commit.thread.key, commit.slice, commit.row == RowChange::Changed);
        }
    }

    fn deleted(&self, _thread: &ThreadRef) {
        self.purge.notify_one();
    }
}

/// Dependencies of the loops.
pub(crate) struct Upkeep {
    pub store: DynStore,
    pub clock: StoreClock,
    pub lifecycle: Lifecycle,
    /// Counter of commits: sealing pauses between segments while commits arrive.
    pub commits: CommitCount,
}

/// Loop that seals queued threads, after the backlog of the previous process.
pub(crate) async fn run(upkeep: Arc<Upkeep>, mut due: mpsc::Receiver<ThreadKey>) {
    match upkeep.store.seal_backlog(MAX_PAGE).await {
        Ok(keys) => {
            for key in keys {
                seal(&upkeep, key).await;
            }
        }
        Err(error) => tracing::warn!(%error, "cannot look for unsealed logs"),
    }
    loop {
        tokio::select! {
            key = due.recv() => match key {
                Some(key) => seal(&upkeep, key).await,
                None => return,
            },
            () = upkeep.lifecycle.stopped() => return,
        }
    }
}

async fn seal(upkeep: &Upkeep, key: ThreadKey) {
    loop {
        let (begun, commits) = (Instant::now(), upkeep.commits.load(Ordering::Relaxed));
        match upkeep.store.seal(key).await {
            Ok(true) if !upkeep.lifecycle.stopping.is_cancelled() => {
                if upkeep.commits.load(Ordering::Relaxed) != commits {
                    tokio::select! {
                        () = time::sleep(begun.elapsed() * SEAL_REST) => {}
                        () = upkeep.lifecycle.stopped() => return,
                    }
                }
            }
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, key = key.0, "cannot seal a log; it remains unsealed");
                return;
            }
        }
    }
}

/// Loop that removes deleted logs and expired tickets, in small steps.
pub(crate) async fn run_purge(upkeep: Arc<Upkeep>, sealer: Arc<Sealer>) {
    let [mut sweep, mut tickets] = [SWEEP_INTERVAL, TICKET_SWEEP_INTERVAL].map(time::interval);
    sweep.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    tickets.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = sealer.purge.notified() => {}
            _ = sweep.tick() => {}
            _ = tickets.tick() => {
                sweep_tickets(&upkeep).await;
                continue;
            }
            () = upkeep.lifecycle.stopped() => return,
        }
        loop {
            match upkeep.store.purge(PURGE_ROWS).await {
                Ok(true) if !upkeep.lifecycle.stopping.is_cancelled() => tokio::task::yield_now().await,
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot remove a deleted log; retrying");
                    break;
                }
            }
        }
    }
}

async fn sweep_tickets(upkeep: &Upkeep) {
    loop {
        match upkeep.store.sweep_tickets(upkeep.clock.now()).await {
            Ok(true) if !upkeep.lifecycle.stopping.is_cancelled() => tokio::task::yield_now().await,
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "cannot remove old tickets; retrying");
                return;
            }
        }
    }
}
