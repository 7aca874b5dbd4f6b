//! Gate in front of starts: asks the lock before the store, so that most second starts cost the store no write.
//!
//! The store decides. If the lock service fails, or the lock has vanished or belongs to an ended run, the start passes
//! to the store. Only a lock whose run is active in the store refuses a start.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use threadline_core::{
    Fence, RunId, RunStatus, ThreadKey,
    limits::{LOCK_CHUNK, LOCK_TICK, MAX_LOCK_HEARTBEAT},
};
use threadline_store::{DynStore, Head, StoreClock};
use tokio::{
    sync::Notify,
    time::{self, Instant},
};

use crate::{
    StartError,
    after_commit::{AfterCommit, Commit},
    cluster::lock::{Acquired, Claim, DynLock, LockName, LockState},
    errors::ActiveRun,
    lifecycle::Lifecycle,
    metrics::Metrics,
    records::ThreadRef,
};

/// The lock service, and the locks of active runs that this node began.
pub(crate) struct LockGuard {
    lock: DynLock,
    store: DynStore,
    clock: StoreClock,
    metrics: Metrics,
    heartbeat: Duration,
    held: Mutex<HashMap<ThreadKey, HeldLock>>,
    to_release: Mutex<Vec<(LockName, RunId)>>,
    wake: Notify,
}

/// Lock that is renewed while its run is active.
#[derive(Debug, Clone)]
struct HeldLock {
    claim: Claim,
    fence: Fence,
    renew_at: Instant,
}

/// Permission of a start to go to the store.
#[derive(Debug)]
pub(crate) struct LockToken {
    claim: Claim,
    /// True if the lock was taken for this start: if the run does not begin, the lock is released.
    taken: bool,
}

impl LockGuard {
    /// Renews locks every `heartbeat`, or more often if their time to live is short.
    pub fn new(lock: DynLock, heartbeat: Duration, store: DynStore, clock: StoreClock, metrics: Metrics) -> Self {
        let heartbeat = heartbeat.clamp(LOCK_TICK, MAX_LOCK_HEARTBEAT);
        let (held, to_release) = (Mutex::default(), Mutex::default());
        Self { lock, store, clock, metrics, heartbeat, held, to_release, wake: Notify::new() }
    }

    /// Checks the lock before a start. Refuses the start if the lock's run is active.
    pub async fn enter(&self, thread: &ThreadRef, run: &RunId, lease: Duration) -> Result<LockToken, StartError> {
        let name = LockName::new(&thread.project, &thread.user, &thread.id);
        let claim = Claim { name, run: run.clone(), ttl: lease };
        let holder = match self.lock.acquire(&claim).await {
            Ok(Acquired::Taken) => return Ok(LockToken { claim, taken: true }),
            Ok(Acquired::Mine) => return Ok(LockToken { claim, taken: false }),
            Ok(Acquired::Held(holder)) => holder,
            Err(error) => {
                self.metrics.lock_errors.inc();
                tracing::debug!(%error, thread = %thread.id, run = %run, project = %thread.project, "cannot use the lock; the store alone decides");
                return Ok(LockToken { claim, taken: false });
            }
        };
        // A repeated start gets the same answer as before, even if another run holds the thread now.
        if self.store.run(thread.key, run).await?.is_some() {
            return Ok(LockToken { claim, taken: false });
        }
        if let Some(active) = self.active(thread).await? {
            self.metrics.conflicts.by_lock.inc();
            return Err(StartError::RunActive(Box::new(active)));
        }
        // The holder's run has ended, or never reached the store.
        let taken = self.lock.take_over(&claim, &holder).await.unwrap_or(false);
        Ok(LockToken { claim, taken })
    }

    /// State of the lock service; `None` if the locks are in this process.
    pub async fn check(&self) -> Option<LockState> {
        self.lock.check().await
    }

    /// Keeps the lock of a run that has begun until the run ends.
    pub fn commit(&self, thread: &ThreadRef, token: LockToken, head: &Head) {
        if head.active.is_some() {
            let renew_at = Instant::now() + self.interval(&token.claim);
            self.held().insert(thread.key, HeldLock { claim: token.claim, fence: head.fence, renew_at });
        } else {
            self.free(token.claim.name, token.claim.run);
        }
    }

    /// Releases the lock if it was taken for a start that failed.
    pub fn cancel(&self, token: LockToken) {
        if token.taken {
            self.free(token.claim.name, token.claim.run);
        }
    }

