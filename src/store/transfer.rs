//! Moving threads from one back-end to another, byte for byte: what `threadline export` and `import` stand on.
//!
//! A thread comes in as it was: epoch, seqs, fences, records of runs and times. It is *staged* first, in as many steps
//! as it takes, unseen by everybody; [`TransferStore::publish`] makes all of it visible in one commit. What is staged
//! and touched no more for [`STAGING_PATIENCE`](crate::domain::limits::STAGING_PATIENCE) is given up: the
//! purge takes it away.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem,
    sync::Arc,
};

use async_trait::async_trait;

use super::{
    Store, StoreResult,
    segment::{self, LogRow},
};
use crate::domain::{
    AgentId, ApiKey, Batch, Digest, Epoch, Fence, ProjectId, Run, RunId, Seq, Thread, ThreadId, ThreadKey, UserId,
    limits::SEAL_BYTES,
};

/// A thread as it moves.
#[derive(Debug, Clone, PartialEq)]
pub struct MovedThread {
    /// The thread. Where it comes in, its key means nothing, and its active run is one of the runs staged.
    pub thread: Thread,
    /// Fence of its newest run.
    pub fence: Fence,
}

/// A part of a thread that is staged.
#[derive(Debug, Clone, Default)]
pub struct StagedPart {
    /// Records of runs.
    pub runs: Vec<Run>,
    /// Rows of the log, behind those staged before.
    pub rows: Vec<StagedRow>,
}

/// A row of a log that is staged.
#[derive(Debug, Clone)]
pub struct StagedRow {
    /// The row.
    pub row: LogRow,
    /// Fence of the run of a fresh row; `None` for a segment.
    pub fence: Option<Fence>,
    /// Bytes of events, uncompressed.
    pub raw: usize,
}

/// Answer to [`TransferStore::stage`].
#[derive(Debug, Clone)]
pub enum Staging {
    /// Staged under this key.
    Staged(ThreadKey),
    /// There is a thread of this id; nothing was done.
    Taken(Box<Thread>),
}

/// Answer to [`TransferStore::publish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The thread is there for everybody.
    Done,
    /// Meanwhile a thread of this id was made; what was staged stays unseen.
    Taken,
    /// What was staged is gone: it was given up, or another import took its place.
    Gone,
}

/// A thread that has annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotatedThread {
    /// The store's number of this incarnation.
    pub key: ThreadKey,
    /// Its tenant.
    pub project: ProjectId,
    /// Its id.
    pub id: ThreadId,
    /// The incarnation of its log.
    pub epoch: Epoch,
}

/// A user's whole feed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeedImage {
    /// The newest position.
    pub head: u64,
    /// Position and thread, in order of the positions; at most one per thread.
    pub entries: Vec<(u64, ThreadId)>,
}

/// What moving takes beyond [`Store`].
#[async_trait]
pub trait TransferStore: Store {
    /// How many threads there are.
    async fn count_threads(&self) -> StoreResult<u64>;

    /// A page of the threads of all projects, in the order of their keys. Each is as of one moment.
    async fn all_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<MovedThread>>;

    /// A page of the threads that have annotations, in the order of their keys.
    async fn annotated_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<AnnotatedThread>>;

    /// The agents of all projects, in order of project and id.
    async fn all_agents(&self) -> StoreResult<Vec<(ProjectId, AgentId, String)>>;

    /// The API keys of all projects with their digests, valid or not, in order of project and id.
    async fn all_keys(&self) -> StoreResult<Vec<(ApiKey, Digest)>>;

    /// A page of those who have a feed, in order of project and user.
    async fn all_feeds(
        &self,
        after: Option<&(ProjectId, UserId)>,
        limit: usize,
    ) -> StoreResult<Vec<(ProjectId, UserId)>>;

    /// A user's whole feed, as it is now.
    async fn feed_image(&self, project: &ProjectId, user: &UserId) -> StoreResult<FeedImage>;

    /// Begins to stage a thread, with its first part. What was staged under this id before is given up.
    async fn stage(&self, moved: &MovedThread, part: StagedPart) -> StoreResult<Staging>;

    /// Stages another part. False, and nothing is changed, if what was staged is gone.
    async fn stage_more(&self, key: ThreadKey, part: StagedPart) -> StoreResult<bool>;

