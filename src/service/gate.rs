//! The gate: asks the lock before the store, so that most second starts cost the store no write.
//!
//! The store decides. A lock that cannot be asked, has vanished, or was left over by a run that is over lets the start
//! pass to the store; only a lock whose run the store shows as active refuses it.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{self, Instant},
};

use super::{ServiceError, context::Context, directory::ThreadRef, error::ActiveRun};
use crate::{
    domain::{
        Fence, LogSlice, RunId, RunStatus, ThreadKey,
        limits::{LOCK_CHUNK, LOCK_TICK, MAX_LOCK_HEARTBEAT},
    },
    lock::{Acquired, Claim, DynLock, LockName, LockState},
    store::Head,
};

/// The lock, and the runs begun here for which it is kept.
pub(super) struct Gate {
    lock: DynLock,
    heartbeat: Duration,
    kept: Mutex<HashMap<ThreadKey, Kept>>,
    to_release: Mutex<Vec<(LockName, RunId)>>,
    wake: Notify,
}

/// A lock that is renewed while its run is active.
#[derive(Debug, Clone)]
struct Kept {
    claim: Claim,
    fence: Fence,
    renew_at: Instant,
}

/// What a start has been given at the gate.
#[derive(Debug)]
pub(super) struct Pass {
    claim: Claim,
    /// The lock was taken for this start: if the run does not begin, it is given back.
    taken: bool,
}

impl Gate {
    /// Locks are renewed every `heartbeat`, or more often where their time to live is short.
    pub fn new(lock: DynLock, heartbeat: Duration) -> Self {
        let heartbeat = heartbeat.clamp(LOCK_TICK, MAX_LOCK_HEARTBEAT);
        Self { lock, heartbeat, kept: Mutex::default(), to_release: Mutex::default(), wake: Notify::new() }
    }

    /// Before a start. Refuses it if the lock is held by a run that is active.
    pub async fn enter(
        &self,
        context: &Context,
        thread: &ThreadRef,
        run: &RunId,
        lease: Duration,
    ) -> Result<Pass, ServiceError> {
        let name = LockName::new(&thread.project, &thread.id);
        let claim = Claim { name, run: run.clone(), ttl: lease };
        let holder = match self.lock.acquire(&claim).await {
            Ok(Acquired::Taken) => return Ok(Pass { claim, taken: true }),
            Ok(Acquired::Mine) => return Ok(Pass { claim, taken: false }),
            Ok(Acquired::Held(holder)) => holder,
            Err(error) => {
                context.metrics.lock_errors.inc();
                tracing::debug!(%error, thread = %thread.id, run = %run, project = %thread.project, "the store decides alone");
                return Ok(Pass { claim, taken: false });
            }
        };
        // A start that is repeated gets the answer it got, whoever holds the thread now.
        if context.store.run(thread.key, run).await?.is_some() {
            return Ok(Pass { claim, taken: false });
        }
        if let Some(active) = active(context, thread).await? {
            context.metrics.conflicts.by_lock.inc();
            return Err(ServiceError::RunActive(Box::new(active)));
        }
        // Its run is over, or never reached the store.
        let taken = self.lock.take_over(&claim, &holder).await.unwrap_or(false);
        Ok(Pass { claim, taken })
    }

    /// How what the lock is kept in is; `None` if it is this process.
    pub async fn check(&self) -> Option<LockState> {
        self.lock.check().await
    }

    /// The run has begun: its lock is kept until it ends.
    pub fn begun(&self, thread: &ThreadRef, pass: Pass, head: &Head) {
        if head.active.is_some() {
            let renew_at = Instant::now() + self.interval(&pass.claim);
            self.kept().insert(thread.key, Kept { claim: pass.claim, fence: head.fence, renew_at });
        } else {
            self.free(pass.claim.name, pass.claim.run);
        }
    }

    /// The run has not begun.
    pub fn refused(&self, pass: Pass) {
        if pass.taken {
            self.free(pass.claim.name, pass.claim.run);
        }
    }

