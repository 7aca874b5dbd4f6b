//! Requests for runs in busy threads: they are refused, or wait in the queue of the thread until their run begins.

use std::collections::HashSet;

use threadline_core::{
    Principal, RunId, ThreadId,
    agent::{Agent, Busy},
    projection::{conversation::Conversation, superseding::BegunSubagents},
};
use threadline_engine::{
    ClaimedTurn, Enqueued, PlacedTurn, ProjectionError, ServiceError, StoreError, ThreadAt, ThreadQueue, TurnEdit,
    TurnRequest, TurnState,
};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    AgentError, AgentRun, Agents, ClientInput, RunAnswer,
    input::{self, Rules},
    queued::{self, Waiting},
    source::{AgentCall, RunInput, ThreadMark, Trust},
    starting::{Asked, Begin, check_context, client_messages},
    work::Work,
};

/// Number of tries to queue a turn, or to start its run, while the thread changes from busy to free.
const TRIES: usize = 16;

/// A queued turn whose run has begun, before its agent is called.
enum First {
    Attempt(Box<FirstAttempt>),
    /// The run ends with RUN_ERROR: its code and message.
    End(&'static str, String),
}

struct FirstAttempt {
    agent: Agent,
    begin: Begin,
    client_messages: HashSet<String>,
}

impl Agents {
    /// Starts a run as [`Agents::run`] does, or queues it while another run is active; without `busy` the agent decides.
    /// Idempotent by run id: a repetition finds the turn in the queue, or the run.
    pub async fn run_or_queue(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        agent: &Agent,
        mut request: AgentRun,
        busy: Option<Busy>,
    ) -> Result<RunAnswer, AgentError> {
        if let Some(fork) = request.fork.take() {
            // No run is active in a fork that begins with this one.
            let start = self.run_in_fork(principal, thread, agent, request, fork).await?;
            return Ok(RunAnswer::Started(Box::new(start)));
        }
        // Answers do not wait, nor results whose claims would end meanwhile, and an agent cannot know that a request has some.
        let waits = !queued::answers(&request.input) && request.claims.is_empty();
        let preferred = if waits { agent.busy } else { Busy::Reject };
        let busy = busy.unwrap_or(preferred);
        let is_named = request.id.is_some();
        let id = request.id.get_or_insert_with(RunId::generate).clone();
        for _ in 0..TRIES {
            if busy != Busy::Reject
                && let Some(placed) = self.enqueue(principal, thread, agent, &id, &request, busy).await?
            {
                return Ok(RunAnswer::Queued(Box::new(placed)));
            }
            match self.try_run(principal, thread, agent, &mut request).await {
                // A repetition of a request that was queued.
                Err(AgentError::Service(ServiceError::TurnQueued(_))) => {
                    if let Some(answer) = self.repeated(principal, thread, agent, &id, &request).await? {
                        return Ok(answer);
                    }
                }
                // Another run has begun since the queue was read.
                Err(AgentError::Service(ServiceError::RunActive(_))) if busy != Busy::Reject => {}
                // A repetition that does not wait, or whose agent prefers something else by now.
                Err(AgentError::Service(ServiceError::RunActive(active))) if is_named => {
                    let answer = self.repeated(principal, thread, agent, &id, &request).await?;
                    return answer.ok_or(AgentError::Service(ServiceError::RunActive(active)));
                }
                started => return started.map(|started| RunAnswer::Started(Box::new(started))),
            }
        }
        Err(StoreError::Unavailable("the queue of the thread is changing too fast; try again".into()).into())
    }

    /// Answer to a request whose turn is queued; `None` if no turn of this id is.
    async fn repeated(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        agent: &Agent,
        id: &RunId,
        request: &AgentRun,
    ) -> Result<Option<RunAnswer>, AgentError> {
        let Some(placed) = self.shared.service.runs.queued_turn(principal, thread, id).await? else { return Ok(None) };
        let asked = queued::keep(&request.input, Trust::of(principal)).unwrap_or_default();
        same(placed, agent, &asked).map(|placed| Some(RunAnswer::Queued(Box::new(placed))))
    }

