//! Starting a run: the lock is asked first, the store decides, and a predecessor whose lease has expired is ended with it.

use std::{sync::Arc, time::Duration};

use threadline_core::{NewEvents, Principal, Run, RunId, Seq, ThreadId, limits::COMPLETE_RUN_WAIT};
use threadline_store::{Head, StartOutcome, StartRun, StoreError};
use tokio::time;

use crate::{
    ServiceError,
    after_commit::{Commit, RowChange},
    commit::resolve,
    directory::Attempt,
    errors::ActiveRun,
    records::{StartedRun, ThreadRef},
    run_counts::{PredecessorEnd, count_started},
    runs::{NewRun, Runs, close, thread_watch::ThreadWatch, writer::driven},
};

/// Number of concurrent starts that may overtake a start which ends a predecessor, before the caller must retry.
const START_TRIES: usize = 32;

/// Events that a start brings with it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Opening<'a> {
    /// No events: the producer appends them later.
    Bare,
    /// The first events of a run that the server drives.
    Driven(&'a NewEvents),
    /// All events of the run, the last one terminal; with a seq, only directly after this tail.
    Complete(&'a NewEvents, Option<Seq>),
}

/// Outcome of a start that was not refused.
#[derive(Debug)]
pub(crate) enum StartAttempt<T = StartedRun> {
    /// The run exists: it was begun now or before.
    Run(T),
    /// The thread's tail differs from the one requested.
    TailMismatch,
    /// The thread does not exist (any more).
    ThreadGone,
}

impl<'a> Opening<'a> {
    /// Events to store together with the start.
    pub fn events(self) -> Option<&'a NewEvents> {
        match self {
            Self::Bare => None,
            Self::Driven(events) | Self::Complete(events, _) => Some(events),
        }
    }

    /// Tail that the thread must have; `None` if any tail is allowed.
    pub fn at(self) -> Option<Seq> {
        if let Self::Complete(_, at) = self { at } else { None }
    }
}

/// Without a tail that was asked for, no start answers that the thread has another one.
impl From<StartAttempt> for Attempt<StartedRun> {
    fn from(begun: StartAttempt) -> Self {
        match begun {
            StartAttempt::Run(started) => Self::Done(started),
            StartAttempt::TailMismatch | StartAttempt::ThreadGone => Self::ThreadGone,
        }
    }
}

impl StartAttempt<(StartedRun, Head)> {
    /// Outcome without the head, for the API.
    pub fn discard_head(self) -> StartAttempt {
        match self {
            Self::Run((started, _)) => StartAttempt::Run(started),
            Self::TailMismatch => StartAttempt::TailMismatch,
            Self::ThreadGone => StartAttempt::ThreadGone,
        }
    }
}

impl Runs {
    /// Starts a run. A repeated start with the same id returns the existing run.
    pub async fn start(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        new: NewRun,
    ) -> Result<StartedRun, ServiceError> {
        self.start_run(principal, thread, new, Opening::Bare).await
    }

    pub(crate) async fn start_run(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        new: NewRun,
        opening: Opening<'_>,
    ) -> Result<StartedRun, ServiceError> {
        self.deps.lifecycle.refuse_if_draining()?;
        let id = new.id.clone().unwrap_or_else(RunId::generate);
        let (id, new) = (&id, &new);
        let start = move |thread: Arc<ThreadRef>| async move {
            self.check_quota(principal, &thread, id).await?;
            Ok(self.begin(&thread, id, new, opening).await?.into())
        };
        self.deps.directory.with_thread(principal, thread, start).await
    }

    /// Appends a complete run. Events without a terminal event are closed by RUN_FINISHED. Waits up to
    /// [`COMPLETE_RUN_WAIT`] while another run is active. A repetition with the same id and the same events changes
    /// nothing.
    pub async fn append_complete_run(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        new: NewRun,
        events: NewEvents,
    ) -> Result<StartedRun, ServiceError> {
        self.deps.lifecycle.refuse_if_draining()?;
        let id = new.id.clone().unwrap_or_else(RunId::generate);
        let deadline = time::Instant::now() + COMPLETE_RUN_WAIT;
        let events = close::ended(thread, &id, events);
        let (id, new, events) = (&id, &new, &events);
        let append = move |thread: Arc<ThreadRef>| async move {
            Ok(self.start_complete(&thread, id, new, events, None, deadline).await?.into())
        };
        self.deps.directory.with_thread(principal, thread, append).await
    }

