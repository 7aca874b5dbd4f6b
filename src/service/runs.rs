//! Runs: start, append, heartbeat, end.

use std::{sync::Arc, time::Duration};

use tokio::{sync::oneshot, time};

use super::{
    ServiceError,
    closing::{self, Why},
    committer::{Receipt, Request},
    context::{Context, Ends},
    directory::ThreadRef,
    driving::{DriveRight, Writer, driven},
    error::ActiveRun,
    opening::{Begun, Opening},
    resolve,
    submit::Reply,
};
use crate::{
    domain::{
        AgentId, Epoch, Fence, NewEvents, Principal, Run, RunId, Seq, ThreadId,
        limits::{
            MAX_LEASE, MAX_PAGE, MAX_PRODUCER_SEQ, MIN_LEASE, RECHECK_INTERVAL, STREAM_HEARTBEAT, WHOLE_RUN_WAIT,
        },
    },
    store::{Beat, Head, StartOutcome, StartRun, StopOutcome},
};

/// Ending a predecessor may be overtaken this often by other starts before one of them has won.
const START_TRIES: usize = 32;

/// What is wanted of a new run.
#[derive(Debug, Clone, Default)]
pub struct NewRun {
    /// Its id; made up if absent.
    pub id: Option<RunId>,
    /// Its agent.
    pub agent: Option<AgentId>,
    /// How long it may be silent; what the node is configured for if absent, at most [`MAX_LEASE`].
    pub lease: Option<Duration>,
}

impl NewRun {
    fn lease(&self, default: Duration) -> Duration {
        self.lease.unwrap_or(default).clamp(MIN_LEASE, MAX_LEASE)
    }
}

/// A started (or appended) run.
#[derive(Debug, Clone)]
pub struct StartedRun {
    /// The run.
    pub run: Run,
    /// The incarnation of the log.
    pub epoch: Epoch,
    /// Follow from here to see the whole run.
    pub cursor: Seq,
    /// False if a run of this id was there already: the request was a repetition.
    pub created: bool,
}

/// An append that was handed in; await it for the receipt.
#[derive(Debug)]
pub struct PendingAppend {
    receipt: oneshot::Receiver<Result<Receipt, ServiceError>>,
}

impl PendingAppend {
    /// The answer, once the events are durable. Dropping the future does not take the append back.
    pub async fn receipt(self) -> Result<Receipt, ServiceError> {
        self.receipt.await.unwrap_or(Err(ServiceError::Draining))
    }
}

/// The use cases of runs.
#[derive(Clone)]
pub struct Runs {
    pub(super) context: Context,
}

impl Runs {
    /// The time between the signs of life that keep a run's lease; a short one needs a quicker beat.
    pub fn beat(&self, new: &NewRun) -> Duration {
        STREAM_HEARTBEAT.min(new.lease(self.context.lease) / 3)
    }

    /// Starts a run. The same id again is the same run.
    pub async fn start(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        new: NewRun,
    ) -> Result<StartedRun, ServiceError> {
        self.start_run(principal, thread, new, Opening::Bare).await
    }

    /// Starts a run that this node drives, with its first events, in one commit: an answer means that they are in the log.
    /// The right to write into it comes with a run that was made; the same id again is the same run, and brings nothing.
    pub async fn start_driven(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        new: NewRun,
        first: &NewEvents,
    ) -> Result<(StartedRun, Option<DriveRight>), ServiceError> {
        let started = self.start_run(principal, thread, new, Opening::Driven(first)).await?;
        let right = || DriveRight::new(self.clone(), principal.clone(), thread.clone(), started.run.id.clone());
        let right = started.created.then(right);
        Ok((started, right))
    }

    async fn start_run(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        new: NewRun,
        opening: Opening<'_>,
    ) -> Result<StartedRun, ServiceError> {
        self.context.refuse_if_draining()?;
        let id = new.id.clone().unwrap_or_else(RunId::generate);
        let mut lookup = self.context.directory.lookup(principal, thread);
        loop {
            let thread = lookup.next().await?;
            self.check_quota(principal, &thread, &id).await?;
            if let Begun::Run(started) = self.begin(&thread, &id, &new, opening).await? {
                return Ok(started);
            }
        }
    }

