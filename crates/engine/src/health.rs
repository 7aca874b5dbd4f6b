//! Readiness of this node: beats prove that the store commits, and Redis is checked at intervals. Probes cause no work.

use std::sync::Arc;

use threadline_core::limits::{DURABILITY_CHECK, LIVE_TIMEOUT, MAX_SKEW, READY_TIMEOUT, REDIS_CHECK};
use threadline_store::{Durability, DynStore};
use tokio::{runtime::Handle, sync::watch, time};

use crate::{
    cluster::{bus::DynBus, lock::LockState, witness::RedisWitness},
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
    /// State of Redis at its last check; `None` if Redis is not configured. Without Redis the store decides alone.
    pub redis: Option<RedisState>,
    /// Copies of each commit, by the last check of the store; `None` before the first one has succeeded.
    pub durability: Option<Durability>,
}

/// State of Redis, as its last check has found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedisState {
    /// State of the locks.
    pub lock: LockState,
    /// True if a message of this node to itself arrived.
    pub delivers: bool,
}

impl RedisState {
    /// Checks by their names in metrics, with their results.
    pub fn checks(self) -> [(&'static str, bool); 3] {
        let master = matches!(self.lock, LockState::Good | LockState::TakesNoLocks);
        [("role", master), ("write", self.lock == LockState::Good), ("publish", self.delivers)]
    }

    /// True if all checks have passed.
    pub fn is_good(self) -> bool {
        self.lock == LockState::Good && self.delivers
    }
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

    /// Stable names of what an operator has to act on, although the node is ready. A Redis that cannot be reached is
    /// one finding.
    pub fn findings(&self) -> Vec<&'static str> {
        let loses = (self.durability == Some(Durability::Asynchronous)).then_some(Durability::Asynchronous.name());
        let skew = self.beat.and_then(|beat| beat.skew_ms).unwrap_or(0);
        let skewed = u128::from(skew.unsigned_abs()) > MAX_SKEW.as_millis();
        let redis = self.redis.map_or([None, None], |RedisState { lock, delivers }| {
            let silent = !delivers && lock != LockState::Unreachable;
            [lock.finding(), silent.then_some("redis-delivers-no-messages")]
        });
        redis.into_iter().flatten().chain(loses).chain(skewed.then_some("clock-skew")).collect()
    }
}

/// True if a runtime runs a new task within [`LIVE_TIMEOUT`]. The caller may be on another runtime.
pub async fn responds(runtime: &Handle) -> bool {
    time::timeout(LIVE_TIMEOUT, runtime.spawn(async {})).await.is_ok_and(|done| done.is_ok())
}

/// Beats of this node, and the latest check of Redis.
pub(crate) struct Health {
    pub store: DynStore,
    pub beats: Arc<NodeBeats>,
    pub metrics: Metrics,
    pub lock_guard: Arc<LockGuard>,
    pub lifecycle: Lifecycle,
    pub bus: DynBus,
    pub witness: Option<RedisWitness>,
    /// Result of the last check of Redis: `None` before the first one, `Some(None)` if Redis is not configured.
    pub redis: watch::Sender<Option<Option<RedisState>>>,
    /// Copies of each commit, once a check has succeeded.
    pub durability: watch::Sender<Option<Durability>>,
}

impl Health {
    /// The state of this node. Right after the start, waits for the first results, for [`READY_TIMEOUT`] at most.
    pub async fn readiness(&self) -> Readiness {
        let mut redis = self.redis.subscribe();
        // A check has a shorter timeout than this one, after which Redis counts as unreachable.
        let checked = async { redis.wait_for(Option::is_some).await.ok().and_then(|checked| *checked) };
        let checked = time::timeout(READY_TIMEOUT, checked).await;
        let unreachable = Some(RedisState { lock: LockState::Unreachable, delivers: false });
        let redis = checked.ok().flatten().unwrap_or(unreachable);
        let (store, beat) = (self.beats.state().await, self.beats.measure());
        let durability = *self.durability.borrow();
        Readiness { leaving: self.lifecycle.leaving.is_cancelled(), store, beat, redis, durability }
    }

    async fn check_redis(&self) -> Option<RedisState> {
        let (lock, delivers, ()) = tokio::join!(self.lock_guard.check(), self.bus.echo(), self.witness());
        if lock.is_none() && delivers.is_none() {
            return None;
        }
        Some(RedisState { lock: lock.unwrap_or(LockState::Good), delivers: delivers.unwrap_or(true) })
    }
}

impl Health {
    /// Has the newest beat of this node witnessed. A failure costs only the detection of data that is put back.
    async fn witness(&self) {
        let (Some(witness), Some(beat)) = (&self.witness, self.beats.witnessed()) else { return };
        // After the first beat in the generation that the loss has opened, which counts what this node has lost by itself.
        if let Some(loss) = witness.take_loss() {
            self.metrics.lineage.lost(loss);
        }
        if let Err(error) = witness.note(&self.store, &beat).await {
            tracing::debug!(%error, "cannot have a beat witnessed in Redis");
        }
    }
}

/// Loop that checks the durability of commits. A check that fails changes nothing: the beats show a store that does not
/// respond.
pub(crate) async fn watch_durability(health: Arc<Health>) {
    let mut ticks = health.lifecycle.every(DURABILITY_CHECK);
    while ticks.next().await {
        let found = tokio::select! {
            found = health.store.durability() => found,
            () = health.lifecycle.stopped() => return,
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "cannot find out the durability of commits");
                continue;
            }
        };
        health.metrics.keeps(found);
        let before = health.durability.send_replace(Some(found));
        match found {
            _ if before == Some(found) => {}
            Durability::Asynchronous => tracing::error!(
                "commits are acknowledged before a standby has them, so a failover may lose some: set \
                 synchronous_standby_names, and synchronous_commit to on"
            ),
            Durability::Single | Durability::Synchronous => {
                tracing::info!(durability = found.name(), "durability of commits");
            }
        }
    }
}

/// Loop of checks of Redis, if it is configured.
pub(crate) async fn watch_redis(health: Arc<Health>) {
    let mut ticks = health.lifecycle.every(REDIS_CHECK);
    let mut good = true;
    while ticks.next().await {
        let state = tokio::select! {
            state = health.check_redis() => state,
            () = health.lifecycle.stopped() => return,
        };
        health.redis.send_replace(Some(state));
        let Some(state) = state else { return };
        if state.is_good() != good {
            good = !good;
            let [role, write, publish] = state.checks().map(|(_, passed)| passed);
            if good {
                tracing::info!("Redis passes all checks");
            } else {
                tracing::warn!(role, write, publish, "Redis fails a check; the store alone decides on starts");
            }
        }
    }
}
