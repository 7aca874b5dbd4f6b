//! Checkpoints as they are read, with their parts.

use super::{Channel, ChannelAt, Checkpoint, CheckpointId, CheckpointNs, DataType, StoredCheckpoint, TaskId, TaskPath};
use crate::{ThreadId, ThreadKey, agent_data::row_size};

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
    pub path: TaskPath,
    /// Number among the writes of the task.
    pub idx: i64,
    /// Channel that is written.
    pub channel: Channel,
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

/// Checkpoints that are deleted.
#[derive(Debug, Clone, Default)]
pub struct WhichCheckpoints {
    /// Namespace of the checkpoints; `None` for all.
    pub ns: Option<CheckpointNs>,
    /// Ids of the checkpoints; `None` for all, with all blobs and writes that no checkpoint has.
    pub ids: Option<Vec<CheckpointId>>,
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

impl FoundCheckpoint {
    /// True if these are the blobs of the checkpoint. Otherwise it was deleted or replaced since it was read.
    pub fn is_whole(&self, blobs: &[FoundBlob]) -> bool {
        blobs.iter().map(|blob| &blob.at).eq(&self.stored.checkpoint.channels)
    }
}

impl FoundWrite {
    /// Bytes that the write counts beside a checkpoint, with its names; `None` if its value was left out.
    pub fn size_beside(&self, Checkpoint { ns, id, .. }: &Checkpoint) -> Option<usize> {
        let names = [ns.as_str(), id.as_str(), self.task.as_str(), self.path.as_str(), self.channel.as_str()];
        let names: usize = names.iter().map(|name| name.len()).sum();
        usize::try_from(row_size(&[names, self.kind.as_str().len(), self.body.as_ref()?.len()])).ok()
    }
}
