//! Following a feed: like following a log, over the newest change of each thread.

use std::sync::Arc;

use threadline_core::{FeedEntry, ProjectId, UserId, limits::MAX_PAGE};
use threadline_store::{FeedStore, StoreError};
use tokio::sync::watch;

use super::hub::{FeedTopic, Hub};

/// Item that a feed subscription delivers.
#[derive(Debug, Clone)]
pub enum FeedDelivery {
    /// Changes, in order of their positions.
    Entries(Vec<FeedEntry>),
    /// The end of the feed at this position is reached; later entries are live.
    CaughtUp(u64),
    /// The feed was deleted because its user was erased. The last delivery.
    Ended,
}

/// Cursor of a reader that moves over a user's feed.
pub struct FeedSubscription {
    store: Arc<dyn FeedStore>,
    project: ProjectId,
    user: UserId,
    watch: watch::Receiver<u64>,
    cursor: u64,
    live: bool,
    // Keeps the topic in the hub.
    topic: FeedTopic,
}

impl std::fmt::Debug for FeedSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FeedSubscription").field("user", &self.user).field("cursor", &self.cursor).finish()
    }
}

impl FeedSubscription {
    /// Starts after `cursor`. `Err(head)` if the cursor is beyond the feed's newest position.
    pub async fn open(
        hub: &Hub,
        store: Arc<dyn FeedStore>,
        project: ProjectId,
        user: UserId,
        cursor: u64,
    ) -> Result<Result<Self, u64>, StoreError> {
        let topic = hub.join_feed(&project, &user);
        let head = store.feed(&project, &user, cursor, 0).await?.head;
        if cursor > head {
            return Ok(Err(head));
        }
        hub.advance_feed(&project, &user, head);
        let watch = topic.subscribe();
        Ok(Ok(Self { store, project, user, watch, cursor, live: false, topic }))
    }

    /// Position of the last entry delivered.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Waits for the next delivery. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<FeedDelivery, StoreError> {
        loop {
            let head = *self.watch.borrow_and_update();
            if self.cursor != head {
                let page = self.store.feed(&self.project, &self.user, self.cursor, MAX_PAGE).await?;
                // Positions only grow, until the user is erased together with the feed and its counter.
                if page.head < self.cursor {
                    return Ok(FeedDelivery::Ended);
                }
                self.topic.send_if_modified(|known| *known == head && std::mem::replace(known, page.head) != page.head);
                // Replaced entries leave holes, so the last entry says how far the page reaches.
                self.cursor = page.entries.last().map_or(page.head, |entry| entry.cursor);
                if !page.entries.is_empty() {
                    return Ok(FeedDelivery::Entries(page.entries));
                }
            } else if !self.live {
                self.live = true;
                return Ok(FeedDelivery::CaughtUp(self.cursor));
            } else if self.watch.changed().await.is_err() {
                // The subscription holds the topic, so the sender lives as long as the subscription.
                std::future::pending::<()>().await;
            }
        }
    }
}
