//! Starting a run: the lock is asked first, the store decides, and a predecessor whose lease has expired is ended with it.

use std::{sync::Arc, time::Duration};

use threadline_core::{
    AgentId, AttemptId, Author, Epoch, NewEvents, Principal, Run, RunId, Scope, Seq, ThreadId, UserId,
    limits::{COMPLETE_RUN_WAIT, DRIVEN_LEASE},
};
use threadline_store::{CloseWhen, Head, NewTurn, StartOutcome, StartRun, StoreError};
use tokio::time;

use crate::{
    StartError,
    after_commit::{Commit, RowChange},
    authority,
    commit::resolve,
    directory::Attempt,
    errors::ActiveRun,
    records::ThreadRef,
    run_counts::{PredecessorEnd, count_started},
    runs::{Runs, close, driving::DriveRight, thread_watch::ThreadWatch},
    subscription::ReplacedLog,
};

/// Number of concurrent starts that may overtake a start which ends a predecessor, before the caller must retry.
const START_TRIES: usize = 32;

/// Run to start, or to append as a complete run.
#[derive(Debug, Clone, Default)]
pub struct StartRequest {
    /// Id of the run; generated if absent.
    pub run: Option<RunId>,
    /// Agent that the run belongs to; stored with the run.
    pub agent: Option<AgentId>,
    /// Lease of the run; the node's default if absent, clamped to
    /// [`MIN_LEASE`](threadline_core::limits::MIN_LEASE)..=[`MAX_LEASE`](threadline_core::limits::MAX_LEASE).
    pub lease: Option<Duration>,
    /// Epoch that the thread's log must have; `None` for any.
    pub epoch: Option<Epoch>,
    /// Id of the first attempt at a run of a producer.
    pub attempt_id: Option<AttemptId>,
    /// Events that the start contains, and the writer of the run.
    pub opening: Opening,
}

/// Events that a start brings with it.
#[derive(Debug, Clone, Default)]
pub enum Opening {
    /// No events: the producer appends them later.
    #[default]
    Open,
    /// First events of a run whose producer appends the rest. None of them ends the run.
    Begun(NewEvents),
    /// A run that this node drives.
    Driven {
        /// First events of the run, stored in the commit that starts it.
        first: NewEvents,
        /// Input with which the agent is called, opaque to the engine, for the node that takes the run over; `None` if it is
        /// not kept.
        input: Option<String>,
    },
    /// All events of the run. Events without a terminal event are closed by RUN_FINISHED. Waits up to
    /// [`COMPLETE_RUN_WAIT`] while another run is active.
    Complete(NewEvents),
}

/// Run that was started or appended as a complete run.
#[derive(Debug, Clone)]
pub struct StartedRun {
    /// State of the run after the start.
    pub run: Run,
    /// User who owns the thread.
    pub owner: UserId,
    /// Incarnation of the log.
    pub epoch: Epoch,
    /// Cursor from which all events of the run are followed.
    pub cursor: Seq,
    /// False if a run with this id existed already: the request was a repetition.
    pub created: bool,
    /// Right to write into a run that this node drives. Granted once, with the new run and not with a repetition.
    pub right: Option<DriveRight>,
}

impl StartedRun {
    /// The principal, as one that names the thread's user: the id means this thread for as long as the run lasts, also
    /// for a whole project and if another user gives the same id to a thread.
    pub fn named_by(&self, principal: &Principal) -> Principal {
        principal.clone().for_user(self.owner.clone())
    }
}

/// Tail that the thread must have for a start.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExpectTail {
    /// Any tail is allowed.
    Any,
    /// Only directly after this seq.
    At(Seq),
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

impl Opening {
    fn is_driven(&self) -> bool {
        matches!(self, Self::Driven { .. })
    }

