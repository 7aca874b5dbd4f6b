//! Stored snapshots of a thread's projections.

use async_trait::async_trait;
use bytes::Bytes;
use threadline_core::{Seq, ThreadKey};

use crate::error::StoreResult;

/// A thread's projections as they were at a seq.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The newest event that the snapshot includes.
    pub seq: Seq,
    /// Version of the fold that wrote the snapshot; no other version reads it.
    pub version: u32,
    /// Output of the fold, as bytes.
    pub body: Bytes,
}

/// Amount of log that a thread's newest snapshot does not include.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unprojected {
    /// The seq of the newest snapshot, 0 if there is none.
    pub since: Seq,
    /// Size of that snapshot in bytes.
    pub snapshot_bytes: u64,
    /// Number of events after the snapshot.
    pub events: u64,
    /// Approximate size of these events in bytes: of a row that spans the snapshot's seq, all events count alike.
    pub bytes: u64,
}

/// Snapshots of projections: a cache that may be lost, stored next to the log. No append depends on it.
#[async_trait]
pub trait SnapshotStore: Send + Sync {
    /// Stores a snapshot, replaces one of the same seq, and removes those at the seqs in `dropped`. A snapshot of a
    /// thread that was deleted is not stored.
    async fn put_snapshot(&self, key: ThreadKey, snapshot: Snapshot, dropped: &[Seq]) -> StoreResult<()>;

    /// The newest snapshot of this version with a seq of at most `at`.
    async fn snapshot(&self, key: ThreadKey, at: Seq, version: u32) -> StoreResult<Option<Snapshot>>;

    /// Seq and version of all snapshots of a thread, oldest first.
    async fn snapshot_seqs(&self, key: ThreadKey) -> StoreResult<Vec<(Seq, u32)>>;

    /// Amount of log that the newest snapshot of this version does not include; `None` if the thread was deleted.
    async fn unprojected(&self, key: ThreadKey, version: u32) -> StoreResult<Option<Unprojected>>;
}
