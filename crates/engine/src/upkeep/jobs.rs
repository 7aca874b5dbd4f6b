//! Carries out the jobs of the store: sealing, packing, purging, retention, counts, and the removal of agent data that is over. Every node looks for jobs; one node takes each.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use threadline_core::{
    ProjectId, ThreadKey,
    limits::{
        JOB_BATCH, JOB_INTERVAL, JOB_LEVELS_INTERVAL, JOB_SLICE, JOB_TRIES, PACK_ACTIVE, PACK_IDLE, PACK_REST,
        PURGE_ROWS, RETENTION_INTERVAL, SEAL_REST, USAGE_AGE, USAGE_BATCH, USAGE_INTERVAL, USAGE_REST,
    },
};
use threadline_store::{DynStore, Job, JobEnd, JobKind, JobSubject, Packing, Purging, StoreResult};
use tokio::time::{self, Instant};

use crate::{
    commit::pipeline::CommitCount,
    lifecycle::Lifecycle,
    limits::StoredBytes,
    metrics::Metrics,
    upkeep::{
        agent_data,
        clock_guard::ClockGuard,
        retention::{self, Retention, Swept},
    },
};

/// Dependencies of the loops.
pub(crate) struct JobWork {
    pub store: DynStore,
    pub lifecycle: Lifecycle,
    pub metrics: Metrics,
    /// Counter of commits: sealing and packing pause between two steps while commits arrive.
    pub commits: CommitCount,
    pub guard: Arc<ClockGuard>,
    pub retention: Arc<Retention>,
    pub stored: StoredBytes,
}

/// Loop that carries out the jobs of a kind. Kinds have a loop each, so that none waits for a long job of another.
pub(crate) async fn run(work: Arc<JobWork>, kind: JobKind) {
    let mut ticks = work.lifecycle.every(JOB_INTERVAL);
    while ticks.next().await {
        loop {
            let jobs = match work.store.take_jobs(kind, JOB_BATCH).await {
                Ok(jobs) => jobs,
                Err(error) => {
                    tracing::warn!(%error, kind = kind.name(), "cannot look for background work; retrying");
                    break;
                }
            };
            let more = jobs.len() >= JOB_BATCH;
            let slice = Slice::begin();
            for job in jobs {
                // A job that is put back in time does not outlive its claim, and a node that stops leaves no claim behind.
                let done = if slice.is_over(&work) { JobEnd::Untried } else { carry_out(&work, &job).await };
                // An end that is not noted is harmless: the work is found done when the claim has ended.
                if let Err(error) = work.store.end_job(&job, done).await {
                    tracing::warn!(%error, kind = kind.name(), subject = %job.subject, "cannot note the end of background work");
                }
            }
            if !more || work.lifecycle.stopping.is_cancelled() {
                break;
            }
        }
    }
}

async fn carry_out(work: &JobWork, job: &Job) -> JobEnd {
    let done = match (job.kind, &job.subject) {
        (JobKind::Seal, JobSubject::Thread(key)) => seal(work, *key).await,
        (JobKind::Pack, JobSubject::Thread(key)) => pack(work, *key).await,
        (JobKind::Purge, JobSubject::Thread(key)) => purge(work, *key).await,
        // The job has held retention back by waiting, and has no other work.
        (JobKind::ClockStep, _) => Ok(JobEnd::Done),
        (JobKind::Retention, JobSubject::Project(project)) => retain(work, project).await,
        (JobKind::Usage, _) => count_usage(work).await,
        (JobKind::ItemOps, _) => agent_data::sweep(&work.store, &work.stored).await,
        (JobKind::Seal | JobKind::Pack | JobKind::Purge | JobKind::Retention, _) => Ok(JobEnd::Done),
    };
    match done {
        Ok(end) => end,
        Err(error) => {
            let (kind, subject, tries) = (job.kind.name(), &job.subject, job.tries);
            if tries < JOB_TRIES {
                tracing::warn!(%error, kind, %subject, tries, "background work failed; retrying later");
            } else {
                tracing::error!(%error, kind, %subject, tries, "background work fails each time; retrying once a day");
            }
            JobEnd::Failed
        }
    }
}

/// Pauses a job for a multiple of the time that its last step took, if commits have arrived during the step.
async fn rest(work: &JobWork, begun: Instant, commits: u64, times: u32) {
    if work.commits.load(Ordering::Relaxed) != commits {
        tokio::select! {
            () = time::sleep(begun.elapsed() * times) => {}
            () = work.lifecycle.stopped() => {}
        }
    }
}

/// Time at which an unfinished job is put back.
struct Slice(Instant);

