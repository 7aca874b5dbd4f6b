//! Readiness of this node: its dependencies are checked, and the result is cached for a short time.

use std::sync::Arc;

use threadline_core::{
    Clock,
    limits::{READY_MEMORY, READY_TIMEOUT},
};
use threadline_store::{StatusStore, StoreResult};
use tokio::{
    sync::Mutex,
    task::JoinHandle,
    time::{self, Instant},
};

use crate::{
    cluster::lock::LockState,
    lifecycle::Lifecycle,
    metrics::Metrics,
    runs::lock_guard::LockGuard,
    store_status::{Asked, ask},
};

/// State of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreState {
    /// The store responds and accepts writes.
    Good,
    /// The store does not respond. Without the store no request can be served.
    Unreachable,
    /// The store responds but refuses writes: a standby, or a read-only database.
    ReadOnly,
}

/// Readiness of this node, with the state of its dependencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// True if the node should get no new requests: it will shut down soon, or is shutting down already.
    pub leaving: bool,
    /// State of the store, at most [`READY_MEMORY`] old.
    pub store: StoreState,
    /// State of Redis; `None` if Redis is not configured. Without Redis the store decides alone.
    pub redis: Option<LockState>,
}

impl Readiness {
    /// Stable name of the reason why this node should get no requests; `None` if it is ready.
    pub fn why(&self) -> Option<&'static str> {
        match self.store {
            _ if self.leaving => Some("draining"),
            StoreState::Good => None,
            StoreState::Unreachable => Some("store-unreachable"),
            StoreState::ReadOnly => Some("store-read-only"),
        }
    }

    /// Stable name of a fault in an optional dependency.
    pub fn finding(&self) -> Option<&'static str> {
        self.redis.and_then(LockState::finding)
    }
}

/// Latest check of the store and Redis. Concurrent callers wait for the same result.
pub(crate) struct Health {
    pub store: Arc<dyn StatusStore>,
    pub clock: Clock,
    pub metrics: Metrics,
    pub lock_guard: Arc<LockGuard>,
    pub lifecycle: Lifecycle,
    pub found: Mutex<Found>,
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    known: Option<(Instant, StoreState, Option<LockState>)>,
    /// Pending status request to the store: one at a time.
    asked: Option<JoinHandle<StoreResult<Asked>>>,
}

impl Found {
    async fn ask_store(&mut self, health: &Health) -> StoreState {
        let (store, clock) = (health.store.clone(), health.clock.clone());
        let asked = self.asked.get_or_insert_with(|| tokio::spawn(async move { ask(store.as_ref(), &clock).await }));
        match time::timeout(READY_TIMEOUT, asked).await {
            Ok(answer) => {
                self.asked = None;
                let Ok(Ok(asked)) = answer else { return StoreState::Unreachable };
                health.metrics.skewed(asked.skew_ms);
                if asked.status.read_only { StoreState::ReadOnly } else { StoreState::Good }
            }
            Err(_) => StoreState::Unreachable,
        }
    }
}

impl Health {
    /// The state of this node, at most [`READY_MEMORY`] old.
    pub async fn readiness(&self) -> Readiness {
        let mut found = self.found.lock().await;
        let fresh = found.known.filter(|(at, ..)| at.elapsed() < READY_MEMORY);
        let (_, store, redis) = match fresh {
            Some(known) => known,
            None => {
                let (store, redis) = tokio::join!(found.ask_store(self), self.lock_guard.check());
                *found.known.insert((Instant::now(), store, redis))
            }
        };
        Readiness { leaving: self.lifecycle.leaving.is_cancelled(), store, redis }
    }
}
