//! Names for threads that have none: in the background, and never in place of a name that a person gave.
//!
//! A thread is named by its user's first words as soon as they are stored with the first events of a run, or else when
//! the run ends. At the end a configured model is asked, and its answer replaces that name: either a separate endpoint,
//! or the agent that did the run, if its definition allows it. No request waits for naming: a run whose notice finds
//! the queue full, and a thread whose model gives no usable name, stay unchanged, and a later run repeats the attempt.

mod circuit_breaker;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod greetings;
mod heuristic;
mod markup;
mod model_request;
mod title;
mod words;
mod worker;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    sync::{Mutex, mpsc},
    task::{JoinHandle, JoinSet},
    time,
};
use tokio_util::sync::CancellationToken;

use crate::agents::Agents;
use model_request::Opening;
use threadline_core::{
    NameSource, ProjectId,
    agent::{Agent, AgentKind},
    limits::{
        NAMERS, NAMING_DRAIN, NAMING_LOG_BYTES, NAMING_MESSAGES, NAMING_QUEUE, NAMING_RUNS, NAMING_TIMEOUT, TITLE_QUEUE,
    },
    projection::conversation::Conversation,
};
use threadline_engine::{RunNotice, Service, ServiceError};
use worker::Title;

/// Decides for a project whether its threads are named.
pub type Wanted = Arc<dyn Fn(ProjectId) -> BoxFuture<'static, bool> + Send + Sync>;

/// Configuration of naming: its endpoint and its timeout.
#[derive(Debug, Clone)]
pub struct TitleSettings {
    endpoint: Option<Agent>,
    patience: Duration,
}

impl Default for TitleSettings {
    /// No endpoint: threads are named by their users' first words, and by agents that name threads.
    fn default() -> Self {
        Self { endpoint: None, patience: NAMING_TIMEOUT }
    }
}

impl TitleSettings {
    /// Sets the operator's endpoint, which is asked about every thread.
    pub fn with_endpoint(self, mut endpoint: Agent) -> Self {
        if let AgentKind::OpenAi { instructions, .. } = &mut endpoint.kind {
            *instructions = Some(model_request::INSTRUCTIONS.to_owned());
        }
        Self { endpoint: Some(endpoint), ..self }
    }

    /// Replaces [`NAMING_TIMEOUT`], the timeout for a model's answer.
    pub fn with_timeout(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}

/// Running naming tasks of a node.
#[derive(Debug)]
pub struct TitleGenerator {
    leaving: CancellationToken,
    loops: Vec<JoinHandle<()>>,
}

/// State shared by the tasks.
struct Shared {
    service: Service,
    agents: Agents,
    wanted: Wanted,
    naming: TitleSettings,
    titles: mpsc::Sender<Title>,
    /// Locks that serialize the notices of a thread: those of a run's start and of its end may arrive together.
    turns: [Mutex<()>; NAMERS],
    leaving: CancellationToken,
}

impl TitleGenerator {
    /// Names threads whose runs start or end from now on. Must be called once per service, inside a tokio runtime.
    pub fn start(service: Service, agents: Agents, wanted: Wanted, naming: TitleSettings) -> Self {
        let leaving = CancellationToken::new();
        let Some(notices) = service.run_notices(NAMING_QUEUE) else { return Self { leaving, loops: Vec::new() } };
        let (titles, waiting) = mpsc::channel(TITLE_QUEUE);
        let (turns, left) = (Default::default(), leaving.clone());
        let shared = Arc::new(Shared { service, agents, wanted, naming, titles, turns, leaving: left });
        let loops = vec![tokio::spawn(run(shared.clone(), notices)), tokio::spawn(worker::run(shared, waiting))];
        Self { leaving, loops }
    }

