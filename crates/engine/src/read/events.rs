//! Reads of a thread's log: pages and subscriptions.

use std::{sync::Arc, time::Duration};

use threadline_core::{
    Batch, Epoch, Fence, Judgement, LogSlice, Principal, ReadFrom, Run, RunId, Scope, Seq, ThreadId,
    limits::{
        FOLD_EVENTS, MAX_EVENT_PAGE, MAX_PAGE_BYTES, MAX_WAIT, TURN_BEGIN_WAIT, WORK_SLICE_BYTES, WORK_SLICE_ROWS,
    },
};
use threadline_store::{DynStore, Head, StoreClock, StoreError};
use tokio::time;

use crate::{
    ReadError, RunLookupError,
    authority::require,
    directory::{Attempt, Directory},
    lifecycle::Lifecycle,
    limits::{BudgetOwner, FairQueue, QueuedWork, Quota, in_place},
    metrics::{GaugeGuard, Metrics},
    records::ThreadRef,
    subscription::{Delivery, EndReason, FollowError, FollowMethod, Hub, Reader, ReplacedLog, Subscription, TopicRef},
};

/// A request for a page of a log.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// Cursor and direction of the page.
    pub from: ReadFrom,
    /// Most events in the page, clamped to 1..=[`MAX_EVENT_PAGE`].
    pub limit: usize,
    /// The epoch that the cursor belongs to, if the client sends it.
    pub epoch: Option<Epoch>,
    /// Restricts the page to events of this run.
    pub run: Option<RunId>,
    /// Longest wait for the first event; `None` returns at once.
    pub wait: Option<Duration>,
}

/// A page of a log.
#[derive(Debug, Clone)]
pub struct EventsPage {
    /// Incarnation of the log.
    pub epoch: Epoch,
    /// Newest event of the log at the time of the read.
    pub tail: Seq,
    /// The events, contiguous, oldest first.
    pub slice: LogSlice,
    /// Cursor of the next page in the same direction.
    pub cursor: Seq,
    /// True if more events exist in that direction now.
    pub has_more: bool,
    /// True for a page forwards that reaches the end of a run that has ended: the run gets no further event.
    pub ends_run: bool,
}

/// Use cases that read logs.
#[derive(Clone)]
pub struct Events {
    pub(crate) deps: Arc<EventDeps>,
}

/// Dependencies of [`Events`], shared by its clones.
pub(crate) struct EventDeps {
    pub store: DynStore,
    pub clock: StoreClock,
    pub directory: Directory,
    pub hub: Arc<Hub>,
    pub metrics: Metrics,
    pub lifecycle: Lifecycle,
    pub queue: FairQueue,
    pub quota: Quota,
}

/// Pages of a log from its end to its beginning, for scans and inspectors. The first page is a page like any other; each
/// further one is a slice of the queue.
pub struct Backwards<'a> {
    events: &'a Events,
    principal: &'a Principal,
    thread: &'a ThreadId,
    limit: usize,
    before: Seq,
    epoch: Option<Epoch>,
    more: bool,
    work: Option<QueuedWork>,
}

impl Backwards<'_> {
    /// The next page, with at most about [`WORK_SLICE_BYTES`] of events; `None` before the first event.
    pub async fn next(&mut self) -> Result<Option<EventsPage>, ReadError> {
        if !self.more {
            return Ok(None);
        }
        self.events.deps.lifecycle.refuse_if_draining()?;
        let queue = &self.events.deps.queue;
        match &mut self.work {
            Some(work) => work.go_on().await?,
            None if self.epoch.is_some() => self.work = Some(queue.begin(self.principal).await?),
            None => {}
        }
        let from = ReadFrom::Before(self.before);
        let request = PageRequest { from, limit: self.limit, epoch: self.epoch, run: None, wait: None };
        let page = self.events.page_of(self.principal, self.thread, request, WORK_SLICE_BYTES).await?;
        match &self.work {
            Some(work) => work.done(page.slice.bytes(), page.slice.0.len()),
            None => drop(self.events.deps.quota.account(self.principal).charge(page.slice.bytes())),
        }
        (self.before, self.epoch, self.more) = (page.cursor, Some(page.epoch), page.has_more);
        Ok(Some(page))
    }
}