    /// Appends a complete run, with `at` only directly after this tail. Waits while another run is active, until the
    /// deadline.
    pub(crate) async fn start_complete(
        &self,
        thread: &Arc<ThreadRef>,
        id: &RunId,
        new: &NewRun,
        events: &NewEvents,
        at: Option<Seq>,
        deadline: time::Instant,
    ) -> Result<StartAttempt, ServiceError> {
        let mut watch = ThreadWatch::new(&self.deps.hub, thread.key);
        loop {
            match self.begin(thread, id, new, Opening::Complete(events, at)).await {
                Err(ServiceError::RunActive(active)) => {
                    if !watch.until_free(active.run.fence, deadline).await {
                        self.deps.metrics.conflicts.by_store.inc();
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
    ) -> Result<StartAttempt, ServiceError> {
        let lease = new.lease(self.deps.lease);
        // A complete run does not hold the thread.
        if let Opening::Complete(..) = opening {
            return self.try_start(thread, id, new, lease, opening).await.map(StartAttempt::discard_head);
        }
        let token = self.deps.lock_guard.enter(thread, id, lease).await?;
        match self.try_start(thread, id, new, lease, opening).await {
            Ok(StartAttempt::Run((started, head))) if started.created => {
                self.deps.lock_guard.commit(thread, token, &head);
                Ok(StartAttempt::Run(started))
            }
            // The run may have begun: then the lock is right; else the lock expires.
            Err(error @ ServiceError::Store(_)) => Err(error),
            other => {
                self.deps.lock_guard.cancel(token);
                other.map(StartAttempt::discard_head)
            }
        }
    }

    async fn try_start(
        &self,
        thread: &Arc<ThreadRef>,
        id: &RunId,
        new: &NewRun,
        lease: Duration,
        opening: Opening<'_>,
    ) -> Result<StartAttempt<(StartedRun, Head)>, ServiceError> {
        let mut closing = None;
        for _ in 0..START_TRIES {
            let predecessor_end = closing.as_ref().map(PredecessorEnd::of);
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
            match self.deps.store.start(start).await? {
                StartOutcome::Started(committed) => {
                    let (head, slice) = (&committed.head, &committed.slice);
                    self.deps.listeners.committed(&Commit { thread, head, slice, row: RowChange::Changed });
                    count_started(&self.deps.metrics, &committed, predecessor_end);
                    return Ok(StartAttempt::Run((started(committed.run, &committed.head, true), committed.head)));
                }
                StartOutcome::Exists(run, head) => {
                    if let Opening::Complete(events, _) = opening {
                        if run.driven {
                            return Err(driven(thread, run));
                        }
                        self.check_same(thread, &run, events).await?;
                    }
                    return Ok(StartAttempt::Run((started(run, &head, false), head)));
                }
                StartOutcome::RunActive(run, head) => {
                    // A complete run waits, and counts as a conflict only after the deadline.
                    if !matches!(opening, Opening::Complete(..)) {
                        self.deps.metrics.conflicts.by_store.inc();
                    }
                    return Err(ServiceError::RunActive(Box::new(ActiveRun::new(run, head.epoch))));
                }
                StartOutcome::LeaseExpired(run, head) => {
                    closing = self.deps.closer.of_predecessor(thread, &head, &run).await?;
                    if closing.is_none() {
                        return Ok(StartAttempt::ThreadGone);
                    }
                }
                StartOutcome::TailMismatch(_) => return Ok(StartAttempt::TailMismatch),
                StartOutcome::ThreadGone => return Ok(StartAttempt::ThreadGone),
            }
        }
        Err(StoreError::Unavailable("too many starts at once; try again".into()).into())
    }

    /// Checks that a complete run which exists already has the same events.
    async fn check_same(&self, thread: &ThreadRef, run: &Run, events: &NewEvents) -> Result<(), ServiceError> {
        let stored = resolve::stored_prefix(&self.deps.store, &self.deps.metrics, thread.key, run, 1, events).await?;
        if run.status.is_active() || stored < events.count() || run.producer_seq > events.count() as u64 {
            return Err(ServiceError::ProducerSeqConflict { producer_seq: stored as u64 + 1 });
        }
        Ok(())
    }
}

fn started(run: Run, head: &Head, created: bool) -> StartedRun {
    StartedRun { cursor: run.first_seq - 1, epoch: head.epoch, run, created }
}
