//! Data that is removed by retention or erasure: threads that were not used for long, and users.

use async_trait::async_trait;
use threadline_core::{Footprint, ProjectId, Thread, ThreadKey, Timestamp, UserId};

use crate::error::StoreResult;

/// Place of a thread in the order of retention: the longest unused first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdlePlace {
    /// Time at which the thread was last used, as lists sort it.
    pub at: Timestamp,
    /// Key of the thread.
    pub key: ThreadKey,
}

/// A page of idle threads.
#[derive(Debug, Clone, Default)]
pub struct IdlePage {
    /// Threads of the page's places without an active run, and not restored since the given time.
    pub threads: Vec<Thread>,
    /// Place after which the next page begins; `None` at the end.
    pub next: Option<IdlePlace>,
}

/// Finds idle threads, and removes the rows that a deleted user leaves behind.
#[async_trait]
pub trait ErasureStore: Send + Sync {
    /// Reads the next `window` threads of a project after a place that were last used (their sort time) before `before`, the
    /// longest unused first. Those with an active run, and those that were restored since `before`, are left out.
    async fn idle_threads(
        &self,
        project: &ProjectId,
        before: Timestamp,
        after: Option<IdlePlace>,
        window: usize,
    ) -> StoreResult<IdlePage>;

    /// Counts of the stored data of a user. Changes during the read may be counted or not.
    async fn footprint(&self, project: &ProjectId, user: &UserId) -> StoreResult<Footprint>;

    /// Removes a user's key-value entries and feed, and the tombstones of their deleted threads that were purged. Live threads, and
    /// tombstones with rows left, stay: delete and purge them first. A feed that is created later begins at 1, and
    /// has another epoch.
    async fn forget_user(&self, project: &ProjectId, user: &UserId) -> StoreResult<()>;
}
