//! Whole threads that are written in steps: imports and forks.
//!
//! A thread is *staged* first, in as many steps as necessary and invisible to all clients; [`StagingStore::publish`] makes all of
//! it visible in one commit. Staged data that is not touched for
//! [`STAGING_TIMEOUT`](threadline_core::limits::STAGING_TIMEOUT) is abandoned: the purge removes it.

use std::{collections::HashMap, mem, sync::Arc};

use async_trait::async_trait;
use threadline_core::{Batch, Epoch, Fence, Run, RunId, Seq, Thread, ThreadKey, limits::SEAL_BYTES};

use crate::{
    error::StoreResult,
    segment::{self, LogRow},
};

/// A thread as it is exported, imported and forked.
#[derive(Debug, Clone, PartialEq)]
pub struct MovedThread {
    /// The thread. An import ignores its key, and its active run is one of the staged runs.
    pub thread: Thread,
    /// Fence of the thread's newest run.
    pub fence: Fence,
    /// Open interrupts, as an import or a fork finds them in the log, see [`threadline_core::interrupt::after`]. An export has
    /// none.
    pub interrupts: Option<String>,
    /// Idempotency key of the request that makes a fork, from which its id is derived; `None` for any other thread.
    pub request: Option<String>,
}

/// A part of a thread that is staged.
#[derive(Debug, Clone, Default)]
pub struct StagedPart {
    /// Records of runs of the thread.
    pub runs: Vec<Run>,
    /// Rows of the log, which follow those staged before.
    pub rows: Vec<StagedRow>,
}

/// A row of a log that is staged.
#[derive(Debug, Clone)]
pub struct StagedRow {
    /// Encoded row of the log.
    pub row: LogRow,
    /// Fence of the run of a fresh row; `None` for a segment.
    pub fence: Option<Fence>,
    /// Bytes of events, uncompressed.
    pub raw: usize,
}

/// Outcome of [`StagingStore::stage`], if the store did not fail.
#[derive(Debug, Clone)]
pub enum Staging {
    /// Staged under this key.
    Staged(ThreadKey),
    /// The user has a thread of this id, or another thread has claimed it; nothing was changed.
    Taken(Box<Thread>),
}

/// Outcome of [`StagingStore::publish`], if the store did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The thread is visible to all clients.
    Done,
    /// A thread that has the id, as for [`Staging::Taken`], was created meanwhile; the staged data stays invisible.
    Taken,
    /// The staged data was removed: the import or fork was abandoned, or another request replaced the data. Of a fork also: its parent was
    /// deleted, or the parent's log got another epoch.
    Gone,
}

/// Reason for which a thread is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Import: the feed owes the thread no new position until [`put_feed`](crate::TransferStore::put_feed) restores the one it had.
    Import,
    /// Fork of a thread, as long as that has this epoch. The parent gets the family of the fork, if it has none.
    Fork {
        /// Key of the thread that is forked.
        parent: ThreadKey,
        /// Epoch of its log, as it was read.
        epoch: Epoch,
    },
}

/// Interface for threads that are written in steps.
#[async_trait]
pub trait StagingStore: Send + Sync {
    /// Begins to stage a thread, with its first part. Data that was staged for this user under this id before is discarded.
    async fn stage(&self, moved: &MovedThread, part: StagedPart) -> StoreResult<Staging>;

    /// Stages another part. False, and nothing is changed, if the staged data was removed.
    async fn stage_more(&self, key: ThreadKey, part: StagedPart) -> StoreResult<bool>;

    /// Makes a staged thread visible, all at once. The staged log must be complete. The lease of the active run, if
    /// there is one, has expired. The feed owes the thread a position: of an import until
    /// [`put_feed`](crate::TransferStore::put_feed) restores the one it had. A back-end records this as a `fed_version` of minus
    /// the imported version: the number is smaller than any version, and an imported feed settles it, but not later changes.
    async fn publish(&self, key: ThreadKey, moved: &MovedThread, arrival: Arrival) -> StoreResult<Published>;

    /// Discards the staged data of a thread.
    async fn unstage(&self, key: ThreadKey) -> StoreResult<()>;
}

/// Course of a segment that batches still to come may share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unfinished {
    /// The packer keeps the batches of the segment.
    Keep,
    /// The batches of the segment are written: no others come.
    Write,
}

/// Encodes a log that is read in order as rows: segments where there is enough for one, and fresh rows.
#[derive(Debug, Default)]
pub struct Packer {
    fences: HashMap<RunId, Fence>,
    fresh: Vec<Arc<Batch>>,
    bytes: usize,
}

