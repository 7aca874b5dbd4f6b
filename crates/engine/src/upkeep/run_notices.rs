//! Notices of runs that begin and end on this node, for one subscriber.

use std::sync::OnceLock;

use threadline_core::{LogSlice, limits::NAMING_RUNS};
use threadline_store::Head;
use tokio::sync::mpsc;

use crate::{
    after_commit::{AfterCommit, Commit},
    metrics::Metrics,
    records::{RunNotice, ThreadRef},
};

/// Target of the notices; unset until the first call of [`RunNotices::watch`].
#[derive(Debug)]
pub(crate) struct RunNotices {
    to: OnceLock<mpsc::Sender<RunNotice>>,
    metrics: Metrics,
}

impl AfterCommit for RunNotices {
    fn committed(&self, commit: &Commit<'_>) {
        self.note(commit.thread, commit.head, commit.slice);
    }
}

impl RunNotices {
    pub fn new(metrics: Metrics) -> Self {
        Self { to: OnceLock::new(), metrics }
    }

    /// Subscribes to the notices, with a queue of `room` entries. `None` if there is a subscriber already.
    pub fn watch(&self, room: usize) -> Option<mpsc::Receiver<RunNotice>> {
        let (sender, receiver) = mpsc::channel(room);
        self.to.set(sender).ok().map(|()| receiver)
    }

    /// Handles a commit, which may hold the first events of a run or its end. Never waits: an end is dropped and
    /// counted if the queue is full; a beginning is dropped if the queue is half full, since the run's end will report
    /// the thread again.
    fn note(&self, thread: &ThreadRef, head: &Head, slice: &LogSlice) {
        let (Some(to), Some(last)) = (self.to.get(), slice.0.last()) else { return };
        let has_ended = head.active.is_none();
        let has_room = || to.capacity() > to.max_capacity() / 2;
        if !has_ended && (!is_beginning(head, slice) || !has_room()) {
            return;
        }
        let notice = RunNotice {
            key: thread.key,
            epoch: head.epoch,
            project: thread.project.clone(),
            user: thread.user.clone(),
            thread: thread.id.clone(),
            run: last.run.clone(),
            fence: head.fence,
            has_ended,
        };
        if let Err(mpsc::error::TrySendError::Full(_)) = to.try_send(notice)
            && has_ended
        {
            self.metrics.names.dropped.inc();
        }
    }
}

/// True for the first events of one of a thread's first runs. Events of a predecessor may precede them.
fn is_beginning(head: &Head, slice: &LogSlice) -> bool {
    let (Some(active), Some(last)) = (&head.active, slice.0.last()) else { return false };
    let own = || slice.0.iter().filter(|batch| batch.run == last.run).map(|batch| batch.count()).sum::<u64>();
    head.fence.ordinal() <= NAMING_RUNS && active.producer_seq == own()
}
