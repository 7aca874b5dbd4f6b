//! The lock inside one process: for one node, or for several nodes that share it.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use threadline_core::RunId;
use tokio::time::Instant;

use super::{Acquired, Claim, Lock, LockName, LockResult};

/// Expired locks are removed once the map has grown by this many entries since the last sweep.
const SWEEP_EVERY: usize = 1_024;

/// Locks in the memory of one process.
#[derive(Debug, Default)]
pub struct LocalLock {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    locks: HashMap<LockName, (String, Instant)>,
    sweep_at: usize,
}

impl State {
    fn holder(&self, name: &LockName) -> Option<&str> {
        let (holder, until) = self.locks.get(name)?;
        (*until > Instant::now()).then_some(holder)
    }

    fn hold(&mut self, claim: &Claim) {
        if self.locks.len() >= self.sweep_at {
            let now = Instant::now();
            self.locks.retain(|_, (_, until)| *until > now);
            self.sweep_at = self.locks.len() + SWEEP_EVERY;
        }
        self.locks.insert(claim.name.clone(), (claim.run.to_string(), Instant::now() + claim.ttl));
    }
}

impl LocalLock {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Lock for LocalLock {
    async fn acquire(&self, claim: &Claim) -> LockResult<Acquired> {
        let mut state = self.state();
        Ok(match state.holder(&claim.name) {
            Some(holder) if holder == claim.run.as_str() => Acquired::Mine,
            Some(holder) => Acquired::Held(holder.to_owned()),
            None => {
                state.hold(claim);
                Acquired::Taken
            }
        })
    }

    async fn take_over(&self, claim: &Claim, holder: &str) -> LockResult<bool> {
        let mut state = self.state();
        let free = state.holder(&claim.name).is_none_or(|now| now == holder);
        if free {
            state.hold(claim);
        }
        Ok(free)
    }

    async fn renew(&self, claims: &[Claim]) -> LockResult<Vec<bool>> {
        let mut state = self.state();
        let renewed = claims.iter().map(|claim| {
            let mine = state.holder(&claim.name).is_none_or(|holder| holder == claim.run.as_str());
            if mine {
                state.hold(claim);
            }
            mine
        });
        Ok(renewed.collect())
    }

    async fn release(&self, locks: &[(LockName, RunId)]) -> LockResult<()> {
        let mut state = self.state();
        for (name, run) in locks {
            if state.locks.get(name).is_some_and(|(holder, _)| holder == run.as_str()) {
                state.locks.remove(name);
            }
        }
        Ok(())
    }
}