    /// Events to store together with the start.
    fn events(&self) -> Option<&NewEvents> {
        match self {
            Self::Open => None,
            Self::Driven { first: events, .. } | Self::Begun(events) | Self::Complete(events) => Some(events),
        }
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

/// Outcome of a start that asked for a tail: `None` if the thread has another one.
fn driven(begun: StartAttempt) -> Attempt<Option<StartedRun>> {
    match begun {
        StartAttempt::Run(started) => Attempt::Done(Some(started)),
        StartAttempt::TailMismatch => Attempt::Done(None),
        StartAttempt::ThreadGone => Attempt::ThreadGone,
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
    /// Starts a run, or appends a complete one. Returns once the events of the opening are durable. A repetition with the
    /// same id returns the existing run; a complete run must then have the same events.
    pub async fn start(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        mut request: StartRequest,
    ) -> Result<StartedRun, StartError> {
        self.deps.lifecycle.refuse_if_draining()?;
        match &request.opening {
            Opening::Open => authority::may_produce(principal, None)?,
            Opening::Driven { .. } => authority::require(principal, Scope::Chat)?,
            Opening::Begun(events) | Opening::Complete(events) => authority::may_produce(principal, Some(events))?,
        }
        let id = request.run.take().unwrap_or_else(RunId::generate);
        if let Opening::Complete(events) = request.opening {
            request.opening = Opening::Complete(close::ended(thread, &id, events));
        }
        self.start_expecting(principal, thread, &id, &request, ExpectTail::Any, Attempt::from).await
    }

    /// Starts a run that this node drives, with first events that were made for a log which ends with `tail`. Returns
    /// once they are durable; `None` if the log has other events by now. A repetition with the same id returns the
    /// existing run, without the right to write into it.
    pub async fn start_driven(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        mut request: StartRequest,
        tail: Seq,
    ) -> Result<Option<StartedRun>, StartError> {
        self.deps.lifecycle.refuse_if_draining()?;
        authority::require(principal, Scope::Chat)?;
        let id = request.run.take().unwrap_or_else(RunId::generate);
        self.start_expecting(principal, thread, &id, &request, ExpectTail::At(tail), driven).await
    }

    async fn start_expecting<T>(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        run: &RunId,
        request: &StartRequest,
        tail: ExpectTail,
        outcome: fn(StartAttempt) -> Attempt<T>,
    ) -> Result<T, StartError> {
        let deadline = time::Instant::now() + COMPLETE_RUN_WAIT;
        let start = move |thread: Arc<ThreadRef>| async move {
            // A complete run is never active, so the quota of active runs does not count it.
            if !matches!(request.opening, Opening::Complete(_)) {
                self.check_quota(principal, &thread, run).await?;
            }
            let attempt = self.start_in(principal, &thread, run, request, tail, deadline).await;
            if request.epoch.is_some() && matches!(attempt, Err(StartError::RunActive(_))) {
                // The lock answers before the store, which alone compares the epoch.
                self.deps.directory.head_at::<StartError>(thread.key, request.epoch).await?;
            }
            Ok::<_, StartError>(outcome(attempt?))
        };
        self.deps.directory.with_thread(principal, thread, start).await
    }

    /// Starts a run in this incarnation of a thread. A complete run waits while another run is active, until the
    /// deadline; every other run holds the thread from now on.
    pub(crate) async fn start_in(
        &self,
        principal: &Principal,
        thread: &Arc<ThreadRef>,
        id: &RunId,
        request: &StartRequest,
        tail: ExpectTail,
        deadline: time::Instant,
    ) -> Result<StartAttempt, StartError> {
        self.check_storage(principal, thread, id).await?;
        if let Opening::Begun(events) | Opening::Complete(events) = &request.opening {
            self.check_answers(principal, thread.key, id, events, true).await?;
        }
        if !matches!(request.opening, Opening::Complete(_)) {
            return self.start_locked(principal, thread, id, request, tail).await;
        }
        let mut watch = ThreadWatch::new(&self.deps.hub, thread.key);
        loop {
            match self.try_start(principal, thread, id, request, tail).await {
                Err(StartError::RunActive(active)) => {
                    if !watch.until_free(active.run.fence, deadline).await {
                        self.deps.metrics.conflicts.by_store.inc();
                        return Err(StartError::RunActive(active));
                    }
                }
                answer => return answer.map(StartAttempt::discard_head),
            }
        }
    }

    async fn start_locked(
        &self,
        principal: &Principal,
        thread: &Arc<ThreadRef>,
        id: &RunId,
        request: &StartRequest,
        tail: ExpectTail,
    ) -> Result<StartAttempt, StartError> {
        // The turn is held before the store may commit it.
        let held = request.opening.is_driven().then(|| self.deps.turns.hold(thread.key, id));
        let token = self.deps.lock_guard.enter(thread, id, self.lease(request.lease)).await?;
        match self.try_start(principal, thread, id, request, tail).await {
            Ok(StartAttempt::Run((mut started, head))) if started.created => {
                self.deps.lock_guard.commit(thread, token, &head);
                let named = started.named_by(principal);
                started.right =
                    held.map(|held| DriveRight::first(self.clone(), named, thread, id.clone(), head.driver, held));
                Ok(StartAttempt::Run(started))
            }
            // The run may have begun: then the lock is right; else the lock expires.
            Err(error @ StartError::Store(_)) => Err(error),
            other => {
                if let Err(StartError::RunActive(_)) = &other {
                    self.deps.metrics.conflicts.by_store.inc();
                }
                self.deps.lock_guard.cancel(token);
                other.map(StartAttempt::discard_head)
            }
        }
    }

    /// Turn of a run that this node drives.
    fn turn(&self, opening: &Opening) -> Option<NewTurn> {
        let Opening::Driven { input, .. } = opening else { return None };
        Some(NewTurn { driver: self.deps.turns.node(), input: input.clone() })
    }

    /// Asks the store to start the run, and ends a predecessor whose lease has expired in the same commit.
    async fn try_start(
        &self,
        principal: &Principal,
        thread: &Arc<ThreadRef>,
        id: &RunId,
        request: &StartRequest,
        tail: ExpectTail,
    ) -> Result<StartAttempt<(StartedRun, Head)>, StartError> {
        let (mut closing, mut past) = (None, None);
        let asked_by = principal.author();
        let author = request
            .agent
            .as_ref()
            .filter(|_| request.opening.is_driven())
            .map_or_else(|| asked_by.clone(), Author::agent);
        for _ in 0..START_TRIES {
            let predecessor_end = closing.as_ref().map(PredecessorEnd::of);
            let start = StartRun {
                key: thread.key,
                run: id.clone(),
                agent: request.agent.clone(),
                turn: self.turn(&request.opening),
                attempt_id: request.attempt_id.clone(),
                author: Some(author.clone()),
                asked_by: Some(asked_by.clone()),
                lease: if request.opening.is_driven() { DRIVEN_LEASE } else { self.lease(request.lease) },
                closing: closing.take(),
                events: request.opening.events().cloned(),
                at: if let ExpectTail::At(seq) = tail { Some(seq) } else { past },
                epoch: request.epoch,
                past_queue: past.is_some(),
            };
            match self.deps.store.start(start).await? {
                StartOutcome::Started(committed) => {
                    let (head, slice) = (&committed.head, &committed.slice);
                    self.deps.listeners.committed(&Commit { thread, head, slice, row: RowChange::Changed });
                    count_started(&self.deps.metrics, &committed, predecessor_end);
                    return Ok(StartAttempt::Run((
                        started(thread, committed.run, &committed.head, true),
                        committed.head,
                    )));
                }
                StartOutcome::Exists(run, head) => {
                    if let Opening::Complete(events) = &request.opening {
                        if run.driven {
                            return Err(StartError::RunDriven { thread: thread.id.clone(), run: Box::new(run) });
                        }
                        self.check_same(thread, &run, events).await?;
                    }
                    return Ok(StartAttempt::Run((started(thread, run, &head, false), head)));
                }
                StartOutcome::RunActive(run, head) => {
                    return Err(StartError::RunActive(Box::new(ActiveRun::new(run, head.epoch))));
                }
                StartOutcome::LeaseExpired(run, head) => {
                    closing = self.deps.closer.of_predecessor(thread, &head, &run).await?;
                    if closing.is_none() {
                        return Ok(StartAttempt::ThreadGone);
                    }
                }
                StartOutcome::OtherEpoch(head) => {
                    ReplacedLog::refuse(request.epoch, &head).map_err(StartError::LogReplaced)?;
                    return Ok(StartAttempt::ThreadGone);
                }
                StartOutcome::QueueMoves(head) => past = self.past_queue(thread, &head).await?,
                StartOutcome::Queued(_) => return Err(StartError::TurnQueued(id.clone())),
                // Events were appended since the interrupts were read.
                StartOutcome::TailMismatch(_) if past.take().is_some() && matches!(tail, ExpectTail::Any) => {}
                StartOutcome::TailMismatch(_) => return Ok(StartAttempt::TailMismatch),
                StartOutcome::ThreadGone => return Ok(StartAttempt::ThreadGone),
            }
        }
        Err(StoreError::Unavailable("too many starts at once; try again".into()).into())
    }

    /// Tail at which a start may pass a queue that moves: while interrupts are open, the queue rests. Otherwise its next turn
    /// begins, and the start finds another run active. A run whose lease has expired ends first, which holds the queue.
    async fn past_queue(&self, thread: &ThreadRef, head: &Head) -> Result<Option<Seq>, StoreError> {
        let deps = &self.deps;
        if let Some(active) = &head.active {
            let newest = deps.store.runs(thread.key, None, 1).await?.pop();
            if let Some(run) = newest.filter(|run| run.fence == head.fence)
                && let Some(closing) = deps.closer.of_predecessor(thread, head, &run).await?
            {
                // A run whose lock was released ends with the next start, whatever its lease.
                let when = if active.finishing { CloseWhen::Always } else { CloseWhen::IfDue };
                deps.queues.end(thread, &run, closing, when).await?;
            }
            return Ok(None);
        }
        let open = deps.store.queue(thread.key).await?.filter(|queue| queue.interrupts.is_some());
        if let Some(queue) = open {
            return Ok(Some(queue.head.tail));
        }
        deps.queues.begin_next(thread).await?;
        Ok(None)
    }

    /// Checks that a complete run which exists already has the same events.
    async fn check_same(&self, thread: &ThreadRef, run: &Run, events: &NewEvents) -> Result<(), StartError> {
        let stored = resolve::stored_prefix(&self.deps.store, &self.deps.metrics, thread.key, run, 1, events).await?;
        if run.status.is_active() || stored < events.count() || run.producer_seq > events.count() as u64 {
            return Err(StartError::ProducerSeqConflict { producer_seq: stored as u64 + 1 });
        }
        Ok(())
    }
}

fn started(thread: &ThreadRef, run: Run, head: &Head, created: bool) -> StartedRun {
    let owner = thread.user.clone();
    StartedRun { cursor: run.first_seq - 1, owner, epoch: head.epoch, run, created, right: None }
}
