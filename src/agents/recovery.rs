//! Recovery of runs: a run whose driver is gone is driven further by this node, with the same input, or ends with a reason.
//!
//! The agent is called at least once, and the log has one live attempt at a time.

use std::{borrow::Cow, collections::HashSet};

use threadline_core::{
    Principal, Seq,
    agent::{Agent, Recovery},
    limits::{FUTILE_PAUSE, MAX_FUTILE_ATTEMPTS, TURN_INTERVAL},
    projection::{
        conversation::{Conversation, Kept},
        superseding::{BegunSubagents, Continued, NextAttempt, superseding},
    },
};
use threadline_engine::{self as engine, ClaimedTurn, HeldConversation, ProjectionError, StoreError, TurnState};
use tokio::{sync::OwnedSemaphorePermit, time};

use super::{
    AgentError, Agents,
    input::{self, Rebuilt},
    logged::Logged,
    repetition,
    source::{Continuation, RunInput, ThreadMark},
    starting::client_messages,
    work::Work,
};

/// Most turns that one look claims.
const CLAIMS: usize = 64;
/// Takeovers of a run that may be overtaken by events of its driver before, until the next look.
const TAKE_TRIES: usize = 8;

/// Way on for a run whose driver is gone.
enum Next {
    /// The run goes on with another attempt.
    Attempt(Box<Attempt>),
    /// The run ends with RUN_ERROR: its code and message.
    End(&'static str, String),
}

/// Next attempt of a run.
struct Attempt {
    agent: Agent,
    input: RunInput,
    answers: bool,
    client_messages: HashSet<String>,
    begun: BegunSubagents,
    /// Events that supersede the attempt before.
    events: Option<threadline_core::NewEvents>,
    futile: u64,
}

impl Agents {
    /// Looks for runs without a driver, and drives them, until this node starts no further run.
    pub async fn recover_runs(&self) {
        let mut ticks = time::interval(TURN_INTERVAL);
        ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.shared.service.runs.begun() => {}
                () = self.shared.resting.cancelled() => return,
            }
            if let Err(error) = self.shared.service.runs.move_queues().await {
                tracing::debug!(%error, "cannot look for queues of free threads; retrying");
            }
            let free = self.places.available_permits().min(CLAIMS);
            if free == 0 {
                continue;
            }
            let claimed = match self.shared.service.runs.claim_turns(free).await {
                Ok(claimed) => claimed,
                Err(error) => {
                    tracing::debug!(%error, "cannot look for runs without a driver; retrying");
                    continue;
                }
            };
            for turn in claimed {
                // A turn that is dropped is claimed again.
                let Ok(place) = self.places.clone().try_acquire_owned() else { break };
                let agents = self.clone();
                self.shared.tasks.spawn(async move { agents.recover(turn, place).await });
            }
        }
    }

    async fn recover(&self, mut turn: ClaimedTurn, place: OwnedSemaphorePermit) {
        let (run, thread) = (turn.turn().run.clone(), turn.thread().clone());
        let queued = turn.turn().attempt == 0;
        if queued {
            tracing::debug!(%run, %thread, "beginning a run from the queue");
        } else {
            tracing::info!(%run, %thread, reason = turn.turn().before.reason(), "taking over an agent's run");
        }
        self.pause(turn.futile(false)).await;
        // The semaphore is never closed.
        let Ok(folding) = self.shared.takeovers.acquire().await else { return };
        let next =
            if queued { self.begin_queued(&mut turn, place).await } else { self.next_driver(&mut turn, place).await };
        drop(folding);
        match next {
            Ok(Some((work, input))) => work.run(input).await,
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, %run, %thread, "cannot take over an agent's run; retrying"),
        }
    }

    /// Work of the next attempt; `None` if the run has ended, or another node drives it.
    async fn next_driver(
        &self,
        turn: &mut ClaimedTurn,
        place: OwnedSemaphorePermit,
    ) -> Result<Option<(Work, RunInput)>, StoreError> {
        let principal = turn.principal();
        for _ in 0..TAKE_TRIES {
            let Some(state) = turn.look().await? else { return Ok(None) };
            if state.run.stop_requested_at.is_some() {
                return turn.stop(&state).await.map(|()| None);
            }
            let attempt = match self.next(turn, &state, &principal).await? {
                Next::Attempt(attempt) => *attempt,
                Next::End(code, message) => return turn.fail(&state, code, message).await.map(|()| None),
            };
            let Some(taken) = turn.take(&state, attempt.events, attempt.futile, None).await? else { continue };
            let engine::NextAttempt { right, run, called } = taken;
            // The driver before was perhaps alive when the turn was claimed, and has called the agent since.
            if let Some((code, message)) = repetition::second_call(&attempt.agent, attempt.answers).filter(|_| called) {
                let ended = right.fail(code.to_owned(), message.to_owned()).await;
                return ended.map(|_| None).map_err(|error| StoreError::Unavailable(error.to_string()));
            }
            let work = Work {
                agents: self.clone(),
                principal,
                right,
                agent: attempt.agent,
                client_messages: attempt.client_messages,
                begun: attempt.begun,
                next: run.producer_seq + 1,
                answers: attempt.answers,
                place: Some(place),
            };
            return Ok(Some((work, attempt.input)));
        }
        Ok(None)
    }

    /// Waits before the last attempt that may follow futile ones.
    async fn pause(&self, futile: u64) {
        if futile + 1 != MAX_FUTILE_ATTEMPTS {
            return;
        }
        tokio::select! {
            () = time::sleep(FUTILE_PAUSE) => {}
            () = self.shared.resting.cancelled() => {}
        }
    }

    async fn next(&self, turn: &ClaimedTurn, state: &TurnState, principal: &Principal) -> Result<Next, StoreError> {
        let end = |code, message: &str| Ok(Next::End(code, message.to_owned()));
        let Some(id) = &turn.turn().agent else { return end("agent-gone", "The run names no agent.") };
        let agent = match self.get(principal, id).await {
            Ok((agent, _)) => agent,
            Err(AgentError::NotFound(_)) => return end("agent-gone", "The agent of the run was removed."),
            Err(error) => return Err(StoreError::Unavailable(error.to_string())),
        };
        let mut logged = Logged::default();
        let from = turn.turn().attempt_seq;
        turn.events(state, |seq, event| logged.observe(seq >= from, event)).await?;
        // The conversation is held until the next attempt is decided on.
        let (rebuilt, found) = match self.rebuild(turn, state, principal, &logged.first).await {
            Ok(Some(rebuilt)) => rebuilt,
            Ok(None) => {
                return end(
                    "agent-lost",
                    "The server that ran the agent was lost, and the input of the run cannot be read.",
                );
            }
            Err(error) => return unprojected(error),
        };
        let called = logged.said || turn.turn().called;
        if let Some((code, message)) = repetition::second_call(&agent, rebuilt.answers).filter(|_| called) {
            return end(code, message);
        }
        let continues = agent.recovery == Recovery::Continue;
        if let Some(message) = logged.calls_in_doubt().filter(|_| !continues && !agent.tools_repeatable) {
            return Ok(Next::End("recovery-unsafe", message));
        }
        if (logged.continued || logged.said) && !found.leaves_room() {
            return Ok(too_large());
        }
        let projections = &self.shared.service.projections;
        let at = async |seq: Option<Seq>| {
            let Some(seq) = seq else { return Ok(None) };
            let projected = projections.at(principal, turn.thread(), Some(seq), Some(state.epoch)).await?;
            Ok::<_, ProjectionError>(Some(projected.conversation))
        };
        let left = match at(logged.continued.then(|| from - 1)).await {
            Ok(left) => left,
            Err(error) => return unprojected(error),
        };
        let now = match at(logged.said.then_some(state.tail)).await {
            Ok(now) => now,
            Err(error) => return unprojected(error),
        };
        Ok(after(turn, state, agent, rebuilt, logged, Conversations { found: &found, left: left.as_deref(), now }))
    }

    /// The input that the agent was called with, and the conversation that it found; `None` if the input was not kept, or
    /// cannot be read.
    async fn rebuild(
        &self,
        turn: &ClaimedTurn,
        state: &TurnState,
        principal: &Principal,
        first: &[String],
    ) -> Result<Option<(Rebuilt, HeldConversation)>, ProjectionError> {
        let Some(kept) = turn.input() else { return Ok(None) };
        let events: Vec<&str> = first.iter().map(String::as_str).collect();
        let at = input::base_of(&events).unwrap_or(state.run.first_seq - 1);
        let projections = &self.shared.service.projections;
        let mut found = projections.at(principal, turn.thread(), Some(at), Some(state.epoch)).await?.conversation;
        let attempt = turn.turn().attempt + 1;
        let rebuilt =
            found.change(|found| input::rebuilt(kept, attempt, turn.thread(), &turn.turn().run, found, first));
        Ok(rebuilt.map(|mut rebuilt| {
            rebuilt.input.thread_mark = Some(ThreadMark::of(&principal.project, turn.owner(), turn.thread()));
            (rebuilt, found)
        }))
    }
}