    fn free(&self, name: LockName, run: RunId) {
        self.to_release.lock().unwrap_or_else(PoisonError::into_inner).push((name, run));
        self.wake.notify_one();
    }

    fn held(&self) -> MutexGuard<'_, HashMap<ThreadKey, HeldLock>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Interval of renewals: a quarter of the time to live is left to retry a failed renewal.
    fn interval(&self, claim: &Claim) -> Duration {
        self.heartbeat.min(claim.ttl * 3 / 4)
    }

    /// Releases the queued locks. A lock that cannot be released expires, and refuses no start.
    async fn release(&self) {
        let locks = std::mem::take(&mut *self.to_release.lock().unwrap_or_else(PoisonError::into_inner));
        for locks in locks.chunks(LOCK_CHUNK) {
            if let Err(error) = self.lock.release(locks).await {
                tracing::debug!(%error, locks = locks.len(), "cannot release locks; they will expire");
                return;
            }
        }
    }

    /// Renews the due locks of runs that are active in the store; forgets the others.
    async fn renew(&self) {
        let now = Instant::now();
        let mut due: Vec<(ThreadKey, HeldLock)> = {
            let held = self.held();
            held.iter().filter(|(_, held)| held.renew_at <= now).map(|(key, held)| (*key, held.clone())).collect()
        };
        due.sort_unstable_by_key(|(key, _)| *key);
        for due in due.chunks(LOCK_CHUNK) {
            let keys: Vec<_> = due.iter().map(|(key, _)| *key).collect();
            // While the store is unavailable no run can start, so a renewal is useless.
            let Ok(heads) = self.store.heads(&keys).await else { return };
            let active: HashMap<_, _> =
                heads.iter().filter(|head| head.active.is_some()).map(|head| (head.key, head.fence)).collect();
            let (alive, over): (Vec<_>, Vec<_>) =
                due.iter().partition(|(key, held)| active.get(key) == Some(&held.fence));
            for (key, held) in over {
                self.forget(*key, held.fence);
            }
            let claims: Vec<_> = alive.iter().map(|(_, held)| held.claim.clone()).collect();
            // A failed renewal is retried at the next tick.
            let Ok(renewed) = self.lock.renew(&claims).await else { return };
            for ((key, held), mine) in alive.into_iter().zip(renewed) {
                // Another run may have the lock until the store has refused its start: the next tick tries again.
                if mine && let Some(now) = self.held().get_mut(key).filter(|now| now.fence == held.fence) {
                    now.renew_at = Instant::now() + self.interval(&now.claim);
                }
            }
        }
    }

    /// The run that is active in the store, unless its lease has expired or its lock was released.
    async fn active(&self, thread: &ThreadRef) -> Result<Option<ActiveRun>, StartError> {
        let Some(run) = self.store.runs(thread.key, None, 1).await?.pop() else { return Ok(None) };
        let now = self.clock.now();
        let holds = run.status == RunStatus::Running && run.lease_until.is_some_and(|until| until > now);
        Ok(holds.then(|| ActiveRun::new(run, thread.epoch)))
    }

    fn forget(&self, key: ThreadKey, fence: Fence) {
        let mut held = self.held();
        if held.get(&key).is_some_and(|held| held.fence == fence) {
            held.remove(&key);
        }
    }
}

impl AfterCommit for LockGuard {
    /// Releases the lock if the commit ended its run, also of a run begun on another node.
    fn committed(&self, commit: &Commit<'_>) {
        if commit.head.active.is_some() {
            return;
        }
        let thread = commit.thread;
        let held = self.held().remove(&thread.key).map(|held| held.claim.run);
        if let Some(run) = commit.slice.0.last().map(|batch| batch.run.clone()).or(held) {
            self.free(LockName::new(&thread.project, &thread.user, &thread.id), run);
        }
    }

    /// Releases the lock: the thread's run has ended with the thread.
    fn deleted(&self, thread: &ThreadRef) {
        let held = self.held().remove(&thread.key);
        if let Some(held) = held {
            self.free(held.claim.name, held.claim.run);
        }
    }
}

/// Loop of the gate: renews and releases locks.
pub(crate) async fn run(lock_guard: Arc<LockGuard>, lifecycle: Lifecycle) {
    let mut tick = time::interval(LOCK_TICK);
    tick.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = lock_guard.wake.notified() => lock_guard.release().await,
            _ = tick.tick() => lock_guard.renew().await,
            () = lifecycle.stopped() => return lock_guard.release().await,
        }
    }
}
