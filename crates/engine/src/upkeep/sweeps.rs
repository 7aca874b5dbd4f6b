//! Removes expired tickets and old records of deletions, and keeps the files of the store small.

use threadline_core::limits::{SWEEP_INTERVAL, TICKET_SWEEP_INTERVAL};
use threadline_store::{DynStore, StoreClock};
use tokio::time;

use crate::lifecycle::Lifecycle;

/// Loop of the sweeps.
pub(crate) async fn run(store: DynStore, clock: StoreClock, lifecycle: Lifecycle) {
    let [mut files, mut tickets] = [SWEEP_INTERVAL, TICKET_SWEEP_INTERVAL].map(time::interval);
    files.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    tickets.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = files.tick() => if let Err(error) = store.maintain().await {
                tracing::warn!(%error, "cannot keep the files of the store small; retrying");
            },
            _ = tickets.tick() => {
                sweep_tickets(&store, &clock, &lifecycle).await;
                if let Err(error) = store.forget_requests().await {
                    tracing::warn!(%error, "cannot remove old records of deletions; retrying");
                }
            }
            () = lifecycle.stopped() => return,
        }
    }
}

async fn sweep_tickets(store: &DynStore, clock: &StoreClock, lifecycle: &Lifecycle) {
    loop {
        match store.sweep_tickets(clock.now()).await {
            Ok(true) if !lifecycle.stopping.is_cancelled() => tokio::task::yield_now().await,
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "cannot remove old tickets; retrying");
                return;
            }
        }
    }
}