    /// Makes a staged thread visible, all at once. Its log must be whole. The lease of its active run, if it has one,
    /// is over. Its feed owes it a position until [`TransferStore::put_feed`] brings the one it had. A back-end notes
    /// this by a `fed_version` of minus the version that came in: smaller than any version, and a feed that comes
    /// settles it, but not what has changed since.
    async fn publish(&self, key: ThreadKey, moved: &MovedThread) -> StoreResult<Published>;

    /// Gives up what was staged.
    async fn unstage(&self, key: ThreadKey) -> StoreResult<()>;

    /// Takes over a feed as [`FeedImage::taking`] says; false if there was nothing to do. Entries of threads that
    /// are not the user's here say that these were deleted. Published threads without an entry are fed anew.
    async fn put_feed(&self, project: &ProjectId, user: &UserId, moved: &FeedImage) -> StoreResult<bool>;

    /// Gives the logs of up to `limit` threads behind `after` another epoch, in the order of their keys: no cursor that
    /// was handed out before is good any more. Answers their keys. No node may be at work: nodes remember epochs.
    async fn renew_epochs(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<ThreadKey>>;

    /// Moves a whole feed up by [`crate::domain::limits::FEED_RENEWAL`]: whoever comes with a cursor that was handed
    /// out before hears of every thread once more.
    async fn renew_feed(&self, project: &ProjectId, user: &UserId) -> StoreResult<()>;
}

impl FeedImage {
    /// What this feed becomes when `moved` is brought to it; `None` if it holds all of it already.
    ///
    /// An empty feed becomes the other one, positions and all: cursors that readers hold go on to be good. Otherwise
    /// the two have given the same positions to different changes, and a reader cannot say whose cursor it holds.
    /// Then everything gets a position above all that either feed has given: whoever comes, with whatever cursor,
    /// hears of every thread once more, and misses none.
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
        Some(Self { head, entries })
    }

    /// Whether a reader of `moved` may go on here: what has changed since is above its head, all else is the same.
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

/// Makes rows of a log that comes in order: segments where there is enough for one, and fresh rows.
#[derive(Debug, Default)]
pub struct Packer {
    fences: HashMap<RunId, Fence>,
    fresh: Vec<Arc<Batch>>,
    bytes: usize,
}

impl Packer {
    /// For the log of these runs.
    pub fn new(runs: &[Run]) -> Self {
        Self { fences: runs.iter().map(|run| (run.id.clone(), run.fence)).collect(), ..Self::default() }
    }

    /// Takes the next batch; the rows that it completes.
    pub fn push(&mut self, batch: Arc<Batch>) -> StoreResult<Vec<StagedRow>> {
        self.bytes += batch.body.len();
        self.fresh.push(batch);
        if self.bytes < SEAL_BYTES { Ok(Vec::new()) } else { self.pack(false) }
    }

    /// What is left.
    pub fn finish(mut self) -> StoreResult<Vec<StagedRow>> {
        self.pack(true)
    }

    fn pack(&mut self, all: bool) -> StoreResult<Vec<StagedRow>> {
        let groups = segment::plan(&self.fresh);
        // What stands behind the last segment may become one with what is still to come.
        let end = match groups.last() {
            Some(last) if !all => last.end,
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
        // Whoever stages a log has checked that its runs are known.
        let fence = Some(self.fences.get(&batch.run).copied().unwrap_or(Fence(0)));
        StagedRow { row, fence, raw: batch.body.len() }
    }
}

impl StagedPart {
    /// Seq of its last event.
    pub fn last_seq(&self) -> Option<Seq> {
        self.rows.last().map(|row| row.row.last_seq)
    }

    /// Up to where its rows are sealed.
    pub fn sealed(&self) -> Option<Seq> {
        self.rows.iter().rev().find(|row| row.fence.is_none()).map(|row| row.row.last_seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    fn feed(head: u64, entries: &[(u64, &str)]) -> FeedImage {
        let entries = entries.iter().map(|(pos, id)| (*pos, ThreadId::new(id).expect("id")));
        FeedImage { head, entries: entries.collect() }
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
        // It lost one of the changes, or holds another at a position that the readers have passed.
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
