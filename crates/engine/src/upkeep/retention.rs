//! Retention: threads unused for the number of days in their project's settings are archived, or put in the trash.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use threadline_core::{
    AuditEntry, ProjectId, ProjectSettings, Thread, ThreadPatch, Timestamp,
    limits::{
        JOB_SLICE, RETENTION_AUDIT_IDS, RETENTION_FIRST, RETENTION_FREE, RETENTION_LOOK, RETENTION_SHARE,
        RETENTION_WINDOW,
    },
};
use threadline_store::{DynStore, JobKind, JobSubject, PutJob, RetentionHold, StoreError, StoredProject};
use tokio::time::{self, Instant};

use crate::{
    after_commit::Listeners,
    lifecycle::Lifecycle,
    metrics::Metrics,
    records::ThreadRef,
    upkeep::{clock_guard::ClockGuard, feed_writer::FeedWriter},
};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Dependencies of the retention loop.
pub(crate) struct Retention {
    pub store: DynStore,
    pub guard: Arc<ClockGuard>,
    pub metrics: Metrics,
    pub listeners: Listeners,
    pub feed_writer: Arc<FeedWriter>,
    pub lifecycle: Lifecycle,
}

/// Extent of a pass over a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swept {
    /// The pass is complete, or was refused.
    Completely,
    /// The deadline has passed, or the node is shutting down.
    Partly,
    /// The project has no retention.
    NoRetention,
}

/// Action on an idle thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Archive,
    /// The thread can be restored for this time.
    Trash(Duration),
}

/// Loop that puts a job for each project with retention that has none. The time of the next pass is stored in the job, so the
/// start of a node does not postpone it.
pub(crate) async fn run(retention: Arc<Retention>) {
    tokio::select! {
        () = time::sleep(RETENTION_FIRST) => {}
        () = retention.lifecycle.stopped() => return,
    }
    let mut ticks = retention.lifecycle.every(RETENTION_LOOK);
    while ticks.next().await {
        if let Err(error) = put_jobs(&retention).await {
            tracing::warn!(%error, "cannot look for projects with retention; retrying");
        }
    }
}

async fn put_jobs(retention: &Retention) -> Result<(), StoreError> {
    for project in retention.store.projects().await? {
        if settings(&project)?.retention != Default::default() {
            let subject = JobSubject::Project(project.id);
            retention.store.put_job(JobKind::Retention, &subject, Duration::ZERO, PutJob::IfAbsent).await?;
        }
    }
    Ok(())
}

fn settings(project: &StoredProject) -> Result<ProjectSettings, StoreError> {
    serde_json::from_str(&project.settings)
        .map_err(|error| StoreError::Corrupt(format!("the project {}: {error}", project.id)))
}

/// Checks the threads of all projects once.
pub(crate) async fn sweep_all(retention: &Retention) -> Result<(), StoreError> {
    for project in retention.store.projects().await? {
        while sweep(retention, &project.id, Instant::now() + JOB_SLICE).await? == Swept::Partly {}
    }
    Ok(())
}

/// Checks the threads of a project until a deadline. Ages are measured with the store's clock, which is the same for all
/// nodes. If there is a doubt about that clock, the pass does nothing.
pub(crate) async fn sweep(retention: &Retention, project: &ProjectId, deadline: Instant) -> Result<Swept, StoreError> {
    let projects = retention.store.projects().await?;
    let Some(stored) = projects.iter().find(|stored| stored.id == *project) else { return Ok(Swept::NoRetention) };
    let ages = settings(stored)?.retention;
    if ages.delete_after_days.is_none() && ages.archive_after_days.is_none() {
        return Ok(Swept::NoRetention);
    }
    if let Some(doubt) = retention.guard.doubt().await? {
        retention.metrics.retention_refused.inc();
        tracing::error!(%doubt, %project, "retention is suspended");
        return Ok(Swept::Completely);
    }
    let now = retention.store.status().await?.now;
    // The trash comes first: a thread there need not be archived.
    let trash = Deed::Trash(ages.grace());
    for (days, deed) in [(ages.delete_after_days, trash), (ages.archive_after_days, Deed::Archive)] {
        if let Some(days) = days
            && work(retention, project, now, days, deed, deadline).await? == Swept::Partly
        {
            return Ok(Swept::Partly);
        }
    }
    Ok(Swept::Completely)
}

