//! A subscription: a cursor that moves over one log, optionally bounded to one run.

use threadline_core::{
    Epoch, Generation, Judgement, LogSlice, QueueState, Run, Seq, ThreadKey,
    limits::{BODY_ROOM_WAIT, LARGE_PAGE_BYTES},
};
use threadline_store::{DynStore, Head, StoreError};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{Hub, Reader, TopicRef, TopicState, follower::FollowerEntry, ring::Behind};
use crate::{
    limits::{Account, BudgetOwner, BudgetPermit},
    metrics::Metrics,
};

/// Item that a subscription delivers, in order.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// The next events: the first one has seq cursor + 1.
    Events(LogSlice),
    /// The tail at this seq is reached; later events are live.
    CaughtUp(Seq),
    /// No longer live: the reader is behind the events in memory. Events continue without a gap.
    FellBehind(Seq),
    /// The store has lost commits, but none that the reader has seen: the events continue under another epoch.
    Rebased {
        /// Epoch of the events before.
        from: Epoch,
        /// Epoch of the events from now on.
        epoch: Epoch,
    },
    /// The queue of the thread has changed, or had changed when the reader has caught up.
    Queue(QueueState),
    /// The subscription has ended; no delivery follows.
    Ended(EndReason),
}

/// Reason why a subscription ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The subscription was bounded to a run, and all events of the run were delivered.
    RunEnded,
    /// The thread was deleted.
    ThreadDeleted,
    /// The store has lost events that the reader has seen.
    LogReplaced(ReplacedLog),
    /// The next events of the log are damaged in the store.
    LogDamaged {
        /// Key of the thread.
        key: ThreadKey,
        /// Seq of the first damaged event.
        first_seq: Seq,
        /// Seq up to which the events are known to be damaged.
        last_seq: Seq,
    },
}

/// The log that has replaced the one of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplacedLog {
    /// Epoch of the present log; `None` if the store has lost the thread as a whole.
    pub epoch: Option<Epoch>,
    /// Seq of the present log's newest event.
    pub tail: Seq,
    /// Seq up to which the reader's events are those of the present log; `None` if nothing is known to be common.
    pub common_up_to: Option<Seq>,
}

impl ReplacedLog {
    /// The empty place of a thread that the store has lost as a whole.
    pub(crate) const LOST: Self = Self { epoch: None, tail: 0, common_up_to: None };

    /// Refuses a write that requires another epoch than the log has.
    pub(crate) fn refuse(required: Option<Epoch>, head: &Head) -> Result<(), Self> {
        let Some(other) = required.filter(|epoch| *epoch != head.epoch) else { return Ok(()) };
        let prior = head.prior.filter(|prior| prior.epoch == other);
        Err(Self { epoch: Some(head.epoch), tail: head.tail, common_up_to: prior.map(|prior| prior.tail) })
    }
}

/// Reason why a subscription cannot begin.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FollowError {
    /// The thread does not exist, or was deleted.
    #[error("the thread does not exist")]
    Gone,
    /// The cursor belongs to another incarnation of the log.
    #[error("the cursor belongs to another log")]
    LogReplaced(ReplacedLog),
    /// The cursor is beyond the tail.
    #[error("the cursor is beyond the newest event, seq {tail}")]
    CursorAhead {
        /// Epoch of the log.
        epoch: Epoch,
        /// Seq of the log's newest event.
        tail: Seq,
    },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Cursor of a reader that moves over a log.
#[derive(Debug)]
pub struct Subscription {
    store: StoreHandle,
    topic: TopicRef,
    watch: watch::Receiver<TopicState>,
    epoch: Epoch,
    /// Generation of the events that are delivered.
    generation: Generation,
    /// Losses of the store that the cursor was judged after.
    resets: u64,
    cursor: Seq,
    live: bool,
    bound: Option<Bound>,
    ended: bool,
    metrics: Metrics,
    /// Memory of the page delivered last, if it was large: a reader that requests the next page no longer needs it.
    memory: BudgetPermit,
    /// Account that pages of a replay are charged to, and the time until which the next one must wait.
    account: Account,
    rests: Option<Instant>,
    /// Entry in the topic's list of followers.
    place: Option<FollowerEntry>,
    /// State of the queue that was delivered; `None` before the first one. Readers of one run get none.
    queue: Option<QueueState>,
}

/// Makes `Subscription: Debug` possible without requiring `Debug` of every store.
struct StoreHandle(DynStore);

impl std::fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

#[derive(Debug)]
struct Bound {
    run: Run,
    /// Seq of the run's last event, once the run has ended.
    last: Option<Seq>,
}

