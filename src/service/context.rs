//! What the use cases share: the store, the hub, and the background tasks of this node.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    ServiceError,
    committer::Committer,
    directory::{Directory, ThreadRef},
    feed_writer::FeedWriter,
    followers::Census,
    gate::Gate,
    health::Health,
    heartbeats::Heartbeats,
    run_notices::RunNotices,
    sealer::Sealer,
    snapshots::Snapshots,
    wakeups,
};
use crate::{
    bus::{DynBus, NodeId},
    domain::{Clock, LogSlice, RunStatus, ThreadKey},
    metrics::Metrics,
    quota::Quota,
    store::{Closing, Committed, DynStore, Head},
    subscription::{Hub, TopicState},
};

/// What the use cases share. Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<Shared>);

/// How a predecessor was to be ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    status: RunStatus,
    /// Without a word in the log.
    silent: bool,
}

impl Ends {
    pub(super) fn of(closing: &Closing) -> Self {
        Self { status: closing.status, silent: closing.events.is_none() }
    }
}

/// See [`Context`].
pub struct Shared {
    pub(super) store: DynStore,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub(super) hub: Hub,
    pub(super) gate: Gate,
    pub(super) health: Health,
    pub(super) bus: DynBus,
    /// This node, as the others call it.
    pub(super) node: NodeId,
    pub(super) census: Census,
    pub(super) quota: Quota,
    /// Lease of a run whose producer names none.
    pub(super) lease: Duration,
    pub(super) directory: Directory,
    pub(super) committer: Committer,
    pub(super) heartbeats: Heartbeats,
    pub(super) feed_writer: FeedWriter,
    pub(super) run_notices: RunNotices,
    pub(super) sealer: Sealer,
    pub(super) snapshots: Snapshots,
    /// Places for conversations that are being folded.
    pub(super) folds: Arc<Semaphore>,
    /// Group commits made by this node.
    pub(super) commits: AtomicU64,
    pub(super) leaving: CancellationToken,
    pub(super) draining: CancellationToken,
    pub(super) stopping: CancellationToken,
    pub(super) failed: CancellationToken,
    pub(super) tasks: TaskTracker,
}

impl std::ops::Deref for Context {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Context {
    pub(super) fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// Runs one of the loops that the node lives by. Should it panic, the node is ended: better to start anew than to
    /// go on without it.
    pub(super) fn keep_running(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let context = self.clone();
        self.tasks.spawn(async move {
            if let Err(error) = tokio::spawn(work).await {
                tracing::error!(name, %error, "a background task failed: the server ends");
                context.failed.cancel();
            }
        });
    }

    /// Runs something that must end before the node does.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Refuses what would begin something new while the node is going away.
    pub(super) fn refuse_if_draining(&self) -> Result<(), ServiceError> {
        if self.draining.is_cancelled() { Err(ServiceError::Draining) } else { Ok(()) }
    }

    /// Whether the store still has this incarnation of a thread.
    pub(super) async fn exists(&self, key: ThreadKey) -> Result<bool, ServiceError> {
        Ok(!self.store.heads(&[key]).await?.is_empty())
    }

    /// Completes when background work is to end.
    pub(super) async fn stopped(&self) {
        self.stopping.cancelled().await;
    }

    /// Tells everyone what a commit has changed: followers, the sealer, and, if the thread's row changed, its feed.
    pub(super) fn published(&self, thread: &ThreadRef, head: &Head, slice: &LogSlice, row_changed: bool) {
        self.hub.commit(head, slice);
        wakeups::tell(self, thread.key, &TopicState::from(head));
        self.gate.committed(thread, head, slice);
        if !slice.0.is_empty() {
            self.count(slice);
            self.sealer.note(thread.key, slice, row_changed);
            self.snapshots.note(thread.key, slice, row_changed);
            self.run_notices.note(thread, head, slice, &self.metrics);
        }
        if row_changed {
            self.feed_writer.mark(&thread.project, &thread.user);
        }
    }

    fn count(&self, slice: &LogSlice) {
        let logged = &self.metrics.logged;
        logged.batches.inc();
        logged.events.inc_by(slice.count());
        logged.bytes.inc_by(slice.bytes() as u64);
    }

    /// A run ended here, with this status.
    pub(super) fn run_ended(&self, status: RunStatus) {
        let runs = &self.metrics.runs;
        match status {
            RunStatus::Finished | RunStatus::Stopped => drop(runs.finished.inc()),
            RunStatus::Error => drop(runs.failed.inc()),
            RunStatus::Abandoned => drop(runs.abandoned.inc()),
            RunStatus::Running | RunStatus::Finishing => {}
        }
    }

    /// A run has begun here, in the place of a predecessor that was to be ended.
    pub(super) fn run_began(&self, committed: &Committed, ends: Option<Ends>) {
        let runs = &self.metrics.runs;
        let closed = committed.slice.0.first().is_some_and(|batch| batch.run != committed.run.id);
        // The predecessor may have come to its end by itself in the meantime.
        if let Some(Ends { status, silent }) = ends
            && (silent || closed)
        {
            self.run_ended(status);
            runs.succeeded.inc();
        }
        if committed.run.status.is_active() {
            runs.started.inc();
        } else {
            runs.appended_whole.inc();
            self.run_ended(committed.run.status);
        }
    }

    /// Tells everyone, on all nodes, what has changed without an event.
    pub(super) fn news(&self, key: ThreadKey, state: &TopicState) {
        self.hub.advance(key, state);
        wakeups::tell(self, key, state);
    }

    /// The thread was deleted.
    pub(super) fn deleted(&self, thread: &ThreadRef) {
        self.directory.forget(thread);
        self.gate.deleted(thread.key);
        self.news(thread.key, &TopicState::GONE);
        self.feed_writer.mark(&thread.project, &thread.user);
        self.sealer.purge();
    }
}
