//! Gives changed threads their feed positions, off the path of the change itself.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use tokio::{sync::Notify, time};

use super::context::Context;
use crate::{
    bus::Hint,
    domain::{
        ProjectId, UserId,
        limits::{MAX_PAGE, SWEEP_INTERVAL},
    },
};

/// Users with changes. A mark that is lost with the process is found by the sweep.
#[derive(Debug, Default)]
pub(super) struct FeedWriter {
    dirty: Mutex<BTreeSet<(ProjectId, UserId)>>,
    wake: Notify,
}

impl FeedWriter {
    /// A thread of this user has changed.
    pub fn mark(&self, project: &ProjectId, user: &UserId) {
        self.dirty().insert((project.clone(), user.clone()));
        self.wake.notify_one();
    }

    fn dirty(&self) -> std::sync::MutexGuard<'_, BTreeSet<(ProjectId, UserId)>> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The loop behind the marks.
pub(super) async fn run(context: Context) {
    let mut sweep = time::interval(SWEEP_INTERVAL);
    sweep.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = context.feed_writer.wake.notified() => {}
            _ = sweep.tick() => match context.store.dirty_feeds(MAX_PAGE).await {
                Ok(users) => context.feed_writer.dirty().extend(users),
                Err(error) => tracing::warn!(%error, "cannot look for unfed changes; trying again"),
            },
            () = context.stopped() => return,
        }
        let users = std::mem::take(&mut *context.feed_writer.dirty());
        for (project, user) in users {
            match context.store.pump_feed(&project, &user).await {
                Ok(head) => {
                    context.hub.advance_feed(&project, &user, head);
                    context.bus.tell(Hint::Feed(project, user, head));
                }
                Err(error) => tracing::warn!(%error, %project, "cannot write a feed; the sweep tries again"),
            }
        }
    }
}