impl Subscription {
    /// Starts after `cursor`. A cursor that has seen events which the log does not contain is refused, and so is one
    /// beyond the tail. A cursor of the previous epoch that has not begins with [`Delivery::Rebased`]. With `run`, only
    /// that run's events are delivered, and the subscription ends with the run.
    pub async fn open(
        hub: &Hub,
        store: DynStore,
        key: ThreadKey,
        cursor: Seq,
        epoch: Option<Epoch>,
        run: Option<Run>,
    ) -> Result<Self, FollowError> {
        let topic = hub.join(key);
        let resets = topic.state().resets;
        let known = store.lineage().generation();
        let head = store.heads(&[key]).await?.pop().ok_or(FollowError::Gone)?;
        topic.advance(&TopicState::read(&head, known));
        let (present, tail) = (head.epoch, head.tail);
        match head.history().judge(tail, epoch, cursor, known) {
            Judgement::Continues | Judgement::Rebased => {}
            Judgement::Replaced { common_up_to } => {
                return Err(FollowError::LogReplaced(ReplacedLog { epoch: Some(present), tail, common_up_to }));
            }
            Judgement::Ahead => return Err(FollowError::CursorAhead { epoch: present, tail }),
        }
        let cursor = run.as_ref().map_or(cursor, |run| cursor.max(run.first_seq - 1));
        let bound = run.map(|run| Bound { last: run.ended_at.map(|_| run.last_seq()), run });
        let watch = topic.watch();
        let store = StoreHandle(store);
        Ok(Self {
            store,
            topic,
            watch,
            epoch: epoch.unwrap_or(present),
            generation: head.generation,
            resets,
            cursor,
            live: false,
            bound,
            ended: false,
            metrics: hub.metrics(),
            memory: hub.place(&BudgetOwner::default()),
            account: Account::default(),
            rests: None,
            place: None,
            queue: None,
        })
    }

    /// Adds the reader to the thread's list of followers. Must be called at most once.
    pub fn shown_as(mut self, reader: Reader) -> Self {
        self.place = Some(self.topic.roll.enter(reader, self.cursor));
        self
    }

    /// Takes the memory of large pages from a client's share instead of the node's, and charges replays to its account.
    pub(crate) fn within(mut self, memory: BudgetPermit, account: Account) -> Self {
        (self.memory, self.account) = (memory, account);
        self
    }

    /// Incarnation of the log.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Seq of the last event delivered.
    pub fn cursor(&self) -> Seq {
        self.cursor
    }

    /// Newest known tail; the store may be ahead of it.
    pub fn tail(&self) -> Seq {
        self.topic.state().tail
    }

    /// Receiver that wakes on changes of the head.
    pub fn watch(&self) -> watch::Receiver<TopicState> {
        self.topic.watch()
    }

