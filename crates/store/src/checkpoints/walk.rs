//! A walk over all checkpoints of a thread, for copies and exports: with few bytes in memory, and each blob once.

use std::collections::{HashSet, VecDeque};

use threadline_core::{
    ThreadKey,
    checkpoints::{
        Blob, ChannelAt, CheckpointId, CheckpointNs, CheckpointParts, CheckpointPosition, FoundBlob, FoundCheckpoint,
        FoundWrite, StoredCheckpoint, TaskWrite, TaskWrites, TypedData,
    },
    limits::{CHECKPOINT_GROUP, CHECKPOINT_PART_BYTES},
};

use super::{CheckpointBound, CheckpointScope, CheckpointStore};
use crate::error::StoreResult;

/// A step of a walk. What belongs to a checkpoint comes before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointPart {
    /// Blobs of a namespace.
    Blobs(CheckpointNs, Vec<Blob>),
    /// Writes of a task beside a checkpoint.
    Writes(CheckpointNs, CheckpointId, TaskWrites),
    /// A checkpoint, all parts of which came before.
    Checkpoint(StoredCheckpoint),
}

/// Walk over the checkpoints of a thread, the newest first. A checkpoint that is deleted meanwhile is left out.
pub struct CheckpointWalk<'s, S: ?Sized> {
    store: &'s S,
    thread: ThreadKey,
    from: CheckpointPosition,
    page: VecDeque<FoundCheckpoint>,
    seen: HashSet<(CheckpointNs, ChannelAt)>,
    current: Option<Current>,
}

/// A checkpoint with what is still to come before it.
struct Current {
    stored: StoredCheckpoint,
    blobs: VecDeque<FoundBlob>,
    writes: VecDeque<FoundWrite>,
}

impl<'s, S: CheckpointStore + ?Sized> CheckpointWalk<'s, S> {
    /// Begins a walk over a thread.
    pub fn new(store: &'s S, thread: ThreadKey) -> Self {
        let (from, page, seen) = (CheckpointPosition::newest(), VecDeque::new(), HashSet::new());
        Self { store, thread, from, page, seen, current: None }
    }

    /// The next step; `None` at the end.
    pub async fn next(&mut self) -> StoreResult<Option<CheckpointPart>> {
        loop {
            let Some(current) = &mut self.current else {
                if !self.begin().await? {
                    return Ok(None);
                }
                continue;
            };
            let ns = current.stored.checkpoint.ns.clone();
            if !current.blobs.is_empty() {
                let (mut part, mut bytes) = (Vec::new(), 0);
                while bytes < CHECKPOINT_PART_BYTES
                    && let Some(FoundBlob { at, kind, body }) = current.blobs.pop_front()
                {
                    let data = match body {
                        Some(body) => Some(TypedData { kind, body }),
                        None => self.store.blob(self.thread, &ns, &at).await?,
                    };
                    // The blobs of a checkpoint that was deleted meanwhile are gone.
                    let Some(data) = data else {
                        self.current = None;
                        break;
                    };
                    bytes += data.body.len();
                    self.seen.insert((ns.clone(), at.clone()));
                    part.push(Blob { at, data });
                }
                if part.is_empty() {
                    continue;
                }
                return Ok(Some(CheckpointPart::Blobs(ns, part)));
            }
            let id = current.stored.checkpoint.id.clone();
            if let Some(found) = current.writes.pop_front() {
                let FoundWrite { task, path, idx, channel, kind, body } = match found.body {
                    Some(_) => found,
                    None => match self.store.task_write(self.thread, &ns, &id, &found.task, found.idx).await? {
                        Some(found) => found,
                        None => continue,
                    },
                };
                let data = TypedData { kind, body: body.unwrap_or_default() };
                let writes = TaskWrites { task, path, writes: vec![TaskWrite { idx, channel, data }] };
                return Ok(Some(CheckpointPart::Writes(ns, id, writes)));
            }
            return Ok(self.current.take().map(|current| CheckpointPart::Checkpoint(current.stored)));
        }
    }

    /// Begins with the next checkpoint; false if there is none.
    async fn begin(&mut self) -> StoreResult<bool> {
        if self.page.is_empty() {
            let bound = CheckpointBound { limit: CHECKPOINT_GROUP, bytes: CHECKPOINT_PART_BYTES, data: true };
            let scope = CheckpointScope::Thread(self.thread);
            self.page = self.store.checkpoints(&scope, &self.from, bound).await?.into();
        }
        let Some(found) = self.page.pop_front() else { return Ok(false) };
        self.from = CheckpointPosition::behind(&found);
        let parts = self.store.checkpoint_parts(std::slice::from_ref(&found), CHECKPOINT_PART_BYTES).await?;
        let CheckpointParts { blobs, writes } = parts.into_iter().next().unwrap_or_default();
        if found.is_whole(&blobs) {
            let ns = &found.stored.checkpoint.ns;
            let fresh = blobs.into_iter().filter(|blob| !self.seen.contains(&(ns.clone(), blob.at.clone())));
            self.current = Some(Current { blobs: fresh.collect(), stored: found.stored, writes: writes.into() });
        }
        Ok(true)
    }
}
