//! Access to the jobs, and the packing of a thread's rows.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{
    ProjectId, ThreadKey, Timestamp, UserId,
    limits::{JOB_CLAIM, JOB_COUNT, JOB_TRIES, SEGMENT_MIN_EVENTS},
};

use super::{MemoryStore, Row, job_table::Stored};
use crate::{
    Job, JobEnd, JobKind, JobLevel, JobStore, JobSubject, Packing, PutJob, StoreResult,
    packing::{self, Part, Plan},
    segment::LogRow,
};

#[async_trait]
impl JobStore for MemoryStore {
    async fn take_jobs(&self, kind: JobKind, limit: usize) -> StoreResult<Vec<Job>> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let due = state.jobs.all.iter_mut().filter(|((other, _), stored)| *other == kind && stored.due_at <= now);
        let mut due: Vec<_> = due.map(|((_, subject), stored)| (subject.clone(), stored)).collect();
        due.sort_by(|(a, one), (b, other)| (one.due_at, a).cmp(&(other.due_at, b)));
        let taken = due.into_iter().take(limit).map(|(subject, stored)| {
            *stored = Stored { due_at: now.plus(JOB_CLAIM), tries: stored.tries + 1 };
            Job { kind, subject, tries: stored.tries, until: stored.due_at }
        });
        Ok(taken.collect())
    }

    async fn end_job(&self, job: &Job, end: JobEnd) -> StoreResult<()> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let id = (job.kind, job.subject.clone());
        let Some(stored) = state.jobs.all.get_mut(&id).filter(|stored| stored.due_at == job.until) else {
            return Ok(());
        };
        match end {
            JobEnd::Later(time) => *stored = Stored { due_at: now.plus(time), tries: 0 },
            JobEnd::Untried => *stored = Stored { due_at: now, tries: job.tries - 1 },
            JobEnd::Failed => *stored = Stored { due_at: now.plus(job.backoff()), tries: job.tries },
            JobEnd::DoneAt(tail)
                if !job
                    .subject
                    .thread()
                    .and_then(|key| state.threads.get(&key))
                    .is_some_and(|row| row.thread.tail == tail && row.active().is_none()) => {}
            JobEnd::Done | JobEnd::DoneAt(_) => drop(state.jobs.all.remove(&id)),
        }
        Ok(())
    }

    async fn put_job(&self, kind: JobKind, subject: &JobSubject, after: Duration, put: PutJob) -> StoreResult<bool> {
        let due_at = self.clock.now().plus(after);
        let state = &mut *self.state();
        let id = (kind, subject.clone());
        let puts = put == PutJob::Anew || !state.jobs.all.contains_key(&id);
        if puts {
            state.jobs.all.insert(id, Stored { due_at, tries: 0 });
        }
        Ok(puts)
    }

    async fn job_due(&self, kind: JobKind, subject: &JobSubject) -> StoreResult<Option<Duration>> {
        let now = self.clock.now();
        let state = self.state();
        let left = state.jobs.all.get(&(kind, subject.clone())).map(|stored| stored.due_at.0.saturating_sub(now.0));
        Ok(left.map(|left| Duration::from_millis(u64::try_from(left).unwrap_or(0))))
    }

    async fn job_levels(&self) -> StoreResult<Vec<JobLevel>> {
        let now = self.clock.now();
        let state = self.state();
        let levels = JobKind::ALL.into_iter().map(|kind| {
            let oldest = state.jobs.of(kind).map(|stored| stored.due_at).min().map_or(0, |due| now.0 - due.0);
            let parked = state.jobs.of(kind).filter(|stored| stored.tries >= JOB_TRIES).count() as u64;
            let oldest = Duration::from_millis(u64::try_from(oldest).unwrap_or(0));
            JobLevel { kind, oldest, parked: parked.min(JOB_COUNT) }
        });
        Ok(levels.collect())
    }

    async fn tombstones(&self, _project: &ProjectId, _user: &UserId, _limit: usize) -> StoreResult<Vec<ThreadKey>> {
        // A deletion leaves no rows.
        Ok(Vec::new())
    }
}

impl Row {
    /// True if the newest run, which has ended, passed a multiple of [`SEGMENT_MIN_EVENTS`] seqs.
    pub(super) fn passed_segment(&self) -> bool {
        let run = self.runs.get(&self.fence).filter(|run| !run.status.is_active());
        run.is_some_and(|run| self.thread.tail / SEGMENT_MIN_EVENTS > (run.first_seq - 1) / SEGMENT_MIN_EVENTS)
    }

    /// The rows after the seq that is decided.
    fn parts(&self) -> StoreResult<Vec<Part>> {
        self.log.iter().filter(|log| log.first_seq > self.decided).map(|log| Part::of(log.clone())).collect()
    }

    fn put_segments(&mut self, plan: Plan) {
        for segment in plan.segments {
            let covered = |log: &LogRow| log.first_seq >= segment.first_seq && log.last_seq <= segment.last_seq;
            let start = self.log.partition_point(|log| log.first_seq < segment.first_seq);
            let count = self.log[start..].iter().take_while(|log| covered(log)).count();
            let (first_seq, last_seq, at) = (segment.first_seq, segment.last_seq, segment.at);
            let row = LogRow { first_seq, last_seq, at, run: None, body: segment.body.into() };
            self.log.splice(start..start + count, [row]);
        }
        self.decided = self.decided.max(plan.decided.unwrap_or(0));
    }

    pub(super) fn seal(&mut self) -> StoreResult<bool> {
        let plan = packing::seal(&self.parts()?)?;
        let sealed = !plan.segments.is_empty();
        self.put_segments(plan);
        Ok(sealed)
    }

    pub(super) fn pack(&mut self, now: Timestamp, idle: Duration) -> StoreResult<Packing> {
        let used = self.thread.last_run_at.unwrap_or(self.thread.created_at);
        let left = used.plus(idle).0.saturating_sub(now.0);
        if self.active().is_some() {
            return Ok(Packing::Active);
        }
        if left > 0 {
            return Ok(Packing::Recent(Duration::from_millis(left.unsigned_abs())));
        }
        let plan = packing::pack(&self.parts()?, false)?;
        let packed = !plan.segments.is_empty();
        self.put_segments(plan);
        Ok(if packed { Packing::More } else { Packing::Packed(self.thread.tail) })
    }
}
