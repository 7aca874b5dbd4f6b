//! Feed of a user: the changes of the user's list of threads.

use super::{Thread, ThreadId};

/// Change of a thread, as far as a list of threads needs to know.
#[derive(Debug, Clone, PartialEq)]
pub enum FeedChange {
    /// The thread exists. The state given is the present one, which may be newer than the change.
    Upsert(Box<Thread>),
    /// The thread was deleted.
    Delete,
}

/// Newest change of one thread.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedEntry {
    /// Position in the user's feed: a reader that has seen this entry continues after it.
    pub cursor: u64,
    /// Id of the thread that changed.
    pub thread_id: ThreadId,
    /// Present state of the thread, or its deletion.
    pub change: FeedChange,
}
