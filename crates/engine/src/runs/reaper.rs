//! Ends runs whose producer does not: their lease has expired, or they ignored a stop.

use futures_util::{StreamExt, stream};
use threadline_core::{
    AgentId,
    limits::{REAP_BATCH, REAP_INTERVAL, REAPERS},
};
use threadline_store::Due;
use tokio::time;

use crate::{
    lifecycle::Lifecycle,
    records::ThreadRef,
    runs::close::{CloseReason, Closer},
};

/// Loop that ends due runs. It reads only the store, so any node may end any run.
pub(crate) async fn run(closer: Closer, lifecycle: Lifecycle) {
    let mut tick = time::interval(REAP_INTERVAL);
    tick.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = lifecycle.stopped() => return,
        }
        // Ends all due runs in one tick, since a crash may leave thousands. Stops if a batch ends none.
        loop {
            let due = match closer.store.due(REAP_BATCH).await {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(%error, "cannot look for expired runs; retrying");
                    break;
                }
            };
            let full = due.len() == REAP_BATCH;
            // Concurrently, so that a long run does not delay the others.
            let ended = stream::iter(due).map(|due| reap(&closer, due)).buffer_unordered(REAPERS);
            let ended = ended.filter(|ended| std::future::ready(*ended)).count().await;
            if !full || ended == 0 || lifecycle.stopping.is_cancelled() {
                break;
            }
        }
    }
}

/// Ends a due run. True if the run has ended.
async fn reap(closer: &Closer, due: Due) -> bool {
    let (project, id) = (due.project, due.thread);
    let ended = async {
        let Some(head) = closer.store.heads(&[due.key]).await?.pop() else { return Ok(None) };
        let Some(run) = closer.store.runs(due.key, None, 1).await?.pop() else { return Ok(None) };
        let (project, user, id) = (project.clone(), due.user, id.clone());
        let thread = ThreadRef { key: due.key, epoch: head.epoch, project, user, id };
        closer.close(&thread, &run.id, run.fence, &CloseReason::Due).await
    };
    match ended.await {
        Ok(Some(run)) if !run.status.is_active() => {
            tracing::info!(
                run = %run.id, thread = %id, %project, agent = run.agent.as_ref().map(AgentId::as_str), status = ?run.status,
                "ended a run in place of its producer"
            );
            true
        }
        Ok(_) => false,
        Err(error) => {
            tracing::warn!(%error, thread = %id, %project, "cannot end an expired run; retrying");
            false
        }
    }
}