    /// A commit: if it ended the run, its lock goes, whichever node it was begun on.
    pub fn committed(&self, thread: &ThreadRef, head: &Head, slice: &LogSlice) {
        if head.active.is_some() {
            return;
        }
        let kept = self.kept().remove(&thread.key).map(|kept| kept.claim.run);
        if let Some(run) = slice.0.last().map(|batch| batch.run.clone()).or(kept) {
            self.free(LockName::new(&thread.project, &thread.id), run);
        }
    }

    /// The thread was deleted, and its run is over.
    pub fn deleted(&self, key: ThreadKey) {
        let kept = self.kept().remove(&key);
        if let Some(kept) = kept {
            self.free(kept.claim.name, kept.claim.run);
        }
    }

    fn free(&self, name: LockName, run: RunId) {
        self.to_release.lock().unwrap_or_else(PoisonError::into_inner).push((name, run));
        self.wake.notify_one();
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<ThreadKey, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A quarter of the time to live is left for a renewal that fails.
    fn interval(&self, claim: &Claim) -> Duration {
        self.heartbeat.min(claim.ttl * 3 / 4)
    }

    /// Gives back what is to be given back. What fails here ends by its time to live, and refuses nobody.
    async fn release(&self) {
        let locks = std::mem::take(&mut *self.to_release.lock().unwrap_or_else(PoisonError::into_inner));
        for locks in locks.chunks(LOCK_CHUNK) {
            if let Err(error) = self.lock.release(locks).await {
                tracing::debug!(%error, locks = locks.len(), "locks are left to expire");
                return;
            }
        }
    }

    /// Renews what is due, of runs that the store shows as active; forgets the others.
    async fn renew(&self, context: &Context) {
        let now = Instant::now();
        let mut due: Vec<(ThreadKey, Kept)> = {
            let kept = self.kept();
            kept.iter().filter(|(_, kept)| kept.renew_at <= now).map(|(key, kept)| (*key, kept.clone())).collect()
        };
        due.sort_unstable_by_key(|(key, _)| *key);
        for due in due.chunks(LOCK_CHUNK) {
            let keys: Vec<_> = due.iter().map(|(key, _)| *key).collect();
            // With the store away there is nothing that a lock could be in front of.
            let Ok(heads) = context.store.heads(&keys).await else { return };
            let active: HashMap<_, _> =
                heads.iter().filter(|head| head.active.is_some()).map(|head| (head.key, head.fence)).collect();
            let (alive, over): (Vec<_>, Vec<_>) =
                due.iter().partition(|(key, kept)| active.get(key) == Some(&kept.fence));
            for (key, kept) in over {
                self.forget(*key, kept.fence);
            }
            let claims: Vec<_> = alive.iter().map(|(_, kept)| kept.claim.clone()).collect();
            // A renewal that failed is tried again at the next tick.
            let Ok(renewed) = self.lock.renew(&claims).await else { return };
            for ((key, kept), mine) in alive.into_iter().zip(renewed) {
                if !mine {
                    // Somebody else's: the store will tell them. This run goes on without.
                    self.forget(*key, kept.fence);
                } else if let Some(now) = self.kept().get_mut(key).filter(|now| now.fence == kept.fence) {
                    now.renew_at = Instant::now() + self.interval(&now.claim);
                }
            }
        }
    }

    fn forget(&self, key: ThreadKey, fence: Fence) {
        let mut kept = self.kept();
        if kept.get(&key).is_some_and(|kept| kept.fence == fence) {
            kept.remove(&key);
        }
    }
}

/// The run that the store shows as active, unless its lease is over or its lock was released.
async fn active(context: &Context, thread: &ThreadRef) -> Result<Option<ActiveRun>, ServiceError> {
    let Some(run) = context.store.runs(thread.key, None, 1).await?.pop() else { return Ok(None) };
    let now = context.clock.now();
    let holds = run.status == RunStatus::Running && run.lease_until.is_some_and(|until| until > now);
    Ok(holds.then(|| ActiveRun::new(run, thread.epoch)))
}

/// The loop behind the gate: renews and gives back.
pub(super) async fn run(context: Context) {
    let mut tick = time::interval(LOCK_TICK);
    tick.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = context.gate.wake.notified() => context.gate.release().await,
            _ = tick.tick() => context.gate.renew(&context).await,
            () = context.stopped() => return context.gate.release().await,
        }
    }
}
