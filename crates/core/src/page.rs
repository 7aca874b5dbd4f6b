//! Positions and directions of reads.

use crate::{ThreadId, Timestamp, seq::Seq, thread::Thread};

/// Order of a thread list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListOrder {
    /// COALESCE(lastRunAt, updatedAt, createdAt), newest first, then id: for people.
    #[default]
    Recent,
    /// createdAt, oldest first, then id: the order does not shift between two pages; for scripts.
    Created,
}

/// Position in a thread list: the sort time and the id of the last thread seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPosition {
    /// Sort time of the last thread seen, by the list's order.
    pub at: Timestamp,
    /// Id of the last thread seen.
    pub id: ThreadId,
}

impl ListPosition {
    /// Position of a thread in a list of this order.
    pub fn of(thread: &Thread, order: ListOrder) -> Self {
        let at = match order {
            ListOrder::Recent => thread.last_run_at.unwrap_or(thread.updated_at),
            ListOrder::Created => thread.created_at,
        };
        Self { at, id: thread.id.clone() }
    }
}

/// Start and direction of a read of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// Events with seq above this, oldest first.
    After(Seq),
    /// The newest events with seq below this, also returned oldest first.
    Before(Seq),
}
