//! The meeting point of a thread's commits and its followers.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::{
    follower::Roll,
    registry::Held,
    ring::{Behind, Ring},
    state::TopicState,
};
use crate::{
    domain::{LogSlice, Seq, ThreadKey, limits::DEFAULT_EVENT_PAGE},
    metrics::Metrics,
    store::{LogStore, ReadFrom, StoreResult},
};

/// A followed incarnation of a thread: what is known of its head, and its newest events.
#[derive(Debug)]
pub struct Topic {
    key: ThreadKey,
    state: watch::Sender<TopicState>,
    ring: Mutex<Ring>,
    filling: tokio::sync::Mutex<()>,
    pub(super) roll: Roll,
}

/// A hold on a topic.
pub type TopicRef = Held<ThreadKey, Topic>;

impl Topic {
    pub(super) fn new(key: ThreadKey) -> Self {
        Self {
            key,
            state: watch::Sender::new(TopicState::UNKNOWN),
            ring: Mutex::default(),
            filling: tokio::sync::Mutex::default(),
            roll: Roll::default(),
        }
    }

    /// The incarnation of the thread.
    pub fn key(&self) -> ThreadKey {
        self.key
    }

    /// What is known now.
    pub fn state(&self) -> TopicState {
        *self.state.borrow()
    }

    /// To wait for changes of [`Topic::state`].
    pub fn watch(&self) -> watch::Receiver<TopicState> {
        self.state.subscribe()
    }

    /// Takes in news, in whatever order they come, and wakes the followers if they are new.
    pub fn advance(&self, news: &TopicState) {
        self.state.send_if_modified(|state| state.merge(news));
    }

    /// Takes in a commit of this node: its events, then the news.
    pub fn commit(&self, slice: &LogSlice, news: &TopicState) {
        self.ring().offer(slice);
        self.advance(news);
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the newest events in memory begin later than what follows the cursor, if they do.
    pub(super) fn has_moved_past(&self, cursor: Seq) -> Option<Behind> {
        self.ring().has_moved_past(cursor)
    }

    /// The page after a cursor, if it is among the newest events in memory.
    pub(super) fn in_memory(&self, cursor: Seq) -> Option<LogSlice> {
        self.ring().after(cursor)
    }

    /// The next page after a cursor that is known to be below the tail; `None` if the thread is gone.
    ///
    /// Near the tail one follower reads for all of them; history is read by each for itself and not kept.
    pub(super) async fn page(
        &self,
        log: &dyn LogStore,
        cursor: Seq,
        metrics: &Metrics,
    ) -> StoreResult<Option<LogSlice>> {
        let hits = &metrics.following.ring_hits;
        if let Some(slice) = self.in_memory(cursor) {
            hits.inc();
            return Ok(Some(slice));
        }
        let near = self.state().tail.saturating_sub(cursor) <= DEFAULT_EVENT_PAGE as u64;
        let _single_flight = if near { Some(self.filling.lock().await) } else { None };
        if near && let Some(slice) = self.in_memory(cursor) {
            hits.inc();
            return Ok(Some(slice));
        }
        metrics.store_reads.follower.inc();
        let Some(page) = log.read(self.key, ReadFrom::After(cursor), usize::MAX).await? else {
            self.advance(&TopicState::GONE);
            return Ok(None);
        };
        if near && page.slice.last_seq() == Some(page.head.tail) {
            self.ring().offer(&page.slice);
        }
        self.advance(&TopicState::from(&page.head));
        Ok(Some(page.slice))
    }
}
