//! Reading a user's feed.

use std::time::Duration;

use tokio::time;

use super::{ServiceError, context::Context, threads::acting_user};
use crate::{
    domain::{
        FeedEntry, Principal, UserId,
        limits::{MAX_PAGE, MAX_WAIT},
    },
    metrics::Present,
    subscription::{FeedDelivery, FeedSubscription},
};

/// A page of a feed.
#[derive(Debug, Clone)]
pub struct FeedSlice {
    /// The newest change of each thread that changed after the cursor, in order.
    pub entries: Vec<FeedEntry>,
    /// Where the next page begins.
    pub cursor: u64,
    /// Whether there is more now.
    pub has_more: bool,
}

/// The use cases of the feed.
#[derive(Clone)]
pub struct Feed {
    pub(super) context: Context,
}

impl Feed {
    /// A page of the feed after a cursor. With `wait`, it waits for the next change if there is none.
    pub async fn page(
        &self,
        principal: &Principal,
        user: Option<UserId>,
        after: u64,
        limit: usize,
        wait: Option<Duration>,
    ) -> Result<FeedSlice, ServiceError> {
        let user = acting_user(principal, user)?;
        let limit = limit.clamp(1, MAX_PAGE);
        if let Some(wait) = wait {
            let _waiting = Present::new(&self.context.metrics.following.poll_feed);
            let mut subscription = self.subscribe(principal, Some(user.clone()), after).await?;
            let something = async { while let Ok(FeedDelivery::CaughtUp(_)) = subscription.next().await {} };
            tokio::select! {
                _ = time::timeout(wait.min(MAX_WAIT), something) => {}
                () = self.context.draining.cancelled() => {}
            }
        }
        let page = self.context.store.feed(&principal.project, &user, after, limit).await?;
        if after > page.head {
            return Err(ServiceError::CursorAhead { epoch: None, tail: page.head });
        }
        let cursor = page.entries.last().map_or(page.head, |entry| entry.cursor);
        Ok(FeedSlice { has_more: cursor < page.head, cursor, entries: page.entries })
    }

    /// The newest position of the principal's own feed.
    pub async fn head(&self, principal: &Principal) -> Result<u64, ServiceError> {
        let user = acting_user(principal, None)?;
        Ok(self.context.store.feed(&principal.project, &user, u64::MAX >> 1, 0).await?.head)
    }

    /// Follows the feed after a cursor.
    pub async fn subscribe(
        &self,
        principal: &Principal,
        user: Option<UserId>,
        after: u64,
    ) -> Result<FeedSubscription, ServiceError> {
        self.context.refuse_if_draining()?;
        let user = acting_user(principal, user)?;
        let (project, store) = (principal.project.clone(), self.context.store.clone());
        FeedSubscription::open(&self.context.hub, store, project, user, after)
            .await?
            .map_err(|head| ServiceError::CursorAhead { epoch: None, tail: head })
    }
}
