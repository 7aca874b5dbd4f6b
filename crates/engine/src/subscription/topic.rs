//! Topic of a thread: connects its commits with its followers.

use std::sync::{Mutex, PoisonError};

use threadline_core::{Generation, LogSlice, ReadFrom, Seq, ThreadKey, limits::DEFAULT_EVENT_PAGE};
use threadline_store::{LogStore, StoreResult};
use tokio::sync::watch;

use super::{
    follower::Roll,
    registry::RegistryGuard,
    ring::{Behind, Ring},
    state::TopicState,
};
use crate::{limits::MemoryBudget, metrics::Metrics};

/// A followed incarnation of a thread: its newest known head and its newest events.
#[derive(Debug)]
pub struct Topic {
    key: ThreadKey,
    state: watch::Sender<TopicState>,
    ring: Mutex<Ring>,
    memory: MemoryBudget,
    filling: tokio::sync::Mutex<()>,
    pub(super) roll: Roll,
}

/// Reference to a topic; keeps the topic in the hub.
pub type TopicRef = RegistryGuard<ThreadKey, Topic>;

impl Topic {
    /// A topic of which nothing is known yet, in this generation of the store.
    pub(super) fn new(key: ThreadKey, known: Generation, memory: MemoryBudget) -> Self {
        Self {
            key,
            state: watch::Sender::new(TopicState { known, ..TopicState::UNKNOWN }),
            ring: Mutex::new(Ring::since(known, memory.clone())),
            memory,
            filling: tokio::sync::Mutex::default(),
            roll: Roll::default(),
        }
    }

    /// The incarnation of the thread.
    pub fn key(&self) -> ThreadKey {
        self.key
    }

    /// Newest known state; the store may be ahead of it.
    pub fn state(&self) -> TopicState {
        *self.state.borrow()
    }

    /// Receiver that wakes on changes of [`Topic::state`].
    pub fn watch(&self) -> watch::Receiver<TopicState> {
        self.state.subscribe()
    }

    /// Merges a change, in whatever order changes arrive, and wakes the followers if the state changes.
    pub fn advance(&self, news: &TopicState) {
        self.state.send_if_modified(|state| state.merge(news));
    }

    /// Adds a commit of this node: first its events, then its head.
    pub fn commit(&self, slice: &LogSlice, news: &TopicState) {
        self.ring().offer(news.known, news.generation, slice);
        self.advance(news);
    }

    /// Forgets events and state: in this generation of the store, commits may be missing. Followers wait until the state
    /// is known again.
    pub(super) fn reset(&self, known: Generation) {
        *self.ring() = Ring::since(known, self.memory.clone());
        self.state.send_modify(|state| state.reset(known));
    }

    /// Drops events in memory that the store has, because the memory of the node is short.
    pub(super) fn give_way(&self) {
        self.ring().give_way();
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reason why the newest events in memory begin later than the cursor's next event; `None` if they do not.
    pub(super) fn has_moved_past(&self, cursor: Seq) -> Option<Behind> {
        self.ring().has_moved_past(cursor)
    }

    /// The page after a cursor, if the newest events in memory contain it.
    pub(super) fn in_memory(&self, generation: Generation, cursor: Seq) -> Option<LogSlice> {
        self.ring().after(generation, cursor)
    }

    /// Reads the next page after a cursor that is known to be below the tail, with its generation; `None` if the thread
    /// was deleted. `known` is a generation of the store, taken before the call.
    ///
    /// Near the tail one follower reads for all of them. Each follower reads history alone, and history is not kept.
    pub(super) async fn page(
        &self,
        log: &dyn LogStore,
        known: Generation,
        generation: Generation,
        cursor: Seq,
        metrics: &Metrics,
    ) -> StoreResult<Option<(Generation, LogSlice)>> {
        let hits = &metrics.following.ring_hits;
        if let Some(slice) = self.in_memory(generation, cursor) {
            hits.inc();
            return Ok(Some((generation, slice)));
        }
        let near = self.state().tail.saturating_sub(cursor) <= DEFAULT_EVENT_PAGE as u64;
        let _single_flight = if near { Some(self.filling.lock().await) } else { None };
        if near && let Some(slice) = self.in_memory(generation, cursor) {
            hits.inc();
            return Ok(Some((generation, slice)));
        }
        metrics.store_reads.follower.inc();
        let Some(page) = log.page(self.key, ReadFrom::After(cursor), usize::MAX).await? else {
            self.advance(&TopicState::absent(known));
            return Ok(None);
        };
        if near && page.slice.last_seq() == Some(page.head.tail) {
            self.ring().offer(known, page.head.generation, &page.slice);
        }
        self.advance(&TopicState::read(&page.head, known));
        Ok(Some((page.head.generation, page.slice)))
    }
}
