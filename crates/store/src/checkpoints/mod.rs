//! Checkpoints of threads, stored beside the logs.

use async_trait::async_trait;
use threadline_core::{
    ProjectId, RunId, ThreadId, ThreadKey, Timestamp, UserId,
    checkpoints::{
        Blob, ChannelAt, Checkpoint, CheckpointId, CheckpointNs, DataType, StoredCheckpoint, TaskId, TaskWrites,
        TypedData,
    },
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
    /// Nothing replaces it. The new one has the time at which it was stored first, where it comes from.
    Keep(Timestamp),
}

/// A checkpoint with its thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCheckpoint {
    /// Key of the thread.
    pub thread: ThreadKey,
    /// Id of the thread.
    pub thread_id: ThreadId,
    /// The checkpoint. Its own bytes are empty if they were not asked for.
    pub stored: StoredCheckpoint,
}

/// A blob of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundBlob {
    /// Channel, with the version that has the value.
    pub at: ChannelAt,
    /// Type of the value.
    pub kind: DataType,
    /// The value; `None` if it was left out.
    pub body: Option<Vec<u8>>,
}

/// A write of a task; its body is `None` if it was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundWrite {
    /// Task that has written.
    pub task: TaskId,
    /// Place of the task.
    pub path: threadline_core::checkpoints::TaskPath,
    /// Number among the writes of the task.
    pub idx: i64,
    /// Channel that is written.
    pub channel: threadline_core::checkpoints::Channel,
    /// Type of the value.
    pub kind: DataType,
    /// The value; `None` if it was left out.
    pub body: Option<Vec<u8>>,
}

/// Blobs of a checkpoint in the order of its channels, and its writes in the order of path, task and number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointParts {
    /// Blobs. Fewer than channels if the checkpoint was deleted meanwhile.
    pub blobs: Vec<FoundBlob>,
    /// Writes of all tasks.
    pub writes: Vec<FoundWrite>,
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

/// Position in the order of checkpoints, the newest first: by id, thread and namespace, all from the greatest on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckpointPosition {
    /// Text that the ids on the page are less than, or equal to if the rest is less.
    pub below: String,
    /// Key of the thread.
    pub thread: i64,
    /// Namespace in the thread.
    pub ns: String,
}

impl CheckpointPosition {
    /// Position before all checkpoints.
    pub fn newest() -> Self {
        Self::before(CheckpointId::end())
    }

    /// Position before those checkpoints whose ids are less than a text.
    pub fn before(below: String) -> Self {
        Self { below, thread: i64::MIN, ns: String::new() }
    }

    /// Position behind a checkpoint.
    pub fn behind(found: &FoundCheckpoint) -> Self {
        let Checkpoint { ns, id, .. } = &found.stored.checkpoint;
        Self { below: id.as_str().to_owned(), thread: found.thread.0, ns: ns.as_str().to_owned() }
    }
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

/// Checkpoints that are deleted.
#[derive(Debug, Clone, Default)]
pub struct WhichCheckpoints {
    /// Namespace of the checkpoints; `None` for all.
    pub ns: Option<CheckpointNs>,
    /// Ids of the checkpoints; `None` for all, with all blobs and writes that no checkpoint has.
    pub ids: Option<Vec<CheckpointId>>,
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

impl FoundCheckpoint {
    /// Bytes that were read with the checkpoint itself.
    pub fn own_bytes(&self) -> usize {
        let Checkpoint { data, metadata, .. } = &self.stored.checkpoint;
        data.body.len() + metadata.len()
    }
}

impl CheckpointParts {
    fn bodies(&self) -> impl Iterator<Item = Option<&Vec<u8>>> {
        let writes = self.writes.iter().map(|write| write.body.as_ref());
        self.blobs.iter().map(|blob| blob.body.as_ref()).chain(writes)
    }

    /// Bytes of the values that were read.
    pub fn bytes(&self) -> usize {
        self.bodies().flatten().map(Vec::len).sum()
    }

    /// True if no value was left out.
    pub fn has_all(&self) -> bool {
        self.bodies().all(|body| body.is_some())
    }
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