    /// Waits for the next delivery; `None` after [`Delivery::Ended`]. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<Delivery>, StoreError> {
        self.memory.release();
        loop {
            if self.ended {
                return Ok(None);
            }
            // Marked as seen before the read: a change during the read wakes the subscription again.
            let state = *self.watch.borrow_and_update();
            if state.gone {
                // A subscription that began after the loss has found the thread: it was deleted since.
                let is_lost = state.lost && state.resets != self.resets;
                let reason = if is_lost { EndReason::LogReplaced(ReplacedLog::LOST) } else { EndReason::ThreadDeleted };
                return Ok(self.end(reason));
            }
            // The state is not known again yet after a loss of the store.
            let Some(history) = state.history else {
                if self.watch.changed().await.is_err() {
                    return Ok(self.end(EndReason::ThreadDeleted));
                }
                continue;
            };
            if history.epoch != self.epoch || state.resets != self.resets {
                // A cursor beyond the tail is explained by the loss.
                let judged = history.judge(state.tail, Some(self.epoch), self.cursor, Generation(i64::MAX));
                let from = std::mem::replace(&mut self.epoch, history.epoch);
                (self.generation, self.resets) = (history.generation, state.resets);
                match judged {
                    Judgement::Continues => {}
                    Judgement::Rebased => return Ok(Some(Delivery::Rebased { from, epoch: history.epoch })),
                    Judgement::Replaced { common_up_to } => {
                        let replaced = ReplacedLog { epoch: Some(history.epoch), tail: state.tail, common_up_to };
                        return Ok(self.end(EndReason::LogReplaced(replaced)));
                    }
                    Judgement::Ahead => return Err(StoreError::Corrupt("a cursor beyond its log".to_owned())),
                }
            }
            if let Some(bound) = &mut self.bound {
                if bound.last.is_none() && state.has_ended(bound.run.fence) {
                    let Some(run) = self.store.0.run(self.topic.key(), &bound.run.id).await? else {
                        return Ok(self.end(EndReason::ThreadDeleted));
                    };
                    bound.last = Some(run.last_seq());
                }
                if bound.last.is_some_and(|last| self.cursor >= last) {
                    return Ok(self.end(EndReason::RunEnded));
                }
            }
            let last = self.bound.as_ref().and_then(|bound| bound.last).unwrap_or(Seq::MAX);
            if self.cursor < state.tail.min(last) {
                if let Some(behind) = self.topic.has_moved_past(self.cursor).filter(|_| self.live) {
                    self.live = false;
                    let following = &self.metrics.following;
                    match behind {
                        Behind::Slow => following.fell_behind_slow.inc(),
                        Behind::Hint => following.fell_behind_hint.inc(),
                    };
                    return Ok(Some(Delivery::FellBehind(self.cursor)));
                }
                if let Some(until) = self.rests {
                    tokio::select! {
                        () = sleep_until(until) => self.rests = None,
                        changed = self.watch.changed() => if changed.is_err() {
                            return Ok(self.end(EndReason::ThreadDeleted));
                        }
                    }
                    continue;
                }
                let page = match self.page().await {
                    // No later attempt reads these events: the subscription ends, and others of the same client do not.
                    Err(StoreError::Damaged { key, first_seq, last_seq }) => {
                        tracing::error!(key = key.0, first_seq, last_seq, "a subscription ends: its log is damaged");
                        return Ok(self.end(EndReason::LogDamaged { key, first_seq, last_seq }));
                    }
                    page => page?,
                };
                let Some((generation, page)) = page else {
                    return Ok(self.end(EndReason::ThreadDeleted));
                };
                if generation != self.generation {
                    // The log was written in another generation meanwhile: the cursor is judged first.
                    continue;
                }
                let bytes = page.bytes();
                if bytes > LARGE_PAGE_BYTES && self.memory.bytes() == 0 {
                    let needed = bytes.min(self.memory.most());
                    if self.memory.take(needed, Instant::now()).await.is_err() {
                        // The page is dropped while waiting, so that waiting costs no memory; the page is read again.
                        drop(page);
                        while self.memory.take(needed, Instant::now() + BODY_ROOM_WAIT).await.is_err() {}
                        continue;
                    }
                }
                if let Some(slice) = self.accept(page, last)? {
                    return Ok(Some(Delivery::Events(slice)));
                }
                continue;
            }
            if !self.live {
                self.live = true;
                return Ok(Some(Delivery::CaughtUp(self.cursor)));
            }
            if self.bound.is_none() && self.queue != Some(state.queue) {
                self.queue = Some(state.queue);
                // A reader who was away may know of turns that have left the queue since.
                if state.queue.version > 0 {
                    return Ok(Some(Delivery::Queue(state.queue)));
                }
            }
            if self.watch.changed().await.is_err() {
                return Ok(self.end(EndReason::ThreadDeleted));
            }
        }
    }

    /// The next page. A page that is not in memory is read by a separate task: one follower may read for all, and its
    /// own future may not be polled for long, because its client does not read.
    async fn page(&mut self) -> Result<Option<(Generation, LogSlice)>, StoreError> {
        let (generation, cursor) = (self.generation, self.cursor);
        if let Some(slice) = self.topic.in_memory(generation, cursor) {
            self.metrics.following.ring_hits.inc();
            return Ok(Some((generation, slice)));
        }
        let (topic, store) = (self.topic.clone(), self.store.0.clone());
        let (metrics, known) = (self.metrics.clone(), store.lineage().generation());
        let read = tokio::spawn(async move { topic.page(store.as_ref(), known, generation, cursor, &metrics).await });
        let page = read.await.map_err(|error| StoreError::Unavailable(format!("a read was cut short: {error}")))??;
        // Live events cost their readers nothing.
        if let Some((_, slice)) = page.as_ref().filter(|_| !self.live) {
            self.rests = self.account.charge(slice.bytes());
        }
        Ok(page)
    }

    /// Moves the cursor over a page; `None` if the page has no event for this reader.
    fn accept(&mut self, page: LogSlice, last: Seq) -> Result<Option<LogSlice>, StoreError> {
        if page.first_seq() != Some(self.cursor + 1) {
            let got = page.first_seq();
            return Err(StoreError::Corrupt(format!("expected seq {} next, the log has {got:?}", self.cursor + 1)));
        }
        let mut page = if last == Seq::MAX { page } else { page.between(self.cursor, last.saturating_add(1)) };
        if let Some(bound) = &mut self.bound {
            // A page can reach into the next run before the change that ends this run has arrived.
            let own = page.0.iter().take_while(|batch| batch.run == bound.run.id).count();
            if own < page.0.len() {
                page.0.truncate(own);
                bound.last = Some(page.last_seq().unwrap_or(self.cursor));
            }
        }
        let Some(reached) = page.last_seq() else { return Ok(None) };
        self.cursor = reached;
        if let Some(place) = &self.place {
            place.at(reached);
        }
        Ok(Some(page))
    }

    fn end(&mut self, reason: EndReason) -> Option<Delivery> {
        self.ended = true;
        Some(Delivery::Ended(reason))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            self.topic.roll.leave(place);
        }
    }
}
