//! Decoding of stored rows: heads, runs and threads.

use sqlx::Row;
use threadline_core::{
    AgentId, Author, Branch, DriverFence, Epoch, Family, FeedHead, Fence, ForkedFrom, Generation, Hold, IdError,
    LastRun, LogHistory, NameSource, PriorEpoch, ProjectId, QueueState, Run, RunId, RunStatus, Thread, ThreadId,
    ThreadKey, Timestamp, UserId, WriteFence,
};

use super::{append::appended, corrupt};
use crate::{ActiveHead, Append, Appended, Head, StoreResult};

/// The cells of a row, by position; `None` is NULL.
pub(crate) trait Cells {
    fn int(&self, at: usize) -> sqlx::Result<Option<i64>>;
    fn flag(&self, at: usize) -> sqlx::Result<Option<bool>>;
    fn text(&self, at: usize) -> sqlx::Result<Option<&str>>;
    fn bytes(&self, at: usize) -> sqlx::Result<Option<&[u8]>>;
}

macro_rules! cells {
    ($row:ty) => {
        impl Cells for $row {
            fn int(&self, at: usize) -> sqlx::Result<Option<i64>> {
                self.try_get_unchecked(at)
            }

            fn flag(&self, at: usize) -> sqlx::Result<Option<bool>> {
                self.try_get_unchecked(at)
            }

            fn text(&self, at: usize) -> sqlx::Result<Option<&str>> {
                self.try_get_unchecked(at)
            }

            fn bytes(&self, at: usize) -> sqlx::Result<Option<&[u8]>> {
                self.try_get_unchecked(at)
            }
        }
    };
}
#[cfg(feature = "postgres")]
cells!(sqlx::postgres::PgRow);
#[cfg(feature = "sqlite")]
cells!(sqlx::sqlite::SqliteRow);

/// Reads the columns of a row one after the other.
pub(crate) struct Columns<'r, R> {
    row: &'r R,
    next: usize,
}

impl<'r, R: Cells> Columns<'r, R> {
    pub(crate) fn new(row: &'r R) -> Self {
        Self { row, next: 0 }
    }

    pub(crate) fn skip(mut self, columns: usize) -> Self {
        self.next += columns;
        self
    }

