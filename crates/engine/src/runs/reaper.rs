//! Ends runs whose producer does not: their lease has expired, or they ignored a stop.

use futures_util::{StreamExt, stream};
use threadline_core::{
    AgentId,
    limits::{REAP_BATCH, REAP_INTERVAL, REAPERS},
};
use threadline_store::{Claimed, Due};

use crate::{
    lifecycle::Lifecycle,
    records::ThreadRef,
    runs::close::{CloseReason, Closer},
};

/// Loop that ends due runs. It reads only the store, so any node may end any run.
pub(crate) async fn run(closer: Closer, lifecycle: Lifecycle) {
    let mut ticks = lifecycle.every(REAP_INTERVAL);
    while ticks.next().await {
        // Ends all due runs in one tick, since a crash may leave thousands. A run that cannot be ended stays claimed, so it
        // does not return in the next batch.
        loop {
            let Claimed { due, more } = match closer.store.claim_due(REAP_BATCH).await {
                Ok(claimed) => claimed,
                Err(error) => {
                    tracing::warn!(%error, "cannot look for expired runs; retrying");
                    break;
                }
            };
            // Concurrently, so that a long run does not delay the others.
            stream::iter(due).for_each_concurrent(REAPERS, |due| reap(&closer, due)).await;
            if !more || lifecycle.stopping.is_cancelled() {
                break;
            }
        }
    }
}

/// Ends a due run.
async fn reap(closer: &Closer, due: Due) {
    let (project, id) = (due.project, due.thread);
    let ended = async {
        let Some(head) = closer.store.heads(&[due.key]).await?.pop() else { return Ok(None) };
        let Some(run) = closer.store.runs(due.key, None, 1).await?.pop() else { return Ok(None) };
        let (project, user, id) = (project.clone(), due.user, id.clone());
        let thread = ThreadRef { key: due.key, epoch: head.epoch, project, user, id };
        closer.close(&thread, &run.id, head.write_fence(), None, &CloseReason::Due).await
    };
    match ended.await {
        Ok(Some(run)) if !run.status.is_active() => {
            tracing::info!(
                run = %run.id, thread = %id, %project, agent = run.agent.as_ref().map(AgentId::as_str), status = ?run.status,
                "ended a run in place of its producer"
            );
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, thread = %id, %project, "cannot end an expired run; retrying"),
    }
}
