//! Checkpoints of threads, stored beside the logs.

use async_trait::async_trait;
use threadline_core::{
    ProjectId, RunId, ThreadKey, Timestamp, UserId,
    checkpoints::{
        Blob, ChannelAt, Checkpoint, CheckpointId, CheckpointNs, CheckpointParts, CheckpointPosition, FoundCheckpoint,
        FoundWrite, TaskId, TaskWrites, TypedData, WhichCheckpoints,
    },
    kv::KvOwner,
};

use crate::error::StoreResult;

mod walk;

pub use walk::{CheckpointPart, CheckpointWalk};

/// Outcome of a write of checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointDone {
    /// All is stored, or was stored before.
    Done {
        /// Bytes that the thread has more than before.
        added: i64,
    },
    /// The channel with this number, from 0, has no blob at its version.
    BlobMissing(usize),
    /// The thread would have too much agent data.
    TooLarge,
    /// The thread does not exist (any more).
    ThreadGone,
}

/// Treatment of a checkpoint that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutCheckpoint {
    /// The new checkpoint replaces it.
    Replace,
    /// The checkpoint stays. The new one has the time at which it was stored first, where it comes from.
    Keep(Timestamp),
}

/// Checkpoints among which a page is read.
#[derive(Debug, Clone)]
pub enum CheckpointScope {
    /// Checkpoints of a namespace of a thread, from an id on, and below a text.
    Namespace(ThreadKey, CheckpointNs, String),
    /// Checkpoints of all namespaces of a thread.
    Thread(ThreadKey),
    /// Checkpoints of all threads of a project, or of one of its users.
    Project(ProjectId, Option<UserId>),
}

/// Bounds of a page.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointBound {
    /// Most checkpoints on the page.
    pub limit: usize,
    /// No further checkpoint is read once those before have these bytes.
    pub bytes: usize,
    /// True if the bytes of the checkpoints themselves are wanted.
    pub data: bool,
}

/// Result of a step of a deletion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeletedCheckpoints {
    /// Number of the checkpoints that were removed.
    pub checkpoints: usize,
    /// Bytes of all that was removed.
    pub bytes: i64,
    /// True if there may be more to remove.
    pub more: bool,
}

/// Place of a checkpoint of some run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointPlace {
    /// Key of the thread.
    pub thread: ThreadKey,
    /// User who owns the thread.
    pub user: UserId,
    /// Namespace in the thread.
    pub ns: CheckpointNs,
    /// Id in the namespace.
    pub id: CheckpointId,
}

/// Checkpoints of threads, which are deleted with their thread, and hidden as long as it is in the trash.
#[async_trait]
pub trait CheckpointStore: Send + Sync {
    /// Stores blobs. One that is there stays as it is: of several with the same channel and version, the first one counts.
    /// A failure may leave some of them.
    async fn put_blobs(&self, thread: ThreadKey, ns: &CheckpointNs, blobs: &[Blob]) -> StoreResult<CheckpointDone>;

    /// Stores a checkpoint, if all of its channels have their blobs.
    async fn put_checkpoint(
        &self,
        thread: ThreadKey,
        checkpoint: &Checkpoint,
        put: PutCheckpoint,
    ) -> StoreResult<CheckpointDone>;

    /// Stores writes of a task beside a checkpoint, which may come later, in one commit. A write with a number from 0 that is there
    /// stays as it is; one below 0 is replaced. Of several with the same number, the first one counts, or the last one.
    async fn put_writes(
        &self,
        thread: ThreadKey,
        ns: &CheckpointNs,
        id: &CheckpointId,
        writes: &TaskWrites,
    ) -> StoreResult<CheckpointDone>;

    /// A page of checkpoints, the newest first.
    async fn checkpoints(
        &self,
        scope: &CheckpointScope,
        from: &CheckpointPosition,
        bound: CheckpointBound,
    ) -> StoreResult<Vec<FoundCheckpoint>>;

    /// Blobs and writes of each of these checkpoints. Writes have their values as long as all of these have up to `bytes`, with their
    /// names, and blobs have theirs as long as theirs have up to what is left.
    async fn checkpoint_parts(&self, found: &[FoundCheckpoint], bytes: usize) -> StoreResult<Vec<CheckpointParts>>;

    /// The value of a channel at a version.
    async fn blob(&self, thread: ThreadKey, ns: &CheckpointNs, at: &ChannelAt) -> StoreResult<Option<TypedData>>;

    /// A write of a task.
    async fn task_write(
        &self,
        thread: ThreadKey,
        ns: &CheckpointNs,
        id: &CheckpointId,
        task: &TaskId,
        idx: i64,
    ) -> StoreResult<Option<FoundWrite>>;

    /// Removes up to `limit` checkpoints with their writes, and the blobs that no other checkpoint has, in one commit. Without ids also all
    /// writes and blobs of no checkpoint. `None` if the thread does not exist (any more).
    async fn delete_checkpoints(
        &self,
        thread: ThreadKey,
        which: &WhichCheckpoints,
        limit: usize,
    ) -> StoreResult<Option<DeletedCheckpoints>>;

    /// Removes blobs of one namespace that have been loose for [`LOOSE_BLOBS_KEPT`] without being stored again, and that no checkpoint
    /// names; returns the owner of the thread, and the removed bytes. `None` if there is nothing to remove now.
    ///
    /// [`LOOSE_BLOBS_KEPT`]: threadline_core::limits::LOOSE_BLOBS_KEPT
    async fn sweep_blobs(&self, limit: usize) -> StoreResult<Option<(KvOwner, i64)>>;

    /// Up to `limit` checkpoints of a run, in all threads of a project, or of one of its users.
    async fn checkpoints_of_run(
        &self,
        project: &ProjectId,
        user: Option<&UserId>,
        run: &RunId,
        limit: usize,
    ) -> StoreResult<Vec<CheckpointPlace>>;
}

/// Blobs in the order of their places, the first one of each.
pub(crate) fn in_order(blobs: &[Blob]) -> Vec<&Blob> {
    let mut all: Vec<_> = blobs.iter().collect();
    // Stable: of those with the same place, the first one comes first.
    all.sort_by(|one, other| one.at.cmp(&other.at));
    all.dedup_by(|next, first| next.at == first.at);
    all
}

/// Writes in the order of their numbers, one of each: the first one of a number from 0, the last one of a number below.
pub(crate) fn last_of(writes: &TaskWrites) -> Vec<&threadline_core::checkpoints::TaskWrite> {
    let mut all = std::collections::BTreeMap::new();
    for write in &writes.writes {
        if write.idx < 0 {
            all.insert(write.idx, write);
        } else {
            all.entry(write.idx).or_insert(write);
        }
    }
    all.into_values().collect()
}

impl CheckpointPart {
    /// Bytes of the values of the part.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Blobs(_, blobs) => blobs.iter().map(|blob| blob.data.body.len()).sum(),
            Self::Writes(_, _, writes) => writes.writes.iter().map(|write| write.data.body.len()).sum(),
            Self::Checkpoint(stored) => stored.checkpoint.data.body.len() + stored.checkpoint.metadata.len(),
        }
    }
}