    fn take<T>(&mut self, cell: impl Fn(&'r R, usize) -> sqlx::Result<Option<T>>) -> StoreResult<Option<T>> {
        let at = self.next;
        self.next += 1;
        cell(self.row, at).map_err(corrupt)
    }

    fn must<T>(&mut self, cell: impl Fn(&'r R, usize) -> sqlx::Result<Option<T>>) -> StoreResult<T> {
        let at = self.next;
        self.take(cell)?.ok_or_else(|| corrupt(format_args!("NULL in column {at}")))
    }

    pub(crate) fn int(&mut self) -> StoreResult<i64> {
        self.must(R::int)
    }

    pub(crate) fn maybe_int(&mut self) -> StoreResult<Option<i64>> {
        self.take(R::int)
    }

    pub(crate) fn flag(&mut self) -> StoreResult<bool> {
        self.must(R::flag)
    }

    pub(crate) fn maybe_flag(&mut self) -> StoreResult<Option<bool>> {
        self.take(R::flag)
    }

    /// A count or a seq, which is never negative.
    pub(crate) fn count(&mut self) -> StoreResult<u64> {
        seq(self.int()?)
    }

    pub(crate) fn time(&mut self) -> StoreResult<Timestamp> {
        Ok(Timestamp(self.int()?))
    }

    pub(crate) fn maybe_time(&mut self) -> StoreResult<Option<Timestamp>> {
        Ok(self.maybe_int()?.map(Timestamp))
    }

    pub(crate) fn text(&mut self) -> StoreResult<String> {
        self.must(R::text).map(str::to_owned)
    }

    pub(crate) fn maybe_text(&mut self) -> StoreResult<Option<String>> {
        Ok(self.take(R::text)?.map(str::to_owned))
    }

    pub(crate) fn bytes(&mut self) -> StoreResult<Vec<u8>> {
        self.must(R::bytes).map(<[u8]>::to_vec)
    }

    pub(crate) fn maybe_bytes(&mut self) -> StoreResult<Option<Vec<u8>>> {
        Ok(self.take(R::bytes)?.map(<[u8]>::to_vec))
    }

    pub(crate) fn id<T>(&mut self, parse: impl Fn(&'r str) -> Result<T, IdError>) -> StoreResult<T> {
        parse(self.must(R::text)?).map_err(corrupt)
    }

    pub(crate) fn maybe_id<T>(&mut self, parse: impl Fn(&'r str) -> Result<T, IdError>) -> StoreResult<Option<T>> {
        self.take(R::text)?.map(parse).transpose().map_err(corrupt)
    }

    /// A head and the id of its active run, from the fragment `head_columns`; `None` if an outer join found none.
    pub(crate) fn head(&mut self) -> StoreResult<Option<(Head, Option<RunId>)>> {
        let Some(key) = self.maybe_int()? else {
            self.next += 15;
            return Ok(None);
        };
        let (epoch, tail, fence) = (Epoch::from_i64(self.int()?), self.count()?, Fence(self.int()?));
        let driver = DriverFence(self.int()?);
        let run = self.maybe_id(RunId::new)?;
        let active = self.active()?;
        let (generation, prior) = (Generation(self.int()?), self.prior()?);
        let active = run.as_ref().map(|_| active);
        let queue = self.queue()?;
        let head = Head { key: ThreadKey(key), epoch, tail, fence, driver, active, generation, prior, queue };
        Ok(Some((head, run)))
    }

    /// The rest of the fragment `appended_columns` after its key: what `append` left behind.
    pub(crate) fn appended(&mut self, append: &Append) -> StoreResult<Appended> {
        let (at, epoch, tail) = (self.time()?, Epoch::from_i64(self.int()?), self.count()?);
        let (run, active) = (self.id(RunId::new)?, self.flag()?);
        let state = self.active()?;
        let (generation, prior) = (Generation(self.int()?), self.prior()?);
        let (key, producer_seq, WriteFence { run: fence, driver }) = (append.key, state.producer_seq, append.fence);
        let (active, queue) = (active.then_some(state), QueueState::default());
        let head = Head { key, epoch, tail, fence, driver, active, generation, prior, queue };
        appended(append, head, producer_seq, run, at)
    }

    /// The part of a head that concerns its active run.
    fn active(&mut self) -> StoreResult<ActiveHead> {
        Ok(ActiveHead {
            producer_seq: self.count()?,
            lease_until: self.time()?,
            stop_requested_at: self.maybe_time()?,
            finishing: self.flag()?,
        })
    }

    /// The state of the queue.
    fn queue(&mut self) -> StoreResult<QueueState> {
        let (version, queued) = (self.count()?, self.count()?);
        let held = self.maybe_int()?.map(hold).transpose()?;
        Ok(QueueState { version, queued, held })
    }

    /// The previous epoch, and the position up to which both are the same.
    fn prior(&mut self) -> StoreResult<Option<PriorEpoch>> {
        Ok(match (self.maybe_int()?, self.maybe_int()?) {
            (Some(epoch), Some(tail)) => Some(PriorEpoch { epoch: Epoch::from_i64(epoch), tail: seq(tail)? }),
            _ => None,
        })
    }

    /// A head of a feed, from the fragment `feed_head_columns`; that of a feed without entries if an outer join found none.
    pub(crate) fn feed_head(&mut self) -> StoreResult<FeedHead> {
        let Some(position) = self.maybe_int()? else {
            self.next += 4;
            return Ok(FeedHead::EMPTY);
        };
        let (epoch, generation) = (Epoch::from_i64(self.int()?), Generation(self.int()?));
        Ok(FeedHead { position: seq(position)?, history: LogHistory { epoch, generation, prior: self.prior()? } })
    }

    /// A run as of now, from the fragment `run_columns`: while it is active, its head has the newer state. `None` if an
    /// outer join found none.
    pub(crate) fn run(&mut self, head: &Head) -> StoreResult<Option<Run>> {
        let Some(fence) = self.maybe_int()? else {
            self.next += 15;
            return Ok(None);
        };
        let id = self.id(RunId::new)?;
        let agent = self.maybe_id(AgentId::new)?;
        let status = self.int()?;
        let mut run = Run {
            id,
            fence: Fence(fence),
            agent,
            status: run_status(status)?,
            error_code: self.maybe_text()?,
            error_message: self.maybe_text()?,
            usage: self.maybe_text()?,
            first_seq: self.count()?,
            producer_seq: self.count()?,
            started_at: self.time()?,
            ended_at: self.maybe_time()?,
            lease_until: None,
            stop_requested_at: self.maybe_time()?,
            driven: self.maybe_flag()?.unwrap_or(false),
            author: self.author()?,
            asked_by: self.author()?,
            attempt: self.maybe_int()?.map_or(Ok(1), seq)?,
        };
        if let Some(active) = head.active.as_ref().filter(|_| head.fence == run.fence) {
            overlay(&mut run, active);
        }
        Ok(Some(run))
    }

    fn branch(&mut self) -> StoreResult<Branch> {
        let (family, listed) = (self.maybe_int()?.map(Family), self.flag()?);
        let origin = (self.maybe_id(ThreadId::new)?, self.maybe_int()?, self.maybe_int()?);
        let forked_from = match origin {
            (Some(thread), Some(epoch), Some(at)) => {
                Some(ForkedFrom { thread, epoch: Epoch::from_i64(epoch), seq: seq(at)? })
            }
            _ => None,
        };
        Ok(Branch { family, listed, forked_from })
    }

    fn author(&mut self) -> StoreResult<Option<Author>> {
        Ok(self.take(R::text)?.map(Author::stored))
    }

    /// A thread with its head and its active run, from the fragments `thread_columns`, `head_columns` and `run_columns`;
    /// `None` if an outer join found none.
    pub(crate) fn thread(&mut self) -> StoreResult<Option<Thread>> {
        let Some(project) = self.maybe_id(ProjectId::new)? else {
            self.next += 55;
            return Ok(None);
        };
        let (id, user) = (self.id(ThreadId::new)?, self.id(UserId::new)?);
        let agent = self.maybe_id(AgentId::new)?;
        let name = self.maybe_text()?;
        let name_source = self.maybe_int()?.and_then(NameSource::from_i64);
        let archived = self.flag()?;
        let metadata = self.text()?;
        let (created_at, updated_at, last_run_at) = (self.time()?, self.time()?, self.maybe_time()?);
        let (version, created_with) = (self.int()?, self.text()?);
        let (read_seq, claimed) = (self.count()?, self.flag()?);
        let (last_status, last_id, last_error) = (self.maybe_int()?, self.maybe_id(RunId::new)?, self.maybe_text()?);
        let branch = self.branch()?;
        let open_interrupts = self.count()?;
        let Some((head, _)) = self.head()? else {
            return Err(corrupt(format_args!("thread {id} has no head")));
        };
        let active_run = self.run(&head)?;
        // The head of an active run has its newer state.
        let last_run = match (&active_run, last_status.zip(last_id)) {
            (Some(active), _) => Some(LastRun::from(active)),
            (None, None) => None,
            (None, Some((status, id))) => {
                let status = run_status(status)?;
                let ended_at = last_run_at.filter(|_| !status.is_active());
                Some(LastRun { id, status, error_code: last_error, ended_at })
            }
        };
        Ok(Some(Thread {
            key: head.key,
            project,
            id,
            claimed,
            epoch: head.epoch,
            user,
            agent,
            name,
            name_source,
            archived,
            metadata,
            created_at,
            updated_at,
            last_run_at,
            version,
            created_with,
            tail: head.tail,
            read_seq,
            active_run,
            last_run,
            open_interrupts,
            queue: head.queue,
            branch,
        }))
    }
}

fn hold(number: i64) -> StoreResult<Hold> {
    Hold::from_i64(number).ok_or_else(|| corrupt(format_args!("hold {number}")))
}

fn run_status(number: i64) -> StoreResult<RunStatus> {
    RunStatus::from_i64(number).ok_or_else(|| corrupt(format_args!("run status {number}")))
}

/// A number that is never negative.
fn seq(number: i64) -> StoreResult<u64> {
    u64::try_from(number).map_err(|_| corrupt(format_args!("a count of {number}")))
}

/// Overwrites the state in a run's record with the newer one in the head of the active run.
fn overlay(run: &mut Run, active: &ActiveHead) {
    run.status = if active.finishing { RunStatus::Finishing } else { RunStatus::Running };
    run.producer_seq = active.producer_seq;
    run.lease_until = Some(active.lease_until);
    run.stop_requested_at = active.stop_requested_at;
}
