//! Assigns feed positions to changed threads, outside the path of the change itself.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use threadline_core::{
    ProjectId, UserId,
    limits::{MAX_PAGE, SWEEP_INTERVAL},
};
use threadline_store::FeedStore;
use tokio::{sync::Notify, time};

use crate::{
    after_commit::{AfterCommit, Commit, RowChange},
    cluster::bus::{DynBus, Hint},
    lifecycle::Lifecycle,
    records::ThreadRef,
    subscription::Hub,
};

/// Users with changed threads. Marks lost with the process are found by the sweep.
#[derive(Debug, Default)]
pub(crate) struct FeedWriter {
    dirty: Mutex<BTreeSet<(ProjectId, UserId)>>,
    wake: Notify,
}

impl FeedWriter {
    /// Marks a user as having a changed thread.
    pub fn mark(&self, project: &ProjectId, user: &UserId) {
        self.dirty().insert((project.clone(), user.clone()));
        self.wake.notify_one();
    }

    fn dirty(&self) -> std::sync::MutexGuard<'_, BTreeSet<(ProjectId, UserId)>> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AfterCommit for FeedWriter {
    fn committed(&self, commit: &Commit<'_>) {
        if commit.row == RowChange::Changed {
            self.mark(&commit.thread.project, &commit.thread.user);
        }
    }

    fn deleted(&self, thread: &ThreadRef) {
        self.mark(&thread.project, &thread.user);
    }
}

/// Dependencies of the loop.
pub(crate) struct FeedWork {
    pub store: Arc<dyn FeedStore>,
    pub hub: Arc<Hub>,
    pub bus: DynBus,
}

/// Loop that writes the feeds of marked users.
pub(crate) async fn run(work: FeedWork, marks: Arc<FeedWriter>, lifecycle: Lifecycle) {
    let mut sweep = time::interval(SWEEP_INTERVAL);
    sweep.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = marks.wake.notified() => {}
            _ = sweep.tick() => match work.store.dirty_feeds(MAX_PAGE).await {
                Ok(users) => marks.dirty().extend(users),
                Err(error) => tracing::warn!(%error, "cannot look for changes that are missing in feeds; retrying"),
            },
            () = lifecycle.stopped() => return,
        }
        let users = std::mem::take(&mut *marks.dirty());
        for (project, user) in users {
            match work.store.pump_feed(&project, &user).await {
                Ok(head) => {
                    let head = head.cursor();
                    work.hub.advance_feed(&project, &user, head);
                    work.bus.tell(Hint::Feed(project, user, head));
                }
                Err(error) => tracing::warn!(%error, %project, "cannot write a feed; the next sweep retries"),
            }
        }
    }
}