    /// Queues a turn; `None` if its run can be started. The input is checked against the conversation as it is now, so that one
    /// which could not begin is refused at once.
    async fn enqueue(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        agent: &Agent,
        id: &RunId,
        request: &AgentRun,
        busy: Busy,
    ) -> Result<Option<PlacedTurn>, AgentError> {
        let service = &self.shared.service;
        if self.shared.resting.is_cancelled() {
            return Err(ServiceError::Draining.into());
        }
        let before = match service.projections.at(principal, thread, None, None).await {
            Err(ProjectionError::ThreadNotFound) if request.makes_thread => return Ok(None),
            before => before?,
        };
        let (conversation, trust) = (&*before.conversation, Trust::of(principal));
        let check = || -> Result<_, AgentError> {
            check(&request.input, agent, trust, thread, id, conversation)?;
            queued::keep(&request.input, trust)
        };
        let bytes = request.input.bytes() + before.conversation.bytes();
        let input = self.process(principal, bytes, check).await??;
        let turn = TurnRequest {
            run: id.clone(),
            agent: agent.id.clone(),
            input: input.clone(),
            interrupts: busy == Busy::Interrupt,
            epoch: request.epoch,
        };
        match service.runs.enqueue(principal, thread, &turn).await? {
            Enqueued::Free => Ok(None),
            Enqueued::Queued(placed) => same(placed, agent, &input).map(Some),
        }
    }

    /// Changes a queued turn: what it asks, or its place.
    pub async fn edit_turn(
        &self,
        principal: &Principal,
        at: ThreadAt<'_>,
        run: &RunId,
        input: Option<&ClientInput>,
        edit: TurnEdit,
    ) -> Result<ThreadQueue, AgentError> {
        let runs = &self.shared.service.runs;
        let mut edit = edit;
        if let Some(input) = input
            && let Some(placed) = runs.queued_turn(principal, at.id, run).await?
        {
            // The run names who asked for it, so a user's words do not replace those of a key.
            let is_of_user = placed.turn.asked_by.as_ref().is_some_and(|author| author.is_user());
            if principal.is_untrusted() && !is_of_user {
                return Err(ServiceError::RunNotYours.into());
            }
            let (agent, _) = self.get(principal, &placed.turn.agent).await?;
            let kept = placed.turn.input.as_deref().unwrap_or_default();
            let Some(Waiting { trust, .. }) = queued::waiting(kept) else {
                return Err(AgentError::InvalidInput("the input of the turn cannot be read".to_owned()));
            };
            // An editor is believed no more than the asker of the turn.
            let trust = if Trust::of(principal) == Trust::Client { Trust::Client } else { trust };
            // The form alone is checked: what the log has is looked at when the run begins.
            let check = || -> Result<_, AgentError> {
                check(input, &agent, trust, at.id, run, &Conversation::default())?;
                queued::keep_edited(kept, input, trust)
            };
            edit.input = self.process(principal, input.bytes(), check).await??;
        }
        Ok(runs.edit_turn(principal, at, run, edit).await?)
    }

    /// Work of the first attempt of a run that began from the queue; `None` if the run has ended, or another node drives it. The
    /// takeover appends the first events.
    pub(super) async fn begin_queued(
        &self,
        turn: &mut ClaimedTurn,
        place: OwnedSemaphorePermit,
    ) -> Result<Option<(Work, RunInput)>, StoreError> {
        let principal = turn.principal();
        for _ in 0..TRIES {
            let Some(state) = turn.look().await? else { return Ok(None) };
            if state.run.stop_requested_at.is_some() {
                return turn.stop(&state).await.map(|()| None);
            }
            let attempt = match self.first(turn, &state, &principal).await? {
                First::Attempt(attempt) => *attempt,
                First::End(code, message) => return turn.fail(&state, code, message).await.map(|()| None),
            };
            let FirstAttempt { agent, begin: Begin { input, kept, first }, client_messages } = attempt;
            let Some(taken) = turn.take(&state, Some(first), 0, Some(kept)).await? else { continue };
            let work = Work {
                agents: self.clone(),
                principal,
                right: taken.right,
                agent,
                client_messages,
                begun: BegunSubagents::default(),
                next: taken.run.producer_seq + 1,
                answers: false,
                place: Some(place),
            };
            return Ok(Some((work, input)));
        }
        Ok(None)
    }