impl Events {
    /// First event of a run; `None` if the run has no event yet, or the event is not UTF-8. Of a turn that has just begun, it
    /// is waited for.
    pub async fn first_of(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        run: &Run,
        epoch: Epoch,
    ) -> Result<Option<String>, ReadError> {
        let from = ReadFrom::After(run.first_seq - 1);
        // A turn that has just begun has no event before a node calls its agent.
        let wait = (run.driven && run.status.is_active() && run.producer_seq == 0).then_some(TURN_BEGIN_WAIT);
        let request = PageRequest { from, limit: 1, epoch: Some(epoch), run: Some(run.id.clone()), wait };
        let page = self.page(principal, thread, request).await?;
        let first = page.slice.events().next();
        Ok(first.and_then(|(_, event, _)| std::str::from_utf8(event).ok().map(str::to_owned)))
    }

    /// Reads a page. With `wait`, a page after the tail waits for the next events.
    pub async fn page(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        request: PageRequest,
    ) -> Result<EventsPage, ReadError> {
        let page = self.page_of(principal, thread, request, MAX_PAGE_BYTES).await?;
        self.deps.quota.account(principal).charge(page.slice.bytes());
        Ok(page)
    }

    /// Passes the events after `cursor` up to `end` to `take`, in slices of the queue: those of one run, or all.
    pub async fn fold(
        &self,
        work: &mut QueuedWork,
        (principal, thread, epoch): (&Principal, &ThreadId, Epoch),
        run: Option<&RunId>,
        (mut cursor, end): (Seq, Seq),
        mut take: impl FnMut(Seq, &[u8], &Batch) + Send,
    ) -> Result<(), ReadError> {
        while cursor < end {
            work.go_on().await?;
            let (from, run) = (ReadFrom::After(cursor), run.cloned());
            let request = PageRequest { from, limit: FOLD_EVENTS, epoch: Some(epoch), run, wait: None };
            let page = self.page_of(principal, thread, request, WORK_SLICE_BYTES).await?;
            let slice = page.slice.between(cursor, end.saturating_add(1));
            // An event of megabytes is a long step.
            work.step(slice.bytes()).await?;
            in_place(|| slice.events().for_each(|(seq, event, batch)| take(seq, event, batch)));
            // Many small events take as long as many rows.
            let count = usize::try_from(slice.count()).unwrap_or(usize::MAX);
            work.done(slice.bytes(), count.saturating_mul(WORK_SLICE_ROWS) / FOLD_EVENTS);
            if page.cursor <= cursor {
                break;
            }
            cursor = page.cursor;
        }
        Ok(())
    }