/// Conversations of a run whose driver is gone.
struct Conversations<'c> {
    /// Conversation that the agent found when it was first called.
    found: &'c Conversation,
    /// Conversation that earlier attempts have left, if they were continued.
    left: Option<&'c Conversation>,
    /// Conversation after the lost attempt, if that has said something.
    now: Option<HeldConversation>,
}

/// The attempt after a lost one.
fn after(
    turn: &ClaimedTurn,
    state: &TurnState,
    agent: Agent,
    rebuilt: Rebuilt,
    logged: Logged,
    conversations: Conversations<'_>,
) -> Next {
    let Rebuilt { mut input, answers } = rebuilt;
    let Conversations { found, left, now } = conversations;
    let continues = agent.recovery == Recovery::Continue;
    let before = left.unwrap_or(found);
    let kept = now
        .as_ref()
        .filter(|_| continues)
        .map(|now| now.process(|now| now.keep(before, &logged.open, logged.begun.calls())));
    let futile = turn.futile(kept.as_ref().is_some_and(|kept| !kept.ids.is_empty()));
    if turn.is_exhausted(futile) {
        let message = "The servers that ran the agent were lost again and again.";
        return Next::End("recovery-exhausted", message.to_owned());
    }
    let (left, ids, unverified) = match kept {
        Some(Kept { conversation, ids, unverified }) => (Cow::Owned(conversation), ids, unverified),
        None => (Cow::Borrowed(before), Vec::new(), if continues { logged.begun.into_calls() } else { Vec::new() }),
    };
    let given = (continues || logged.continued).then(|| {
        input::continue_with(&mut input, found, &left);
        input::evidence_of(&input)
    });
    let number = turn.turn().attempt + 1;
    let next = NextAttempt {
        number,
        reason: turn.turn().before.reason(),
        superseded: (turn.turn().attempt_seq, state.tail),
        continued: given.as_ref().map(|given| Continued { kept: &ids, unverified: &unverified, given: Some(given) }),
    };
    let superseding = |now: &mut Conversation| superseding(next, &logged.open, now, &left);
    let events = match now.map(|mut now| now.change(superseding)).transpose() {
        Ok(events) => events,
        Err(_) => return too_large(),
    };
    let client_messages = client_messages(&left).map(str::to_owned).collect();
    input.continuation = continues.then_some(Continuation { attempt: number, unverified });
    let begun = logged.begun_subagents;
    Next::Attempt(Box::new(Attempt { agent, input, answers, client_messages, begun, events, futile }))
}

fn unprojected(error: ProjectionError) -> Result<Next, StoreError> {
    match error {
        ProjectionError::ConversationTooLarge => Ok(too_large()),
        error => Err(StoreError::Unavailable(error.to_string())),
    }
}

fn too_large() -> Next {
    let text = "The server that ran the agent was lost, and the conversation is too large to continue the run.";
    Next::End("recovery-too-large", text.to_owned())
}