async fn work(
    retention: &Retention,
    project: &ProjectId,
    now: Timestamp,
    days: u32,
    deed: Deed,
    deadline: Instant,
) -> Result<Swept, StoreError> {
    let before = now.minus(DAY * days);
    let mut left = match deed {
        Deed::Archive => u64::MAX,
        Deed::Trash(_) => allowance(retention, project, now, before).await?,
    };
    let limited = left < u64::MAX;
    let mut after = None;
    while left > 0 {
        let page = retention.store.idle_threads(project, before, after, RETENTION_WINDOW).await?;
        let wanted = page.threads.iter().filter(|thread| deed != Deed::Archive || !thread.archived);
        let wanted: Vec<_> = wanted.collect();
        for some in wanted.chunks(RETENTION_AUDIT_IDS) {
            if retention.lifecycle.draining.is_cancelled() || Instant::now() >= deadline {
                return Ok(Swept::Partly);
            }
            let some = &some[..some.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            if some.is_empty() {
                break;
            }
            note(retention, project, now, days, deed, some).await?;
            match deed {
                Deed::Archive => {
                    for thread in some {
                        archive(retention, thread, before).await?;
                    }
                }
                Deed::Trash(grace) => {
                    if limited {
                        // Spent first: if the node fails in between, fewer threads than approved are put in the trash.
                        let count = some.len() as u64;
                        left = left.saturating_sub(count);
                        retention.store.spend(project, count).await?;
                    }
                    trash(retention, project, some, before, grace).await?;
                }
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    Ok(Swept::Completely)
}

/// Number of threads that may be put in the trash: any number, unless there are unusually many. Then it is the number that
/// was approved; 0 before an approval.
async fn allowance(
    retention: &Retention,
    project: &ProjectId,
    now: Timestamp,
    before: Timestamp,
) -> Result<u64, StoreError> {
    let store = &retention.store;
    let few = usize::try_from(RETENTION_FREE).unwrap_or(usize::MAX).saturating_add(1);
    let mut idle = store.count_idle(project, before, few).await?;
    let mut threads = 0;
    if idle > RETENTION_FREE {
        (threads, idle) = (store.count_own(project).await?, store.count_idle(project, before, usize::MAX).await?);
    }
    let held = store.holds().await?.into_iter().find(|hold| hold.project == *project);
    if idle <= RETENTION_FREE || idle.saturating_mul(RETENTION_SHARE) <= threads {
        if held.is_some() {
            store.end_hold(project).await?;
        }
        return Ok(u64::MAX);
    }
    let approved = held.map_or(0, |hold| hold.approved);
    let hold = RetentionHold { project: project.clone(), idle, threads, approved };
    let facts = json!({ "idle": idle, "threads": threads });
    store.hold(&hold, &entry(project, now, "retention.held", &facts)).await?;
    if approved == 0 {
        tracing::error!(%project, idle, threads, "retention would put unusually many threads in the trash: it waits for an approval");
    }
    Ok(approved)
}

/// The audit entry is written first: if the node fails in between, the entry claims too much rather than too little.
async fn note(
    retention: &Retention,
    project: &ProjectId,
    now: Timestamp,
    days: u32,
    deed: Deed,
    threads: &[&Thread],
) -> Result<(), StoreError> {
    let ids: Vec<_> = threads.iter().map(|thread| thread.id.as_str()).collect();
    let (action, mut facts) = match deed {
        Deed::Archive => ("retention.archives", json!({})),
        Deed::Trash(grace) => ("retention.trashes", json!({ "graceDays": grace.as_secs() / DAY.as_secs() })),
    };
    (facts["afterDays"], facts["threads"]) = (json!(days), json!(ids));
    retention.store.record(&entry(project, now, action, &facts)).await
}

fn entry(project: &ProjectId, at: Timestamp, action: &str, facts: &Value) -> AuditEntry {
    let (actor, action) = ("retention".to_owned(), action.to_owned());
    AuditEntry { project: project.clone(), at, actor, action, facts: facts.to_string() }
}

async fn archive(retention: &Retention, thread: &Thread, before: Timestamp) -> Result<(), StoreError> {
    // The thread may have been used again since it was found.
    let Some(now) = retention.store.thread_of(&thread.project, &thread.user, &thread.id).await? else { return Ok(()) };
    if now.key != thread.key || now.active_run.is_some() || now.last_run_at.unwrap_or(now.updated_at) >= before {
        return Ok(());
    }
    let patch = ThreadPatch { archived: Some(true), ..ThreadPatch::default() };
    if retention.store.edit_thread(now.key, now.version, patch, None).await?.is_some() {
        retention.feed_writer.mark(&now.project, &now.user);
    }
    Ok(())
}

/// Puts threads in the trash. The store leaves out those that were used again since they were found.
async fn trash(
    retention: &Retention,
    project: &ProjectId,
    threads: &[&Thread],
    before: Timestamp,
    grace: Duration,
) -> Result<(), StoreError> {
    let keys: Vec<_> = threads.iter().map(|thread| thread.key).collect();
    let trashed = retention.store.trash(project, &keys, before, grace).await?;
    for thread in threads.iter().filter(|thread| trashed.contains(&thread.key)) {
        retention.listeners.trashed(&ThreadRef::from(*thread));
    }
    Ok(())
}
