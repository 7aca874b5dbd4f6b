//! Names that models give to threads.

use std::{collections::HashMap, sync::Arc};

use threadline_core::{
    NameSource, Principal, RunStatus, ThreadKey,
    agent::Agent,
    limits::{NAMERS, NAMING_RUNS},
};
use threadline_engine::{RunLookupError, RunNotice, ServiceError};
use tokio::{
    sync::mpsc,
    task::{Id, JoinSet},
    time,
};
use tracing::Instrument;

use super::{
    Shared,
    circuit_breaker::CircuitBreaker,
    model_request::{Opening, Unnamed, hear},
};
use crate::agents::{AgentError, Origin, agent_span};

/// Request to a model to name a thread.
pub(super) struct Title {
    pub ended: RunNotice,
    pub asked: Asked,
    pub opening: Opening,
    /// Source of the thread's name at the time of the decision.
    pub seen: Option<NameSource>,
}

/// Model that is asked.
pub(super) enum Asked {
    /// The configured naming endpoint.
    Endpoint(Agent),
    /// Agent that did the run, and the place of its definition.
    Own(Agent, Origin),
}

/// Has models name threads: a few threads at once, and one request per thread.
pub(super) async fn run(shared: Arc<Shared>, mut waiting: mpsc::Receiver<Title>) {
    let (mut working, mut threads) = (JoinSet::new(), HashMap::<Id, ThreadKey>::new());
    let resting = Arc::new(CircuitBreaker::default());
    loop {
        tokio::select! {
            // Requests under way are dropped.
            () = shared.leaving.cancelled() => return,
            Some(done) = working.join_next_with_id(), if !working.is_empty() => {
                let id = match done {
                    Ok((id, ())) => id,
                    Err(error) => {
                        tracing::error!(%error, "cannot name a thread");
                        error.id()
                    }
                };
                threads.remove(&id);
            }
            title = waiting.recv(), if working.len() < NAMERS => {
                let Some(title) = title else { return };
                let key = title.ended.key;
                if threads.values().any(|other| *other == key) {
                    shared.service.metrics().names.overtaken.inc();
                    continue;
                }
                let (shared, resting) = (shared.clone(), resting.clone());
                let task = working.spawn(async move { shared.entitle(title, &resting).await });
                threads.insert(task.id(), key);
            }
        }
    }
}

impl Shared {
    /// Selects the model that names a run's thread; none if no model should.
    pub(super) async fn whom_to_ask(&self, ended: &RunNotice) -> Result<Option<Asked>, ServiceError> {
        if ended.fence.ordinal() > NAMING_RUNS {
            return Ok(None);
        }
        if let Some(endpoint) = &self.naming.endpoint {
            return Ok(Some(Asked::Endpoint(endpoint.clone())));
        }
        let principal = Principal::user(ended.project.clone(), ended.user.clone());
        let run = match self.service.runs.get(&principal, &ended.thread, &ended.run).await {
            Err(RunLookupError::ThreadNotFound | RunLookupError::RunNotFound) => return Ok(None),
            run => run?,
        };
        // An agent that has just failed would probably fail again.
        let Some(agent) = run.agent.filter(|_| run.status != RunStatus::Error) else { return Ok(None) };
        match self.agents.get(&principal, &agent).await {
            Ok((agent, origin)) if agent.names_threads => Ok(Some(Asked::Own(agent, origin))),
            // Another node may know an agent of this name that this node does not.
            Ok(_) | Err(AgentError::NotFound(_)) => Ok(None),
            Err(AgentError::Service(error)) => Err(error),
            Err(error) => {
                tracing::debug!(%error, "cannot request names from an agent");
                Ok(None)
            }
        }
    }

    async fn entitle(&self, title: Title, resting: &CircuitBreaker) {
        let (Asked::Endpoint(agent) | Asked::Own(agent, _)) = &title.asked;
        let span = agent_span(agent, &title.ended.project, &title.ended.thread, &title.ended.run);
        self.entitle_by(title, resting).instrument(span).await;
    }

    async fn entitle_by(&self, title: Title, resting: &CircuitBreaker) {
        let counts = &self.service.metrics().names;
        let outcome = match self.try_entitle(&title, resting).await {
            Ok(true) => &counts.title,
            Ok(false) => &counts.overtaken,
            Err(unnamed) => {
                tracing::debug!(%unnamed, "a model did not name a thread");
                match unnamed {
                    Unnamed::CircuitBreaker => &counts.dropped,
                    unnamed if unnamed.is_rejected() => &counts.rejected,
                    _ => &counts.failed,
                }
            }
        };
        outcome.inc();
    }

    /// True if the thread received the model's name; false if another name was given meanwhile.
    async fn try_entitle(&self, title: &Title, resting: &CircuitBreaker) -> Result<bool, Unnamed> {
        let Title { ended, asked, opening, seen } = title;
        let is_endpoint = matches!(asked, Asked::Endpoint(_));
        if is_endpoint && resting.rests() {
            return Err(Unnamed::CircuitBreaker);
        }
        // The request may have waited in the queue for long.
        let threads = &self.service.threads;
        let Some(thread) = threads.of_run(ended).await.map_err(ServiceError::from)? else { return Ok(false) };
        match thread.name_source {
            Some(NameSource::Auto) => {}
            None if seen.is_none() => {}
            _ => return Ok(false),
        }
        let answer = time::timeout(self.naming.patience, self.ask(asked, opening)).await.unwrap_or(Err(Unnamed::Late));
        let has_failed = answer.as_ref().is_err_and(|unnamed| !unnamed.is_rejected());
        if is_endpoint && !has_failed {
            resting.answered();
        } else if is_endpoint && resting.failed() {
            tracing::warn!(
                "the endpoint for names does not respond: threads are named by their first words until the next attempt"
            );
        }
        let named = threads.name(ended, &answer?, NameSource::Title, *seen).await;
        Ok(named.map_err(ServiceError::from)?)
    }

    async fn ask(&self, asked: &Asked, opening: &Opening) -> Result<String, Unnamed> {
        let events = match asked {
            Asked::Endpoint(endpoint) => self.agents.consult(endpoint, Origin::Configuration, opening.input())?,
            Asked::Own(agent, origin) => self.agents.consult(agent, *origin, opening.input_with_instructions())?,
        };
        hear(events).await
    }
}
