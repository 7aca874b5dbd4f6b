//! Attempts at runs of producers: a process starts a run, or takes one up that another process has begun.
//!
//! A run has one live attempt at a time. A take-up displaces the attempt before it in the commit that ends or supersedes what that
//! one has left, by compare-and-set on the head, as a takeover of a driven run does.

mod seen;

use std::sync::Arc;

use seen::{Found, Reader, Seen};
use serde::{Deserialize, Serialize};
use threadline_core::{
    AttemptId, Epoch, NewEvents, Principal, Run, ThreadId,
    event::cut,
    limits::MAX_ATTEMPT_ID_BYTES,
    projection::{
        conversation::{Conversation, Kept},
        superseding::{Continued, NextAttempt, TAKEN_UP, superseding},
    },
};
use threadline_store::{ProducerTurn, StoreError, TakeUp};

use crate::{
    AttemptError, InvalidRequestError, Opening, Projections, Runs, StartRequest, StartedRun,
    after_commit::{Commit, RowChange},
    authority,
    directory::Attempt,
    read::projections::Reading,
    records::{RunFacts, ThreadRef},
    runs::close::CloseReason,
    subscription::ReplacedLog,
};

/// Events of the attempt before that may overtake a take-up, before the caller must retry.
const TAKE_TRIES: usize = 16;

/// Fate of a run that exists, when another process starts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnExisting {
    /// The run stays with its present attempt.
    #[default]
    Return,
    /// The process continues the run: what was complete stays.
    Continue,
    /// The process produces the run anew: all since the events that it began with is superseded.
    Restart,
}

/// Start of a run by one process of its producer.
#[derive(Debug, Clone, Default)]
pub struct AttemptRequest {
    /// Start of the run, if it does not exist. Its opening is [`Opening::Open`] or [`Opening::Begun`].
    pub start: StartRequest,
    /// Fate of a run that exists.
    pub on_existing: OnExisting,
    /// True if a restart may call tools again, or do again what an answer to an interrupt has approved.
    pub tools_repeatable: bool,
}

/// A run with its present attempt.
#[derive(Debug, Clone)]
pub struct AttemptedRun {
    /// The run after the start.
    pub started: StartedRun,
    /// Number of the attempt.
    pub attempt: u64,
    /// Id of the attempt; `None` if its process has named none, or if the run has ended.
    pub attempt_id: Option<AttemptId>,
}

/// Use cases of attempts.
#[derive(Clone)]
pub struct Attempts {
    pub(crate) runs: Runs,
    pub(crate) projections: Projections,
}

impl Attempts {
    /// Starts a run, or, if it exists, does with it what the request says. A repetition with the id of the present attempt
    /// gets the same answer.
    pub async fn start(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        request: AttemptRequest,
    ) -> Result<AttemptedRun, AttemptError> {
        let AttemptRequest { start, on_existing, tools_repeatable } = request;
        check(&start, on_existing)?;
        let attempt_id = start.attempt_id.clone();
        let (epoch, lease) = (start.epoch, start.lease);
        let started = self.runs.start(principal, thread, start).await?;
        if started.created {
            return Ok(AttemptedRun { attempt: started.run.attempt, attempt_id, started });
        }
        if started.run.driven {
            return Err(AttemptError::RunDriven { thread: thread.clone(), run: Box::new(started.run) });
        }
        let taken = attempt_id.filter(|_| on_existing != OnExisting::Return);
        let taken = taken.map(|id| Wanted { id, restart: on_existing == OnExisting::Restart, tools_repeatable, lease });
        let (started, wanted) = (&started, &taken);
        let settle = move |thread: Arc<ThreadRef>| async move {
            self.settle(principal, &thread, started, wanted.as_ref(), epoch).await
        };
        self.runs.deps.directory.with_thread(principal, thread, settle).await
    }

    /// Settles what becomes of a run that exists.
    async fn settle(
        &self,
        principal: &Principal,
        thread: &Arc<ThreadRef>,
        started: &StartedRun,
        wanted: Option<&Wanted>,
        epoch: Option<Epoch>,
    ) -> Result<Attempt<AttemptedRun>, AttemptError> {
        let (store, id) = (&self.runs.deps.store, &started.run.id);
        let mut seen = None;
        for _ in 0..TAKE_TRIES {
            let turn = store.producer_turn(thread.key, id).await?;
            let Some(head) = store.heads(&[thread.key]).await?.pop() else { return Ok(Attempt::ThreadGone) };
            let Some(run) = store.run(thread.key, id).await? else { return Ok(Attempt::ThreadGone) };
            ReplacedLog::refuse(epoch, &head)?;
            let answer = |run: Run, attempt_id| {
                let started = StartedRun { epoch: head.epoch, run, ..started.clone() };
                Ok(Attempt::Done(AttemptedRun { attempt: started.run.attempt, attempt_id, started }))
            };
            if !run.status.is_active() {
                return answer(run, None);
            }
            let Some(ProducerTurn { attempt, attempt_id, displaced, opened }) = turn else { continue };
            // The run, which was read last, may have been taken up since.
            if attempt != run.attempt {
                continue;
            }
            let Some(wanted) = wanted.filter(|wanted| attempt_id.as_ref() != Some(&wanted.id)) else {
                return answer(run, attempt_id);
            };
            authority::owns(principal, &RunFacts::from(&run))?;
            if displaced.has(&wanted.id) {
                return Err(AttemptError::RunFenced(Box::new(run)));
            }
            if run.stop_requested_at.is_some() {
                let fence = head.write_fence();
                let closed = self.runs.deps.closer.close(thread, id, fence, epoch, &CloseReason::Stopped).await?;
                match closed {
                    Some(run) if !run.status.is_active() => return answer(run, None),
                    Some(_) => continue,
                    None => return Ok(Attempt::ThreadGone),
                }
            }
            let opened = opened.max(run.first_seq);
            let displaced = displaced.with(attempt_id);
            let found = Found { principal, thread, head: head.clone(), run, opened, displaced };
            let known = seen.take();
            let seen = seen.insert(Seen::of(known, &found));
            if let Some(run) = self.take_up(&found, wanted, seen).await? {
                return answer(run, Some(wanted.id.clone()));
            }
        }
        Err(StoreError::Unavailable("the run is changing too fast; send the same start again".into()).into())
    }

