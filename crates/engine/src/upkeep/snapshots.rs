//! Writes snapshots of projections in the background, so that a read of a conversation costs only the newer events.

use threadline_core::{
    LogSlice, ProjectId, Seq, ThreadKey,
    limits::{COMMIT_QUEUE, SNAPSHOT_EVENTS, SNAPSHOT_MIN_BYTES, SNAPSHOT_SHARE},
    projection::{conversation::Conversation, spacing},
};
use threadline_store::{Snapshot, Unprojected};
use tokio::{sync::mpsc, time::Duration};

use crate::{
    ProjectionError,
    after_commit::{AfterCommit, Commit, RowChange},
    lifecycle::Lifecycle,
    limits::BudgetOwner,
    read::folding::{Folded, Folder},
    records::ThreadRef,
};

/// Queues threads whose snapshot may be due: at the end of a run, and every [`SNAPSHOT_EVENTS`] events of a long run.
#[derive(Debug)]
pub(crate) struct Snapshots {
    due: mpsc::Sender<Due>,
}

/// Thread whose snapshot may be due, and the project whose memory it takes.
pub(crate) type Due = (ThreadKey, ProjectId);

impl Snapshots {
    pub fn new() -> (Self, mpsc::Receiver<Due>) {
        let (due, receiver) = mpsc::channel(COMMIT_QUEUE);
        (Self { due }, receiver)
    }

    /// Handles committed events; `ended` is true at the end of a run. A snapshot is a cache: if the queue is full, it
    /// is skipped, and the next run makes it.
    fn note(&self, thread: &ThreadRef, slice: &LogSlice, ended: bool) {
        let passed = |seq: Seq| seq / SNAPSHOT_EVENTS;
        let (first, last) = (slice.first_seq().unwrap_or(0), slice.last_seq().unwrap_or(0));
        if ended || passed(first.saturating_sub(1)) != passed(last) {
            let _ = self.due.try_send((thread.key, thread.project.clone()));
        }
    }
}

impl AfterCommit for Snapshots {
    fn committed(&self, commit: &Commit<'_>) {
        if !commit.slice.0.is_empty() {
            self.note(commit.thread, commit.slice, commit.row == RowChange::Changed);
        }
    }
}

/// True if a snapshot is worth its cost: the new events reach a share of the old snapshot's size. So all snapshots of a
/// thread together cost a small multiple of its log, and a reader folds at most that share.
fn is_due(lacking: &Unprojected) -> bool {
    lacking.bytes >= SNAPSHOT_MIN_BYTES.max(lacking.snapshot_bytes / SNAPSHOT_SHARE)
}

/// Loop that writes the snapshots of queued threads.
pub(crate) async fn run(folder: Folder, lifecycle: Lifecycle, mut due: mpsc::Receiver<Due>) {
    loop {
        let (key, project) = tokio::select! {
            thread = due.recv() => match thread {
                Some(thread) => thread,
                None => return,
            },
            () = lifecycle.stopped() => return,
        };
        match make(&folder, key, &project).await {
            Ok(()) => {}
            // The next run makes it.
            Err(ProjectionError::Limited(limited)) => {
                tracing::debug!(%limited, key = key.0, %project, "no memory for a snapshot");
            }
            Err(ProjectionError::ConversationTooLarge) => {
                tracing::debug!(key = key.0, %project, "a conversation is too large for a snapshot");
            }
            Err(error) => {
                tracing::warn!(%error, key = key.0, "cannot write a snapshot; reading the thread is slower without it");
            }
        }
    }
}

/// Writes the snapshot of a thread if it is due. Memory of the project is taken and not waited for: no project delays the
/// snapshots of the others.
async fn make(folder: &Folder, key: ThreadKey, project: &ProjectId) -> Result<(), ProjectionError> {
    let Some(lacking) = folder.store.unprojected(key, Conversation::VERSION).await? else { return Ok(()) };
    if !is_due(&lacking) {
        return Ok(());
    }
    let seq = lacking.since + lacking.events;
    let mut fold = folder.begin(&BudgetOwner::keys(project), None, Duration::ZERO);
    let since = folder.snapshot(key, seq, &mut fold).await?;
    if folder.fold(key, &mut fold, since, seq).await? != Folded::Done {
        return Ok(());
    }
    let body = fold.encoded().await?.into();
    let seqs = folder.store.snapshot_seqs(key).await?;
    let (ours, foreign): (Vec<_>, Vec<_>) =
        seqs.into_iter().partition(|(_, version)| *version == Conversation::VERSION);
    let mut dropped = spacing::superfluous(ours.into_iter().map(|(seq, _)| seq), seq);
    dropped.extend(foreign.into_iter().map(|(seq, _)| seq));
    folder.store.put_snapshot(key, Snapshot { seq, version: Conversation::VERSION, body }, &dropped).await?;
    Ok(())
}