impl Packer {
    /// Creates a packer for the log of these runs.
    pub fn new(runs: &[Run]) -> Self {
        Self { fences: runs.iter().map(|run| (run.id.clone(), run.fence)).collect(), ..Self::default() }
    }

    /// Takes the next batch; returns the rows that it completes.
    pub fn push(&mut self, batch: Arc<Batch>) -> StoreResult<Vec<StagedRow>> {
        self.bytes += batch.body.len();
        self.fresh.push(batch);
        if self.bytes < SEAL_BYTES { Ok(Vec::new()) } else { self.pack(Unfinished::Keep) }
    }

    /// Returns the remaining rows.
    pub fn finish(mut self) -> StoreResult<Vec<StagedRow>> {
        self.pack(Unfinished::Write)
    }

    fn pack(&mut self, unfinished: Unfinished) -> StoreResult<Vec<StagedRow>> {
        let groups = segment::plan(&self.fresh);
        // Batches after the last segment may share one with batches that are still to come.
        let end = match groups.last() {
            Some(last) if unfinished == Unfinished::Keep => last.end,
            _ => self.fresh.len(),
        };
        let rest = self.fresh.split_off(end);
        let fresh = mem::replace(&mut self.fresh, rest);
        self.bytes = self.fresh.iter().map(|batch| batch.body.len()).sum();
        let mut rows = Vec::with_capacity(groups.len());
        let mut next = 0;
        for group in groups {
            rows.extend(fresh[next..group.start].iter().map(|batch| self.row(batch)));
            next = group.end;
            if let Some(segment) = segment::encode(&fresh[group])? {
                let (first_seq, last_seq, at, raw) = (segment.first_seq, segment.last_seq, segment.at, segment.raw);
                let row = LogRow { first_seq, last_seq, at, run: None, body: segment.body.into() };
                rows.push(StagedRow { row, fence: None, raw });
            }
        }
        rows.extend(fresh[next..].iter().map(|batch| self.row(batch)));
        Ok(rows)
    }

    fn row(&self, batch: &Batch) -> StagedRow {
        let row = LogRow {
            first_seq: batch.first_seq,
            last_seq: batch.last_seq,
            at: batch.at,
            run: Some(batch.run.clone()),
            body: batch.body.clone(),
        };
        // The caller that stages a log has checked that its runs are known.
        let fence = Some(self.fences.get(&batch.run).copied().unwrap_or(Fence(0)));
        StagedRow { row, fence, raw: batch.body.len() }
    }
}

impl StagedPart {
    /// Seq of the last event in the part.
    pub fn last_seq(&self) -> Option<Seq> {
        self.rows.last().map(|row| row.row.last_seq)
    }

    /// Last seq of the part's newest segment; `None` if it has none.
    pub fn sealed(&self) -> Option<Seq> {
        self.rows.iter().rev().find(|row| row.fence.is_none()).map(|row| row.row.last_seq)
    }
}

#[cfg(test)]
mod tests {
    use threadline_core::Timestamp;

    use super::*;

    #[test]
    fn rows_come_out_dense_and_sealed_where_it_is_worth_it() {
        let run = RunId::new("r").expect("id");
        let mut packer = Packer::default();
        packer.fences.insert(run.clone(), Fence(3));
        let large = format!("{{\"type\":\"{}\"}}", "x".repeat(1_200_000));
        let small = "{\"type\":\"X\",\"delta\":\"a few words of text\"}";
        let mut rows = Vec::new();
        for seq in 1..=200_000 {
            let body = if seq == 50_000 { large.clone() } else { small.to_owned() };
            let batch = Batch::new(seq, seq, run.clone(), Timestamp(seq as i64 / 3), body.into());
            rows.extend(packer.push(Arc::new(batch)).expect("packs"));
        }
        assert!(!rows.is_empty(), "rows come out on the way");
        rows.extend(packer.finish().expect("packs"));
        let mut next = 1;
        for row in &rows {
            assert_eq!((row.row.first_seq, row.row.run.is_some()), (next, row.fence.is_some()));
            next = row.row.last_seq + 1;
        }
        assert_eq!(next, 200_001);
        let fresh: Vec<_> = rows.iter().filter(|row| row.fence == Some(Fence(3))).collect();
        assert!(fresh.len() < 300 && fresh.iter().any(|row| row.row.first_seq == 50_000), "{}", fresh.len());
        let sealed = StagedPart { rows, ..StagedPart::default() };
        assert!(sealed.sealed().is_some_and(|upto| upto > 199_000) && sealed.last_seq() == Some(200_000));
    }
}
