//! The feed: what changed in a user's list of threads.

use super::{Thread, ThreadId};

/// What happened to a thread, as far as a list needs to know.
#[derive(Debug, Clone, PartialEq)]
pub enum FeedChange {
    /// It exists and looks like this now (which may be newer than the change).
    Upsert(Box<Thread>),
    /// It is gone.
    Delete,
}

/// The newest change of one thread.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedEntry {
    /// Position in the user's feed: a reader that has seen it goes on after it.
    pub cursor: u64,
    /// The thread.
    pub thread_id: ThreadId,
    /// What it looks like now.
    pub change: FeedChange,
}
