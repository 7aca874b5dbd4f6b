//! All followed threads and feeds of this node.

use super::{
    follower::Follower,
    large::LargePages,
    registry::{Held, Registry},
    state::TopicState,
    topic::{Topic, TopicRef},
};
use crate::{
    domain::{LogSlice, ProjectId, ThreadKey, UserId},
    metrics::Metrics,
    store::{FeedStore, Head, LogStore, StoreResult},
};
use tokio::sync::watch;

/// Whose feed.
pub type FeedKey = (ProjectId, UserId);

/// A hold on a followed feed: the newest position known.
pub(super) type FeedTopic = Held<FeedKey, watch::Sender<u64>>;

/// All followed threads and feeds of this node. Costs nothing for those that nobody follows.
#[derive(Debug, Default)]
pub struct Hub {
    threads: Registry<ThreadKey, Topic>,
    feeds: Registry<FeedKey, watch::Sender<u64>>,
    large_pages: LargePages,
    metrics: Metrics,
}

impl Hub {
    /// Nobody follows anything yet.
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics, ..Self::default() }
    }

    /// Joins the topic of a thread. Join first, then read the head, so that no commit falls in between.
    pub fn join(&self, key: ThreadKey) -> TopicRef {
        self.threads.hold(key, || Topic::new(key))
    }

    pub(super) fn large_pages(&self) -> LargePages {
        self.large_pages.clone()
    }

    pub(super) fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// A commit of this node.
    pub fn commit(&self, head: &Head, slice: &LogSlice) {
        self.threads.with(&head.key, |topic| topic.commit(slice, &TopicState::from(head)));
    }

    /// News of a thread without events: from a read, or a change of this node.
    pub fn advance(&self, key: ThreadKey, news: &TopicState) {
        self.threads.with(&key, |topic| topic.advance(news));
    }

    /// Whether somebody here follows the thread and does not know these news.
    pub fn lacks(&self, key: ThreadKey, news: &TopicState) -> bool {
        self.threads.with(&key, |topic| topic.state().merge(news)).unwrap_or(false)
    }

    /// The threads followed at this moment.
    pub fn followed(&self) -> Vec<ThreadKey> {
        self.threads.keys()
    }

    /// Waits until threads began or ceased to be followed; [`Hub::is_followed`] tells which. One caller.
    pub async fn followed_changed(&self) -> Vec<ThreadKey> {
        self.threads.changed().await
    }

    /// Whether somebody here follows the thread.
    pub fn is_followed(&self, key: ThreadKey) -> bool {
        self.threads.is_held(&key)
    }

    /// How many threads are followed at this moment.
    pub fn followed_count(&self) -> usize {
        self.threads.len()
    }

    /// How many subscriptions and producers hold a thread's topic at this moment.
    pub fn followers(&self) -> usize {
        self.threads.holders()
    }

    /// Who follows a thread here: up to so many, and how many there are.
    pub fn followers_of(&self, key: ThreadKey, most: usize) -> (Vec<Follower>, usize) {
        self.threads.with(&key, |topic| topic.roll.list(most)).unwrap_or_default()
    }

    /// Asks the store for the heads of these threads, so that a lost wake-up costs time and not events.
    pub async fn recheck(&self, log: &dyn LogStore, keys: &[ThreadKey]) -> StoreResult<()> {
        let mut missing: std::collections::BTreeSet<ThreadKey> = keys.iter().copied().collect();
        for head in log.heads(keys).await? {
            missing.remove(&head.key);
            self.advance(head.key, &TopicState::from(&head));
        }
        for key in missing {
            self.advance(key, &TopicState::GONE);
        }
        Ok(())
    }

    pub(super) fn join_feed(&self, project: &ProjectId, user: &UserId) -> FeedTopic {
        self.feeds.hold((project.clone(), user.clone()), || watch::Sender::new(0))
    }

    /// The feeds followed at this moment.
    pub fn followed_feeds(&self) -> Vec<FeedKey> {
        self.feeds.keys()
    }

    /// Waits until feeds began or ceased to be followed; [`Hub::is_feed_followed`] tells which. One caller.
    pub async fn followed_feeds_changed(&self) -> Vec<FeedKey> {
        self.feeds.changed().await
    }

    /// Whether somebody here follows the feed.
    pub fn is_feed_followed(&self, feed: &FeedKey) -> bool {
        self.feeds.is_held(feed)
    }

    /// Whether somebody here follows the feed and does not know that it has come this far.
    pub fn lacks_feed(&self, feed: &FeedKey, head: u64) -> bool {
        self.feeds.with(feed, |position| *position.borrow() < head).unwrap_or(false)
    }

    /// Asks the store for the newest positions of these feeds.
    pub async fn recheck_feeds(&self, store: &dyn FeedStore, feeds: &[FeedKey]) -> StoreResult<()> {
        let heads = store.feed_heads(feeds).await?;
        for (feed, head) in feeds.iter().zip(heads) {
            // Also back: then its user was erased, and subscriptions look for themselves.
            self.feeds.with(feed, |position| {
                position.send_if_modified(|known| std::mem::replace(known, head) != head);
            });
        }
        Ok(())
    }

    /// A feed has reached this position.
    pub fn advance_feed(&self, project: &ProjectId, user: &UserId, head: u64) {
        self.feeds.with(&(project.clone(), user.clone()), |position| {
            position.send_if_modified(|known| {
                let newer = head > *known;
                *known = head.max(*known);
                newer
            });
        });
    }
}
