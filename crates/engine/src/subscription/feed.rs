//! Following a feed: like following a log, over the newest change of each thread.

use threadline_core::{
    Epoch, FeedCursor, FeedEntry, FeedHead, Generation, Judgement, ProjectId, UserId, limits::MAX_PAGE,
};
use threadline_store::{DynStore, StoreError};
use tokio::sync::watch;

use super::{
    hub::{FeedTopic, Hub},
    stream::ReplacedLog,
};

/// Item that a feed subscription delivers.
#[derive(Debug, Clone)]
pub enum FeedDelivery {
    /// Changes, in order of their positions.
    Entries(Vec<FeedEntry>),
    /// The end of the feed at this position is reached; later entries are live.
    CaughtUp(u64),
    /// The feed continues from here under another epoch: it got its first entry, or the store has lost commits, but none
    /// that the reader has seen.
    Rebased {
        /// Epoch of the positions before.
        from: Epoch,
        /// Epoch of the positions from now on.
        epoch: Epoch,
    },
    /// The feed that the reader has seen no longer exists: its user was erased, or the store has lost entries that the
    /// reader has seen. The last delivery.
    Ended(ReplacedLog),
}

/// Reason why a cursor does not continue in a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedRefusal {
    /// The cursor belongs to another feed, or has seen entries that were lost.
    Replaced(ReplacedLog),
    /// The cursor is beyond this position, the newest of the feed, and no loss explains it.
    Ahead(FeedCursor),
}

impl FeedRefusal {
    /// Judges a cursor: an error if it does not continue in the feed. `current` is the generation of the store.
    pub(crate) fn of(head: &FeedHead, cursor: FeedCursor, current: Generation) -> Result<(), Self> {
        match head.judge(cursor, current) {
            Judgement::Continues | Judgement::Rebased => Ok(()),
            Judgement::Replaced { common_up_to } => Err(Self::Replaced(replaced(head, common_up_to))),
            Judgement::Ahead => Err(Self::Ahead(head.cursor())),
        }
    }
}

fn replaced(head: &FeedHead, common_up_to: Option<u64>) -> ReplacedLog {
    ReplacedLog { epoch: Some(head.history.epoch), tail: head.position, common_up_to }
}

/// Cursor of a reader that moves over a user's feed.
pub struct FeedSubscription {
    store: DynStore,
    project: ProjectId,
    user: UserId,
    watch: watch::Receiver<FeedCursor>,
    cursor: FeedCursor,
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
    /// Starts after `cursor`, under the present epoch of the feed.
    pub async fn open(
        hub: &Hub,
        store: DynStore,
        project: ProjectId,
        user: UserId,
        cursor: FeedCursor,
    ) -> Result<Result<Self, FeedRefusal>, StoreError> {
        let topic = hub.join_feed(&project, &user);
        let head = store.feed(&project, &user, cursor.position, 0).await?.head;
        if let Err(refusal) = FeedRefusal::of(&head, cursor, store.lineage().generation()) {
            return Ok(Err(refusal));
        }
        hub.advance_feed(&project, &user, head.cursor());
        let watch = topic.subscribe();
        let cursor = FeedCursor { epoch: head.history.epoch, ..cursor };
        Ok(Ok(Self { store, project, user, watch, cursor, live: false, topic }))
    }

    /// Position of the last entry delivered, and the epoch of the feed.
    pub fn cursor(&self) -> FeedCursor {
        self.cursor
    }

    /// Waits for the next delivery. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<FeedDelivery, StoreError> {
        loop {
            let known = *self.watch.borrow_and_update();
            if self.cursor != known {
                let page = self.store.feed(&self.project, &self.user, self.cursor.position, MAX_PAGE).await?;
                match FeedRefusal::of(&page.head, self.cursor, self.store.lineage().generation()) {
                    Ok(()) => {}
                    Err(FeedRefusal::Replaced(replaced)) => return Ok(FeedDelivery::Ended(replaced)),
                    Err(FeedRefusal::Ahead(_)) => return Ok(FeedDelivery::Ended(replaced(&page.head, None))),
                }
                let head = page.head.cursor();
                self.topic.send_if_modified(|value| *value == known && std::mem::replace(value, head) != head);
                if head.epoch != self.cursor.epoch {
                    let from = std::mem::replace(&mut self.cursor.epoch, head.epoch);
                    return Ok(FeedDelivery::Rebased { from, epoch: head.epoch });
                }
                // Replaced entries leave holes, so the last entry says how far the page reaches.
                self.cursor.position = page.entries.last().map_or(head.position, |entry| entry.cursor);
                if !page.entries.is_empty() {
                    return Ok(FeedDelivery::Entries(page.entries));
                }
            } else if !self.live {
                self.live = true;
                return Ok(FeedDelivery::CaughtUp(self.cursor.position));
            } else if self.watch.changed().await.is_err() {
                // The subscription holds the topic, so the sender lives as long as the subscription.
                std::future::pending::<()>().await;
            }
        }
    }
}
