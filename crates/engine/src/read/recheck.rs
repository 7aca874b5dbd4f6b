//! Reads the store for all followed threads and feeds: after a wake-up, and at intervals, so that a lost wake-up costs
//! only time.

use std::sync::Arc;

use threadline_core::{
    ThreadKey,
    limits::{RECHECK_CHUNK, RECHECK_INTERVAL},
};
use threadline_store::DynStore;

use crate::{
    lifecycle::Lifecycle,
    subscription::{FeedKey, Hub},
};

/// Store to read, and hub to update.
#[derive(Clone)]
pub(crate) struct Recheck {
    pub store: DynStore,
    pub hub: Arc<Hub>,
}

impl Recheck {
    /// Loop that reads the heads of all followed threads and feeds every [`RECHECK_INTERVAL`].
    pub async fn run(self, lifecycle: Lifecycle) {
        let mut ticks = lifecycle.every(RECHECK_INTERVAL);
        while ticks.next().await {
            self.all().await;
        }
    }

    /// Reads once the positions of all followed threads and feeds.
    pub async fn all(&self) {
        self.look_up(&self.hub.followed(), &self.hub.followed_feeds()).await;
    }

    /// Reads the positions of these threads and feeds from the store, and wakes their followers.
    pub async fn look_up(&self, threads: &[ThreadKey], feeds: &[FeedKey]) {
        for keys in threads.chunks(RECHECK_CHUNK) {
            let known = self.store.lineage().generation();
            if let Err(error) = self.hub.recheck(self.store.as_ref(), known, keys).await {
                tracing::warn!(%error, "cannot recheck followed threads; retrying");
            }
        }
        for feeds in feeds.chunks(RECHECK_CHUNK) {
            if let Err(error) = self.hub.recheck_feeds(self.store.as_ref(), feeds).await {
                tracing::warn!(%error, "cannot recheck followed feeds; retrying");
            }
        }
    }
}
