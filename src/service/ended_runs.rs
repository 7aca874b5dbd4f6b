//! Hands over the runs that end on this node, to whoever asked for them.

use std::sync::OnceLock;

use tokio::sync::mpsc;

use super::directory::ThreadRef;
use crate::{
    domain::{Epoch, Fence, LogSlice, ProjectId, RunId, ThreadId, ThreadKey, UserId},
    metrics::Metrics,
    store::Head,
};

/// A run whose terminal event was committed by this node.
#[derive(Debug, Clone)]
pub struct EndedRun {
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
}

/// Where ended runs go. Nowhere, as long as nobody asks for them.
#[derive(Debug, Default)]
pub(super) struct EndedRuns {
    to: OnceLock<mpsc::Sender<EndedRun>>,
}

impl EndedRuns {
    /// From now on they come here; only the first who asks gets them.
    pub fn watch(&self, room: usize) -> Option<mpsc::Receiver<EndedRun>> {
        let (sender, receiver) = mpsc::channel(room);
        self.to.set(sender).ok().map(|()| receiver)
    }

    /// Events were committed, perhaps the end of a run. Never waits: what finds no room is left out, and counted.
    pub fn note(&self, thread: &ThreadRef, head: &Head, slice: &LogSlice, metrics: &Metrics) {
        let (Some(to), None, Some(last)) = (self.to.get(), &head.active, slice.0.last()) else { return };
        let ended = EndedRun {
            key: thread.key,
            epoch: head.epoch,
            project: thread.project.clone(),
            user: thread.user.clone(),
            thread: thread.id.clone(),
            run: last.run.clone(),
            fence: head.fence,
        };
        if let Err(mpsc::error::TrySendError::Full(_)) = to.try_send(ended) {
            metrics.names.dropped.inc();
        }
    }
}