    /// Appends a finished run whole. Events without a terminal one are closed by RUN_FINISHED. Waits up to
    /// [`WHOLE_RUN_WAIT`] while another run is active. The same id with the same events again changes nothing.
    pub async fn append_whole(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        new: NewRun,
        events: NewEvents,
    ) -> Result<StartedRun, ServiceError> {
        self.context.refuse_if_draining()?;
        let id = new.id.clone().unwrap_or_else(RunId::generate);
        let deadline = time::Instant::now() + WHOLE_RUN_WAIT;
        let events = closing::ended(thread, &id, events);
        let mut lookup = self.context.directory.lookup(principal, thread);
        loop {
            let thread = lookup.next().await?;
            if let Begun::Run(started) = self.begin_whole(&thread, &id, &new, &events, None, deadline).await? {
                return Ok(started);
            }
        }
    }

    /// Appends a run whole, if so asked behind this tail only. Waits while another one is active, until the deadline.
    pub(super) async fn begin_whole(
        &self,
        thread: &Arc<ThreadRef>,
        id: &RunId,
        new: &NewRun,
        events: &NewEvents,
        at: Option<Seq>,
        deadline: time::Instant,
    ) -> Result<Begun, ServiceError> {
        let topic = self.context.hub.join(thread.key);
        let mut changes = topic.watch();
        loop {
            changes.borrow_and_update();
            match self.begin(thread, id, new, Opening::Whole(events, at)).await {
                Err(ServiceError::RunActive(active)) => {
                    let over =
                        async { while !topic.state().is_over(active.run.fence) && changes.changed().await.is_ok() {} };
                    // A lock that is released tells nobody: now and then it is simply tried again.
                    let look = deadline.min(time::Instant::now() + RECHECK_INTERVAL);
                    if time::timeout_at(look, over).await.is_err() && time::Instant::now() >= deadline {
                        self.context.metrics.conflicts.by_store.inc();
                        return Err(ServiceError::RunActive(active));
                    }
                }
                answer => return answer,
            }
        }
    }

    async fn begin(
        &self,
        thread: &Arc<ThreadRef>,
        id: &RunId,
        new: &NewRun,
        opening: Opening<'_>,
    ) -> Result<Begun, ServiceError> {
        let lease = new.lease(self.context.lease);
        // A run appended whole holds the thread for no time.
        if let Opening::Whole(..) = opening {
            return self.begin_in_store(thread, id, new, lease, opening).await.map(Begun::without_head);
        }
        let pass = self.context.gate.enter(&self.context, thread, id, lease).await?;
        match self.begin_in_store(thread, id, new, lease, opening).await {
            Ok(Begun::Run((started, head))) if started.created => {
                self.context.gate.begun(thread, pass, &head);
                Ok(Begun::Run(started))
            }
            // It may have begun: then the lock is right, else it ends by itself.
            Err(error @ ServiceError::Store(_)) => Err(error),
            other => {
                self.context.gate.refused(pass);
                other.map(Begun::without_head)
            }
        }
    }

    async fn begin_in_store(
        &self,
        thread: &Arc<ThreadRef>,
        id: &RunId,
        new: &NewRun,
        lease: Duration,
        opening: Opening<'_>,
    ) -> Result<Begun<(StartedRun, Head)>, ServiceError> {
        let mut closing = None;
        for _ in 0..START_TRIES {
            let ends = closing.as_ref().map(Ends::of);
            let start = StartRun {
                key: thread.key,
                run: id.clone(),
                agent: new.agent.clone(),
                driven: matches!(opening, Opening::Driven(_)),
                lease,
                closing: closing.take(),
                events: opening.events().cloned(),
                at: opening.at(),
            };
            match self.context.store.start(start).await? {
                StartOutcome::Started(committed) => {
                    self.context.published(thread, &committed.head, &committed.slice, true);
                    self.context.run_began(&committed, ends);
                    return Ok(Begun::Run((started(committed.run, &committed.head, true), committed.head)));
                }
                StartOutcome::Exists(run, head) => {
                    if let Opening::Whole(events, _) = opening {
                        if run.driven {
                            return Err(driven(thread, run));
                        }
                        self.check_same(thread, &run, events).await?;
                    }
                    return Ok(Begun::Run((started(run, &head, false), head)));
                }
                StartOutcome::Held(run, head) => {
                    // A whole run waits, and is counted if it has waited in vain.
                    if !matches!(opening, Opening::Whole(..)) {
                        self.context.metrics.conflicts.by_store.inc();
                    }
                    return Err(ServiceError::RunActive(Box::new(ActiveRun::new(run, head.epoch))));
                }
                StartOutcome::Lapsed(run, head) => {
                    closing = closing::of_predecessor(&self.context, thread, &head, &run).await?;
                    if closing.is_none() {
                        return Ok(Begun::Gone);
                    }
                }
                StartOutcome::Moved(_) => return Ok(Begun::Moved),
                StartOutcome::Gone => return Ok(Begun::Gone),
            }
        }
        Err(crate::store::StoreError::Unavailable("too many starts at once; try again".into()).into())
    }

