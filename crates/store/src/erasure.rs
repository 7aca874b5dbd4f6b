//! Data that is removed by retention or erasure: threads that were not used for long, and users.

use async_trait::async_trait;
use threadline_core::{Footprint, ProjectId, Thread, ThreadKey, Timestamp, UserId};

use crate::error::StoreResult;

/// Result of a look at one window of all threads.
#[derive(Debug, Clone, Default)]
pub struct IdlePage {
    /// Threads of the window without an active run that were last used before the given time, in the order of their
    /// keys.
    pub threads: Vec<Thread>,
    /// Position after which the next window begins; `None` at the end.
    pub next: Option<ThreadKey>,
}

/// Finds idle threads, and removes the rows that a deleted user leaves behind.
#[async_trait]
pub trait ErasureStore: Send + Sync {
    /// Searches the next `window` keys after `after`, among threads and tombstones of all projects, for threads of this
    /// project that were last used (their sort time) before `before` and have no active run. One short statement, which
    /// needs no index of its own.
    async fn idle_threads(
        &self,
        project: &ProjectId,
        before: Timestamp,
        after: Option<ThreadKey>,
        window: usize,
    ) -> StoreResult<IdlePage>;

    /// Counts of the stored data of a user. Changes during the read may be counted or not.
    async fn footprint(&self, project: &ProjectId, user: &UserId) -> StoreResult<Footprint>;

    /// Removes a user's feed, and the tombstones of their deleted threads that were purged. Live threads, and
    /// tombstones with rows left, stay: delete and purge them first. A feed that is created later begins at 1, and
    /// has another epoch.
    async fn forget_user(&self, project: &ProjectId, user: &UserId) -> StoreResult<()>;
}
