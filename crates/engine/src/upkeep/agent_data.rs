//! Agent data that is over: a job removes it.

use std::time::Duration;

use threadline_core::{
    Usage,
    kv::KvOwner,
    limits::{AGENT_DATA_INTERVAL, AGENT_DATA_SWEEP, CHECKPOINT_SWEEP, STREAM_SWEEP},
};
use threadline_store::{DynStore, JobEnd, JobKind, JobSubject, PutJob, StoreResult};

use crate::{lifecycle::Lifecycle, limits::StoredBytes};

/// Loop that ends once the job is put.
pub(crate) async fn run(store: DynStore, lifecycle: Lifecycle) {
    let mut ticks = lifecycle.every(AGENT_DATA_INTERVAL);
    while ticks.next().await {
        match store.put_job(JobKind::ItemOps, &JobSubject::Store, AGENT_DATA_INTERVAL, PutJob::IfAbsent).await {
            Ok(_) => return,
            Err(error) => tracing::warn!(%error, "cannot have agent data that is over removed; retrying"),
        }
    }
}

/// Deletes plain streams that have expired, and removes a chunk of those that are gone. The sums of the users get what they have stored
/// no longer.
async fn sweep_streams(store: &DynStore, stored: &StoredBytes) -> StoreResult<bool> {
    let swept = store.sweep_streams(store.clock().now(), STREAM_SWEEP).await?;
    for (owner, bytes) in &swept.removed {
        if let Some(user) = &owner.user {
            stored.note(&owner.project, user, Usage { bytes: -bytes, threads: 0 });
        }
    }
    Ok(swept.more)
}

/// Removes a chunk of what is over. The sums of the users get what they have stored no longer.
pub(crate) async fn sweep(store: &DynStore, stored: &StoredBytes) -> StoreResult<JobEnd> {
    let gone = store.sweep_kv(AGENT_DATA_SWEEP).await?;
    let (removed, items) = store.sweep_items(AGENT_DATA_SWEEP).await?;
    for (owner, bytes) in gone.iter().chain(&items) {
        if let Some(user) = &owner.user {
            stored.note(&owner.project, user, Usage { bytes: -bytes, threads: 0 });
        }
    }
    let mut namespaces = 0;
    while namespaces < CHECKPOINT_SWEEP
        && let Some((KvOwner { project, user: Some(user) }, bytes)) = store.sweep_blobs(AGENT_DATA_SWEEP).await?
    {
        stored.note(&project, &user, Usage { bytes: -bytes, threads: 0 });
        namespaces += 1;
    }
    let more_streams = sweep_streams(store, stored).await?;
    let is_done = !more_streams && gone.len().max(removed) < AGENT_DATA_SWEEP && namespaces < CHECKPOINT_SWEEP;
    Ok(JobEnd::Later(if is_done { AGENT_DATA_INTERVAL } else { Duration::ZERO }))
}
