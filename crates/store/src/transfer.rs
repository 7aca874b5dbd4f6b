//! Moves threads from one back-end to another, byte for byte: the basis of `threadline export` and `import`.
//!
//! A thread keeps its epoch, seqs, fences, records of runs and times. An import first *stages* it, in as many steps as
//! necessary and invisible to all clients; [`TransferStore::publish`] makes all of it visible in one commit. Staged
//! data that is not touched for [`STAGING_TIMEOUT`](threadline_core::limits::STAGING_TIMEOUT) is abandoned: the purge
//! removes it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem,
    sync::Arc,
};

use async_trait::async_trait;
use threadline_core::{
    AgentId, ApiKey, Batch, Digest, Epoch, Fence, ProjectId, Run, RunId, Seq, Thread, ThreadId, ThreadKey, UserId,
    limits::SEAL_BYTES,
};

use crate::{
    error::StoreResult,
    port::Store,
    segment::{self, LogRow},
};

/// A thread as it is exported and imported.
#[derive(Debug, Clone, PartialEq)]
pub struct MovedThread {
    /// The thread. An import ignores its key, and its active run is one of the staged runs.
    pub thread: Thread,
    /// Fence of the thread's newest run.
    pub fence: Fence,
    /// Open interrupts, as an import finds them in the log, see [`threadline_core::interrupt::after`]. An export has
    /// none.
    pub interrupts: Option<String>,
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

/// Outcome of [`TransferStore::stage`], if the store did not fail.
#[derive(Debug, Clone)]
pub enum Staging {
    /// Staged under this key.
    Staged(ThreadKey),
    /// The user has a thread of this id, or another thread has claimed it; nothing was changed.
    Taken(Box<Thread>),
}

/// Outcome of [`TransferStore::publish`], if the store did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The thread is visible to all clients.
    Done,
    /// A thread that has the id, as for [`Staging::Taken`], was created meanwhile; the staged data stays invisible.
    Taken,
    /// The staged data was removed: the import was abandoned, or another import replaced the data.
    Gone,
}

/// A thread that has annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotatedThread {
    /// The store's number of this incarnation.
    pub key: ThreadKey,
    /// Project (tenant) of the thread.
    pub project: ProjectId,
    /// User who owns the thread.
    pub user: UserId,
    /// Public id of the thread.
    pub id: ThreadId,
    /// True if the thread has claimed its id.
    pub claimed: bool,
    /// The incarnation of the thread's log.
    pub epoch: Epoch,
}

/// A user's complete feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedImage {
    /// The newest position of the feed.
    pub head: u64,
    /// Epoch of the feed; [`Epoch::NONE`] if it has no entry, or if the export was made before feeds had one.
    pub epoch: Epoch,
    /// Position and thread, in order of the positions; at most one per thread.
    pub entries: Vec<(u64, ThreadId)>,
}

/// Interface for export: all of a store, page by page.
#[async_trait]
pub trait ExportStore: Send + Sync {
    /// Number of threads of all projects.
    async fn count_threads(&self) -> StoreResult<u64>;

    /// A page of the threads of all projects, in the order of their keys. Each thread is read as of one moment.
    async fn all_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<MovedThread>>;

    /// A page of the active turns, in the order of their threads' keys: the key and the run.
    async fn turns(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<(ThreadKey, RunId)>>;

    /// A page of the threads that have annotations, in the order of their keys.
    async fn annotated_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<AnnotatedThread>>;

    /// The agents of all projects, in order of project and id.
    async fn all_agents(&self) -> StoreResult<Vec<(ProjectId, AgentId, String)>>;

    /// The API keys of all projects with their digests, valid or not, in order of project and id.
    async fn all_keys(&self) -> StoreResult<Vec<(ApiKey, Digest)>>;

    /// A page of the users who have a feed, in order of project and user.
    async fn all_feeds(
        &self,
        after: Option<&(ProjectId, UserId)>,
        limit: usize,
    ) -> StoreResult<Vec<(ProjectId, UserId)>>;

    /// A user's complete feed, as it is now.
    async fn feed_image(&self, project: &ProjectId, user: &UserId) -> StoreResult<FeedImage>;
}

/// Interface for export and import, in addition to [`Store`].
#[async_trait]
pub trait TransferStore: Store + ExportStore {
    /// Begins to stage a thread, with its first part. Data that was staged for this user under this id before is discarded.
    async fn stage(&self, moved: &MovedThread, part: StagedPart) -> StoreResult<Staging>;

    /// Stages another part. False, and nothing is changed, if the staged data was removed.
    async fn stage_more(&self, key: ThreadKey, part: StagedPart) -> StoreResult<bool>;

