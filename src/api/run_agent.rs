//! Runs of agents that a client requested, through any API.

use axum::{
    http::{HeaderMap, HeaderValue, header::HeaderName},
    response::Response,
};
use threadline_core::{
    Epoch, Principal, RunId, ThreadId,
    agent::{Agent, Busy, OnDisconnect},
    limits::WRITE_RETRY,
};
use threadline_engine::{Service, ServiceError, StopError};
use threadline_http::{envelope, problem::Problem, run_to_completion};
use tokio::time;

use crate::{
    agents::{AgentError, AgentRun, AgentStart, Ignored, RunAnswer},
    api::ApiState,
};

/// Number of attempts to stop a run on behalf of a client that has disconnected.
const STOP_TRIES: usize = 20;

/// Header with the thread of the run, whose id the server may have generated.
pub const THREAD_HEADER: &str = "threadline-thread-id";
/// Header with the choice of a client whose request meets an active run: `reject`, `enqueue` or `interrupt`.
pub const BUSY_HEADER: &str = "threadline-busy";
/// Header with the run, whose id the server may have generated.
pub const RUN_HEADER: &str = crate::agents::agui::RUN_HEADER;

/// Header with the parts of an input that were ignored, each with its number: `assistant=1, tool=2`.
pub const IGNORED_HEADER: &str = "threadline-ignored";

/// The response with the parts of the input that were ignored.
pub fn with_ignored(mut response: Response, ignored: &Ignored) -> Response {
    if let Some(value) = HeaderValue::from_str(&ignored.to_string()).ok().filter(|_| !ignored.is_empty()) {
        response.headers_mut().insert(HeaderName::from_static(IGNORED_HEADER), value);
    }
    response
}

/// The response with the thread and the run, whose ids the server may have generated, and the epoch of the log.
pub fn with_ids(mut response: Response, thread: &ThreadId, run: &RunId, epoch: Epoch) -> Response {
    for (name, value) in [
        (THREAD_HEADER, thread.to_string()),
        (RUN_HEADER, run.to_string()),
        (envelope::EPOCH_HEADER, epoch.to_string()),
    ] {
        // Header values are bytes; an id has no control characters.
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// The choice of a client whose request meets an active run; `None` leaves it to the agent.
pub fn busy_of(headers: &HeaderMap) -> Result<Option<Busy>, Problem> {
    match headers.get(BUSY_HEADER).map(HeaderValue::as_bytes) {
        None => Ok(None),
        Some(b"reject") => Ok(Some(Busy::Reject)),
        Some(b"enqueue") => Ok(Some(Busy::Enqueue)),
        Some(b"interrupt") => Ok(Some(Busy::Interrupt)),
        Some(_) => Err(Problem::invalid("Threadline-Busy is none of reject, enqueue and interrupt")),
    }
}

/// Has an agent produce a run. With `waits` the caller streams the run's events, and the run may stop when the client
/// disconnects. A client that disconnects during the start leaves neither a half-finished start nor a run that should
/// have been stopped.
pub async fn run_agent(
    state: &ApiState,
    principal: &Principal,
    thread: &ThreadId,
    agent: Agent,
    run: AgentRun,
    waits: bool,
) -> Result<(AgentStart, AguiClient), Problem> {
    match ask_agent(state, principal, thread, agent, run, Some(Busy::Reject), waits).await? {
        (RunAnswer::Started(start), client) => Ok((*start, client)),
        (RunAnswer::Queued(placed), _) => Err(ServiceError::TurnQueued(placed.turn.run).into()),
    }
}

/// [`run_agent`], for a client that may have its request wait; without `busy` the agent decides.
pub async fn ask_agent(
    state: &ApiState,
    principal: &Principal,
    thread: &ThreadId,
    agent: Agent,
    run: AgentRun,
    busy: Option<Busy>,
    waits: bool,
) -> Result<(RunAnswer, AguiClient), Problem> {
    let (agents, service) = (state.agents.clone(), state.service.clone());
    let (principal, thread) = (principal.clone(), thread.clone());
    let work = async move {
        let answer = agents.run_or_queue(&principal, &thread, &agent, run, busy).await?;
        let start = match &answer {
            RunAnswer::Started(start) => Some(start),
            RunAnswer::Queued(_) => None,
        };
        let stops = waits && agent.on_disconnect == OnDisconnect::Stop;
        let stop = start.filter(|start| stops && start.started.created).map(|start| {
            (service, start.started.named_by(&principal), start.thread.clone(), start.started.run.id.clone())
        });
        Ok::<_, AgentError>((answer, AguiClient { stop }))
    };
    // A result that no caller receives is dropped, and the requester with it.
    Ok(run_to_completion(work).await??)
}

/// Client that requested a run and receives its events. A drop before the end means that the client has disconnected,
/// which may stop the run.
pub struct AguiClient {
    stop: Option<(Service, Principal, ThreadId, RunId)>,
}

impl AguiClient {
    /// The response has ended, or the server ends it: the drop does not stop the run.
    pub fn done(&mut self) {
        self.stop = None;
    }
}

impl Drop for AguiClient {
    fn drop(&mut self) {
        let Some((service, principal, thread, run)) = self.stop.take() else { return };
        tokio::spawn(async move {
            // No client is left to retry, so the task waits for a store that is unavailable.
            for _ in 0..STOP_TRIES {
                let Err(error) = service.runs.stop(&principal, &thread, &run).await else { return };
                tracing::warn!(%error, %thread, %run, project = %principal.project, "cannot stop a run whose requester disconnected");
                if !matches!(error, StopError::Store(_)) {
                    return;
                }
                time::sleep(WRITE_RETRY).await;
            }
        });
    }
}
