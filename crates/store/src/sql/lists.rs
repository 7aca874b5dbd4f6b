//! Choice of the statement that lists threads.

use threadline_core::{ListOrder, ThreadStatus};

use crate::ListThreads;

/// Statements that list threads, by order and state.
pub(crate) struct ListStatements {
    pub(crate) recent: &'static str,
    pub(crate) created: &'static str,
    pub(crate) recent_failed: &'static str,
    pub(crate) created_failed: &'static str,
    pub(crate) recent_waiting: &'static str,
    pub(crate) created_waiting: &'static str,
    pub(crate) running: &'static str,
}

impl ListStatements {
    /// Statement of a list, the time at which its first page starts, and its last parameter, if it has one more than the
    /// others.
    pub(crate) fn of(&self, list: &ListThreads) -> (&'static str, i64, Option<bool>) {
        let recent = list.order == ListOrder::Recent;
        let in_order = |by_recent, by_created| if recent { by_recent } else { by_created };
        let (text, last) = match list.status {
            None => (in_order(self.recent, self.created), Some(false)),
            Some(ThreadStatus::Idle) => (in_order(self.recent, self.created), Some(true)),
            Some(ThreadStatus::Failed) => (in_order(self.recent_failed, self.created_failed), None),
            Some(ThreadStatus::Waiting) => (in_order(self.recent_waiting, self.created_waiting), None),
            Some(ThreadStatus::Running) => (self.running, Some(recent)),
        };
        (text, if recent { i64::MAX } else { i64::MIN }, last)
    }
}
