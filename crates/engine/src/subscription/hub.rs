//! All followed threads and feeds of this node.

use std::sync::atomic::{AtomicI64, Ordering};

use threadline_core::{FeedCursor, Generation, LogSlice, ProjectId, ThreadKey, UserId};
use threadline_store::{FeedStore, Head, LogStore, StoreResult};
use tokio::sync::watch;

use super::{
    follower::Follower,
    registry::{Registry, RegistryGuard},
    state::TopicState,
    topic::{Topic, TopicRef},
};
use crate::{
    limits::{BudgetOwner, BudgetPermit, MemoryBudget, MemoryKind},
    metrics::Metrics,
};

/// Project and user of a feed.
pub type FeedKey = (ProjectId, UserId);

/// Reference to a followed feed; the value is its newest known position.
pub(super) type FeedTopic = RegistryGuard<FeedKey, watch::Sender<FeedCursor>>;

/// All followed threads and feeds of this node. A thread or feed without followers costs nothing.
#[derive(Debug, Default)]
pub struct Hub {
    threads: Registry<ThreadKey, Topic>,
    feeds: Registry<FeedKey, watch::Sender<FeedCursor>>,
    metrics: Metrics,
    memory: MemoryBudget,
    /// Generation of the store since the last reset; 0 before the first.
    known: AtomicI64,
}

impl Hub {
    /// An empty hub, whose topics count into `metrics`, and take the memory of their events from `memory`.
    pub fn new(metrics: Metrics, memory: MemoryBudget) -> Self {
        Self { metrics, memory, ..Self::default() }
    }

    /// Joins the topic of a thread. The caller must join before it reads the head, so that no commit is missed in
    /// between.
    pub fn join(&self, key: ThreadKey) -> TopicRef {
        // Read while the registry is locked: a reset finds the topic, or the topic has the reset's generation.
        self.threads.hold(key, || Topic::new(key, Generation(self.known.load(Ordering::Acquire)), self.memory.clone()))
    }

    /// Drops events in memory that the store has, because the memory of the node is short.
    pub fn give_way(&self) {
        for key in self.threads.keys() {
            self.threads.with(&key, Topic::give_way);
        }
    }

    /// Memory for a large page of a follower.
    pub(crate) fn place(&self, owner: &BudgetOwner) -> BudgetPermit {
        self.memory.place(MemoryKind::Answer, owner)
    }

    pub(super) fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Publishes a commit of this node to the thread's followers.
    pub fn commit(&self, head: &Head, slice: &LogSlice) {
        self.threads.with(&head.key, |topic| topic.commit(slice, &TopicState::committed(head)));
    }

    /// Publishes a change of a thread without events: from a read, or a change by this node.
    pub fn advance(&self, key: ThreadKey, news: &TopicState) {
        self.threads.with(&key, |topic| topic.advance(news));
    }

    /// True if the thread has followers here that do not know this change.
    pub fn lacks(&self, key: ThreadKey, news: &TopicState) -> bool {
        self.threads.with(&key, |topic| topic.state().merge(news)).unwrap_or(false)
    }

    /// Threads followed at this moment, in order of their keys.
    pub fn followed(&self) -> Vec<ThreadKey> {
        self.threads.keys()
    }

    /// Waits until threads gain their first or lose their last follower; [`Hub::is_followed`] says which. One caller
    /// only.
    pub async fn followed_changed(&self) -> Vec<ThreadKey> {
        self.threads.changed().await
    }

    /// True if the thread has followers on this node.
    pub fn is_followed(&self, key: ThreadKey) -> bool {
        self.threads.is_held(&key)
    }

    /// Number of threads followed at this moment.
    pub fn followed_count(&self) -> usize {
        self.threads.len()
    }

    /// Number of subscriptions and producers that hold a thread's topic at this moment.
    pub fn followers(&self) -> usize {
        self.threads.holders()
    }

    /// Followers of a thread on this node: at most `most` of them, and their total number.
    pub fn followers_of(&self, key: ThreadKey, most: usize) -> (Vec<Follower>, usize) {
        self.threads.with(&key, |topic| topic.roll.list(most)).unwrap_or_default()
    }

    /// Reads the heads of these threads from the store, so that a lost wake-up costs time and not events. `known` is the
    /// generation of the store, taken before the call.
    pub async fn recheck(&self, log: &dyn LogStore, known: Generation, keys: &[ThreadKey]) -> StoreResult<()> {
        let mut missing: std::collections::BTreeSet<ThreadKey> = keys.iter().copied().collect();
        for head in log.heads(keys).await? {
            missing.remove(&head.key);
            self.advance(head.key, &TopicState::read(&head, known));
        }
        for key in missing {
            self.advance(key, &TopicState::absent(known));
        }
        Ok(())
    }

    /// Forgets what is known of all followed threads: in this generation of the store, commits may be missing. What was
    /// read or committed before has no effect from now on, however late it comes. A recheck must follow.
    pub fn reset(&self, known: Generation) {
        self.known.store(known.0, Ordering::Release);
        for key in self.threads.keys() {
            self.threads.with(&key, |topic| topic.reset(known));
        }
    }

    pub(super) fn join_feed(&self, project: &ProjectId, user: &UserId) -> FeedTopic {
        self.feeds.hold((project.clone(), user.clone()), || watch::Sender::new(FeedCursor::START))
    }

    /// Feeds followed at this moment, in order of their keys.
    pub fn followed_feeds(&self) -> Vec<FeedKey> {
        self.feeds.keys()
    }

    /// Waits until feeds gain their first or lose their last follower; [`Hub::is_feed_followed`] says which. One caller
    /// only.
    pub async fn followed_feeds_changed(&self) -> Vec<FeedKey> {
        self.feeds.changed().await
    }

    /// True if the feed has followers on this node.
    pub fn is_feed_followed(&self, feed: &FeedKey) -> bool {
        self.feeds.is_held(feed)
    }

    /// True if the feed has followers here that do not know this position or this epoch yet.
    pub fn lacks_feed(&self, feed: &FeedKey, head: FeedCursor) -> bool {
        self.feeds.with(feed, |newest| is_newer(*newest.borrow(), head)).unwrap_or(false)
    }

    /// Reads the newest positions of these feeds from the store.
    pub async fn recheck_feeds(&self, store: &dyn FeedStore, feeds: &[FeedKey]) -> StoreResult<()> {
        let heads = store.feed_heads(feeds).await?;
        for (feed, head) in feeds.iter().zip(heads) {
            // A position may also go back, and the epoch may change: then each subscription reads the store.
            let head = head.cursor();
            self.feeds.with(feed, |newest| {
                newest.send_if_modified(|known| std::mem::replace(known, head) != head);
            });
        }
        Ok(())
    }

    /// Publishes a feed's new position; older positions under the same epoch are ignored. A position under another
    /// epoch only wakes the subscriptions: each reads the store, which decides.
    pub fn advance_feed(&self, project: &ProjectId, user: &UserId, head: FeedCursor) {
        self.feeds.with(&(project.clone(), user.clone()), |newest| {
            newest.send_if_modified(|known| {
                let newer = is_newer(*known, head);
                if newer {
                    *known = head;
                }
                newer
            });
        });
    }
}

/// True if a position, or its epoch, differs from a known one and is not just an earlier position.
fn is_newer(known: FeedCursor, head: FeedCursor) -> bool {
    head.epoch != known.epoch || head.position > known.position
}
