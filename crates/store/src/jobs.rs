//! Background work as durable rows: a job is inserted by the commit that causes it, and taken by any node.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use threadline_core::{
    ProjectId, Seq, ThreadKey, Timestamp, UserId,
    limits::{JOB_BACKOFF, JOB_BACKOFF_MAX, JOB_PARKED, JOB_TRIES},
};

use crate::error::StoreResult;

/// Kind of a job. At most one job of a kind exists for the same subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    /// Seals what is enough for full segments: inserted by the end of a run that passed a multiple of
    /// [`threadline_core::limits::SEGMENT_MIN_EVENTS`] seqs.
    Seal,
    /// Packs the rest of a thread that has become idle: inserted by a start, and by an import.
    Pack,
    /// Removes the rows of a deleted thread, or of an abandoned import.
    Purge,
    /// Archives and trashes the unused threads of a project: put a minute after the start of a node, and due again
    /// after each pass.
    Retention,
    /// Stands for a step of the store's clock: put when the step is noticed. Until it is due, retention does nothing.
    ClockStep,
    /// Counts what users and projects have stored, those whose last count is a day old: put at the start of a node, and due
    /// again after each pass.
    Usage,
    /// Removes agent data that is over, such as expired key-value entries: put at the start of a node, and due again after each
    /// pass.
    ItemOps,
}

/// Subject of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobSubject {
    /// A thread: of sealing, packing and purging.
    Thread(ThreadKey),
    /// A project: of retention.
    Project(ProjectId),
    /// The store as a whole: of a step of its clock, of the counts, and of agent data that is over.
    Store,
}

impl JobSubject {
    /// The thread, if the job is about one.
    pub fn thread(&self) -> Option<ThreadKey> {
        match self {
            Self::Thread(key) => Some(*key),
            Self::Project(_) | Self::Store => None,
        }
    }
}

impl fmt::Display for JobSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(key) => write!(f, "{}", key.0),
            Self::Project(project) => write!(f, "{project}"),
            Self::Store => Ok(()),
        }
    }
}

/// Course of putting a job that there is already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutJob {
    /// The job stays as it is.
    IfAbsent,
    /// The job gets the new time.
    Anew,
}

impl JobKind {
    /// All kinds, in no particular order.
    pub const ALL: [Self; 7] =
        [Self::Seal, Self::Pack, Self::Purge, Self::Retention, Self::ClockStep, Self::Usage, Self::ItemOps];

    /// Stable name of the kind, in the store and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seal => "seal",
            Self::Pack => "pack",
            Self::Purge => "purge",
            Self::Retention => "retention",
            Self::ClockStep => "clock-step",
            Self::Usage => "usage",
            Self::ItemOps => "item-ops",
        }
    }

    /// The subject of a job of this kind from its stored form; `None` if the text is not such a form.
    pub(crate) fn subject(self, text: &str) -> Option<JobSubject> {
        match self {
            Self::Seal | Self::Pack | Self::Purge => Some(JobSubject::Thread(ThreadKey(text.parse().ok()?))),
            Self::Retention => Some(JobSubject::Project(ProjectId::new(text).ok()?)),
            Self::ClockStep | Self::Usage | Self::ItemOps => Some(JobSubject::Store),
        }
    }
}

/// A job that was taken: no other call gets it until the claim ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Kind of the work.
    pub kind: JobKind,
    /// Subject of the work.
    pub subject: JobSubject,
    /// Number of claims since the job was inserted or last made progress, this one included.
    pub tries: u64,
    /// End of the claim, which identifies it.
    pub until: Timestamp,
}

/// End of the claim of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// The work is done, and the job is removed.
    Done,
    /// The work is done if no run is active in the thread and its tail is this one; otherwise the job stays until the
    /// end of its claim.
    DoneAt(Seq),
    /// The job made progress, and is due again after this time.
    Later(Duration),
    /// The job was not tried, and is due at once.
    Untried,
    /// The job failed, and is tried again: at first soon, then less often.
    Failed,
}

impl Job {
    /// Time after which a job that failed is due again.
    pub(crate) fn backoff(&self) -> Duration {
        if self.tries >= JOB_TRIES {
            return JOB_PARKED;
        }
        let doubled = u32::try_from(self.tries.saturating_sub(1)).ok().and_then(|tries| 2u32.checked_pow(tries));
        doubled.map_or(JOB_BACKOFF_MAX, |times| JOB_BACKOFF.saturating_mul(times)).min(JOB_BACKOFF_MAX)
    }
}

/// Backlog of the jobs of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLevel {
    /// Kind of the jobs.
    pub kind: JobKind,
    /// Time for which the oldest job has been due; zero if none is.
    pub oldest: Duration,
    /// Jobs that have failed [`JOB_TRIES`] times, counted up to [`threadline_core::limits::JOB_COUNT`]. Each is tried
    /// once in [`JOB_PARKED`].
    pub parked: u64,
}

/// Result of a step of purging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purging {
    /// Rows of the thread are left.
    More,
    /// The thread has no rows left, or is not deleted.
    Done,
    /// The thread is staged by an import that is abandoned if it makes no step within this time.
    Staged(Duration),
    /// The thread is in the trash, and stays there for this time. Once it has passed, [`crate::TrashStore::discard`] makes the
    /// thread a deleted one.
    Trashed(Duration),
}

/// Result of a step of packing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// The thread does not exist (any more).
    Gone,
    /// A run is active.
    Active,
    /// The last run ended less than the requested time ago: the rest of this time.
    Recent(Duration),
    /// Rows were packed, and there may be more to do.
    More,
    /// The log is packed up to this tail.
    Packed(Seq),
}

/// Jobs, and what an erasure has to purge.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Takes up to `limit` jobs that are due, the oldest first. They are due again after
    /// [`threadline_core::limits::JOB_CLAIM`], unless they end before.
    async fn take_jobs(&self, kind: JobKind, limit: usize) -> StoreResult<Vec<Job>>;

    /// Ends a job, or makes it due later. Changes nothing once the claim was lost.
    async fn end_job(&self, job: &Job, end: JobEnd) -> StoreResult<()>;

    /// Puts a job that is due after a time of the store's clock. False if there is one that stays.
    async fn put_job(&self, kind: JobKind, subject: &JobSubject, after: Duration, put: PutJob) -> StoreResult<bool>;

    /// Time until a job is due, zero if it is; `None` if there is no such job.
    async fn job_due(&self, kind: JobKind, subject: &JobSubject) -> StoreResult<Option<Duration>>;

    /// The level of each kind.
    async fn job_levels(&self) -> StoreResult<Vec<JobLevel>>;

    /// Keys of a user's deleted threads whose rows are not removed yet, up to `limit`.
    async fn tombstones(&self, project: &ProjectId, user: &UserId, limit: usize) -> StoreResult<Vec<ThreadKey>>;
}