    /// A whole run that is there already must have the same events.
    async fn check_same(&self, thread: &ThreadRef, run: &Run, events: &NewEvents) -> Result<(), ServiceError> {
        let stored = resolve::stored_prefix(&self.context, thread.key, run, 1, events).await?;
        if run.status.is_active() || stored < events.count() || run.producer_seq > events.count() as u64 {
            return Err(ServiceError::ProducerSeqConflict { producer_seq: stored as u64 + 1 });
        }
        Ok(())
    }

    /// Hands in events of a run. Appends handed in one after the other are committed in that order.
    pub async fn submit(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        run: &RunId,
        producer_seq: Option<u64>,
        events: NewEvents,
    ) -> Result<PendingAppend, ServiceError> {
        self.submit_by(Writer::Producer, principal, thread, run, producer_seq, events).await
    }

    pub(super) async fn submit_by(
        &self,
        writer: Writer,
        principal: &Principal,
        thread: &ThreadId,
        run: &RunId,
        producer_seq: Option<u64>,
        events: NewEvents,
    ) -> Result<PendingAppend, ServiceError> {
        producer_seq.map_or(Ok(()), check_producer_seq)?;
        let (thread, fence) = self.find(writer, principal, thread, run).await?;
        let (reply, receipt) = oneshot::channel();
        let reply = Reply::one(reply);
        let request = Request { thread, run: run.clone(), fence, producer_seq, events, reply };
        self.context.committer.submit(request).await?;
        Ok(PendingAppend { receipt })
    }

    /// Appends events of a run; answered once they are durable.
    pub async fn append(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        run: &RunId,
        producer_seq: Option<u64>,
        events: NewEvents,
    ) -> Result<Receipt, ServiceError> {
        self.submit(principal, thread, run, producer_seq, events).await?.receipt().await
    }

    /// A sign of life: extends the run's lease (and sets its length, if given).
    pub async fn heartbeat(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        run: &RunId,
        lease: Option<Duration>,
    ) -> Result<Run, ServiceError> {
        self.heartbeat_by(Writer::Producer, principal, thread, run, lease).await
    }

    pub(super) async fn heartbeat_by(
        &self,
        writer: Writer,
        principal: &Principal,
        thread: &ThreadId,
        run: &RunId,
        lease: Option<Duration>,
    ) -> Result<Run, ServiceError> {
        let lease = lease.map(|lease| lease.clamp(MIN_LEASE, MAX_LEASE));
        loop {
            let (found, fence) = self.find(writer, principal, thread, run).await?;
            let alive = self.context.heartbeats.beat(Beat { key: found.key, fence, lease }).await?;
            let now = self.get(principal, thread, run).await?;
            if alive.is_some() {
                return Ok(now);
            }
            if !now.status.is_active() {
                return Err(ServiceError::RunFenced(Box::new(now)));
            }
            // The beat went to a thread that is gone, and the look at the run has found the one made after it.
        }
    }

    /// The producer is done: what is open is closed, then RUN_FINISHED. Of an ended run: the run as it ended.
    pub async fn finish(&self, principal: &Principal, thread: &ThreadId, run: &RunId) -> Result<Run, ServiceError> {
        self.end(Writer::Producer, principal, thread, run, &Why::Finished).await
    }

    /// The producer failed: what is open is closed, then RUN_ERROR. Of an ended run: the run as it ended.
    pub async fn fail(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        run: &RunId,
        code: Option<String>,
        message: Option<String>,
    ) -> Result<Run, ServiceError> {
        self.end(Writer::Producer, principal, thread, run, &Why::failed(code, message)).await
    }

