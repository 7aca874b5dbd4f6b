//! Agent data that is over: a job removes it.

use std::time::Duration;

use threadline_core::{
    Usage,
    limits::{AGENT_DATA_INTERVAL, AGENT_DATA_SWEEP},
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

/// Removes a chunk of what is over. The sums of the users get what they have stored no longer.
pub(crate) async fn sweep(store: &DynStore, stored: &StoredBytes) -> StoreResult<JobEnd> {
    let gone = store.sweep_kv(AGENT_DATA_SWEEP).await?;
    let (removed, items) = store.sweep_items(AGENT_DATA_SWEEP).await?;
    for (owner, bytes) in gone.iter().chain(&items) {
        if let Some(user) = &owner.user {
            stored.note(&owner.project, user, Usage { bytes: -bytes, threads: 0 });
        }
    }
    Ok(JobEnd::Later(if gone.len().max(removed) < AGENT_DATA_SWEEP { AGENT_DATA_INTERVAL } else { Duration::ZERO }))
}