    /// Gives the threads of queued notices their first names, and stops, at the latest after [`NAMING_DRAIN`]. No model
    /// is waited for.
    pub async fn stop(self) {
        self.leaving.cancel();
        let end = time::Instant::now() + NAMING_DRAIN;
        for mut running in self.loops {
            if time::timeout_at(end, &mut running).await.is_err() {
                tracing::debug!("some threads are not named: the node is shutting down");
                running.abort();
            }
        }
    }
}

/// Gives threads their first names.
async fn run(shared: Arc<Shared>, mut notices: mpsc::Receiver<RunNotice>) {
    let mut working = JoinSet::new();
    let mut leaving = false;
    loop {
        tokio::select! {
            () = shared.leaving.cancelled(), if !leaving => {
                // Queued notices are still processed.
                notices.close();
                leaving = true;
            }
            Some(done) = working.join_next(), if !working.is_empty() => note_panic(done),
            notice = notices.recv(), if working.len() < NAMERS => match notice {
                Some(notice) => drop(working.spawn(name(shared.clone(), notice))),
                None => break,
            },
        }
    }
    while let Some(done) = working.join_next().await {
        note_panic(done);
    }
}

/// Logs a panic, which affects only the name of one thread.
fn note_panic(done: Result<(), tokio::task::JoinError>) {
    if let Err(error) = done {
        tracing::error!(%error, "cannot name a thread");
    }
}

async fn name(shared: Arc<Shared>, notice: RunNotice) {
    let key = usize::try_from(notice.key.0).unwrap_or_default();
    let _turn = shared.turns[key % NAMERS].lock().await;
    if let Err(error) = shared.name(&notice).await {
        tracing::debug!(%error, thread = %notice.thread, run = %notice.run, project = %notice.project, "a thread was not named; a later run retries");
    }
}

/// Name from the first message of the user that gives one; from a greeting if there is no other.
fn first_words(beginning: &Conversation) -> Option<String> {
    let said = || beginning.messages().filter(|message| message.role() == "user").take(NAMING_MESSAGES);
    let telling = said().find_map(|message| heuristic::name(&message.text()));
    telling.or_else(|| said().find_map(|message| heuristic::greeting(&message.text())))
}

impl Shared {
    async fn name(&self, notice: &RunNotice) -> Result<(), ServiceError> {
        if !(self.wanted)(notice.project.clone()).await {
            return Ok(());
        }
        let Some(thread) = self.service.threads.of_run(notice).await? else { return Ok(()) };
        let (source, name) = (thread.name_source, thread.name.unwrap_or_default());
        let is_open = match source {
            None => true,
            Some(NameSource::Auto) => heuristic::only_greets(&name),
            Some(NameSource::Title | NameSource::Person) => return Ok(()),
        };
        // A model also receives the answer, which is complete at the end of the run. Message and answer may be two runs.
        let asks = notice.has_ended && !self.leaving.is_cancelled();
        let asked = if asks { self.whom_to_ask(notice).await? } else { None };
        if !is_open && asked.is_none() {
            return Ok(());
        }
        let Some(beginning) = self.service.projections.beginning(notice, NAMING_LOG_BYTES).await? else {
            return Ok(());
        };
        let read = beginning.process(|beginning| Some((Opening::of(beginning)?, first_words(beginning))));
        drop(beginning);
        let Some((opening, first_words)) = read else { return Ok(()) };
        let counts = &self.service.metrics().names;
        let mut seen = source;
        if is_open && let Some(words) = first_words.filter(|words| *words != name) {
            if self.service.threads.name(notice, &words, NameSource::Auto, seen).await? {
                counts.auto.inc();
                seen = Some(NameSource::Auto);
            } else {
                counts.overtaken.inc();
            }
        }
        if let Some(asked) = asked
            && (opening.is_answered() || notice.fence.ordinal() >= NAMING_RUNS)
            && self.titles.try_send(Title { ended: notice.clone(), asked, opening, seen }).is_err()
        {
            counts.dropped.inc();
        }
        Ok(())
    }
}
