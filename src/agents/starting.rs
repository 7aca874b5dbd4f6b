//! Starts of runs: the input is built from the log, and the run starts only if the log still ends there.

use threadline_core::{
    Epoch, NewEvents, Principal, RunId, Scope, Seq, ThreadId, ToolClaim,
    agent::{Agent, AgentKind, Approvals},
    limits::{MAX_CLIENT_CONTEXT_BYTES, MAX_EVENT_BYTES, MAX_PAGE},
    projection::{conversation::Conversation, superseding::BegunSubagents},
};
use threadline_engine::{
    HeldConversation, Opening, PageError, PlacedTurn, Projected, ProjectionError, ServiceError, StartError,
    StartRequest, StartedRun, StoreError, limits::BudgetPermit,
};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    AgentError, Agents, ClientInput, RUN_LIMIT,
    approval::{self, ApprovalError},
    client_input::room_for,
    fork::ForkStart,
    input::{self, Base, Ignored, Prepared, Rules},
    source::{AgentCall, RunInput, ThreadMark, Trust},
    work::Work,
};

/// Number of tries to start a run while complete runs are appended to its thread.
const START_TRIES: usize = 16;
/// Request for a run of an agent.
#[derive(Debug, Default)]
pub struct AgentRun {
    /// Id of the run; generated if absent.
    pub id: Option<RunId>,
    /// Epoch that the thread's log must have; `None` for any.
    pub epoch: Option<Epoch>,
    /// Event after which the run begins; `None` for the newest one. The run's first events restore the messages and the state at that
    /// event. The run must not be queued: a queued run would discard the output of the run before it.
    pub base: Option<Seq>,
    /// Input that the client sent.
    pub input: ClientInput,
    /// True if a missing thread is created: for APIs whose clients choose ids and never create threads.
    pub makes_thread: bool,
    /// Mark of a request from which the id of a missing thread derives: a repetition does not create the thread again once it was
    /// deleted.
    pub request: Option<String>,
    /// Fork of the thread in which the run begins; `None` for the thread itself.
    pub fork: Option<ForkStart>,
    /// True if only open interrupts may be answered: for APIs whose clients know interrupts from the log alone.
    pub answers_open: bool,
    /// Claims of the tool calls whose results the input has, without which the run does not begin.
    pub claims: Vec<ToolClaim>,
}

/// Facts of a run from one try to start it to the next.
struct Pending {
    /// True if the input answers an interrupt.
    answers: bool,
    call: AgentCall,
    /// Permit of the run.
    place: Option<OwnedSemaphorePermit>,
}

/// Run that an agent was asked for.
#[derive(Debug)]
pub struct AgentStart {
    /// Thread of the run.
    pub thread: ThreadId,
    /// Run after its start, or the existing one.
    pub started: StartedRun,
    /// Parts of the input that were ignored.
    pub ignored: Ignored,
}

/// Outcome of a request for a run.
#[derive(Debug)]
pub enum RunAnswer {
    /// The run has begun, now or before.
    Started(Box<AgentStart>),
    /// The turn waits in the queue.
    Queued(Box<PlacedTurn>),
}

impl Agents {
    /// Starts a run and drives it on the server, independent of the client's connection. Returns once the run and the
    /// new messages are durable. Idempotent by run id: a repeated request returns the existing run.
    pub async fn run(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        agent: &Agent,
        mut request: AgentRun,
    ) -> Result<AgentStart, AgentError> {
        self.try_run(principal, thread, agent, &mut request).await
    }

