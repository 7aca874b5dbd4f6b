//! State shared by the commit loops.

use std::sync::{Arc, atomic::AtomicU64};

use threadline_core::{LogSlice, RunStatus, Terminal};
use threadline_store::{Append, Appended, DynStore, StoreClock};

use crate::{
    after_commit::{Commit, Listeners, RowChange},
    directory::Directory,
    lifecycle::Lifecycle,
    metrics::Metrics,
    records::ThreadRef,
    run_counts::count_ended,
    runs::advance::Queues,
};

/// Number of group commits made by this node: the value changes while producers wait for the store.
pub(crate) type CommitCount = Arc<AtomicU64>;

/// Dependencies of the commit loops.
pub(crate) struct Pipeline {
    pub store: DynStore,
    pub clock: StoreClock,
    pub directory: Directory,
    pub metrics: Metrics,
    pub listeners: Listeners,
    pub lifecycle: Lifecycle,
    pub commits: CommitCount,
    pub queues: Arc<Queues>,
}

impl Pipeline {
    /// Publishes a commit, never before it is durable: followers get the events, and lists learn of a run that ended.
    pub(crate) fn publish(&self, thread: &ThreadRef, append: &Append, appended: &Appended) {
        let slice = LogSlice::of(&append.events, appended.first_seq, &appended.run, appended.at);
        let terminal = append.events.terminal();
        let row = if terminal.is_some() { RowChange::Changed } else { RowChange::Unchanged };
        self.listeners.committed(&Commit { thread, head: &appended.head, slice: &slice, row });
        match terminal {
            Some(Terminal::Finished { .. }) => count_ended(&self.metrics, RunStatus::Finished),
            Some(Terminal::Error { .. }) => count_ended(&self.metrics, RunStatus::Error),
            None => {}
        }
    }
}
