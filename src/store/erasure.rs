//! What goes away by itself or for good: threads that nobody has used for long, and users.

use async_trait::async_trait;

use super::StoreResult;
use crate::domain::{Footprint, ProjectId, Thread, ThreadKey, Timestamp, UserId};

/// What a look over a part of all threads has found.
#[derive(Debug, Clone, Default)]
pub struct IdlePage {
    /// Threads without an active run that were used last before the time asked for, in the order of their keys.
    pub threads: Vec<Thread>,
    /// Where to look next; `None` at the end.
    pub next: Option<ThreadKey>,
}

/// Finds what is old, and removes what a user leaves behind.
#[async_trait]
pub trait ErasureStore: Send + Sync {
    /// Looks at the next `window` keys behind `after`, whosever threads and tombstones they are, for threads of a project
    /// that were used last (their sort time) before `before` and have no active run. One short statement, which needs no
    /// index of its own.
    async fn idle_threads(
        &self,
        project: &ProjectId,
        before: Timestamp,
        after: Option<ThreadKey>,
        window: usize,
    ) -> StoreResult<IdlePage>;

    /// What there is of a user. What changes meanwhile may be counted or not.
    async fn footprint(&self, project: &ProjectId, user: &UserId) -> StoreResult<Footprint>;

    /// Removes a user's feed, and the tombstones of their deleted threads that were purged. Threads that live, and
    /// tombstones with rows left, stay: delete and purge them first. A feed that comes to be later begins at 1.
    async fn forget_user(&self, project: &ProjectId, user: &UserId) -> StoreResult<()>;
}
