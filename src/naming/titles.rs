//! Names by models.

use std::{collections::HashMap, sync::Arc};

use tokio::{
    sync::mpsc,
    task::{Id, JoinSet},
    time,
};
use tracing::Instrument;

use super::{
    Shared,
    asking::{Opening, Unnamed, hear},
    resting::Resting,
};
use crate::{
    agents::{AgentError, Origin, agent_span},
    domain::{
        NameSource, Principal, RunStatus, ThreadKey,
        agent::Agent,
        limits::{NAMERS, NAMING_RUNS},
    },
    service::{RunNotice, ServiceError},
};

/// A thread that a model is to name.
pub(super) struct Title {
    pub ended: RunNotice,
    pub asked: Asked,
    pub opening: Opening,
    /// Who had named it when this was decided.
    pub seen: Option<NameSource>,
}

/// Who is asked.
pub(super) enum Asked {
    /// The endpoint for names.
    Endpoint(Agent),
    /// The agent that did the run, and where it was written down.
    Own(Agent, Origin),
}

/// The loop that has models name threads, a few at once, each thread by one at a time.
pub(super) async fn run(shared: Arc<Shared>, mut waiting: mpsc::Receiver<Title>) {
    let (mut working, mut threads) = (JoinSet::new(), HashMap::<Id, ThreadKey>::new());
    let resting = Arc::new(Resting::default());
    loop {
        tokio::select! {
            // Whoever is being asked is not waited for.
            () = shared.leaving.cancelled() => return,
            Some(done) = working.join_next_with_id(), if !working.is_empty() => {
                let id = match done {
                    Ok((id, ())) => id,
                    Err(error) => {
                        tracing::error!(%error, "a thread could not be named");
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
    /// Who is to be asked for the name of a run's thread, if anybody.
    pub(super) async fn whom_to_ask(&self, ended: &RunNotice) -> Result<Option<Asked>, ServiceError> {
        if ended.fence.0 > NAMING_RUNS {
            return Ok(None);
        }
        if let Some(endpoint) = &self.naming.endpoint {
            return Ok(Some(Asked::Endpoint(endpoint.clone())));
        }
        let principal = Principal::user(ended.project.clone(), ended.user.clone());
        let run = match self.service.runs.get(&principal, &ended.thread, &ended.run).await {
            Err(ServiceError::ThreadNotFound | ServiceError::RunNotFound) => return Ok(None),
            run => run?,
        };
        // One that has just failed would fail again.
        let Some(agent) = run.agent.filter(|_| run.status != RunStatus::Error) else { return Ok(None) };
        match self.agents.get(&principal, &agent).await {
            Ok((agent, origin)) if agent.names_threads => Ok(Some(Asked::Own(agent, origin))),
            // Also one that others know under this name, and we do not.
            Ok(_) | Err(AgentError::NotFound(_)) => Ok(None),
            Err(AgentError::Service(error)) => Err(error),
            Err(error) => {
                tracing::debug!(%error, "an agent cannot be asked for names");
                Ok(None)
            }
        }
    }

    async fn entitle(&self, title: Title, resting: &Resting) {
        let (Asked::Endpoint(agent) | Asked::Own(agent, _)) = &title.asked;
        let span = agent_span(agent, &title.ended.project, &title.ended.thread, &title.ended.run);
        self.entitle_by(title, resting).instrument(span).await;
    }

    async fn entitle_by(&self, title: Title, resting: &Resting) {
        let counts = &self.service.metrics().names;
        let outcome = match self.try_entitle(&title, resting).await {
            Ok(true) => &counts.title,
            Ok(false) => &counts.overtaken,
            Err(unnamed) => {
                tracing::debug!(%unnamed, "a model did not name a thread");
                match unnamed {
                    Unnamed::Resting => &counts.dropped,
                    unnamed if unnamed.is_rejected() => &counts.rejected,
                    _ => &counts.failed,
                }
            }
        };
        outcome.inc();
    }

    /// Whether the thread has the name that the model gave it; not, if somebody else was quicker.
    async fn try_entitle(&self, title: &Title, resting: &Resting) -> Result<bool, Unnamed> {
        let Title { ended, asked, opening, seen } = title;
        let is_endpoint = matches!(asked, Asked::Endpoint(_));
        if is_endpoint && resting.rests() {
            return Err(Unnamed::Resting);
        }
        // It may have waited for long.
        let threads = &self.service.threads;
        let Some(thread) = threads.of_run(ended).await? else { return Ok(false) };
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
                "the endpoint for names does not answer: for a while threads are named by their first words"
            );
        }
        Ok(threads.name(ended, &answer?, NameSource::Title, *seen).await?)
    }

    async fn ask(&self, asked: &Asked, opening: &Opening) -> Result<String, Unnamed> {
        let events = match asked {
            Asked::Endpoint(endpoint) => self.agents.consult(endpoint, Origin::Configuration, opening.input())?,
            Asked::Own(agent, origin) => self.agents.consult(agent, *origin, opening.input_with_instructions())?,
        };
        hear(events).await
    }
}
