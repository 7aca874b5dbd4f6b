//! Running agents: each kind is a source of AG-UI events, and one driver appends them.

pub mod agui;
mod approval;
pub mod client_input;
pub mod definition;
pub mod demo;
mod drive;
mod events;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub mod http;
pub mod input;
pub mod interrupts;
pub mod openai;
mod reading;
pub mod source;
mod span;
mod sse;
mod work;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use client_input::ClientInput;
pub use definition::Definition;
pub use span::agent_span;

use approval::ApprovalError;
use interrupts::InterruptError;
use source::{EventStream, Trust};
use threadline_core::{
    AgentId, Epoch, EventError, EventErrorKind, Principal, RunId, Scope, ThreadId,
    agent::{Agent, AgentKind, Approvals},
    limits::{
        AGENT_STORE_TIMEOUT, MAX_AGENT_BYTES, MAX_AGENT_RUNS, MAX_AGENTS, MAX_CLIENT_CONTEXT_BYTES, MAX_EVENT_BYTES,
        MAX_PAGE,
    },
    projection::conversation::Conversation,
};
use threadline_engine::{
    Opening, PageError, Projected, ProjectionError, Service, ServiceError, StartRequest, StartedRun, StoreError,
};
use threadline_http::egress::{EgressClient, EgressPolicy, Refused};
use work::Work;

/// Name of the built-in agent, which is always available.
pub const DEMO: &str = "demo";
/// Name of the limit behind [`AgentError::Busy`] in the metrics.
const RUN_LIMIT: &str = "agentRuns";
/// Pause between two words of the demo: slow enough to be visible.
const DEMO_PACE: Duration = Duration::from_millis(25);

/// Reason why a request about a run or an agent fails.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AgentError {
    /// No agent has this name.
    #[error("no agent has the ID {:?}", .0.as_str())]
    NotFound(AgentId),
    /// The client's input for the agent is invalid.
    #[error("invalid input: {0}")]
    InvalidInput(String),
    /// The client's input for the agent does not fit into an event.
    #[error("the new messages and the state must not exceed {MAX_EVENT_BYTES} bytes each")]
    TooLarge,
    /// The `context` of an untrusted client exceeds the limit for OpenAI-compatible agents.
    #[error(
        "`context` has {0} bytes; without an API key, an OpenAI-compatible agent accepts at most {MAX_CLIENT_CONTEXT_BYTES}"
    )]
    ContextTooLarge(usize),
    /// The thread has open interrupts that the input does not answer, or the input answers interrupts that are not
    /// open.
    #[error("{0}")]
    Interrupts(InterruptError),
    /// Only the application answers the interrupts of this agent.
    #[error("interrupts of agent {:?} are answered with an API key, not by its users", .0.as_str())]
    BackendApproves(AgentId),
    /// The thread has a run of this id that belongs to another agent.
    #[error("run {:?} belongs to another agent", .0.as_str())]
    RunTaken(RunId),
    /// The thread has a run of this id that was started with other messages or answers.
    #[error("run {:?} exists and was requested with other messages or answers", .0.as_str())]
    RunUsed(RunId),
    /// The definition of the agent is invalid.
    #[error("invalid definition: {0}")]
    InvalidAgent(String),
    /// The agent is built in or part of the configuration, and cannot be changed over the API.
    #[error("agent {:?} is defined by the server's configuration", .0.as_str())]
    Configured(AgentId),
    /// The node has reached its limit of concurrent runs.
    #[error("the maximum number of agent runs is active on this server")]
    Busy,
    /// Failure of the underlying use case.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

threadline_engine::from_operation_errors!(AgentError);

impl From<StoreError> for AgentError {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

impl From<EventError> for AgentError {
    fn from(error: EventError) -> Self {
        match error.kind {
            EventErrorKind::EventTooLarge | EventErrorKind::BatchTooLarge => Self::TooLarge,
            kind => Self::InvalidInput(kind.to_string()),
        }
    }
}

/// Place where an agent is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Part of the program.
    BuiltIn,
    /// Configuration of the server.
    Configuration,
    /// API, by a client of the project.
    Api,
}

