//! Reading a thread's log: pages, and subscriptions.

use std::time::Duration;

use tokio::time;

use super::{ServiceError, StartedRun, context::Context, directory::ThreadRef};
use crate::{
    domain::{
        Epoch, Fence, LogSlice, Principal, Run, RunId, Seq, ThreadId,
        limits::{MAX_EVENT_PAGE, MAX_WAIT},
    },
    metrics::Present,
    store::{Head, ReadFrom},
    subscription::{Delivery, Reader, Subscription, TopicRef, Via},
};

/// A request for a page of a log.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// From where, and in which direction.
    pub from: ReadFrom,
    /// Most events.
    pub limit: usize,
    /// The epoch that the cursor belongs to, if the client says so.
    pub epoch: Option<Epoch>,
    /// Only events of this run.
    pub run: Option<RunId>,
    /// How long to wait for the first event if there is none yet.
    pub wait: Option<Duration>,
}

/// A page of a log.
#[derive(Debug, Clone)]
pub struct EventsPage {
    /// The incarnation of the log.
    pub epoch: Epoch,
    /// Its newest event at that moment.
    pub tail: Seq,
    /// The events, contiguous, oldest first.
    pub slice: LogSlice,
    /// Where the next page in the same direction begins.
    pub cursor: Seq,
    /// Whether there is more in that direction now.
    pub has_more: bool,
}

/// The use cases of reading.
#[derive(Clone)]
pub struct Events {
    pub(super) context: Context,
}

impl Events {
    /// What a run began with; `None` if it has said nothing yet, or no text.
    pub async fn first_of(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        started: &StartedRun,
    ) -> Result<Option<String>, ServiceError> {
        let (from, run) = (ReadFrom::After(started.cursor), Some(started.run.id.clone()));
        let request = PageRequest { from, limit: 1, epoch: Some(started.epoch), run, wait: None };
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
    ) -> Result<EventsPage, ServiceError> {
        let limit = request.limit.clamp(1, MAX_EVENT_PAGE);
        let mut lookup = self.context.directory.lookup(principal, thread);
        loop {
            let thread = lookup.next().await?;
            let run = match self.bound(&thread, request.run.as_ref()).await {
                Err(ServiceError::ThreadNotFound) => continue,
                run => run?,
            };
            match (request.from, request.wait) {
                (ReadFrom::After(cursor), Some(wait)) => {
                    let now = self.context.clock.now();
                    let reader = Reader::new(principal, Via::LongPoll, request.run.as_ref(), now);
                    match self.wait(&thread, cursor, request.epoch, run, wait, reader).await {
                        Err(ServiceError::ThreadNotFound) => continue,
                        waited => waited?,
                    }
                }
                (ReadFrom::Before(_), Some(_)) => {
                    return Err(ServiceError::InvalidRequest("wait goes with after, not with before".into()));
                }
                (_, None) => {}
            }
            // Asked again: the run may have gone on while we waited.
            let run = match self.bound(&thread, request.run.as_ref()).await {
                Err(ServiceError::ThreadNotFound) => continue,
                run => run?,
            };
            if let Some(page) = self.read(&thread, request.from, limit, request.epoch, run).await? {
                return Ok(page);
            }
        }
    }

    /// Follows a thread from a cursor; with `run`, that run only and to its end.
    pub async fn subscribe(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        after: Seq,
        epoch: Option<Epoch>,
        run: Option<&RunId>,
        via: Via,
    ) -> Result<Subscription, ServiceError> {
        self.context.refuse_if_draining()?;
        let reader = Reader::new(principal, via, run, self.context.clock.now());
        let mut lookup = self.context.directory.lookup(principal, thread);
        loop {
            let thread = lookup.next().await?;
            let run = match self.bound(&thread, run).await {
                Err(ServiceError::ThreadNotFound) => continue,
                run => run?,
            };
            match self.open(&thread, after, epoch, run, reader.clone()).await {
                Err(ServiceError::ThreadNotFound) => {}
                answer => return answer,
            }
        }
    }

    /// Looks at a thread's head as it moves: for producers, who must learn of a stop. The fence is the run's.
    pub async fn watch_run(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        run: &RunId,
    ) -> Result<(TopicRef, Fence), ServiceError> {
        let mut lookup = self.context.directory.lookup(principal, thread);
        loop {
            let thread = lookup.next().await?;
            let fence = self.context.directory.run(thread.key, run).await?.map(|run| run.fence);
            let topic = self.context.hub.join(thread.key);
            // What happened before we joined.
            self.context.hub.recheck(self.context.store.as_ref(), &[thread.key]).await?;
            if !topic.state().gone {
                return Ok((topic, fence.ok_or(ServiceError::RunNotFound)?));
            }
        }
    }