    /// Begins the next attempt. `None` if the run was changed meanwhile.
    async fn take_up(&self, found: &Found<'_>, wanted: &Wanted, seen: &mut Seen) -> Result<Option<Run>, AttemptError> {
        let deps = &self.runs.deps;
        let Found { thread, head, run, opened, displaced, .. } = found;
        let generation = deps.store.lineage().generation();
        let attempt = generation.next_attempt(run.attempt);
        let reader = Reader { runs: &self.runs, projections: &self.projections };
        if !reader.read_log(found, seen).await? {
            return Ok(None);
        }
        let in_doubt = seen.logged.calls.names();
        if wanted.restart && !wanted.tools_repeatable && (in_doubt.is_some() || seen.logged.answers) {
            return Err(AttemptError::RecoveryUnsafe { run: Box::new(run.clone()), tools: in_doubt.map(cut) });
        }
        let says_something = head.tail >= *opened;
        if says_something && !reader.read_conversations(found, seen).await? {
            return Ok(None);
        }
        let events = if says_something { self.between(found, seen, attempt, wanted.restart).await? } else { None };
        let take = TakeUp {
            key: thread.key,
            run: run.id.clone(),
            fence: head.write_fence(),
            tail: head.tail,
            generation,
            attempt,
            attempt_id: wanted.id.clone(),
            displaced: displaced.clone(),
            lease: wanted.lease.map(|lease| self.runs.lease(Some(lease))),
            events,
        };
        let Some(taken) = deps.store.take_up(take).await? else { return Ok(None) };
        let (head, slice) = (&taken.head, &taken.slice);
        deps.listeners.committed(&Commit { thread, head, slice, row: RowChange::Changed });
        deps.metrics.takeovers.count(TAKEN_UP);
        Ok(Some(taken.run))
    }

    /// Events between the attempt before and the next one, from all that was read.
    async fn between(
        &self,
        found: &Found<'_>,
        seen: &mut Seen,
        attempt: u64,
        restart: bool,
    ) -> Result<Option<NewEvents>, AttemptError> {
        let Seen { logged, before: Some(before), now: place, .. } = seen else { return Ok(None) };
        let Some(now) = place.as_ref().map(Reading::conversation) else { return Ok(None) };
        let kept = (!restart).then(|| now.process(|now| now.keep(before, &logged.open, logged.in_doubt.calls())));
        // A copy is changed: after this, another try continues with the conversation. It does not if there is no memory for one.
        let copy = self.projections.copy(found.principal, now).await;
        let copy = copy.or_else(|| place.take().map(Reading::into_conversation));
        let continued =
            kept.as_ref().map(|Kept { ids, unverified, .. }| Continued { kept: ids, unverified, given: None });
        let superseded = (found.opened, found.head.tail);
        let next = NextAttempt { number: attempt, reason: TAKEN_UP, superseded, continued };
        let left: &Conversation = kept.as_ref().map_or(&**before, |kept| &kept.conversation);
        let Some(mut changed) = copy else { return Ok(None) };
        let events = changed.change(|now| superseding(next, &logged.open, now, left));
        events.map(Some).map_err(|_| AttemptError::RecoveryTooLarge(Box::new(found.run.clone())))
    }
}

/// Take-up that a request asks for.
#[derive(Debug)]
struct Wanted {
    id: AttemptId,
    restart: bool,
    tools_repeatable: bool,
    lease: Option<std::time::Duration>,
}

/// Refuses a start that says nothing, or contradicts itself.
fn check(start: &StartRequest, on_existing: OnExisting) -> Result<(), InvalidRequestError> {
    let invalid = |detail: String| Err(InvalidRequestError::InvalidRequest(detail));
    let length = start.attempt_id.as_ref().map(|id| id.as_str().len());
    if let Some(length) = length.filter(|length| *length > MAX_ATTEMPT_ID_BYTES) {
        return invalid(format!("attemptId has {length} bytes, and must not exceed {MAX_ATTEMPT_ID_BYTES}"));
    }
    if length.is_none() && on_existing != OnExisting::Return {
        return invalid(
            "onExisting requires attemptId: without it, a repeated request would begin another attempt".into(),
        );
    }
    match &start.opening {
        Opening::Begun(events) if events.terminal().is_some() => invalid(
            "events ends the run: append a complete run with PUT /v1/threads/{threadId}/runs/{runId}, or finish it later".into(),
        ),
        _ => Ok(()),
    }
}
