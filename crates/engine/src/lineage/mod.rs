//! Lineage of the store as this node follows it: when the store's history has changed, the node adopts it, forgets what
//! it knew of the previous history, and judges the cursor of each reader.

mod repetition;

use std::sync::Arc;

use threadline_core::limits::{LINEAGE_RETRY, LINEAGE_RETRY_MAX};
use threadline_store::{DynStore, Lineage, LineageCause, LineageState};
use tokio::time;

use crate::{
    directory::Directory, lifecycle::Lifecycle, metrics::Metrics, read::recheck::Recheck, subscription::Hub,
    usecases::users::Users,
};

/// Dependencies of the loop.
pub(crate) struct LineageKeeper {
    pub store: DynStore,
    pub hub: Arc<Hub>,
    pub directory: Directory,
    pub recheck: Recheck,
    pub metrics: Metrics,
    pub lifecycle: Lifecycle,
    pub users: Users,
}

/// Loop that adopts each change of the store's history.
pub(crate) async fn run(keeper: LineageKeeper) {
    let mut changes = keeper.store.lineage().watch();
    let mut known = changes.borrow().known();
    loop {
        let state = *changes.borrow_and_update();
        let turn = async {
            match state {
                LineageState::Fenced { cause, .. } => keeper.adopt(&mut known, cause).await,
                // Another user of the same handle has adopted the change.
                LineageState::Known(now) if now != known => {
                    keeper.forget(now);
                    keeper.begin(&mut known, now, LineageCause::Adopted).await;
                }
                LineageState::Known(_) => drop(changes.changed().await),
            }
        };
        tokio::select! {
            () = turn => {}
            () = keeper.lifecycle.stopped() => return,
        }
    }
}

impl LineageKeeper {
    /// Adopts the present history, however long the store takes for it, and opens the fence.
    async fn adopt(&self, known: &mut Lineage, first_cause: LineageCause) {
        let fence = self.store.lineage();
        tracing::warn!(
            cause = first_cause.name(), generation = %known.generation,
            "the history of the store has changed: nothing is read or written until it is adopted"
        );
        let mut pause = LINEAGE_RETRY;
        let adopted = loop {
            // A standby may have been promoted meanwhile: the cause is another one then.
            match self.store.adopt(fence.state().cause().unwrap_or(first_cause)).await {
                Ok(adopted) => break adopted,
                Err(error) => tracing::debug!(%error, "cannot adopt the history of the store yet; retrying"),
            }
            time::sleep(pause).await;
            pause = (pause * 2).min(LINEAGE_RETRY_MAX);
        };
        if adopted == *known {
            // The server was read-only for a while, and has the same history as before.
            fence.open(adopted);
            tracing::info!(generation = %adopted.generation, "the history of the store is the same as before");
            return;
        }
        self.forget(adopted);
        fence.open(adopted);
        self.begin(known, adopted, first_cause).await;
    }

    /// Forgets what belongs to the previous history. Followers wait until their threads were read again.
    fn forget(&self, adopted: Lineage) {
        self.directory.clear();
        self.hub.reset(adopted.generation);
    }

    /// Lets the cursor of every reader be judged.
    async fn begin(&self, known: &mut Lineage, adopted: Lineage, cause: LineageCause) {
        self.recheck.all().await;
        self.metrics.lineage.changed(cause.name());
        tracing::error!(
            cause = cause.name(), before = %known.generation, generation = %adopted.generation,
            "lineage changed: acknowledged events may be missing, and cursors are judged anew"
        );
        *known = adopted;
        // Runs beside the loop, which has to notice the next change: a repetition waits until the store responds.
        tokio::spawn(repetition::run(self.users.clone()));
    }
}