    async fn open(
        &self,
        thread: &ThreadRef,
        after: Seq,
        epoch: Option<Epoch>,
        run: Option<Run>,
        reader: Reader,
    ) -> Result<Subscription, ServiceError> {
        let store = self.context.store.clone();
        let subscription = Subscription::open(&self.context.hub, store, thread.key, after, epoch, run).await?;
        Ok(subscription.shown_as(reader))
    }

    async fn bound(&self, thread: &ThreadRef, run: Option<&RunId>) -> Result<Option<Run>, ServiceError> {
        let Some(run) = run else { return Ok(None) };
        if let Some(found) = self.context.store.run(thread.key, run).await? {
            return Ok(Some(found));
        }
        let there = self.context.exists(thread.key).await?;
        Err(if there { ServiceError::RunNotFound } else { ServiceError::ThreadNotFound })
    }

    /// Returns when there is something after the cursor, or the time is over.
    async fn wait(
        &self,
        thread: &ThreadRef,
        cursor: Seq,
        epoch: Option<Epoch>,
        run: Option<Run>,
        wait: Duration,
        reader: Reader,
    ) -> Result<(), ServiceError> {
        let mut subscription = self.open(thread, cursor, epoch, run, reader).await?;
        let _waiting = Present::new(&self.context.metrics.following.poll);
        let something = async {
            loop {
                match subscription.next().await? {
                    Some(Delivery::CaughtUp(_) | Delivery::FellBehind(_)) => {}
                    Some(Delivery::Events(_) | Delivery::Ended(_)) | None => return Ok::<_, ServiceError>(()),
                }
            }
        };
        tokio::select! {
            result = time::timeout(wait.min(MAX_WAIT), something) => result.unwrap_or(Ok(())),
            // The answer is a page without events; the client comes again and finds another node.
            () = self.context.draining.cancelled() => Ok(()),
        }
    }

    async fn read(
        &self,
        thread: &ThreadRef,
        from: ReadFrom,
        limit: usize,
        epoch: Option<Epoch>,
        run: Option<Run>,
    ) -> Result<Option<EventsPage>, ServiceError> {
        // The span that the reader may see; a run's events are contiguous.
        let (floor, ceiling) = match &run {
            Some(run) => (run.first_seq - 1, run.last_seq().saturating_add(1)),
            None => (0, Seq::MAX),
        };
        let from = match from {
            ReadFrom::After(seq) => ReadFrom::After(seq.max(floor)),
            ReadFrom::Before(seq) => ReadFrom::Before(seq.min(ceiling)),
        };
        let (mut slice, mut head) = (LogSlice::default(), None::<Head>);
        // The store cuts its pages by bytes; the client asked for a number of events.
        loop {
            let rest = limit - usize::try_from(slice.count()).unwrap_or(limit).min(limit);
            let next = match (from, slice.first_seq(), slice.last_seq()) {
                (ReadFrom::After(_), _, Some(last)) => ReadFrom::After(last),
                (ReadFrom::Before(_), Some(first), _) => ReadFrom::Before(first),
                _ => from,
            };
            self.context.metrics.store_reads.page.inc();
            let Some(page) = self.context.store.read(thread.key, next, rest).await? else { return Ok(None) };
            let page_slice = page.slice.between(floor, ceiling);
            let head = head.get_or_insert(page.head);
            if epoch.is_some_and(|epoch| epoch != head.epoch) {
                return Err(ServiceError::LogReplaced { epoch: head.epoch, tail: head.tail });
            }
            if let ReadFrom::After(cursor) = from
                && cursor > head.tail
            {
                return Err(ServiceError::CursorAhead { epoch: Some(head.epoch), tail: head.tail });
            }
            let done = page_slice.0.is_empty();
            match from {
                ReadFrom::After(_) => slice.0.extend(page_slice.0),
                ReadFrom::Before(_) => slice.0.splice(0..0, page_slice.0).for_each(drop),
            }
            if done || slice.count() >= limit as u64 || slice.bytes() >= crate::domain::limits::MAX_PAGE_BYTES {
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
        Ok(Some(EventsPage { epoch: head.epoch, tail: head.tail, slice, cursor, has_more }))
    }
}