    /// [`Agents::run`], for a request that may be queued if the thread is busy.
    pub(super) async fn try_run(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        agent: &Agent,
        request: &mut AgentRun,
    ) -> Result<AgentStart, AgentError> {
        let answers = check_approval(principal, agent, &request.input)?;
        if answers && principal.is_untrusted() {
            self.check_askers(principal, thread).await?;
        }
        if request.input.room.is_none() {
            let room = room_for(&self.shared.service.projections, principal, request.input.bytes()).await;
            request.input.room = Some(room.map_err(ProjectionError::from)?);
        }
        let id = request.id.get_or_insert_with(RunId::generate).clone();
        let mut pending = Pending { answers, call: AgentCall::first(), place: None };
        for _ in 0..START_TRIES {
            if let Some(start) = self.start(principal, thread, agent, &id, request, &mut pending).await? {
                return Ok(start);
            }
        }
        Err(StoreError::Unavailable("other runs were appended to the thread at the same time".into()).into())
    }

    /// Starts a run with what the log holds now; `None` if other events were appended meanwhile.
    async fn start(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        agent: &Agent,
        id: &RunId,
        request: &AgentRun,
        pending: &mut Pending,
    ) -> Result<Option<AgentStart>, AgentError> {
        let service = &self.shared.service;
        // A repeated request concerns the same run, which itself may have opened the interrupts. It needs no permit, and
        // a server that starts no further run answers it.
        let exists = async || service.runs.get(principal, thread, id).await.is_ok();
        // Refusals for lack of room come before the fold of the thread.
        if self.shared.resting.is_cancelled() && !exists().await {
            return Err(ServiceError::Draining.into());
        }
        if pending.place.is_none() && self.places.available_permits() == 0 && !exists().await {
            return Err(self.is_busy());
        }
        let before = match service.projections.at(principal, thread, None, None).await {
            Err(ProjectionError::ThreadNotFound) if request.makes_thread => None,
            before => Some(before?),
        };
        let earlier = match &before {
            Some(before) => self.earlier(principal, thread, before, request.base).await?,
            None => None,
        };
        let nothing = Conversation::default();
        let newest = before.as_ref().map_or(&nothing, |before| &*before.conversation);
        let conversation = earlier.as_ref().map_or(newest, |earlier| &*earlier.conversation);
        let now = service.clock().now();
        let prepare = || -> Result<_, AgentError> {
            let rules = Rules::of(agent, Trust::of(principal));
            let mut prepared = input::prepare(&request.input, rules, conversation)?;
            prepared.expire(newest, now);
            if earlier.is_some() {
                prepared.go_back(rules, conversation, newest)?;
            }
            let asked = Asked { agent, thread, run: id, call: &pending.call, answers: pending.answers };
            let begin = asked.begin(&prepared, conversation, earlier.as_ref().map(|earlier| (earlier.base, newest)))?;
            Ok((prepared, begin))
        };
        // The input of the agent has the history, too.
        let bytes = request.input.bytes()
            + before.as_ref().map_or(0, |before| before.conversation.bytes())
            + earlier.as_ref().map_or(0, |earlier| earlier.conversation.bytes());
        let (prepared, Begin { mut input, kept, first }) = self.process(principal, bytes, prepare).await??;
        let known = if request.answers_open { prepared.answered.check_open(newest) } else { Ok(()) };
        if let Err(breach) = known.and_then(|()| prepared.answered.check(newest))
            && !exists().await
        {
            return Err(AgentError::Interrupts(breach));
        }
        if pending.place.is_none() {
            pending.place = self.places.clone().try_acquire_owned().ok();
        }
        if pending.place.is_none() && !exists().await {
            return Err(self.is_busy());
        }
        if !request.claims.is_empty() && !exists().await {
            self.hold_claims(principal, thread, &request.claims, &prepared, conversation).await?;
        }
        let (epoch, tail) = match &before {
            Some(before) => (before.epoch, before.seq),
            // The thread is created after all checks, so that a refused request leaves no thread behind.
            None => {
                service.runs.check_room(principal).await?;
                (service.threads.ensure(principal, thread, Some(&agent.id), request.request.as_deref()).await?.epoch, 0)
            }
        };
        let start = StartRequest {
            run: Some(id.clone()),
            agent: Some(agent.id.clone()),
            lease: None,
            epoch: request.epoch.or(Some(epoch)),
            attempt_id: None,
            opening: Opening::Driven { first, input: Some(kept) },
        };
        let mut started = match service.runs.start_driven(principal, thread, start, tail).await {
            // The client asked for no epoch: the store has lost what was read.
            Err(StartError::LogReplaced(_)) if request.epoch.is_none() => return Ok(None),
            started => match started? {
                Some(started) => started,
                None => return Ok(None),
            },
        };
        if started.run.agent.as_ref().is_some_and(|other| *other != agent.id) {
            return Err(AgentError::RunTaken(started.run.id));
        }
        if !started.created {
            let first = service.events.first_of(principal, thread, &started.run, started.epoch).await?;
            let is_heard = || prepared.is_heard_by(first.as_deref());
            if !self.process(principal, bytes, is_heard).await? {
                return Err(AgentError::RunUsed(started.run.id));
            }
        }
        if started.created {
            service.tool_claims.answered(principal, thread, &request.claims).await;
        }
        if let Some(right) = started.right.take() {
            for (kind, number) in prepared.ignored.iter() {
                service.metrics().input_ignored(kind, number);
            }
            input.thread_mark = Some(ThreadMark::of(&principal.project, &started.owner, thread));
            input.call = Some(pending.call.clone());
            let work = Work {
                agents: self.clone(),
                principal: started.named_by(principal),
                right,
                agent: agent.clone(),
                client_messages: client_messages(conversation).chain(prepared.own_messages()).map(Into::into).collect(),
                begun: BegunSubagents::default(),
                next: started.run.producer_seq + 1,
                answers: pending.answers,
                place: pending.place.take(),
            };
            self.shared.tasks.spawn(work.run(input));
        }
        Ok(Some(AgentStart { thread: thread.clone(), started, ignored: prepared.ignored }))
    }

