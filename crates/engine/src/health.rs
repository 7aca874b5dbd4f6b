//! Readiness of this node: the store is proven by beats, Redis by a check that is reused for a short time.

use std::sync::Arc;

use threadline_core::limits::{LIVE_TIMEOUT, READY_MEMORY};
use tokio::{
    runtime::Handle,
    sync::Mutex,
    time::{self, Instant},
};

use crate::{
    cluster::lock::LockState,
    lifecycle::Lifecycle,
    metrics::Metrics,
    nodes::{BeatMeasure, NodeBeats},
    runs::lock_guard::LockGuard,
    store_status::StoreState,
};

/// Readiness of this node, with the state of its dependencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// True if the node should get no new requests: it will shut down soon, or is shutting down already.
    pub leaving: bool,
    /// State of the store.
    pub store: StoreState,
    /// Latest beat that the store has acknowledged.
    pub beat: Option<BeatMeasure>,
    /// State of Redis, at most [`READY_MEMORY`] old; `None` if Redis is not configured. Without Redis the store decides
    /// alone.
    pub redis: Option<LockState>,
}

impl Readiness {
    /// Stable name of the reason why this node should get no requests; `None` if it is ready.
    pub fn why(&self) -> Option<&'static str> {
        match self.store {
            _ if self.leaving => Some("draining"),
            StoreState::Good => None,
            state => Some(state.name()),
        }
    }

    /// Stable name of a fault in an optional dependency.
    pub fn finding(&self) -> Option<&'static str> {
        self.redis.and_then(LockState::finding)
    }
}

/// True if a runtime runs a new task within [`LIVE_TIMEOUT`]. The caller may be on another runtime.
pub async fn responds(runtime: &Handle) -> bool {
    time::timeout(LIVE_TIMEOUT, runtime.spawn(async {})).await.is_ok_and(|done| done.is_ok())
}

/// Beats of this node, and the latest check of Redis. Concurrent callers wait for the same check.
pub(crate) struct Health {
    pub beats: Arc<NodeBeats>,
    pub metrics: Metrics,
    pub lock_guard: Arc<LockGuard>,
    pub lifecycle: Lifecycle,
    pub checked: Mutex<Option<(Instant, Option<LockState>)>>,
}

impl Health {
    /// The state of this node.
    pub async fn readiness(&self) -> Readiness {
        let redis = {
            let mut checked = self.checked.lock().await;
            match checked.filter(|(at, _)| at.elapsed() < READY_MEMORY) {
                Some((_, redis)) => redis,
                None => checked.insert((Instant::now(), self.lock_guard.check().await)).1,
            }
        };
        let (store, beat) = (self.beats.state().await, self.beats.measure());
        Readiness { leaving: self.lifecycle.leaving.is_cancelled(), store, beat, redis }
    }
}