    pub(super) async fn end(
        &self,
        writer: Writer,
        principal: &Principal,
        thread: &ThreadId,
        run: &RunId,
        why: &Why,
    ) -> Result<Run, ServiceError> {
        loop {
            let (found, fence) = self.find(writer, principal, thread, run).await?;
            if let Some(run) = closing::close(&self.context, &found, run, fence, why).await? {
                return Ok(run);
            }
            // Each turn is for another thread that was deleted meanwhile.
            self.context.directory.forget(&found);
        }
    }

    /// Asks a run to stop; its producer has [`crate::domain::limits::STOP_GRACE`] to end it.
    pub async fn stop(&self, principal: &Principal, thread: &ThreadId, run: &RunId) -> Result<Run, ServiceError> {
        let mut lookup = self.context.directory.lookup(principal, thread);
        loop {
            let thread = lookup.next().await?;
            match self.context.store.request_stop(thread.key, run).await? {
                StopOutcome::Asked(run, head) => {
                    self.context.news(thread.key, &(&head).into());
                    self.context.feed_writer.mark(&thread.project, &thread.user);
                    return Ok(run);
                }
                StopOutcome::Ended(run) => return Ok(run),
                StopOutcome::NoRun => return Err(ServiceError::RunNotFound),
                StopOutcome::Gone => {}
            }
        }
    }

    /// Gives the run's lock back before its last events: it may append until its terminal event or the next start.
    pub async fn release(&self, principal: &Principal, thread: &ThreadId, run: &RunId) -> Result<Run, ServiceError> {
        loop {
            let (found, fence) = self.find(Writer::Producer, principal, thread, run).await?;
            let released = self.context.store.release(found.key, fence).await?;
            let now = self.get(principal, thread, run).await?;
            // If neither, it was meant for a thread that is gone, and the look has found the one made after it.
            if released || !now.status.is_active() {
                self.context.feed_writer.mark(&found.project, &found.user);
                return Ok(now);
            }
        }
    }

    /// A run as it is now.
    pub async fn get(&self, principal: &Principal, thread: &ThreadId, run: &RunId) -> Result<Run, ServiceError> {
        let mut lookup = self.context.directory.lookup(principal, thread);
        loop {
            let thread = lookup.next().await?;
            if let Some(run) = self.context.store.run(thread.key, run).await? {
                return Ok(run);
            }
            if self.context.exists(thread.key).await? {
                return Err(ServiceError::RunNotFound);
            }
        }
    }

    /// Runs of a thread, newest first, before the fence given; and whether there are more. With `at`, as they were
    /// after that event.
    pub async fn list(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        mut before: Option<Fence>,
        limit: usize,
        at: Option<Seq>,
    ) -> Result<(Vec<Run>, bool), ServiceError> {
        let limit = limit.clamp(1, MAX_PAGE);
        let mut lookup = self.context.directory.lookup(principal, thread);
        loop {
            let thread = lookup.next().await?;
            let mut runs = self.context.store.runs(thread.key, before, limit + 1).await?;
            if runs.is_empty() && !self.context.exists(thread.key).await? {
                continue;
            }
            if let Some(at) = at {
                // Runs that began later come first: they are passed over, a page at a time.
                while let Some(last) = runs.last()
                    && last.first_seq > at
                {
                    before = Some(last.fence);
                    runs = self.context.store.runs(thread.key, before, MAX_PAGE).await?;
                }
                runs.retain(|run| run.first_seq <= at);
                while let Some(last) = runs.last()
                    && runs.len() <= limit
                {
                    let more = self.context.store.runs(thread.key, Some(last.fence), limit + 1 - runs.len()).await?;
                    if more.is_empty() {
                        break;
                    }
                    runs.extend(more);
                }
                runs = runs.into_iter().filter_map(|run| run.as_of(at)).collect();
            }
            let more = runs.len() > limit;
            runs.truncate(limit);
            return Ok((runs, more));
        }
    }
}

/// Whether this number can be a producer_seq at all.
pub(super) fn check_producer_seq(producer_seq: u64) -> Result<(), ServiceError> {
    if (1..=MAX_PRODUCER_SEQ).contains(&producer_seq) {
        return Ok(());
    }
    Err(ServiceError::InvalidRequest(format!("producerSeq counts from 1, to at most {MAX_PRODUCER_SEQ}")))
}

fn started(run: Run, head: &Head, created: bool) -> StartedRun {
    StartedRun { cursor: run.first_seq - 1, epoch: head.epoch, run, created }
}
