//! The lock port: the fast gate in front of the store's lease.
//!
//! A lock says that a run holds a thread, so that most second starts are refused without a write to the store. It is
//! never the reason why a run may append: that is the store's lease and fence. So a lock may be lost, doubled or
//! left over, and costs at most a look at the store.
//!
//! What every back-end must keep (the suite in `tests/contract/lock.rs` runs on each of them):
//!
//! - Of several runs that acquire a free lock at once, one gets it.
//! - A lock ends by itself after its time to live.
//! - Only its holder renews or releases it; a renewal restores one that has vanished.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::domain::{ProjectId, RunId, ThreadId};

pub mod local;
pub mod redis;

/// The lock cannot be asked. The store decides alone.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the lock cannot be asked: {0}")]
pub struct LockError(pub String);

/// Answer of a lock method.
pub type LockResult<T> = Result<T, LockError>;

/// Names the lock of a thread. Two threads never have the same name, whatever their ids contain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LockName(String);

impl LockName {
    /// The lock of this thread.
    pub fn new(project: &ProjectId, thread: &ThreadId) -> Self {
        // The project ends at the first colon.
        let project = project.as_str().replace('%', "%25").replace(':', "%3A");
        Self(format!("{project}:{thread}"))
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How what the locks are kept in was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockState {
    /// Locks can be taken.
    Good,
    /// No answer.
    Unreachable,
    /// A replica, which reads and takes no writes: a failover has left it behind, or the address is wrong.
    NoMaster,
    /// Answers, and refuses to keep a lock: out of memory, without the right, or one node of several that share the keys.
    TakesNoLocks,
}

impl LockState {
    /// The stable name of what is wrong; `None` if nothing is.
    pub fn finding(self) -> Option<&'static str> {
        match self {
            Self::Good => None,
            Self::Unreachable => Some("redis-unreachable"),
            Self::NoMaster => Some("redis-is-no-master"),
            Self::TakesNoLocks => Some("redis-takes-no-locks"),
        }
    }
}

/// A run that holds, or wants to hold, a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Which lock.
    pub name: LockName,
    /// Which run.
    pub run: RunId,
    /// How long the lock lives without a renewal.
    pub ttl: Duration,
}

/// Answer to [`Lock::acquire`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// The lock was free and is the run's now.
    Taken,
    /// The run had it already.
    Mine,
    /// Another holder has it.
    Held(String),
}

/// The gate to threads.
#[async_trait]
pub trait Lock: Send + Sync {
    /// Takes the lock if it is free.
    async fn acquire(&self, claim: &Claim) -> LockResult<Acquired>;

    /// Takes the lock from `holder`, whose run is known to be over. False if somebody else has it by now.
    async fn take_over(&self, claim: &Claim, holder: &str) -> LockResult<bool>;

    /// Gives locks their time to live anew, and restores those that have vanished. False for one that somebody else
    /// holds. Answers in order.
    async fn renew(&self, claims: &[Claim]) -> LockResult<Vec<bool>>;

    /// How what the locks are kept in is; `None` if that is nothing outside this process.
    async fn check(&self) -> Option<LockState> {
        None
    }

    /// Gives locks back that their runs still hold.
    async fn release(&self, locks: &[(LockName, RunId)]) -> LockResult<()>;
}

/// A lock as it is handed around.
pub type DynLock = Arc<dyn Lock>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_threads_share_a_name() {
        let name = |project: &str, thread: &str| {
            LockName::new(&ProjectId::new(project).expect("id"), &ThreadId::new(thread).expect("id")).to_string()
        };
        assert_eq!(name("p", "t"), "p:t");
        assert_ne!(name("a:b", "c"), name("a", "b:c"));
        assert_ne!(name("a%3Ab", "c"), name("a:b", "c"));
    }
}
