//! Whether this node can do its work: what it stands on is asked, and the answer is good for a moment.

use tokio::{
    sync::Mutex,
    task::JoinHandle,
    time::{self, Instant},
};

use super::{Service, context::Context};
use crate::{
    domain::{
        Clock,
        limits::{READY_MEMORY, READY_TIMEOUT},
    },
    lock::LockState,
    metrics::{Levels, Metrics},
    store::{DynStore, StoreResult, StoreStatus},
};

/// How the store was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreState {
    /// It answers, and takes writes.
    Good,
    /// No answer. Without it nothing can be done.
    Unreachable,
    /// It answers, and takes no writes: a standby, or a database set to read only.
    ReadOnly,
}

/// Whether this node can do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// It is to take nothing new: it is leaving, or shutting down already.
    pub leaving: bool,
    /// The store.
    pub store: StoreState,
    /// Redis; `None` if there is none. Without it the store decides alone.
    pub redis: Option<LockState>,
}

impl Readiness {
    /// The stable name of why no requests are to be sent here; `None` if they are.
    pub fn why(&self) -> Option<&'static str> {
        match self.store {
            _ if self.leaving => Some("draining"),
            StoreState::Good => None,
            StoreState::Unreachable => Some("store-unreachable"),
            StoreState::ReadOnly => Some("store-read-only"),
        }
    }

    /// What is wrong with things that are not needed.
    pub fn finding(&self) -> Option<&'static str> {
        self.redis.and_then(LockState::finding)
    }
}

/// A store's answer, and by how many milliseconds its clock is ahead of this node's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub status: StoreStatus,
    pub skew_ms: i64,
}

/// Asks the store how it is. Its clock is compared with this node's in the middle of the trip.
pub(super) async fn ask(store: &DynStore, clock: &Clock) -> StoreResult<Asked> {
    let before = clock.now().0;
    let status = store.status().await?;
    let middle = before + clock.now().0.saturating_sub(before) / 2;
    Ok(Asked { status, skew_ms: status.now.0.saturating_sub(middle) })
}

/// What was found last. Whoever asks meanwhile waits for the same answer.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    known: Option<(Instant, StoreState, Option<LockState>)>,
    /// The question that the store has not answered yet: it is asked one at a time.
    asked: Option<JoinHandle<StoreResult<Asked>>>,
}

impl Found {
    async fn ask_store(&mut self, context: &Context) -> StoreState {
        let (store, clock) = (context.store.clone(), context.clock.clone());
        let asked = self.asked.get_or_insert_with(|| tokio::spawn(async move { ask(&store, &clock).await }));
        match time::timeout(READY_TIMEOUT, asked).await {
            Ok(answer) => {
                self.asked = None;
                let Ok(Ok(asked)) = answer else { return StoreState::Unreachable };
                context.metrics.skewed(asked.skew_ms);
                if asked.status.read_only { StoreState::ReadOnly } else { StoreState::Good }
            }
            Err(_) => StoreState::Unreachable,
        }
    }
}

impl Service {
    /// Whether this node can do its work, as of a moment ago.
    pub async fn readiness(&self) -> Readiness {
        let mut found = self.context.health.0.lock().await;
        let fresh = found.known.filter(|(at, ..)| at.elapsed() < READY_MEMORY);
        let (_, store, redis) = match fresh {
            Some(known) => known,
            None => {
                let (store, redis) = tokio::join!(found.ask_store(&self.context), self.context.gate.check());
                *found.known.insert((Instant::now(), store, redis))
            }
        };
        Readiness { leaving: self.context.leaving.is_cancelled(), store, redis }
    }

    /// What this node counts.
    pub fn metrics(&self) -> &Metrics {
        &self.context.metrics
    }

    /// What is counted, and what is there now, as OpenMetrics text; `connections` is what the listener has open.
    pub async fn measured(&self, connections: usize) -> String {
        let readiness = self.readiness().await;
        for (limit, total) in self.context.quota.limited() {
            self.context.metrics.limited_so_far(limit.as_str(), total);
        }
        self.context.metrics.text(&Levels {
            connections,
            commit_queue: self.context.committer.waiting(),
            topics: self.context.hub.followed_count(),
            store_up: readiness.store == StoreState::Good,
            redis_up: readiness.redis.map(|redis| redis == LockState::Good),
            draining: readiness.leaving,
        })
    }
}
