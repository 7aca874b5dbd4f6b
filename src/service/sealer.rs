//! Seals logs, and removes deleted ones and old tickets, in the background.

use std::sync::atomic::Ordering;

use dashmap::DashMap;
use tokio::{
    sync::{Notify, mpsc},
    time::{self, Instant},
};

use super::context::Context;
use crate::domain::{
    LogSlice, ThreadKey,
    limits::{
        COMMIT_QUEUE, MAX_PAGE, PURGE_ROWS, SEAL_AFTER_BYTES, SEAL_REST, SEGMENT_MIN_EVENTS, SWEEP_INTERVAL,
        TICKET_SWEEP_INTERVAL,
    },
};

/// Threads whose fresh events are counted. Beyond it counting starts anew: that only delays sealing.
const MAX_COUNTED: usize = 100_000;

/// Counts what was appended since a thread was last sealed, and hands threads over when a segment is due: enough
/// bytes, or the end of a run with enough events. What is lost with the process is found at the next start.
#[derive(Debug)]
pub(super) struct Sealer {
    fresh: DashMap<ThreadKey, (u64, usize)>,
    due: mpsc::Sender<ThreadKey>,
    purge: Notify,
}

impl Sealer {
    pub fn new() -> (Self, mpsc::Receiver<ThreadKey>) {
        let (due, receiver) = mpsc::channel(COMMIT_QUEUE);
        (Self { fresh: DashMap::new(), due, purge: Notify::new() }, receiver)
    }

    /// Events were committed; `ended` with the end of a run.
    pub fn note(&self, key: ThreadKey, slice: &LogSlice, ended: bool) {
        let mut fresh = self.fresh.entry(key).or_default();
        fresh.0 += slice.count();
        fresh.1 += slice.bytes();
        let (events, bytes) = *fresh;
        drop(fresh);
        if events >= SEGMENT_MIN_EVENTS && (ended || bytes >= SEAL_AFTER_BYTES) {
            // A full queue is no harm: the count stays, and the next commit of the thread tries again.
            if self.due.try_send(key).is_ok() {
                self.fresh.remove(&key);
            }
        } else if ended && self.fresh.len() > MAX_COUNTED {
            self.fresh.clear();
        }
    }

    /// A thread was deleted.
    pub fn purge(&self) {
        self.purge.notify_one();
    }
}

/// The loop that seals.
pub(super) async fn run(context: Context, mut due: mpsc::Receiver<ThreadKey>) {
    match context.store.seal_backlog(MAX_PAGE).await {
        Ok(keys) => {
            for key in keys {
                seal(&context, key).await;
            }
        }
        Err(error) => tracing::warn!(%error, "cannot look for unsealed logs"),
    }
    loop {
        tokio::select! {
            key = due.recv() => match key {
                Some(key) => seal(&context, key).await,
                None => return,
            },
            () = context.stopped() => return,
        }
    }
}

async fn seal(context: &Context, key: ThreadKey) {
    loop {
        let (begun, commits) = (Instant::now(), context.commits.load(Ordering::Relaxed));
        match context.store.seal(key).await {
            Ok(true) if !context.stopping.is_cancelled() => {
                if context.commits.load(Ordering::Relaxed) != commits {
                    tokio::select! {
                        () = time::sleep(begun.elapsed() * SEAL_REST) => {}
                        () = context.stopped() => return,
                    }
                }
            }
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, key = key.0, "cannot seal a log; it stays as it is");
                return;
            }
        }
    }
}

/// The loop that removes what was deleted and tickets whose time is over, in small steps.
pub(super) async fn run_purge(context: Context) {
    let [mut sweep, mut tickets] = [SWEEP_INTERVAL, TICKET_SWEEP_INTERVAL].map(time::interval);
    sweep.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    tickets.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = context.sealer.purge.notified() => {}
            _ = sweep.tick() => {}
            _ = tickets.tick() => {
                sweep_tickets(&context).await;
                continue;
            }
            () = context.stopped() => return,
        }
        loop {
            match context.store.purge(PURGE_ROWS).await {
                Ok(true) if !context.stopping.is_cancelled() => tokio::task::yield_now().await,
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot remove a deleted log; trying again");
                    break;
                }
            }
        }
    }
}

async fn sweep_tickets(context: &Context) {
    loop {
        match context.store.sweep_tickets(context.clock.now()).await {
            Ok(true) if !context.stopping.is_cancelled() => tokio::task::yield_now().await,
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "cannot remove old tickets; trying again");
                return;
            }
        }
    }
}