    /// Conversation that a run goes back to; `None` for a run that continues the newest one.
    async fn earlier(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        before: &Projected,
        base: Option<Seq>,
    ) -> Result<Option<Earlier>, AgentError> {
        let Some(base) = base.filter(|base| *base < before.seq) else { return Ok(None) };
        if !before.conversation.leaves_room() {
            return Err(ServiceError::ConversationTooLarge.into());
        }
        let projections = &self.shared.service.projections;
        let conversation = projections.at(principal, thread, Some(base), Some(before.epoch)).await?.conversation;
        let copies = 2 * before.conversation.bytes() + conversation.bytes();
        let copies = projections.room(principal, copies).await.map_err(ProjectionError::from)?;
        Ok(Some(Earlier { base, conversation, _copies: copies }))
    }

    /// Does work over an input of this many bytes, in its turn if that is much.
    pub(super) async fn process<T>(
        &self,
        principal: &Principal,
        bytes: usize,
        work: impl FnOnce() -> T,
    ) -> Result<T, AgentError> {
        let done = self.shared.service.queue.process(principal, bytes, work).await;
        Ok(done.map_err(ProjectionError::from)?)
    }

    fn is_busy(&self) -> AgentError {
        self.shared.service.metrics().limited(RUN_LIMIT);
        AgentError::Busy
    }

    /// Ids of the messages of an input that the thread would store, and of those of the user and of tools at its end.
    pub async fn said_since(
        &self,
        principal: &Principal,
        agent: &Agent,
        input: &ClientInput,
        conversation: &Conversation,
    ) -> Result<(Vec<String>, Vec<String>), AgentError> {
        let said = || input::said_since(input, Rules::of(agent, Trust::of(principal)), conversation);
        self.process(principal, input.bytes(), said).await?
    }

