//! Listeners on commits: followers, the other nodes, the lock, counters, background work.

use std::{sync::Arc, thread};

use threadline_core::{LogSlice, ThreadKey};
use threadline_store::Head;
use tokio_util::sync::CancellationToken;

use crate::{
    metrics::Metrics,
    records::ThreadRef,
    subscription::{Hub, TopicState},
};

/// Effect of a commit on the row of its thread, which lists and feeds show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowChange {
    Unchanged,
    Changed,
}

/// One durable commit of a thread.
pub(crate) struct Commit<'a> {
    pub thread: &'a ThreadRef,
    /// The head after the commit.
    pub head: &'a Head,
    /// The events committed; possibly none.
    pub slice: &'a LogSlice,
    pub row: RowChange,
}

/// A listener on what becomes durable. Every method is synchronous: it must not block, wait or fail.
pub(crate) trait AfterCommit: Send + Sync {
    /// A commit of a thread's log or head.
    fn committed(&self, _commit: &Commit<'_>) {}

    /// A change of a head without an event, such as a stop that is requested.
    fn topic_changed(&self, _key: ThreadKey, _state: &TopicState) {}

    /// The deletion of a thread. [`AfterCommit::topic_changed`] is called for it as well.
    fn deleted(&self, _thread: &ThreadRef) {}

    /// The move of a thread to the trash. Like a deletion, unless a listener tells them apart.
    fn trashed(&self, thread: &ThreadRef) {
        self.deleted(thread);
    }
}

impl<T: AfterCommit> AfterCommit for Arc<T> {
    fn committed(&self, commit: &Commit<'_>) {
        (**self).committed(commit);
    }

    fn topic_changed(&self, key: ThreadKey, state: &TopicState) {
        (**self).topic_changed(key, state);
    }

    fn deleted(&self, thread: &ThreadRef) {
        (**self).deleted(thread);
    }

    fn trashed(&self, thread: &ThreadRef) {
        (**self).trashed(thread);
    }
}

impl AfterCommit for Hub {
    fn committed(&self, commit: &Commit<'_>) {
        self.commit(commit.head, commit.slice);
    }

    fn topic_changed(&self, key: ThreadKey, state: &TopicState) {
        self.advance(key, state);
    }
}

/// Counts events, batches and bytes added to logs.
pub(crate) struct LogCounters(pub Metrics);

impl AfterCommit for LogCounters {
    fn committed(&self, commit: &Commit<'_>) {
        if commit.slice.0.is_empty() {
            return;
        }
        let logged = &self.0.logged;
        logged.batches.inc();
        logged.events.inc_by(commit.slice.count());
        logged.bytes.inc_by(commit.slice.bytes() as u64);
    }
}

/// All listeners of a node, in the order in which they are called. Clones share them.
#[derive(Clone)]
pub(crate) struct Listeners {
    listeners: Arc<[Box<dyn AfterCommit>]>,
    failed: CancellationToken,
}

/// Ends the node if a listener panics: those after it were not called, and readers would wait for ever.
struct FailOnPanic<'a>(&'a CancellationToken);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.cancel();
        }
    }
}

impl Listeners {
    /// Listeners in the order of calls. `failed` is cancelled if one of them panics.
    pub fn new(listeners: Vec<Box<dyn AfterCommit>>, failed: CancellationToken) -> Self {
        Self { listeners: listeners.into(), failed }
    }

    /// Reports a commit. The store must have confirmed it: no reader may see its events before.
    pub fn committed(&self, commit: &Commit<'_>) {
        self.each(|listener| listener.committed(commit));
    }

    /// Reports a head that changed without an event.
    pub fn topic_changed(&self, key: ThreadKey, state: &TopicState) {
        self.each(|listener| listener.topic_changed(key, state));
    }

    /// Reports a deleted thread.
    pub fn deleted(&self, thread: &ThreadRef) {
        self.each(|listener| listener.deleted(thread));
        self.topic_changed(thread.key, &TopicState::GONE);
    }

    /// Reports a thread that was put in the trash.
    pub fn trashed(&self, thread: &ThreadRef) {
        self.each(|listener| listener.trashed(thread));
        self.topic_changed(thread.key, &TopicState::GONE);
    }

    fn each(&self, tell: impl Fn(&dyn AfterCommit)) {
        let _guard = FailOnPanic(&self.failed);
        for listener in self.listeners.iter() {
            tell(&**listener);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::Mutex,
    };

    use super::*;

    struct Panicking;

    impl AfterCommit for Panicking {
        fn topic_changed(&self, _: ThreadKey, _: &TopicState) {
            panic!("planned");
        }
    }

    /// Listener that records its number at each call.
    struct Noting(u8, Arc<Mutex<Vec<u8>>>);

    impl AfterCommit for Noting {
        fn topic_changed(&self, _: ThreadKey, _: &TopicState) {
            self.1.lock().expect("no panic").push(self.0);
        }
    }

    #[test]
    fn listeners_are_called_in_the_order_in_which_they_stand() {
        let called = Arc::default();
        let noting = |number| -> Box<dyn AfterCommit> { Box::new(Noting(number, Arc::clone(&called))) };
        let listeners = Listeners::new(vec![noting(1), noting(2), noting(3)], CancellationToken::new());
        listeners.topic_changed(ThreadKey(1), &TopicState::GONE);
        assert_eq!(*called.lock().expect("no panic"), [1, 2, 3]);
    }

    #[test]
    fn a_listener_that_panics_ends_the_node() {
        let failed = CancellationToken::new();
        let listeners = Listeners::new(vec![Box::new(Panicking)], failed.clone());
        let told = catch_unwind(AssertUnwindSafe(|| listeners.topic_changed(ThreadKey(1), &TopicState::GONE)));
        assert!(told.is_err() && failed.is_cancelled());
    }
}