    /// Reads pages of at most `limit` events from the end of the log to its beginning.
    pub fn backwards<'a>(&'a self, principal: &'a Principal, thread: &'a ThreadId, limit: usize) -> Backwards<'a> {
        Backwards { events: self, principal, thread, limit, before: Seq::MAX, epoch: None, more: true, work: None }
    }

    async fn page_of(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        request: PageRequest,
        bytes: usize,
    ) -> Result<EventsPage, ReadError> {
        let request = &request;
        let read = move |thread: Arc<ThreadRef>| async move {
            let Attempt::Done(run) = self.bound(&thread, request.run.as_ref()).await? else {
                return Ok(Attempt::ThreadGone);
            };
            match (request.from, request.wait) {
                (ReadFrom::After(cursor), Some(wait)) => {
                    match self.wait(&thread, cursor, request.epoch, run, wait, principal).await {
                        Err(ReadError::ThreadNotFound) => return Ok(Attempt::ThreadGone),
                        waited => waited?,
                    }
                }
                (ReadFrom::Before(_), Some(_)) => {
                    return Err(ReadError::InvalidRequest("wait requires after, not before".into()));
                }
                (_, None) => {}
            }
            // Read again: the run may have continued during the wait.
            let Attempt::Done(run) = self.bound(&thread, request.run.as_ref()).await? else {
                return Ok(Attempt::ThreadGone);
            };
            Ok(self.read(&thread, request, bytes, run).await?.into())
        };
        self.deps.directory.with_thread(principal, thread, read).await
    }

    /// Refuses a principal that may not follow threads.
    pub fn may_follow(&self, principal: &Principal) -> Result<(), ReadError> {
        Ok(require(principal, Scope::Read)?)
    }

    /// Follows a thread from a cursor; with `run`, only that run and until its end.
    pub async fn subscribe(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        after: Seq,
        epoch: Option<Epoch>,
        run: Option<&RunId>,
        via: FollowMethod,
    ) -> Result<Subscription, ReadError> {
        self.may_follow(principal)?;
        self.deps.lifecycle.refuse_if_draining()?;
        let open = move |thread: Arc<ThreadRef>| async move {
            let Attempt::Done(run) = self.bound(&thread, run).await? else { return Ok(Attempt::ThreadGone) };
            match self.open(&thread, after, epoch, run, (principal, via)).await {
                Err(ReadError::ThreadNotFound) => Ok(Attempt::ThreadGone),
                opened => Ok(Attempt::Done(opened?)),
            }
        };
        self.deps.directory.with_thread(principal, thread, open).await
    }

    /// Watches a thread's head, for producers, which must learn of a stop. Returns the topic and the run's fence.
    pub async fn watch_run(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        run: &RunId,
    ) -> Result<(TopicRef, Fence), RunLookupError> {
        let join = move |thread: Arc<ThreadRef>| async move {
            let fence = self.deps.directory.run(thread.key, run).await?.map(|run| run.fence);
            let topic = self.deps.hub.join(thread.key);
            // Changes before the join woke no one.
            let known = self.deps.store.lineage().generation();
            self.deps.hub.recheck(self.deps.store.as_ref(), known, &[thread.key]).await?;
            if topic.state().gone {
                return Ok(Attempt::ThreadGone);
            }
            Ok(Attempt::Done((topic, fence.ok_or(RunLookupError::RunNotFound)?)))
        };
        self.deps.directory.with_thread(principal, thread, join).await
    }

    async fn open(
        &self,
        thread: &ThreadRef,
        after: Seq,
        epoch: Option<Epoch>,
        run: Option<Run>,
        (principal, via): (&Principal, FollowMethod),
    ) -> Result<Subscription, ReadError> {
        let reader = Reader::new(principal, via, run.as_ref().map(|run| &run.id), self.deps.clock.now());
        let (memory, account) = (self.deps.hub.place(&BudgetOwner::of(principal)), self.deps.quota.account(principal));
        let store = self.deps.store.clone();
        let subscription = Subscription::open(&self.deps.hub, store, thread.key, after, epoch, run).await?;
        Ok(subscription.within(memory, account).shown_as(reader))
    }

    async fn bound(&self, thread: &ThreadRef, run: Option<&RunId>) -> Result<Attempt<Option<Run>>, RunLookupError> {
        let Some(run) = run else { return Ok(Attempt::Done(None)) };
        if let Some(found) = self.deps.store.run(thread.key, run).await? {
            return Ok(Attempt::Done(Some(found)));
        }
        let exists = self.deps.directory.exists(thread.key).await?;
        if exists { Err(RunLookupError::RunNotFound) } else { Ok(Attempt::ThreadGone) }
    }

    /// Returns as soon as an event exists after the cursor, or after the timeout.
    async fn wait(
        &self,
        thread: &ThreadRef,
        cursor: Seq,
        epoch: Option<Epoch>,
        run: Option<Run>,
        wait: Duration,
        principal: &Principal,
    ) -> Result<(), ReadError> {
        let mut subscription = self.open(thread, cursor, epoch, run, (principal, FollowMethod::LongPoll)).await?;
        let _waiting = GaugeGuard::new(&self.deps.metrics.following.poll);
        let something = async {
            loop {
                match subscription.next().await? {
                    Some(
                        Delivery::CaughtUp(_) | Delivery::FellBehind(_) | Delivery::Rebased { .. } | Delivery::Queue(_),
                    ) => {}
                    // The page would only find that the thread is not there.
                    Some(Delivery::Ended(EndReason::LogReplaced(lost @ ReplacedLog { epoch: None, .. }))) => {
                        return Err(ReadError::LogReplaced(lost));
                    }
                    Some(Delivery::Events(_) | Delivery::Ended(_)) | None => return Ok::<_, ReadError>(()),
                }
            }
        };
        tokio::select! {
            result = time::timeout(wait.min(MAX_WAIT), something) => result.unwrap_or(Ok(())),
            // The answer is a page without events; the client retries and reaches another node.
            () = self.deps.lifecycle.draining.cancelled() => Ok(()),
        }
    }

    async fn read(
        &self,
        thread: &ThreadRef,
        request: &PageRequest,
        bytes: usize,
        run: Option<Run>,
    ) -> Result<Option<EventsPage>, ReadError> {
        let (epoch, limit) = (request.epoch, request.limit.clamp(1, MAX_EVENT_PAGE));
        // The span that the reader may see; a run's events are contiguous.
        let (floor, ceiling) = match &run {
            Some(run) => (run.first_seq - 1, run.last_seq().saturating_add(1)),
            None => (0, Seq::MAX),
        };
        let from = match request.from {
            ReadFrom::After(seq) => ReadFrom::After(seq.max(floor)),
            ReadFrom::Before(seq) => ReadFrom::Before(seq.min(ceiling)),
        };
        let (mut slice, mut head) = (LogSlice::default(), None::<Head>);
        // The store cuts its pages by bytes; the client requested a number of events.
        loop {
            let rest = limit - usize::try_from(slice.count()).unwrap_or(limit).min(limit);
            let next = match (from, slice.first_seq(), slice.last_seq()) {
                (ReadFrom::After(_), _, Some(last)) => ReadFrom::After(last),
                (ReadFrom::Before(_), Some(first), _) => ReadFrom::Before(first),
                _ => from,
            };
            self.deps.metrics.store_reads.page.inc();
            let page = match self.deps.store.page(thread.key, next, rest).await {
                // The intact events are a page; the request for the next one fails.
                Err(StoreError::Damaged { .. }) if !slice.0.is_empty() => break,
                read => read?,
            };
            let Some(page) = page else { return Ok(None) };
            let page_slice = page.slice.between(floor, ceiling);
            let head = head.get_or_insert(page.head);
            // A page backwards begins anywhere: only its epoch counts.
            let seen = match from {
                ReadFrom::After(cursor) => cursor,
                ReadFrom::Before(before) => before.saturating_sub(1).min(head.tail),
            };
            let (epoch_now, tail) = (head.epoch, head.tail);
            match head.history().judge(tail, epoch, seen, self.deps.store.lineage().generation()) {
                // The page names the epoch under which it is read.
                Judgement::Continues | Judgement::Rebased => {}
                Judgement::Replaced { common_up_to } => {
                    return Err(ReadError::LogReplaced(ReplacedLog { epoch: Some(epoch_now), tail, common_up_to }));
                }
                Judgement::Ahead => return Err(ReadError::CursorAhead { epoch: Some(epoch_now), tail }),
            }
            let done = page_slice.0.is_empty();
            match from {
                ReadFrom::After(_) => slice.0.extend(page_slice.0),
                ReadFrom::Before(_) => slice.0.splice(0..0, page_slice.0).for_each(drop),
            }
            if done || slice.count() >= limit as u64 || slice.bytes() >= bytes {
                break;
            }
        }
        let Some(head) = head else { return Ok(None) };
        let (cursor, has_more) = match from {
            ReadFrom::After(after) => {
                let cursor = slice.last_seq().unwrap_or(after);
                (cursor, cursor < head.tail.min(ceiling - 1))
            }
            ReadFrom::Before(before) => {
                let cursor = slice.first_seq().unwrap_or(before.min(floor + 1));
                (cursor, cursor > floor + 1 && head.tail > floor)
            }
        };
        let has_ended = |run: &Run| run.ended_at.is_some() && cursor >= run.last_seq();
        let ends_run = matches!(from, ReadFrom::After(_)) && run.as_ref().is_some_and(has_ended);
        Ok(Some(EventsPage { epoch: head.epoch, tail: head.tail, slice, cursor, has_more, ends_run }))
    }
}

impl From<FollowError> for ReadError {
    fn from(error: FollowError) -> Self {
        match error {
            FollowError::Gone => Self::ThreadNotFound,
            FollowError::LogReplaced(replaced) => Self::LogReplaced(replaced),
            FollowError::CursorAhead { epoch, tail } => Self::CursorAhead { epoch: Some(epoch), tail },
            FollowError::Store(error) => Self::Store(error),
        }
    }
}