/// Request for a run of an agent.
#[derive(Debug, Default)]
pub struct AgentRun {
    /// Id of the run; generated if absent.
    pub id: Option<RunId>,
    /// Lease of the run, after which it ends without an event.
    pub lease: Option<Duration>,
    /// Epoch that the thread's log must have; `None` for any.
    pub epoch: Option<Epoch>,
    /// Input that the client sent.
    pub input: ClientInput,
    /// True if a missing thread is created: for APIs whose clients choose ids and never create threads.
    pub makes_thread: bool,
}

/// Use cases of agents, over one service. Cheap to clone.
#[derive(Clone)]
pub struct Agents {
    shared: Arc<Shared>,
    /// HTTP client for agents that were made over the API.
    guarded: EgressClient,
    places: Arc<Semaphore>,
    /// Timeout for an agent's events that wait for the store.
    store_timeout: Duration,
}

struct Shared {
    service: Service,
    configured: BTreeMap<AgentId, Agent>,
    /// HTTP client for agents of the configuration.
    open: EgressClient,
    tasks: TaskTracker,
    /// Cancelled once no further run is started.
    resting: CancellationToken,
    /// Cancelled once active runs must end.
    leaving: CancellationToken,
}

impl Agents {
    /// Starts with the agents of the configuration, which every project has. Agents made over the API are called only
    /// on the public internet. Fails if the machine's TLS is not available.
    pub fn new(service: Service, configured: Vec<Agent>) -> Result<Self, reqwest::Error> {
        service.metrics().know_limits([RUN_LIMIT]);
        let configured = configured.into_iter().map(|agent| (agent.id.clone(), agent)).collect();
        let open = EgressClient::new(EgressPolicy::Anywhere);
        // A failure must appear at the start, not with the first run.
        open.prepare()?;
        let (tasks, resting, leaving) = Default::default();
        let shared = Shared { service, configured, open, tasks, resting, leaving };
        let guarded = EgressClient::new(EgressPolicy::Public(Vec::new()));
        let places = Arc::new(Semaphore::new(MAX_AGENT_RUNS));
        Ok(Self { shared: Arc::new(shared), guarded, places, store_timeout: AGENT_STORE_TIMEOUT })
    }

    /// Replaces the HTTP client for agents that were made over the API, and with it their allowed networks.
    pub fn with_outbound(self, guarded: EgressClient) -> Self {
        Self { guarded, ..self }
    }

