//! Rows as they are stored, and what they mean.

use sqlx::{Decode, Row, Sqlite, sqlite::SqliteRow};

use super::{corrupt, fetch::Work};
use crate::{
    domain::{
        AgentId, Epoch, Fence, IdError, NameSource, ProjectId, Run, RunId, RunStatus, Thread, ThreadId, ThreadKey,
        Timestamp, UserId,
    },
    store::{ActiveHead, Head},
};

/// Columns of a head, as [`Columns::head`] takes them (without the alias: in a RETURNING).
macro_rules! head_columns {
    () => {
        "key, epoch, tail, fence, run, producer_seq, lease_until, stop_at, finishing"
    };
    (h) => {
        "h.key, h.epoch, h.tail, h.fence, h.run, h.producer_seq, h.lease_until, h.stop_at, h.finishing"
    };
}
pub(super) use head_columns;

/// Columns of a run, as [`Columns::run`] takes them.
macro_rules! run_columns {
    () => {
        "r.fence, r.id, r.agent, r.status, r.error_code, r.error_message, r.usage, r.first_seq, r.producer_seq, r.started_at, \
         r.ended_at, r.stop_at"
    };
}
pub(super) use run_columns;

/// Columns of a thread with its head and its active run, as [`Columns::thread`] takes them.
macro_rules! thread_columns {
    () => {
        concat!(
            "t.project, t.id, t.user, t.agent, t.name, t.name_source, t.archived, t.metadata, t.created_at, \
             t.updated_at, t.last_run_at, t.version, t.created_with, ",
            head_columns!(h),
            ", ",
            run_columns!()
        )
    };
}
pub(super) use thread_columns;

/// Takes the columns of a row one after the other.
pub(super) struct Columns<'r> {
    row: &'r SqliteRow,
    next: usize,
}

impl<'r> Columns<'r> {
    pub(super) fn new(row: &'r SqliteRow) -> Self {
        Self { row, next: 0 }
    }

    pub(super) fn skip(mut self, columns: usize) -> Self {
        self.next += columns;
        self
    }

    fn take<T: Decode<'r, Sqlite>>(&mut self) -> Work<T> {
        let index = self.next;
        self.next += 1;
        Ok(self.row.try_get_unchecked(index)?)
    }

    pub(super) fn int(&mut self) -> Work<i64> {
        self.take()
    }

    pub(super) fn maybe_int(&mut self) -> Work<Option<i64>> {
        self.take()
    }

    /// A count or a seq, which is never negative.
    pub(super) fn count(&mut self) -> Work<u64> {
        let number = self.int()?;
        Ok(u64::try_from(number).map_err(|_| corrupt(format_args!("a count of {number}")))?)
    }

    fn time(&mut self) -> Work<Timestamp> {
        Ok(Timestamp(self.int()?))
    }

    fn maybe_time(&mut self) -> Work<Option<Timestamp>> {
        Ok(self.maybe_int()?.map(Timestamp))
    }

    pub(super) fn text(&mut self) -> Work<String> {
        self.take()
    }

    fn maybe_text(&mut self) -> Work<Option<String>> {
        self.take()
    }

    pub(super) fn bytes(&mut self) -> Work<Vec<u8>> {
        self.take()
    }

    pub(super) fn id<T>(&mut self, parse: impl Fn(&'r str) -> Result<T, IdError>) -> Work<T> {
        Ok(parse(self.take()?).map_err(corrupt)?)
    }

    pub(super) fn maybe_id<T>(&mut self, parse: impl Fn(&'r str) -> Result<T, IdError>) -> Work<Option<T>> {
        Ok(self.take::<Option<&str>>()?.map(parse).transpose().map_err(corrupt)?)
    }

    /// A head and the id of its active run; `None` if an outer join found none.
    pub(super) fn head(&mut self) -> Work<Option<(Head, Option<RunId>)>> {
        let Some(key) = self.maybe_int()? else {
            self.next += 8;
            return Ok(None);
        };
        let (epoch, tail, fence) = (Epoch::from_i64(self.int()?), self.count()?, Fence(self.int()?));
        let run = self.maybe_id(RunId::new)?;
        let active = ActiveHead {
            producer_seq: self.count()?,
            lease_until: self.time()?,
            stop_requested_at: self.maybe_time()?,
            finishing: self.int()? != 0,
        };
        let head = Head { key: ThreadKey(key), epoch, tail, fence, active: run.as_ref().map(|_| active) };
        Ok(Some((head, run)))
    }

    /// A run as of now: while it is active its head knows better. `None` if an outer join found none.
    pub(super) fn run(&mut self, head: &Head) -> Work<Option<Run>> {
        let Some(fence) = self.maybe_int()? else {
            self.next += 11;
            return Ok(None);
        };
        let id = self.id(RunId::new)?;
        let agent = self.maybe_id(AgentId::new)?;
        let status = self.int()?;
        let mut run = Run {
            id,
            fence: Fence(fence),
            agent,
            status: RunStatus::from_i64(status).ok_or_else(|| corrupt(format_args!("run status {status}")))?,
            error_code: self.maybe_text()?,
            error_message: self.maybe_text()?,
            usage: self.maybe_text()?,
            first_seq: self.count()?,
            producer_seq: self.count()?,
            started_at: self.time()?,
            ended_at: self.maybe_time()?,
            lease_until: None,
            stop_requested_at: self.maybe_time()?,
        };
        if let Some(active) = head.active.as_ref().filter(|_| head.fence == run.fence) {
            overlay(&mut run, active);
        }
        Ok(Some(run))
    }

    /// A thread with its head and its active run; `None` if an outer join found none.
    pub(super) fn thread(&mut self) -> Work<Option<Thread>> {
        let Some(project) = self.maybe_id(ProjectId::new)? else {
            self.next += 33;
            return Ok(None);
        };
        let (id, user) = (self.id(ThreadId::new)?, self.id(UserId::new)?);
        let agent = self.maybe_id(AgentId::new)?;
        let name = self.maybe_text()?;
        let name_source = self.maybe_int()?.and_then(NameSource::from_i64);
        let archived = self.int()? != 0;
        let metadata = self.text()?;
        let (created_at, updated_at, last_run_at) = (self.time()?, self.time()?, self.maybe_time()?);
        let (version, created_with) = (self.int()?, self.text()?);
        let Some((head, _)) = self.head()? else {
            return Err(corrupt(format_args!("thread {id} has no head")).into());
        };
        let active_run = self.run(&head)?;
        Ok(Some(Thread {
            key: head.key,
            project,
            id,
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
            active_run,
        }))
    }
}

/// What the head of an active run knows better than its record.
fn overlay(run: &mut Run, active: &ActiveHead) {
    run.status = if active.finishing { RunStatus::Finishing } else { RunStatus::Running };
    run.producer_seq = active.producer_seq;
    run.lease_until = Some(active.lease_until);
    run.stop_requested_at = active.stop_requested_at;
}

/// A seq, a cursor or a count as the database compares it. What is cut off here is beyond every log, and the sum
/// of two stays an integer.
pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX).min(1 << 61)
}

/// A number of rows.
pub(super) fn limit(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A length of time in milliseconds.
pub(super) fn millis(length: std::time::Duration) -> i64 {
    // Far beyond MAX_LEASE, and a sum with the present moment stays an integer.
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX).min(1 << 50)
}
