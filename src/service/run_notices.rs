//! Tells of the runs that begin and end on this node, to whoever asked for it.

use std::sync::OnceLock;

use tokio::sync::mpsc;

use super::directory::ThreadRef;
use crate::{
    domain::{Epoch, Fence, LogSlice, ProjectId, RunId, ThreadId, ThreadKey, UserId, limits::NAMING_RUNS},
    metrics::Metrics,
    store::Head,
};

/// A run whose first events, or whose terminal event, were committed by this node.
#[derive(Debug, Clone)]
pub struct RunNotice {
    /// The incarnation of its thread.
    pub key: ThreadKey,
    /// The same, of its log.
    pub epoch: Epoch,
    /// The thread's tenant.
    pub project: ProjectId,
    /// The thread's owner.
    pub user: UserId,
    /// The thread.
    pub thread: ThreadId,
    /// The run.
    pub run: RunId,
    /// Its fence: 1 is the first run of the thread.
    pub fence: Fence,
    /// False: its first events came, and it goes on.
    pub has_ended: bool,
}

/// Where the notices go. Nowhere, as long as nobody asks for them.
#[derive(Debug, Default)]
pub(super) struct RunNotices {
    to: OnceLock<mpsc::Sender<RunNotice>>,
}

impl RunNotices {
    /// From now on they come here; only the first who asks gets them.
    pub fn watch(&self, room: usize) -> Option<mpsc::Receiver<RunNotice>> {
        let (sender, receiver) = mpsc::channel(room);
        self.to.set(sender).ok().map(|()| receiver)
    }

    /// Events were committed, perhaps the first of a run or its end. Never waits: an end that finds no room is left out, and
    /// counted; a beginning gives way to ends, which bring its thread up again.
    pub fn note(&self, thread: &ThreadRef, head: &Head, slice: &LogSlice, metrics: &Metrics) {
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
            metrics.names.dropped.inc();
        }
    }
}

/// Whether these are the first events of one of a thread's first runs. Events of a predecessor may stand before them.
fn is_beginning(head: &Head, slice: &LogSlice) -> bool {
    let (Some(active), Some(last)) = (&head.active, slice.0.last()) else { return false };
    let own = || slice.0.iter().filter(|batch| batch.run == last.run).map(|batch| batch.count()).sum::<u64>();
    head.fence.0 <= NAMING_RUNS && active.producer_seq == own()
}