    /// Makes a staged thread visible, all at once. The staged log must be complete. The lease of the active run, if
    /// there is one, has expired. The feed owes the thread a position until [`TransferStore::put_feed`] restores the
    /// one it had. A back-end records this as a `fed_version` of minus the imported version: the number is smaller than
    /// any version, and an imported feed settles it, but not later changes.
    async fn publish(&self, key: ThreadKey, moved: &MovedThread) -> StoreResult<Published>;

    /// Discards the staged data of a thread.
    async fn unstage(&self, key: ThreadKey) -> StoreResult<()>;

    /// Takes over a feed as [`FeedImage::taking`] says; false if nothing had to change. Entries of threads that are not
    /// the user's in this store report these threads as deleted. Published threads without an entry get a new position.
    async fn put_feed(&self, project: &ProjectId, user: &UserId, moved: &FeedImage) -> StoreResult<bool>;
}

impl Default for FeedImage {
    fn default() -> Self {
        Self { head: 0, epoch: Epoch::NONE, entries: Vec::new() }
    }
}

impl FeedImage {
    /// The content of this feed after `moved` is merged into it; `None` if it holds all of `moved` already.
    ///
    /// An empty feed becomes the other one, including its epoch and positions: cursors that readers hold stay valid. Otherwise
    /// both feeds have given the same positions to different changes, and a reader cannot say which feed issued its
    /// cursor. Then every entry gets a position above all that either feed has given: a reader with any cursor receives
    /// every thread once more, and misses none.
    pub fn taking(&self, moved: &Self) -> Option<Self> {
        if self.holds(moved) {
            return None;
        }
        if self.head == 0 {
            return Some(moved.clone());
        }
        let shift = self.head.max(moved.head);
        let known: BTreeSet<&ThreadId> = self.entries.iter().map(|entry| &entry.1).collect();
        let mut entries: Vec<_> = self.entries.iter().map(|(pos, id)| (pos + shift, id.clone())).collect();
        let mut head = self.head + shift;
        for (_, id) in moved.entries.iter().filter(|entry| !known.contains(&entry.1)) {
            head += 1;
            entries.push((head, id.clone()));
        }
        Some(Self { head, epoch: self.epoch, entries })
    }

    /// True if a reader of `moved` may continue here: later changes are above its head, all other entries are the same.
    fn holds(&self, moved: &Self) -> bool {
        let theirs: BTreeMap<u64, &ThreadId> = moved.entries.iter().map(|(pos, id)| (*pos, id)).collect();
        let mut ours = HashMap::with_capacity(self.entries.len());
        for (pos, id) in &self.entries {
            if *pos <= moved.head && theirs.get(pos) != Some(&id) {
                return false;
            }
            ours.insert(id, *pos);
        }
        self.head >= moved.head
            && moved.entries.iter().all(|(pos, id)| ours.get(id).is_some_and(|own| own == pos || *own > moved.head))
    }
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

    fn feed(head: u64, entries: &[(u64, &str)]) -> FeedImage {
        let entries = entries.iter().map(|(pos, id)| (*pos, ThreadId::new(id).expect("id")));
        FeedImage { head, epoch: Epoch::from_i64(5), entries: entries.collect() }
    }

    #[test]
    fn an_empty_feed_becomes_the_one_that_comes() {
        let moved = feed(7, &[(3, "a"), (7, "b")]);
        assert_eq!(FeedImage::default().taking(&moved), Some(moved.clone()));
        assert_eq!(moved.taking(&moved), None);
        assert_eq!(FeedImage::default().taking(&FeedImage::default()), None);
    }

    #[test]
    fn a_feed_that_went_on_since_is_left_alone() {
        let moved = feed(7, &[(3, "a"), (7, "b")]);
        assert_eq!(feed(9, &[(7, "b"), (8, "new"), (9, "a")]).taking(&moved), None);
        // The feed lacks one of the changes, or holds another at a position that the readers have passed.
        assert!(feed(9, &[(7, "b"), (8, "new")]).taking(&moved).is_some());
        assert!(feed(9, &[(2, "x"), (7, "b"), (9, "a")]).taking(&moved).is_some());
    }

    #[test]
    fn two_feeds_become_one_above_both() {
        let (own, moved) = (feed(4, &[(2, "x"), (4, "a")]), feed(7, &[(3, "a"), (7, "b")]));
        let both = own.taking(&moved).expect("something to do");
        assert_eq!(both, feed(12, &[(9, "x"), (11, "a"), (12, "b")]));
        assert_eq!(both.taking(&moved), None, "and again");
    }

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
