//! Makes snapshots of projections in the background, so that reading a conversation costs what is new.

use tokio::sync::mpsc;

use super::{
    context::Context,
    projections::{self, Folded, aside},
};
use crate::{
    domain::{
        LogSlice, Seq, ThreadKey,
        limits::{COMMIT_QUEUE, SNAPSHOT_EVENTS, SNAPSHOT_MIN_BYTES, SNAPSHOT_SHARE},
    },
    projection::{conversation::Conversation, spacing},
    store::{Snapshot, StoreError, Unprojected},
};

/// Hands threads over whose snapshot may be due: at the end of a run, and every [`SNAPSHOT_EVENTS`] of a long one.
#[derive(Debug)]
pub(super) struct Snapshots {
    due: mpsc::Sender<ThreadKey>,
}

impl Snapshots {
    pub fn new() -> (Self, mpsc::Receiver<ThreadKey>) {
        let (due, receiver) = mpsc::channel(COMMIT_QUEUE);
        (Self { due }, receiver)
    }

    /// Events were committed; `ended` with the end of a run. A snapshot is a cache: with a full queue it is left out,
    /// and the next run makes it.
    pub fn note(&self, key: ThreadKey, slice: &LogSlice, ended: bool) {
        let passed = |seq: Seq| seq / SNAPSHOT_EVENTS;
        let (first, last) = (slice.first_seq().unwrap_or(0), slice.last_seq().unwrap_or(0));
        if ended || passed(first.saturating_sub(1)) != passed(last) {
            let _ = self.due.try_send(key);
        }
    }
}

/// Whether a snapshot is worth its writing: only once there is a share of the old one's size in new events. So all the
/// snapshots of a thread together cost a small multiple of its log, and a reader folds no more than that share.
fn is_due(lacking: &Unprojected) -> bool {
    lacking.bytes >= SNAPSHOT_MIN_BYTES.max(lacking.snapshot_bytes / SNAPSHOT_SHARE)
}

/// The loop that makes snapshots.
pub(super) async fn run(context: Context, mut due: mpsc::Receiver<ThreadKey>) {
    loop {
        let key = tokio::select! {
            key = due.recv() => match key {
                Some(key) => key,
                None => return,
            },
            () = context.stopped() => return,
        };
        if let Err(error) = make(&context, key).await {
            tracing::warn!(%error, key = key.0, "cannot make a snapshot; reading that thread costs more");
        }
    }
}

async fn make(context: &Context, key: ThreadKey) -> Result<(), StoreError> {
    let Some(lacking) = context.store.unprojected(key, Conversation::VERSION).await? else { return Ok(()) };
    if !is_due(&lacking) {
        return Ok(());
    }
    let seq = lacking.since + lacking.events;
    let (mut conversation, since) = projections::snapshot(context, key, seq).await?;
    if projections::fold(context, key, &mut conversation, since, seq, &None).await? != Folded::Done {
        return Ok(());
    }
    let body = aside(move || conversation.encode()).await?.into();
    let seqs = context.store.snapshot_seqs(key).await?;
    let (ours, foreign): (Vec<_>, Vec<_>) =
        seqs.into_iter().partition(|(_, version)| *version == Conversation::VERSION);
    let mut dropped = spacing::superfluous(ours.into_iter().map(|(seq, _)| seq), seq);
    dropped.extend(foreign.into_iter().map(|(seq, _)| seq));
    context.store.put_snapshot(key, Snapshot { seq, version: Conversation::VERSION, body }, &dropped).await
}