impl Slice {
    fn begin() -> Self {
        Self(Instant::now() + JOB_SLICE)
    }

    fn is_over(&self, work: &JobWork) -> bool {
        Instant::now() >= self.0 || work.lifecycle.stopping.is_cancelled()
    }
}

async fn seal(work: &JobWork, key: ThreadKey) -> StoreResult<JobEnd> {
    let slice = Slice::begin();
    loop {
        let (begun, commits) = (Instant::now(), work.commits.load(Ordering::Relaxed));
        if !work.store.seal(key).await? {
            return Ok(JobEnd::Done);
        }
        rest(work, begun, commits, SEAL_REST).await;
        if slice.is_over(work) {
            return Ok(JobEnd::Later(Duration::ZERO));
        }
    }
}

async fn pack(work: &JobWork, key: ThreadKey) -> StoreResult<JobEnd> {
    let slice = Slice::begin();
    loop {
        let (begun, commits) = (Instant::now(), work.commits.load(Ordering::Relaxed));
        match work.store.pack(key, PACK_IDLE).await? {
            Packing::Gone => return Ok(JobEnd::Done),
            Packing::Packed(tail) => return Ok(JobEnd::DoneAt(tail)),
            Packing::Recent(left) => return Ok(JobEnd::Later(left)),
            Packing::Active => {
                return Ok(match seal(work, key).await? {
                    JobEnd::Done => JobEnd::Later(PACK_ACTIVE),
                    later => later,
                });
            }
            Packing::More => {}
        }
        rest(work, begun, commits, PACK_REST).await;
        if slice.is_over(work) {
            return Ok(JobEnd::Later(Duration::ZERO));
        }
    }
}

async fn purge(work: &JobWork, key: ThreadKey) -> StoreResult<JobEnd> {
    let slice = Slice::begin();
    loop {
        match work.store.purge(key, PURGE_ROWS).await? {
            Purging::Done => return Ok(JobEnd::Done),
            Purging::Staged(left) => return Ok(JobEnd::Later(left)),
            Purging::Trashed(left) if !left.is_zero() => return Ok(JobEnd::Later(left)),
            Purging::Trashed(_) => {
                if let Some(doubt) = work.guard.doubt().await? {
                    tracing::warn!(%doubt, "the trash is not purged");
                    return Ok(JobEnd::Later(RETENTION_INTERVAL));
                }
                if !work.store.discard(key, false).await? {
                    return Ok(JobEnd::Later(Duration::ZERO));
                }
            }
            Purging::More if slice.is_over(work) => return Ok(JobEnd::Later(Duration::ZERO)),
            Purging::More => tokio::task::yield_now().await,
        }
    }
}

async fn retain(work: &JobWork, project: &ProjectId) -> StoreResult<JobEnd> {
    Ok(match retention::sweep(&work.retention, project, Instant::now() + JOB_SLICE).await? {
        Swept::Completely => JobEnd::Later(RETENTION_INTERVAL),
        Swept::Partly => JobEnd::Later(Duration::ZERO),
        Swept::NoRetention => JobEnd::Done,
    })
}

/// Counts the sums of stored data whose last count is old.
async fn count_usage(work: &JobWork) -> StoreResult<JobEnd> {
    let slice = Slice::begin();
    // Sums that this node has not written would count twice.
    work.stored.flush().await?;
    loop {
        let due = work.store.due_usage(USAGE_AGE, USAGE_BATCH).await?;
        for owner in &due {
            let (begun, commits) = (Instant::now(), work.commits.load(Ordering::Relaxed));
            work.stored.count(owner).await?;
            rest(work, begun, commits, USAGE_REST).await;
            if slice.is_over(work) {
                return Ok(JobEnd::Later(Duration::ZERO));
            }
        }
        if due.len() < USAGE_BATCH {
            return Ok(JobEnd::Later(USAGE_INTERVAL));
        }
    }
}

/// Loop that measures how far behind the jobs are.
pub(crate) async fn measure(work: Arc<JobWork>) {
    let mut ticks = work.lifecycle.every(JOB_LEVELS_INTERVAL);
    while ticks.next().await {
        match work.store.job_levels().await {
            Ok(levels) => levels.iter().for_each(|level| work.metrics.jobs.measured(level)),
            Err(error) => tracing::warn!(%error, "cannot measure the background work; retrying"),
        }
        match work.store.holds().await {
            Ok(holds) => work.metrics.retention_held(holds.iter().filter(|hold| hold.approved == 0).count()),
            Err(error) => tracing::warn!(%error, "cannot look whether retention waits; retrying"),
        }
    }
}
