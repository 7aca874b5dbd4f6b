//! The trash of a project: threads that retention has taken from their users.

use super::{Thread, ThreadId, Timestamp, UserId};

/// A thread in the trash.
#[derive(Debug, Clone, PartialEq)]
pub struct TrashedThread {
    /// The thread as it was.
    pub thread: Thread,
    /// Time at which it was put in the trash.
    pub at: Timestamp,
    /// Time from which it is removed for good.
    pub purge_at: Timestamp,
}

/// Position of a thread in the trash. Threads of several users may have one id, and be put there at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrashPosition {
    /// Time at which the thread was put in the trash.
    pub at: Timestamp,
    /// Id of the thread.
    pub id: ThreadId,
    /// User who owns the thread.
    pub user: UserId,
}

/// A page of the trash.
#[derive(Debug, Clone, Default)]
pub struct TrashPage {
    /// Threads, those that were put in the trash last first.
    pub threads: Vec<TrashedThread>,
    /// Position after which the next page begins; `None` at the end.
    pub next: Option<TrashPosition>,
}

impl TrashPage {
    /// A page of at most `limit` of these threads, which are in the order of the list. More than `limit` of them mean that
    /// there is a next page.
    pub fn of(mut threads: Vec<TrashedThread>, limit: usize) -> Self {
        let more = threads.len() > limit;
        threads.truncate(limit);
        let last = threads.last().filter(|_| more);
        let next =
            last.map(|last| TrashPosition { at: last.at, id: last.thread.id.clone(), user: last.thread.user.clone() });
        Self { threads, next }
    }
}
