//! Snapshots of projections.

use async_trait::async_trait;
use bytes::Bytes;

use super::StoreResult;
use crate::domain::{Seq, ThreadKey};

/// A thread's projections as they were at a seq.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The newest event that is in it.
    pub seq: Seq,
    /// Version of the fold that wrote it; no other version reads it.
    pub version: u32,
    /// What the fold wrote.
    pub body: Bytes,
}

/// What a thread's newest snapshot lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unprojected {
    /// The seq of the newest snapshot, 0 if there is none.
    pub since: Seq,
    /// Its size.
    pub snapshot_bytes: u64,
    /// Events after it.
    pub events: u64,
    /// Their bytes, about: rows that lie across the snapshot's seq count whole.
    pub bytes: u64,
}

/// Snapshots of projections: a cache that may be lost, kept beside the log and never in the way of an append.
#[async_trait]
pub trait SnapshotStore: Send + Sync {
    /// Keeps a snapshot, in the place of one of the same seq, and drops those at the seqs given. Nothing is kept of a
    /// thread that is gone.
    async fn put_snapshot(&self, key: ThreadKey, snapshot: Snapshot, dropped: &[Seq]) -> StoreResult<()>;

    /// The newest snapshot of this version with a seq of at most `at`.
    async fn snapshot(&self, key: ThreadKey, at: Seq, version: u32) -> StoreResult<Option<Snapshot>>;

    /// Seq and version of all snapshots of a thread, oldest first.
    async fn snapshot_seqs(&self, key: ThreadKey) -> StoreResult<Vec<(Seq, u32)>>;

    /// What the newest snapshot of this version lacks; `None` if the thread is gone.
    async fn unprojected(&self, key: ThreadKey, version: u32) -> StoreResult<Option<Unprojected>>;
}
