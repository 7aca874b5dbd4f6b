//! Running agents: each kind is a source of AG-UI events, and one driver appends what they say.

pub mod agui;
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

use crate::{
    domain::{
        AgentId, EventError, EventErrorKind, Principal, RunId, ThreadId,
        agent::{Agent, AgentKind},
        limits::{
            AGENT_PATIENCE, MAX_AGENT_BYTES, MAX_AGENT_RUNS, MAX_AGENTS, MAX_CLIENT_CONTEXT_BYTES, MAX_EVENT_BYTES,
        },
    },
    egress::{Outbound, Reach, Refused},
    projection::conversation::Conversation,
    service::{NewRun, Projected, Service, ServiceError, StartedRun},
};
use interrupts::Breach;
use source::{EventStream, Trust};
use work::Work;

/// The built-in agent, which is always there.
pub const DEMO: &str = "demo";
/// What [`AgentError::Busy`] is counted as.
const RUN_LIMIT: &str = "agentRuns";
/// Time between two words of the demo: slow enough to be seen.
const DEMO_PACE: Duration = Duration::from_millis(25);

/// Everything that can be answered instead of a run or an agent.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AgentError {
    /// There is no agent of this name.
    #[error("there is no agent {0}")]
    NotFound(AgentId),
    /// What the client sent for the agent makes no sense.
    #[error("the input: {0}")]
    InvalidInput(String),
    /// What the client sent for the agent does not fit into an event.
    #[error("the new messages and the state have at most {MAX_EVENT_BYTES} bytes each")]
    TooLarge,
    /// The `context` of an untrusted client exceeds the limit for OpenAI-compatible agents.
    #[error(
        "`context` has {0} bytes; without an API key, an OpenAI-compatible agent accepts at most {MAX_CLIENT_CONTEXT_BYTES}"
    )]
    ContextTooLarge(usize),
    /// The thread waits for answers, or does not wait for those that it was given.
    #[error("{0}")]
    Interrupts(Breach),
    /// The thread has a run of this id that is another agent's.
    #[error("the run {0} is not of this agent")]
    RunTaken(RunId),
    /// The thread has a run of this id that was asked for with other messages or answers.
    #[error("the run {0} is there already, and was asked for with other messages or answers")]
    RunUsed(RunId),
    /// What was written down is no agent.
    #[error("the agent: {0}")]
    InvalidAgent(String),
    /// The agent is built in or stands in the configuration, and cannot be changed over the API.
    #[error("the agent {0} is part of the server's configuration")]
    Configured(AgentId),
    /// Too many runs at once.
    #[error("this server has as many runs of agents under way as it takes")]
    Busy,
    /// The use case behind it failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl From<EventError> for AgentError {
    fn from(error: EventError) -> Self {
        match error.kind {
            EventErrorKind::EventTooLarge | EventErrorKind::BatchTooLarge => Self::TooLarge,
            kind => Self::InvalidInput(kind.to_string()),
        }
    }
}

/// Where an agent was written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It is part of the program.
    BuiltIn,
    /// The configuration.
    Configuration,
    /// The API.
    Api,
}

/// A run that an agent is to do.
#[derive(Debug, Default)]
pub struct AgentRun {
    /// The run's id; made up if absent.
    pub id: Option<RunId>,
    /// How long the run may be silent.
    pub lease: Option<Duration>,
    /// What the client sent.
    pub input: ClientInput,
    /// Whether a thread is made if there is none: for doors whose clients choose ids and never create.
    pub makes_thread: bool,
}

/// The use cases of agents, over one service. Cheap to clone.
#[derive(Clone)]
pub struct Agents {
    shared: Arc<Shared>,
    /// Calls the agents that were made over the API.
    guarded: Outbound,
    places: Arc<Semaphore>,
    /// How long an agent's events may wait for the store.
    patience: Duration,
}

struct Shared {
    service: Service,
    configured: BTreeMap<AgentId, Agent>,
    /// Calls the agents of the configuration.
    open: Outbound,
    tasks: TaskTracker,
    leaving: CancellationToken,
}

