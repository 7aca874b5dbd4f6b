//! Sums of what users and projects have stored: written every few seconds. A job counts them.

use threadline_core::limits::{USAGE_FLUSH, USAGE_INTERVAL};
use threadline_store::{DynStore, JobKind, JobSubject, PutJob};

use crate::{lifecycle::Lifecycle, limits::StoredBytes};

/// Loop that writes what this node has committed. What is committed after its end is written by [`crate::Service::stop`].
pub(crate) async fn run(store: DynStore, stored: StoredBytes, lifecycle: Lifecycle) {
    let mut ticks = lifecycle.every(USAGE_FLUSH);
    let mut put = false;
    while ticks.next().await {
        if let Err(error) = stored.flush().await {
            tracing::warn!(%error, "cannot write how much was stored; retrying");
        }
        if !put {
            match store.put_job(JobKind::Usage, &JobSubject::Store, USAGE_INTERVAL, PutJob::IfAbsent).await {
                Ok(_) => put = true,
                Err(error) => tracing::warn!(%error, "cannot have the stored data counted; retrying"),
            }
        }
    }
}
