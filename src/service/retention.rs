//! Retention: threads that nobody has used for as many days as their project says are archived, or deleted.

use std::time::Duration;

use serde_json::json;
use tokio::time;

use super::{
    ServiceError,
    context::Context,
    directory::ThreadRef,
    health::{self, Asked},
};
use crate::{
    domain::{
        AuditEntry, ProjectId, ProjectSettings, Thread, ThreadPatch, Timestamp,
        limits::{MAX_RETENTION_SKEW, RETENTION_AUDIT_IDS, RETENTION_INTERVAL, RETENTION_WINDOW},
    },
    store::StoreError,
};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// What is done to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Archive,
    Delete,
}

/// The loop. Every node has it: what one has done the others find done.
pub(super) async fn run(context: Context) {
    loop {
        // Not all nodes at once.
        let apart = context.clock.now().0.unsigned_abs() % 256;
        tokio::select! {
            () = time::sleep(RETENTION_INTERVAL + Duration::from_millis(apart * 100)) => {}
            () = context.stopped() => return,
        }
        if let Err(error) = sweep(&context).await {
            tracing::warn!(%error, "retention could not do all of its work; the rest is left to the next time");
        }
    }
}

/// Looks through the threads of all projects once. What is old is told by the store's clock, which is one for all nodes.
/// Where this node's is far from it one of the two is wrong, and nothing is done.
pub(super) async fn sweep(context: &Context) -> Result<(), ServiceError> {
    let Asked { status, skew_ms } = health::ask(&context.store, &context.clock).await?;
    context.metrics.skewed(skew_ms);
    if u128::from(skew_ms.unsigned_abs()) > MAX_RETENTION_SKEW.as_millis() {
        context.metrics.retention_refused.inc();
        tracing::error!(
            store = %status.now,
            node = %context.clock.now(),
            "retention is refused: the clocks of the store and of this node differ by more than {} s; set them right (NTP)",
            MAX_RETENTION_SKEW.as_secs()
        );
        return Ok(());
    }
    for project in context.store.projects().await? {
        let settings: ProjectSettings = serde_json::from_str(&project.settings)
            .map_err(|error| StoreError::Corrupt(format!("the project {}: {error}", project.id)))?;
        let retention = settings.retention;
        // Deleting first: what goes need not be archived.
        for (days, deed) in [(retention.delete_after_days, Deed::Delete), (retention.archive_after_days, Deed::Archive)]
        {
            if let Some(days) = days {
                work(context, &project.id, status.now, days, deed).await?;
            }
        }
    }
    Ok(())
}

async fn work(
    context: &Context,
    project: &ProjectId,
    now: Timestamp,
    days: u32,
    deed: Deed,
) -> Result<(), ServiceError> {
    let before = now.minus(DAY * days);
    let mut after = None;
    loop {
        if context.draining.is_cancelled() {
            return Ok(());
        }
        let page = context.store.idle_threads(project, before, after, RETENTION_WINDOW).await?;
        let wanted = page.threads.iter().filter(|thread| deed == Deed::Delete || !thread.archived);
        let wanted: Vec<_> = wanted.collect();
        for some in wanted.chunks(RETENTION_AUDIT_IDS) {
            note(context, project, now, days, deed, some).await?;
            for thread in some {
                carry_out(context, thread, before, deed).await?;
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

/// The audit comes first: should the node die in between, it says too much rather than too little.
async fn note(
    context: &Context,
    project: &ProjectId,
    now: Timestamp,
    days: u32,
    deed: Deed,
    threads: &[&Thread],
) -> Result<(), ServiceError> {
    let ids: Vec<_> = threads.iter().map(|thread| thread.id.as_str()).collect();
    let action = match deed {
        Deed::Archive => "retention.archives",
        Deed::Delete => "retention.deletes",
    };
    let entry = AuditEntry {
        project: project.clone(),
        at: now,
        actor: "retention".to_owned(),
        action: action.to_owned(),
        facts: json!({ "afterDays": days, "threads": ids }).to_string(),
    };
    Ok(context.store.record(&entry).await?)
}

async fn carry_out(context: &Context, thread: &Thread, before: Timestamp, deed: Deed) -> Result<(), ServiceError> {
    // Somebody may have come back to it since it was found.
    let Some(now) = context.store.thread(&thread.project, &thread.id).await? else { return Ok(()) };
    if now.key != thread.key || now.active_run.is_some() || now.last_run_at.unwrap_or(now.updated_at) >= before {
        return Ok(());
    }
    match deed {
        Deed::Archive => {
            let patch = ThreadPatch { archived: Some(true), ..ThreadPatch::default() };
            if context.store.edit_thread(now.key, now.version, patch).await?.is_some() {
                context.feed_writer.mark(&now.project, &now.user);
            }
        }
        Deed::Delete => {
            let thread = ThreadRef::from(&now);
            context.store.delete_thread(thread.key).await?;
            context.deleted(&thread);
        }
    }
    Ok(())
}
