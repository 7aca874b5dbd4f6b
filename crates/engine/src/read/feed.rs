//! Reads of a user's feed.

use std::{sync::Arc, time::Duration};

use threadline_core::{
    FeedCursor, FeedEntry, Principal, UserId,
    limits::{MAX_PAGE, MAX_WAIT},
};
use threadline_store::DynStore;
use tokio::time;

use crate::{
    FeedError,
    lifecycle::Lifecycle,
    metrics::{GaugeGuard, Metrics},
    records::acting_user,
    subscription::{FeedDelivery, FeedRefusal, FeedSubscription, Hub},
};

/// A page of a feed.
#[derive(Debug, Clone)]
pub struct FeedSlice {
    /// The newest change of each thread that changed after the cursor, in order.
    pub entries: Vec<FeedEntry>,
    /// Cursor of the next page.
    pub cursor: FeedCursor,
    /// True if more entries exist now.
    pub has_more: bool,
}

/// Use cases of the feed.
#[derive(Clone)]
pub struct Feed {
    pub(crate) deps: Arc<FeedDeps>,
}

/// Dependencies of [`Feed`], shared by its clones.
pub(crate) struct FeedDeps {
    pub store: DynStore,
    pub hub: Arc<Hub>,
    pub metrics: Metrics,
    pub lifecycle: Lifecycle,
}

impl Feed {
    /// Reads a page of the feed after a cursor. With `wait`, a page without entries waits for the next change.
    pub async fn page(
        &self,
        principal: &Principal,
        user: Option<UserId>,
        after: FeedCursor,
        limit: usize,
        wait: Option<Duration>,
    ) -> Result<FeedSlice, FeedError> {
        let user = acting_user(principal, user)?;
        let limit = limit.clamp(1, MAX_PAGE);
        if let Some(wait) = wait {
            let _waiting = GaugeGuard::new(&self.deps.metrics.following.poll_feed);
            let mut subscription = self.subscribe(principal, Some(user.clone()), after).await?;
            let something = async {
                while let Ok(FeedDelivery::CaughtUp(_) | FeedDelivery::Rebased { .. }) = subscription.next().await {}
            };
            tokio::select! {
                _ = time::timeout(wait.min(MAX_WAIT), something) => {}
                () = self.deps.lifecycle.draining.cancelled() => {}
            }
        }
        let page = self.deps.store.feed(&principal.project, &user, after.position, limit).await?;
        FeedRefusal::of(&page.head, after, self.deps.store.lineage().generation())?;
        let head = page.head.cursor();
        let position = page.entries.last().map_or(head.position, |entry| entry.cursor);
        let cursor = FeedCursor { position, ..head };
        Ok(FeedSlice { has_more: position < head.position, cursor, entries: page.entries })
    }

    /// The newest position of the principal's own feed.
    pub async fn head(&self, principal: &Principal) -> Result<FeedCursor, FeedError> {
        let user = acting_user(principal, None)?;
        Ok(self.deps.store.feed(&principal.project, &user, u64::MAX >> 1, 0).await?.head.cursor())
    }

    /// Follows the feed after a cursor.
    pub async fn subscribe(
        &self,
        principal: &Principal,
        user: Option<UserId>,
        after: FeedCursor,
    ) -> Result<FeedSubscription, FeedError> {
        self.deps.lifecycle.refuse_if_draining()?;
        let user = acting_user(principal, user)?;
        let (project, store) = (principal.project.clone(), self.deps.store.clone());
        let opened = FeedSubscription::open(&self.deps.hub, store, project, user, after).await?;
        Ok(opened?)
    }
}

impl From<FeedRefusal> for FeedError {
    fn from(refusal: FeedRefusal) -> Self {
        match refusal {
            FeedRefusal::Replaced(replaced) => Self::LogReplaced(replaced),
            FeedRefusal::Ahead(head) => Self::CursorAhead { epoch: Some(head.epoch), tail: head.position },
        }
    }
}