impl Agents {
    /// With the agents of the configuration, which every project has. Those made over the API are called on the public
    /// internet only. An error if the machine's TLS cannot be used.
    pub fn new(service: Service, configured: Vec<Agent>) -> Result<Self, reqwest::Error> {
        service.metrics().know_limits([RUN_LIMIT]);
        let configured = configured.into_iter().map(|agent| (agent.id.clone(), agent)).collect();
        let open = Outbound::new(Reach::Anywhere);
        // Better now than with the first run.
        open.prepare()?;
        let shared = Shared { service, configured, open, tasks: TaskTracker::new(), leaving: CancellationToken::new() };
        let guarded = Outbound::new(Reach::Public(Vec::new()));
        let places = Arc::new(Semaphore::new(MAX_AGENT_RUNS));
        Ok(Self { shared: Arc::new(shared), guarded, places, patience: AGENT_PATIENCE })
    }

    /// Other places where agents that were made over the API may be.
    pub fn with_outbound(self, guarded: Outbound) -> Self {
        Self { guarded, ..self }
    }

    /// Another number than [`MAX_AGENT_RUNS`] of runs at once.
    pub fn with_places(self, places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), ..self }
    }

    /// Another time than [`AGENT_PATIENCE`] that an agent's events may wait for the store.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// All agents that this principal can use, by name.
    pub async fn list(&self, principal: &Principal) -> Result<Vec<(Agent, Origin)>, AgentError> {
        let mut all = BTreeMap::new();
        for (id, definition) in self.shared.service.agents.list(principal).await? {
            match read(&id, &definition) {
                Ok(agent) => drop(all.insert(id, (agent, Origin::Api))),
                Err(error) => {
                    tracing::warn!(%error, agent = %id, project = %principal.project, "a stored agent cannot be read")
                }
            }
        }
        if let Some(demo) = demo() {
            all.insert(demo.id.clone(), (demo, Origin::BuiltIn));
        }
        // The configuration is the operator's word, and stands above the others.
        for agent in self.shared.configured.values() {
            all.insert(agent.id.clone(), (agent.clone(), Origin::Configuration));
        }
        Ok(all.into_values().collect())
    }

    /// The agent of this name.
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

    /// Makes an agent, or replaces it.
    pub async fn put(
        &self,
        principal: &Principal,
        id: &AgentId,
        definition: Definition,
    ) -> Result<(Agent, Origin), AgentError> {
        self.refuse_fixed(id)?;
        if definition.api_key_env.is_some() {
            return Err(AgentError::InvalidAgent("apiKeyEnv is for the configuration file; send apiKey".into()));
        }
        let text = serde_json::to_string(&definition).map_err(|error| AgentError::InvalidAgent(error.to_string()))?;
        if text.len() > MAX_AGENT_BYTES {
            return Err(AgentError::InvalidAgent(format!("its definition has at most {MAX_AGENT_BYTES} bytes")));
        }
        let agent = definition.into_agent(id.clone(), |_| None).map_err(AgentError::InvalidAgent)?;
        self.check_address(&agent)?;
        let others = self.shared.service.agents.list(principal).await?;
        if others.len() >= MAX_AGENTS && others.iter().all(|(other, _)| other != id) {
            return Err(AgentError::InvalidAgent(format!("a project has at most {MAX_AGENTS} agents")));
        }
        self.shared.service.agents.put(principal, id, &text).await?;
        Ok((agent, Origin::Api))
    }

    /// Forgets an agent, if there is one: a lost answer may be asked for again. Its runs under way go on.
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

    /// Starts a run and has the agent do it: whoever asked may go away. Answered once the run and the new messages are
    /// durable. The same run id again is the same run, which is not done twice.
    pub async fn run(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        agent: &Agent,
        request: AgentRun,
    ) -> Result<StartedRun, AgentError> {
        let service = &self.shared.service;
        let id = request.id.unwrap_or_else(RunId::generate);
        let before = match service.projections.at(principal, thread, None, None).await {
            Err(ServiceError::ThreadNotFound) if request.makes_thread => None,
            before => Some(before?),
        };
        let nothing = Conversation::default();
        let conversation = before.as_ref().map_or(&nothing, |before| &before.conversation);
        let trust = Trust::of(principal);
        check_context(agent, trust, &request.input)?;
        let prepared = input::prepare(thread, &id, request.input, trust, conversation)?;
        if let Err(breach) = prepared.answered.check(conversation) {
            // Asked again, it is the same run: what waits now may be what it came to.
            if service.runs.get(principal, thread, &id).await.is_err() {
                return Err(AgentError::Interrupts(breach));
            }
        }
        let place = self.places.clone().try_acquire_owned().ok();
        // What is there already needs no place.
        if place.is_none() && service.runs.get(principal, thread, &id).await.is_err() {
            service.metrics().limited(RUN_LIMIT);
            return Err(AgentError::Busy);
        }
        let before = match before {
            Some(before) => before,
            // Only now, so that what is refused leaves no thread behind.
            None => {
                service.runs.check_room(principal).await?;
                let epoch = service.threads.ensure(principal, thread, Some(&agent.id)).await?.epoch;
                Projected { epoch, seq: 0, conversation: nothing }
            }
        };
        let new = NewRun { id: Some(id), agent: Some(agent.id.clone()), lease: request.lease };
        let beat = service.runs.beat(&new);
        let (started, right) = service.runs.start_driven(principal, thread, new, &prepared.first).await?;
        if started.run.agent.as_ref().is_some_and(|other| *other != agent.id) {
            return Err(AgentError::RunTaken(started.run.id));
        }
        if !started.created {
            let first = service.events.first_of(principal, thread, &started).await?;
            if !prepared.is_heard_by(first.as_deref()) {
                return Err(AgentError::RunUsed(started.run.id));
            }
        }
        if let Some(right) = right {
            let work = Work {
                agents: self.clone(),
                principal: principal.clone(),
                right,
                agent: agent.clone(),
                started: started.clone(),
                beat,
                place,
            };
            self.shared.tasks.spawn(work.run(before, prepared));
        }
        Ok(started)
    }

    /// Has the agent answer outside of any thread: nothing of it is kept.
    pub fn ask(&self, principal: &Principal, agent: &Agent, mut client: ClientInput) -> Result<Asked, AgentError> {
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

    /// Has an agent answer the server itself: nothing of it is kept, it is no run, and takes no place of one. `origin` is where
    /// the agent was written down: the operator's own may be anywhere. Dropping the answer ends the request.
    pub fn consult(&self, agent: &Agent, origin: Origin, client: ClientInput) -> Result<EventStream, AgentError> {
        let input = outside(&ThreadId::generate(), &RunId::generate(), client, Trust::Key)?;
        let outbound = if origin == Origin::Configuration { &self.shared.open } else { &self.guarded };
        Ok(source_over(outbound, agent, &input))
    }

    /// Begins to end what is under way: runs of agents cannot be handed to another node.
    pub fn leave(&self) {
        self.shared.leaving.cancel();
    }

    /// Ends what is under way.
    pub async fn stop(&self) {
        self.leave();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    fn source(&self, agent: &Agent, input: &source::RunInput) -> EventStream {
        // The operator's own agents may be anywhere.
        let configured = self.shared.configured.get(&agent.id).is_some_and(|configured| configured == agent);
        source_over(if configured { &self.shared.open } else { &self.guarded }, agent, input)
    }
}

/// What an agent is given where there is no thread, and so nothing that was said before.
fn outside(thread: &ThreadId, run: &RunId, client: ClientInput, trust: Trust) -> Result<source::RunInput, AgentError> {
    let nothing = Conversation::default();
    Ok(input::prepare(thread, run, client, trust, &nothing)?.complete(thread, run, &nothing))
}

/// Refuses a page's context that is too large to stand before a user's words, where it would stand there.
fn check_context(agent: &Agent, trust: Trust, client: &ClientInput) -> Result<(), AgentError> {
    let bytes = client.context.as_ref().map_or(0, |context| context.get().len());
    let stands_there = trust == Trust::Client && matches!(agent.kind, AgentKind::OpenAi { .. });
    if stands_there && bytes > MAX_CLIENT_CONTEXT_BYTES { Err(AgentError::ContextTooLarge(bytes)) } else { Ok(()) }
}

fn source_over(outbound: &Outbound, agent: &Agent, input: &source::RunInput) -> EventStream {
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

/// An agent's answer outside of any thread. Dropping it ends the request.
pub struct Asked {
    /// The id that the agent was given for the thread.
    pub thread: ThreadId,
    /// The id that it was given for the run.
    pub run: RunId,
    /// What it says.
    pub events: EventStream,
    _place: OwnedSemaphorePermit,
}
