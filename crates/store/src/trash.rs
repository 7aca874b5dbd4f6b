//! The trash: threads that retention has taken from their users, and that can be restored until they are purged.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{
    AuditEntry, ProjectId, Thread, ThreadId, ThreadKey, Timestamp, TrashPage, TrashPosition, UserId,
};

use crate::error::StoreResult;

/// Outcome of a restoration.
#[derive(Debug, Clone, PartialEq)]
pub enum Restoration {
    /// The thread is back, by this call or by an earlier one.
    Restored(Box<Thread>),
    /// Another thread has the id: one of the same user, or one that has claimed it as the thread in the trash would.
    Taken,
    /// No thread of this id is in the trash.
    Absent,
    /// Threads of several users with this id are in the trash, and no user was named.
    Ambiguous,
}

/// Project of which retention would put unusually many threads in the trash: it waits for an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionHold {
    /// Id of the project.
    pub project: ProjectId,
    /// Threads that are idle.
    pub idle: u64,
    /// All threads of the project.
    pub threads: u64,
    /// Threads that may be put in the trash by approval; 0 before it.
    pub approved: u64,
}

/// Holds of retention: projects whose sweep waits for people.
#[async_trait]
pub trait HoldStore: Send + Sync {
    /// Number of idle threads of a project, as [`TrashStore::trash`] judges them, counted up to `bound`.
    async fn count_idle(&self, project: &ProjectId, before: Timestamp, bound: usize) -> StoreResult<u64>;

    /// Number of threads of a project.
    async fn count_own(&self, project: &ProjectId) -> StoreResult<u64>;

    /// Notes that retention waits. The approval of an earlier hold stays. True, and the entry is in the audit with the same
    /// commit, if retention did not wait before.
    async fn hold(&self, hold: &RetentionHold, entry: &AuditEntry) -> StoreResult<bool>;

    /// Holds of all projects, in the order of their ids.
    async fn holds(&self) -> StoreResult<Vec<RetentionHold>>;

    /// Approves that so many threads are put in the trash; the entry is in the audit with the same commit. `None`, and
    /// nothing is stored, if retention does not wait.
    async fn approve(&self, project: &ProjectId, count: u64, entry: &AuditEntry) -> StoreResult<Option<RetentionHold>>;

    /// Takes threads that were put in the trash from the approved number; with none left, the hold ends.
    async fn spend(&self, project: &ProjectId, count: u64) -> StoreResult<()>;

    /// Ends the hold of a project, if there is one.
    async fn end_hold(&self, project: &ProjectId) -> StoreResult<()>;
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
    async fn trashed(&self, project: &ProjectId, after: Option<&TrashPosition>, limit: usize)
    -> StoreResult<TrashPage>;

    /// Restores the thread of this id, and of this user if one is named, that was put in the trash last: its log, its epoch and all cursors are as they were. The
    /// restoration counts as use, and its entry is in the audit with the same commit. A repetition changes nothing.
    async fn restore(
        &self,
        project: &ProjectId,
        user: Option<&UserId>,
        id: &ThreadId,
        entry: &AuditEntry,
    ) -> StoreResult<Restoration>;

    /// Keys of a user's threads in the trash, up to `limit`.
    async fn trash_of(&self, project: &ProjectId, user: &UserId, limit: usize) -> StoreResult<Vec<ThreadKey>>;

    /// Takes a thread out of the trash for good: [`crate::ThreadStore::purge`] removes its rows from then on. False if the
    /// thread is not in the trash, or its time has not come and `early` is false.
    async fn discard(&self, key: ThreadKey, early: bool) -> StoreResult<bool>;
}
