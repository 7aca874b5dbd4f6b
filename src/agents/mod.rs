//! Running agents: each kind is a source of AG-UI events, and one driver appends them.

pub mod agui;
mod approval;
mod asking;
mod claims;
pub mod client_input;
mod defined;
pub mod definition;
pub mod demo;
mod drive;
mod error;
mod events;
mod fork;
mod forking;
mod forwarded;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub mod http;
pub mod input;
pub mod interrupts;
mod logged;
pub mod openai;
pub mod queued;
mod queueing;
mod reading;
mod recovery;
mod repetition;
pub mod source;
mod span;
mod sse;
mod starting;
mod work;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use asking::Asked;
pub use client_input::ClientInput;
pub use definition::Definition;
pub use error::AgentError;
pub use fork::{ForkPoint, ForkStart};
pub use input::Ignored;
pub use span::agent_span;
pub use starting::{AgentRun, AgentStart, RunAnswer};

use source::{EventStream, RunInput};
use threadline_core::{
    AgentId, Principal,
    agent::{Agent, AgentKind},
    limits::{AGENT_STORE_TIMEOUT, MAX_AGENT_RUNS, TAKEOVERS_AT_ONCE},
};
use threadline_engine::Service;
use threadline_http::egress::{EgressClient, EgressPolicy};

/// Name of the built-in agent, which is always available.
pub const DEMO: &str = "demo";
/// Name of the limit behind [`AgentError::Busy`] in the metrics.
const RUN_LIMIT: &str = "agentRuns";
/// Pause between two words of the demo: slow enough to be visible.
const DEMO_PACE: Duration = Duration::from_millis(25);

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
    /// Takeovers that may fold conversations at once.
    takeovers: Semaphore,
}

impl Agents {
    /// Starts with the agents of the configuration, which every project has. Agents made over the API are called only
    /// on the public internet. Fails if the machine's TLS is not available.
    pub fn new(service: Service, configured: Vec<Agent>) -> Result<Self, reqwest::Error> {
        service.metrics().know_limits([RUN_LIMIT]);
        service.metrics().know_input_kinds(Ignored::KINDS);
        let configured = configured.into_iter().map(|agent| (agent.id.clone(), agent)).collect();
        let open = EgressClient::new(EgressPolicy::Anywhere);
        // A failure must appear at the start, not with the first run.
        open.prepare()?;
        let (tasks, resting, leaving) = Default::default();
        let takeovers = Semaphore::new(TAKEOVERS_AT_ONCE);
        let shared = Shared { service, configured, open, tasks, resting, leaving, takeovers };
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

    /// Starts no further run, and waits until the active ones have ended by themselves.
    pub async fn rest(&self) {
        self.shared.resting.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// Starts the shutdown of active runs: another node, or the next process, goes on with those whose agent allows it.
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

    fn source(&self, agent: &Agent, input: &RunInput) -> EventStream {
        // Agents of the configuration may have any address.
        let configured = self.shared.configured.get(&agent.id).is_some_and(|configured| configured == agent);
        source_over(if configured { &self.shared.open } else { &self.guarded }, agent, input)
    }
}

fn source_over(outbound: &EgressClient, agent: &Agent, input: &RunInput) -> EventStream {
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
