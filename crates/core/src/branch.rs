//! Branches: threads that share the first part of a conversation.

use crate::{Epoch, ThreadId, seq::Seq};

/// Number that the branches of a conversation have in common: the epoch that the first of them had when it was first forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Family(pub i64);

/// Position in another thread's log up to which a thread's log is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkedFrom {
    /// Thread in whose log the last common event was written. It may have been deleted since.
    pub thread: ThreadId,
    /// Epoch of its log at that time.
    pub epoch: Epoch,
    /// Seq of the last event that both have.
    pub seq: Seq,
}

/// Place of a thread among the branches of its conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Family of the thread; `None` if it was never one of several branches.
    pub family: Option<Family>,
    /// True if lists and feeds show the thread: of a family they show one.
    pub listed: bool,
    /// Origin of the thread's first events; `None` of a thread that is no fork.
    pub forked_from: Option<ForkedFrom>,
}

impl Default for Branch {
    fn default() -> Self {
        Self { family: None, listed: true, forked_from: None }
    }
}
