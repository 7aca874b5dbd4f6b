//! The trash: threads that retention has taken from their users, and that can be restored until they are purged.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{ListPosition, ProjectId, Thread, ThreadId, ThreadKey, Timestamp, TrashPage, UserId};

use crate::error::StoreResult;

/// Outcome of a restoration.
#[derive(Debug, Clone, PartialEq)]
pub enum Restoration {
    /// The thread is back, by this call or by an earlier one.
    Restored(Box<Thread>),
    /// Another thread has the id.
    Taken,
    /// No thread of this id is in the trash.
    Absent,
}

/// Access to the trash. A thread there has no head under its key: no start, append, read or change finds it, however long
/// ago its key was looked up.
#[async_trait]
pub trait TrashStore: Send + Sync {
    /// Puts those of the threads in the trash that are still idle: without an active run, last used before `before`, and
    /// not restored since. Each is gone for its user in the same commit, its feed reports a deletion, and a job `purge`
    /// is due after `grace`. Returns the keys of the threads.
    async fn trash(
        &self,
        project: &ProjectId,
        keys: &[ThreadKey],
        before: Timestamp,
        grace: Duration,
    ) -> StoreResult<Vec<ThreadKey>>;

    /// A page of the trash of a project.
    async fn trashed(&self, project: &ProjectId, after: Option<&ListPosition>, limit: usize) -> StoreResult<TrashPage>;

    /// Restores the thread of this id that was put in the trash last: its log, its epoch and all cursors are as they were. The
    /// restoration counts as use, and a repetition changes nothing.
    async fn restore(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<Restoration>;

    /// Keys of a user's threads in the trash, up to `limit`.
    async fn trash_of(&self, project: &ProjectId, user: &UserId, limit: usize) -> StoreResult<Vec<ThreadKey>>;

    /// Takes a thread out of the trash for good: [`crate::ThreadStore::purge`] removes its rows from then on. False if the
    /// thread is not in the trash, or its time has not come and `early` is false.
    async fn discard(&self, key: ThreadKey, early: bool) -> StoreResult<bool>;
}
