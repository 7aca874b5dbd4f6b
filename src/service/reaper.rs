//! Ends runs whose producer does not: their lease ran out, or they were asked to stop and did not.

use futures_util::{StreamExt, stream};
use tokio::time;

use super::{
    closing::{self, Why},
    context::Context,
    directory::ThreadRef,
};
use crate::{
    domain::{
        AgentId, ThreadKey,
        limits::{REAP_BATCH, REAP_INTERVAL, REAPERS, RECHECK_CHUNK, RECHECK_INTERVAL},
    },
    planted::{Bug, planted},
    store::Due,
    subscription::FeedKey,
};

/// The loop that ends what is due. It reads only the store, so any node may end any run.
pub(super) async fn run(context: Context) {
    let mut tick = time::interval(REAP_INTERVAL);
    tick.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = context.stopped() => return,
        }
        if planted(Bug::MissingReap) {
            continue;
        }
        // All that is due, not one batch a tick: after a crash it may be thousands. Stops where nothing gets done.
        loop {
            let due = match context.store.due(REAP_BATCH).await {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(%error, "cannot look for runs that are due; trying again");
                    break;
                }
            };
            let full = due.len() == REAP_BATCH;
            // Side by side, so that a long run does not keep the others waiting.
            let ended = stream::iter(due).map(|due| reap(&context, due)).buffer_unordered(REAPERS);
            let ended = ended.filter(|ended| std::future::ready(*ended)).count().await;
            if !full || ended == 0 || context.stopping.is_cancelled() {
                break;
            }
        }
    }
}

/// Ends a run that is due; whether it has ended.
async fn reap(context: &Context, due: Due) -> bool {
    let (project, id) = (due.project, due.thread);
    let ended = async {
        let Some(head) = context.store.heads(&[due.key]).await?.pop() else { return Ok(None) };
        let Some(run) = context.store.runs(due.key, None, 1).await?.pop() else { return Ok(None) };
        let (project, user, id) = (project.clone(), due.user, id.clone());
        let thread = ThreadRef { key: due.key, epoch: head.epoch, project, user, id };
        closing::close(context, &thread, &run.id, run.fence, &Why::Due).await
    };
    match ended.await {
        Ok(Some(run)) if !run.status.is_active() => {
            tracing::info!(
                run = %run.id, thread = %id, %project, agent = run.agent.as_ref().map(AgentId::as_str), status = ?run.status,
                "ended a run on behalf of its producer"
            );
            true
        }
        Ok(_) => false,
        Err(error) => {
            tracing::warn!(%error, thread = %id, %project, "cannot end a run that is due; trying again");
            false
        }
    }
}

/// The loop that asks the store for the heads of all that is followed, so that a lost wake-up costs time only.
pub(super) async fn recheck(context: Context) {
    let mut tick = time::interval(RECHECK_INTERVAL);
    tick.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = context.stopped() => return,
        }
        recheck_all(&context).await;
    }
}

/// Looks once at all that is followed here.
pub(super) async fn recheck_all(context: &Context) {
    look_up(context, &context.hub.followed(), &context.hub.followed_feeds()).await;
}

/// Asks the store where these threads and feeds are, and tells who follows them.
pub(super) async fn look_up(context: &Context, threads: &[ThreadKey], feeds: &[FeedKey]) {
    for keys in threads.chunks(RECHECK_CHUNK) {
        if let Err(error) = context.hub.recheck(context.store.as_ref(), keys).await {
            tracing::warn!(%error, "cannot recheck followed threads; trying again");
        }
    }
    for feeds in feeds.chunks(RECHECK_CHUNK) {
        if let Err(error) = context.hub.recheck_feeds(context.store.as_ref(), feeds).await {
            tracing::warn!(%error, "cannot recheck followed feeds; trying again");
        }
    }
}
