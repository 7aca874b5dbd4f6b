//! The lock port: the fast gate in front of the store's lease.
//!
//! A lock says that a run holds a thread, so that most second starts are refused without a write to the store. It never
//! gives a run the right to append: that right comes from the store's lease and fence. So a lock may be lost, doubled
//! or left over, at the cost of at most one read of the store.
//!
//! Contract of every back-end (the suite in `tests/contract/lock.rs` runs on each of them):
//!
//! - Of several runs that acquire a free lock at once, one gets it.
//! - A lock expires after its time to live.
//! - Only the holder renews or releases a lock; a renewal restores one that has vanished.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use threadline_core::{ProjectId, RunId, ThreadId, UserId};

pub mod local;
pub mod redis;

/// The lock service does not respond. The store decides alone.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the lock does not respond: {0}")]
pub struct LockError(pub String);

/// Result of a lock method.
pub type LockResult<T> = Result<T, LockError>;

/// Name of a thread's lock. Two threads never have the same name, whatever their ids contain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LockName(String);

impl LockName {
    /// Name of the lock of this thread. Two users may have threads of one id.
    pub fn new(project: &ProjectId, user: &UserId, thread: &ThreadId) -> Self {
        // The project ends at the first colon, the user at the second one.
        let part = |id: &str| id.replace('%', "%25").replace(':', "%3A");
        Self(format!("{}:{}:{thread}", part(project.as_str()), part(user.as_str())))
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// State of the service that keeps the locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockState {
    /// Locks can be taken.
    Good,
    /// The service cannot be reached, or did not answer before the timeout.
    Unreachable,
    /// The server is a replica, which takes no writes: after a failover it lost its role, or the address is wrong.
    NoMaster,
    /// The server answers but refuses to keep a lock: out of memory, no permission, or one node of several that share
    /// the keys.
    TakesNoLocks,
}

impl LockState {
    /// Stable name of the fault; `None` if locks can be taken.
    pub fn finding(self) -> Option<&'static str> {
        match self {
            Self::Good => None,
            Self::Unreachable => Some("redis-unreachable"),
            Self::NoMaster => Some("redis-is-no-master"),
            Self::TakesNoLocks => Some("redis-takes-no-locks"),
        }
    }
}

/// Claim of a run to a thread: the run holds the lock or wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Lock of the thread.
    pub name: LockName,
    /// Run that holds or wants the lock.
    pub run: RunId,
    /// Time to live of the lock without a renewal.
    pub ttl: Duration,
}

/// Outcome of [`Lock::acquire`] for one claim: taken, held already, or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// The lock was free and now belongs to the run.
    Taken,
    /// The run already held the lock.
    Mine,
    /// Another holder has the lock: its run id, or an empty text if it expired between the two commands.
    Held(String),
}

/// Gate in front of the threads' leases.
#[async_trait]
pub trait Lock: Send + Sync {
    /// Takes the lock if it is free.
    async fn acquire(&self, claim: &Claim) -> LockResult<Acquired>;

    /// Takes the lock from `holder`, whose run is known to have ended. False if another run has it by now.
    async fn take_over(&self, claim: &Claim, holder: &str) -> LockResult<bool>;

    /// Renews the time to live of locks, and restores those that have vanished. False for a lock that another run
    /// holds. The answers are in the order of the claims.
    async fn renew(&self, claims: &[Claim]) -> LockResult<Vec<bool>>;

    /// State of the lock service; `None` if the locks are kept inside this process.
    async fn check(&self) -> Option<LockState> {
        None
    }

    /// Releases the locks that their runs still hold.
    async fn release(&self, locks: &[(LockName, RunId)]) -> LockResult<()>;
}

/// Shared handle of the lock.
pub type DynLock = Arc<dyn Lock>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_threads_share_a_name() {
        let name = |project: &str, user: &str, thread: &str| {
            let (project, user) = (ProjectId::new(project).expect("id"), UserId::new(user).expect("id"));
            LockName::new(&project, &user, &ThreadId::new(thread).expect("id")).to_string()
        };
        assert_eq!(name("p", "u", "t"), "p:u:t");
        assert_ne!(name("p", "u", "t"), name("p", "v", "t"));
        assert_ne!(name("a:b", "u", "c"), name("a", "u", "b:c"));
        assert_ne!(name("a", "b:c", "d"), name("a", "b", "c:d"));
        assert_ne!(name("a%3Ab", "u", "c"), name("a:b", "u", "c"));
    }
}