    /// Refuses an answer of an untrusted client in a thread where an agent whose interrupts the application answers has
    /// written: the answer could be given through another agent.
    async fn check_askers(&self, principal: &Principal, thread: &ThreadId) -> Result<(), AgentError> {
        // An agent that was deleted asks nothing any more.
        let agents = self.list(principal).await?.into_iter().map(|(agent, _)| agent);
        let closed: Vec<Agent> = agents.filter(|agent| agent.approvals == Approvals::Backend).collect();
        if closed.is_empty() {
            return Ok(());
        }
        let mut before = None;
        loop {
            let page = match self.shared.service.runs.list(principal, thread, before, MAX_PAGE, None).await {
                Err(PageError::ThreadNotFound) => return Ok(()),
                page => page?,
            };
            let asks =
                |agent: &&Agent| page.items.iter().any(|run| run.driven && run.agent.as_ref() == Some(&agent.id));
            if let Some(asker) = closed.iter().find(asks) {
                return Err(AgentError::BackendApproves(asker.id.clone()));
            }
            match page.next {
                Some(next) => before = Some(next),
                None => return Ok(()),
            }
        }
    }
}

/// Conversation that a run goes back to.
struct Earlier {
    /// Event that the conversation ends with.
    base: Seq,
    conversation: HeldConversation,
    /// Memory of the copies from which the snapshots are made.
    _copies: BudgetPermit,
}

/// Run that an agent is asked for.
pub(super) struct Asked<'a> {
    pub agent: &'a Agent,
    pub thread: &'a ThreadId,
    pub run: &'a RunId,
    /// First call of the agent.
    pub call: &'a AgentCall,
    /// True if the input answers an interrupt.
    pub answers: bool,
}

/// Begin of a run, as it is built from the input of a client and the log.
pub(super) struct Begin {
    /// Input of the agent.
    pub input: RunInput,
    /// Text that is kept of the input for a takeover.
    pub kept: String,
    /// First events of the run.
    pub first: NewEvents,
}

impl Asked<'_> {
    /// Builds the begin of the run after this conversation. A run that goes back also names the event that the conversation ends with,
    /// and the thread's newest conversation.
    pub fn begin(
        &self,
        prepared: &Prepared<'_>,
        conversation: &Conversation,
        back: Option<(Seq, &Conversation)>,
    ) -> Result<Begin, AgentError> {
        let &Self { agent, thread, run, call, answers } = self;
        let (input, mut given) = prepared.complete(thread, run, conversation);
        check_context(agent, &input)?;
        let kept = input::keep(&input, call, given.is_from_log(), answers);
        let mut snapshots = Vec::new();
        if let Some((seq, newest)) = back {
            snapshots = prepared.back(thread, run, conversation, newest);
            if snapshots.iter().any(|snapshot| snapshot.len() > MAX_EVENT_BYTES) {
                return Err(AgentError::EarlierTooLarge);
            }
            given.base = Some(Base { seq, events: 1 + snapshots.len() });
        }
        let first = prepared.first_events(thread, run, conversation, &given.evidence(agent, &input), &snapshots)?;
        Ok(Begin { input, kept, first })
    }
}

/// Ids of the messages of a conversation that its clients wrote: as the user, or as the result of a tool.
pub(super) fn client_messages(conversation: &Conversation) -> impl Iterator<Item = &str> {
    conversation.messages().filter(|message| matches!(message.role(), "user" | "tool")).map(|message| message.id())
}

/// Refuses an answer to an interrupt from a principal that may not give it. True if the input has an answer.
pub(super) fn check_approval(principal: &Principal, agent: &Agent, input: &ClientInput) -> Result<bool, AgentError> {
    approval::check(principal, agent, input).map_err(|error| match error {
        ApprovalError::Forbidden => ServiceError::Forbidden(Scope::Approve).into(),
        ApprovalError::BackendApproves => AgentError::BackendApproves(agent.id.clone()),
    })
}

/// Refuses a context that is too large, if it comes from a page and the agent puts it before the user's message.
pub(super) fn check_context(agent: &Agent, input: &RunInput) -> Result<(), AgentError> {
    let bytes = input.context.len();
    let stands_there = input.trust == Trust::Client && matches!(agent.kind, AgentKind::OpenAi { .. });
    if stands_there && bytes > MAX_CLIENT_CONTEXT_BYTES { Err(AgentError::ContextTooLarge(bytes)) } else { Ok(()) }
}