    async fn first(&self, turn: &ClaimedTurn, state: &TurnState, principal: &Principal) -> Result<First, StoreError> {
        let end = |code, message: &str| Ok(First::End(code, message.to_owned()));
        let Some(id) = &turn.turn().agent else { return end("agent-gone", "The run names no agent.") };
        let agent = match self.get(principal, id).await {
            Ok((agent, _)) => agent,
            Err(AgentError::NotFound(_)) => return end("agent-gone", "The agent of the run was removed."),
            Err(error) => return Err(StoreError::Unavailable(error.to_string())),
        };
        let Some(Waiting { trust, input: client }) = turn.input().and_then(queued::waiting) else {
            return end("agent-lost", "The input of the queued turn cannot be read.");
        };
        let (thread, run) = (turn.thread(), &turn.turn().run);
        let projections = &self.shared.service.projections;
        let before = match projections.at(principal, thread, Some(state.tail), Some(state.epoch)).await {
            Ok(before) => before,
            Err(ProjectionError::ConversationTooLarge) => {
                return end("input-refused", "The conversation is too large to continue.");
            }
            Err(error) => return Err(StoreError::Unavailable(error.to_string())),
        };
        let conversation = &*before.conversation;
        let call = AgentCall::first();
        let now = self.shared.service.clock().now();
        let build = || -> Result<_, AgentError> {
            let mut prepared = input::prepare(&client, Rules::of(&agent, trust), conversation)?;
            prepared.expire(conversation, now);
            prepared.answered.check(conversation).map_err(AgentError::Interrupts)?;
            let asked = Asked { agent: &agent, thread, run, call: &call, answers: false };
            let begin = asked.begin(&prepared, conversation, None)?;
            Ok((begin, client_messages(conversation).chain(prepared.own_messages()).map(Into::into).collect()))
        };
        let bytes = client.bytes() + before.conversation.bytes();
        let built = match self.process(principal, bytes, build).await {
            Ok(built) => built,
            Err(error) => return Err(StoreError::Unavailable(error.to_string())),
        };
        let (mut begin, client_messages) = match built {
            Ok(built) => built,
            Err(error) => return end("input-refused", &error.to_string()),
        };
        begin.input.thread_mark = Some(ThreadMark::of(&principal.project, turn.owner(), thread));
        begin.input.call = Some(call);
        Ok(First::Attempt(Box::new(FirstAttempt { agent, begin, client_messages })))
    }
}

/// The queued turn, if it is that of the same request.
fn same(placed: PlacedTurn, agent: &Agent, asked: &str) -> Result<PlacedTurn, AgentError> {
    if placed.turn.agent != agent.id {
        return Err(AgentError::RunTaken(placed.turn.run));
    }
    let kept = placed.turn.input.as_deref().unwrap_or_default();
    if queued::is_same(kept, asked) { Ok(placed) } else { Err(AgentError::RunUsed(placed.turn.run)) }
}

/// Refuses an input that could not begin a run in this conversation. Open interrupts are no reason: the queue waits for their
/// answers.
fn check(
    input: &ClientInput,
    agent: &Agent,
    trust: Trust,
    thread: &ThreadId,
    run: &RunId,
    conversation: &Conversation,
) -> Result<(), AgentError> {
    let prepared = input::prepare(input, Rules::of(agent, trust), conversation)?;
    let (given, _) = prepared.complete(thread, run, conversation);
    check_context(agent, &given)
}
