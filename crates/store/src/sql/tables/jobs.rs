//! Jobs of both databases. A thread's key is a text in the table, since the subject of other kinds is no number.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{
    ProjectId, ThreadKey, Timestamp, UserId,
    limits::{JOB_CLAIM, JOB_COUNT},
};

use super::{Tables, Value};
use crate::{
    Job, JobEnd, JobKind, JobLevel, JobStore, JobSubject, PutJob, StoreResult,
    sql::{columns::Columns, corrupt, limit, millis, to_i64},
};

/// Looks for due jobs before the claim, so that nothing is committed if there are none.
pub(crate) const WAITING: &str = "SELECT ref FROM jobs WHERE kind = $1 AND due_at <= $2 ORDER BY due_at LIMIT 1";

#[async_trait]
impl<S: Tables> JobStore for S {
    async fn take_jobs(&self, kind: JobKind, most: usize) -> StoreResult<Vec<Job>> {
        if let Some(now) = self.time()
            && self.found(WAITING, vec![kind.name().into(), now.into()]).await?.is_empty()
        {
            return Ok(Vec::new());
        }
        let values = vec![self.time().into(), kind.name().into(), millis(JOB_CLAIM).into(), limit(most).into()];
        let rows = self.changed(S::STATEMENTS.take_jobs, values).await?;
        rows.iter()
            .map(|row| {
                let mut columns = Columns::new(row);
                let subject = kind.subject(&columns.text()?).ok_or_else(|| corrupt("a job without its subject"))?;
                Ok(Job { kind, subject, tries: columns.count()?, until: Timestamp(columns.int()?) })
            })
            .collect()
    }

    async fn end_job(&self, job: &Job, end: JobEnd) -> StoreResult<()> {
        let (kind, subject) = (job.kind.name(), job.subject.to_string());
        let tail = match end {
            JobEnd::Done => None,
            JobEnd::DoneAt(tail) => Some(to_i64(tail)),
            JobEnd::Later(time) => return delay(self, job, time, 0).await,
            JobEnd::Untried => return delay(self, job, Duration::ZERO, job.tries - 1).await,
            JobEnd::Failed => return delay(self, job, job.backoff(), job.tries).await,
        };
        let key = job.subject.thread().map_or(0, |key| key.0);
        let values = vec![kind.into(), subject.into(), job.until.0.into(), key.into(), tail.into()];
        self.changed(S::STATEMENTS.end_job, values).await.map(drop)
    }

    async fn put_job(&self, kind: JobKind, subject: &JobSubject, after: Duration, put: PutJob) -> StoreResult<bool> {
        let anew = i64::from(put == PutJob::Anew);
        let subject = subject.to_string();
        let values = vec![self.time().into(), kind.name().into(), subject.into(), millis(after).into(), anew.into()];
        Ok(!self.changed(S::STATEMENTS.put_job, values).await?.is_empty())
    }

    async fn job_due(&self, kind: JobKind, subject: &JobSubject) -> StoreResult<Option<Duration>> {
        let values = vec![self.time().into(), kind.name().into(), subject.to_string().into()];
        let rows = self.found(S::STATEMENTS.job_due, values).await?;
        let left = rows.first().map(|row| Columns::new(row).count()).transpose()?;
        Ok(left.map(Duration::from_millis))
    }

    async fn job_levels(&self) -> StoreResult<Vec<JobLevel>> {
        let mut levels = Vec::with_capacity(JobKind::ALL.len());
        for kind in JobKind::ALL {
            let values = vec![self.time().into(), kind.name().into(), to_i64(JOB_COUNT).into()];
            let rows = self.found(S::STATEMENTS.job_levels, values).await?;
            let row = rows.first().ok_or_else(|| corrupt("no answer to a question about jobs"))?;
            let mut columns = Columns::new(row);
            let oldest = columns.maybe_int()?.unwrap_or(0).unsigned_abs();
            levels.push(JobLevel { kind, oldest: Duration::from_millis(oldest), parked: columns.count()? });
        }
        Ok(levels)
    }

    async fn tombstones(&self, project: &ProjectId, user: &UserId, most: usize) -> StoreResult<Vec<ThreadKey>> {
        let values = vec![project.as_str().into(), user.as_str().into(), limit(most).into()];
        let rows = self.found(S::STATEMENTS.tombstones, values).await?;
        rows.iter().map(|row| Columns::new(row).int().map(ThreadKey)).collect()
    }
}

async fn delay<S: Tables>(store: &S, job: &Job, time: Duration, tries: u64) -> StoreResult<()> {
    let subject = job.subject.to_string();
    let values: Vec<Value> = vec![
        store.time().into(),
        job.kind.name().into(),
        subject.into(),
        job.until.0.into(),
        millis(time).into(),
        to_i64(tries).into(),
    ];
    store.changed(S::STATEMENTS.delay_job, values).await.map(drop)
}