    /// Replaces [`MAX_AGENT_RUNS`], the limit of concurrent runs.
    pub fn with_places(self, places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), ..self }
    }

    /// Replaces [`AGENT_STORE_TIMEOUT`], the timeout for an agent's events that wait for the store.
    pub fn with_store_timeout(self, store_timeout: Duration) -> Self {
        Self { store_timeout, ..self }
    }

    /// Lists all agents that this principal can use, by name.
    pub async fn list(&self, principal: &Principal) -> Result<Vec<(Agent, Origin)>, AgentError> {
        let mut all = BTreeMap::new();
        for (id, definition) in self.shared.service.agents.list(principal).await? {
            match read(&id, &definition) {
                Ok(agent) => drop(all.insert(id, (agent, Origin::Api))),
                Err(error) => {
                    tracing::warn!(%error, agent = %id, project = %principal.project, "cannot read a stored agent")
                }
            }
        }
        if let Some(demo) = demo() {
            all.insert(demo.id.clone(), (demo, Origin::BuiltIn));
        }
        // Agents of the configuration take precedence over agents of the same name.
        for agent in self.shared.configured.values() {
            all.insert(agent.id.clone(), (agent.clone(), Origin::Configuration));
        }
        Ok(all.into_values().collect())
    }

    /// Looks up an agent by its name.
    pub async fn get(&self, principal: &Principal, id: &AgentId) -> Result<(Agent, Origin), AgentError> {
        if let Some(agent) = self.shared.configured.get(id) {
            return Ok((agent.clone(), Origin::Configuration));
        }
        if let Some(demo) = demo().filter(|demo| demo.id == *id) {
            return Ok((demo, Origin::BuiltIn));
        }
        let found = self.list(principal).await?.into_iter().find(|(agent, _)| agent.id == *id);
        found.ok_or_else(|| AgentError::NotFound(id.clone()))
    }

    /// Creates an agent or replaces its definition.
    pub async fn put(
        &self,
        principal: &Principal,
        id: &AgentId,
        definition: Definition,
    ) -> Result<(Agent, Origin), AgentError> {
        self.refuse_fixed(id)?;
        if definition.api_key_env.is_some() {
            return Err(AgentError::InvalidAgent(
                "apiKeyEnv is available in the configuration file only: send apiKey".into(),
            ));
        }
        let text = serde_json::to_string(&definition).map_err(|error| AgentError::InvalidAgent(error.to_string()))?;
        if text.len() > MAX_AGENT_BYTES {
            return Err(AgentError::InvalidAgent(format!("the definition exceeds {MAX_AGENT_BYTES} bytes")));
        }
        let agent = definition.into_agent(id.clone(), |_| None).map_err(AgentError::InvalidAgent)?;
        self.check_address(&agent)?;
        let others = self.shared.service.agents.list(principal).await?;
        if others.len() >= MAX_AGENTS && others.iter().all(|(other, _)| other != id) {
            return Err(AgentError::InvalidAgent(format!("the project has {MAX_AGENTS} agents, which is the maximum")));
        }
        self.shared.service.agents.put(principal, id, &text).await?;
        Ok((agent, Origin::Api))
    }

    /// Deletes an agent, if it exists, so that a client may repeat a request whose answer was lost. Active runs
    /// continue.
    pub async fn delete(&self, principal: &Principal, id: &AgentId) -> Result<(), AgentError> {
        self.refuse_fixed(id)?;
        self.shared.service.agents.delete(principal, id).await?;
        Ok(())
    }

    fn check_address(&self, agent: &Agent) -> Result<(), AgentError> {
        let url = match &agent.kind {
            AgentKind::AgUi { url, .. } => url,
            AgentKind::OpenAi { base_url, .. } => base_url,
            AgentKind::Demo => return Ok(()),
        };
        self.guarded.check_url(url).map_err(|refused| {
            AgentError::InvalidAgent(match refused {
                Refused::NotAnAddress(_) | Refused::NoTls(_) => refused.to_string(),
                Refused::Network { .. } => format!("{refused}: the operator can allow it, --allow-agent-networks"),
            })
        })
    }

    fn refuse_fixed(&self, id: &AgentId) -> Result<(), AgentError> {
        let fixed = self.shared.configured.contains_key(id) || id.as_str() == DEMO;
        if fixed { Err(AgentError::Configured(id.clone())) } else { Ok(()) }
    }

    /// Starts a run and drives it on the server, independent of the client's connection. Returns once the run and the
    /// new messages are durable. Idempotent by run id: a repeated request returns the existing run.
    pub async fn run(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        agent: &Agent,
        request: AgentRun,
    ) -> Result<StartedRun, AgentError> {
        if check_approval(principal, agent, &request.input)? && principal.is_untrusted() {
            self.check_askers(principal, thread).await?;
        }
        let service = &self.shared.service;
        let id = request.id.unwrap_or_else(RunId::generate);
        let before = match service.projections.at(principal, thread, None, None).await {
            Err(ProjectionError::ThreadNotFound) if request.makes_thread => None,
            before => Some(before?),
        };
        let nothing = Conversation::default();
        let conversation = before.as_ref().map_or(&nothing, |before| &before.conversation);
        let trust = Trust::of(principal);
        check_context(agent, trust, &request.input)?;
        let prepared = input::prepare(thread, &id, request.input, trust, conversation)?;
        if let Err(breach) = prepared.answered.check(conversation) {
            // A repeated request concerns the same run, which itself may have opened the interrupts.
            if service.runs.get(principal, thread, &id).await.is_err() {
                return Err(AgentError::Interrupts(breach));
            }
        }
        if self.shared.resting.is_cancelled() && service.runs.get(principal, thread, &id).await.is_err() {
            return Err(ServiceError::Draining.into());
        }
        let place = self.places.clone().try_acquire_owned().ok();
        // An existing run needs no permit.
        if place.is_none() && service.runs.get(principal, thread, &id).await.is_err() {
            service.metrics().limited(RUN_LIMIT);
            return Err(AgentError::Busy);
        }
        let before = match before {
            Some(before) => before,
            // The thread is created after all checks, so that a refused request leaves no thread behind.
            None => {
                service.runs.check_room(principal).await?;
                let epoch = service.threads.ensure(principal, thread, Some(&agent.id)).await?.epoch;
                Projected { epoch, seq: 0, conversation: nothing }
            }
        };
        let (lease, epoch) = (request.lease, request.epoch);
        let opening = Opening::Driven(prepared.first.clone());
        let start = StartRequest { run: Some(id), agent: Some(agent.id.clone()), lease, epoch, opening };
        let mut started = service.runs.start(principal, thread, start).await?;
        if started.run.agent.as_ref().is_some_and(|other| *other != agent.id) {
            return Err(AgentError::RunTaken(started.run.id));
        }
        if !started.created {
            let first = service.events.first_of(principal, thread, &started.run, started.epoch).await?;
            if !prepared.is_heard_by(first.as_deref()) {
                return Err(AgentError::RunUsed(started.run.id));
            }
        }
        if let Some(right) = started.right.take() {
            let work = Work {
                agents: self.clone(),
                principal: principal.clone(),
                right,
                agent: agent.clone(),
                started: started.clone(),
                beat: service.runs.beat(lease),
                place,
            };
            self.shared.tasks.spawn(work.run(before, prepared));
        }
        Ok(started)
    }

    /// Refuses an answer of an untrusted client in a thread where an agent whose interrupts the application answers has
    /// written one of the newest runs: the answer could be given through another agent.
    async fn check_askers(&self, principal: &Principal, thread: &ThreadId) -> Result<(), AgentError> {
        let runs = match self.shared.service.runs.list(principal, thread, None, MAX_PAGE, None).await {
            Err(PageError::ThreadNotFound) => return Ok(()),
            runs => runs?.items,
        };
        let asks = |agent: &Agent| runs.iter().any(|run| run.driven && run.agent.as_ref() == Some(&agent.id));
        // An agent that was deleted asks nothing any more.
        let agents = self.list(principal).await?.into_iter().map(|(agent, _)| agent);
        let asker = agents.filter(|agent| agent.approvals == Approvals::Backend).find(asks);
        asker.map_or(Ok(()), |agent| Err(AgentError::BackendApproves(agent.id)))
    }

    /// Sends a request to an agent outside of any thread; nothing is stored.
    pub fn ask(&self, principal: &Principal, agent: &Agent, mut client: ClientInput) -> Result<Asked, AgentError> {
        if self.shared.resting.is_cancelled() {
            return Err(ServiceError::Draining.into());
        }
        check_approval(principal, agent, &client)?;
        let trust = Trust::of(principal);
        check_context(agent, trust, &client)?;
        let thread = client.thread_id.take().unwrap_or_else(ThreadId::generate);
        let run = client.run_id.take().unwrap_or_else(RunId::generate);
        let input = outside(&thread, &run, client, trust)?;
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.shared.service.metrics().limited(RUN_LIMIT);
            return Err(AgentError::Busy);
        };
        let span = agent_span(agent, &principal.project, &thread, &run);
        let mut events = span.in_scope(|| self.source(agent, &input));
        let events = stream::poll_fn(move |context| span.in_scope(|| events.poll_next_unpin(context))).boxed();
        Ok(Asked { events, thread, run, _place: place })
    }

    /// Sends a request to an agent on behalf of the server itself: nothing is stored, and it takes no permit of a run.
    /// `origin` is the place where the agent is defined: agents of the configuration may have any address. Dropping the
    /// stream ends the request.
    pub fn consult(&self, agent: &Agent, origin: Origin, client: ClientInput) -> Result<EventStream, AgentError> {
        let input = outside(&ThreadId::generate(), &RunId::generate(), client, Trust::Key)?;
        let outbound = if origin == Origin::Configuration { &self.shared.open } else { &self.guarded };
        Ok(source_over(outbound, agent, &input))
    }

    /// Starts no further run, and waits until the active ones have ended by themselves.
    pub async fn rest(&self) {
        self.shared.resting.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// Starts the shutdown of active runs: an agent's run cannot move to another node.
    pub fn leave(&self) {
        self.shared.resting.cancel();
        self.shared.leaving.cancel();
    }

    /// Ends all active runs, and waits for them.
    pub async fn stop(&self) {
        self.leave();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    fn source(&self, agent: &Agent, input: &source::RunInput) -> EventStream {
        // Agents of the configuration may have any address.
        let configured = self.shared.configured.get(&agent.id).is_some_and(|configured| configured == agent);
        source_over(if configured { &self.shared.open } else { &self.guarded }, agent, input)
    }
}

/// Input of an agent outside of any thread, with an empty history.
fn outside(thread: &ThreadId, run: &RunId, client: ClientInput, trust: Trust) -> Result<source::RunInput, AgentError> {
    let nothing = Conversation::default();
    Ok(input::prepare(thread, run, client, trust, &nothing)?.complete(thread, run, &nothing))
}

/// Refuses an answer to an interrupt from a principal that may not give it. True if the input has an answer.
fn check_approval(principal: &Principal, agent: &Agent, input: &ClientInput) -> Result<bool, AgentError> {
    approval::check(principal, agent, input).map_err(|error| match error {
        ApprovalError::Forbidden => ServiceError::Forbidden(Scope::Approve).into(),
        ApprovalError::BackendApproves => AgentError::BackendApproves(agent.id.clone()),
    })
}

/// Refuses a context that is too large, if it comes from a page and the agent puts it before the user's message.
fn check_context(agent: &Agent, trust: Trust, client: &ClientInput) -> Result<(), AgentError> {
    let bytes = client.context.as_ref().map_or(0, |context| context.get().len());
    let stands_there = trust == Trust::Client && matches!(agent.kind, AgentKind::OpenAi { .. });
    if stands_there && bytes > MAX_CLIENT_CONTEXT_BYTES { Err(AgentError::ContextTooLarge(bytes)) } else { Ok(()) }
}

fn source_over(outbound: &EgressClient, agent: &Agent, input: &source::RunInput) -> EventStream {
    let idle = agent.idle_timeout;
    match &agent.kind {
        AgentKind::AgUi { url, headers } => agui::run(outbound, url, headers, input, idle),
        AgentKind::OpenAi { base_url, model, api_key, instructions } => {
            openai::run(outbound, base_url, model, api_key.as_ref(), instructions.as_deref(), input, idle)
        }
        AgentKind::Demo => demo::run(input, DEMO_PACE),
    }
}

fn read(id: &AgentId, definition: &str) -> Result<Agent, String> {
    let definition: Definition = serde_json::from_str(definition).map_err(|error| error.to_string())?;
    definition.into_agent(id.clone(), |_| None)
}

fn demo() -> Option<Agent> {
    let definition = Definition { kind: definition::Kind::Demo, ..Definition::default() };
    definition.into_agent(AgentId::new(DEMO).ok()?, |_| None).ok()
}

/// Answer of an agent outside of any thread. Dropping it ends the request.
pub struct Asked {
    /// Thread id that the agent received.
    pub thread: ThreadId,
    /// Run id that the agent received.
    pub run: RunId,
    /// Events of the answer.
    pub events: EventStream,
    _place: OwnedSemaphorePermit,
}
