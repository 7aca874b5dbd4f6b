//! Runs of agents that a client requested, through any API.

use threadline_core::{
    Principal, RunId, ThreadId,
    agent::{Agent, OnDisconnect},
    limits::WRITE_RETRY,
};
use threadline_engine::{Service, StartedRun, StopError};
use threadline_http::{problem::Problem, run_to_completion};
use tokio::time;

use crate::{
    agents::{AgentError, AgentRun},
    api::ApiState,
};

/// Number of attempts to stop a run on behalf of a client that has disconnected.
const STOP_TRIES: usize = 20;

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
) -> Result<(StartedRun, AguiClient), Problem> {
    let (agents, service) = (state.agents.clone(), state.service.clone());
    let (principal, thread) = (principal.clone(), thread.clone());
    let work = async move {
        let started = agents.run(&principal, &thread, &agent, run).await?;
        let stops = waits && started.created && agent.on_disconnect == OnDisconnect::Stop;
        let stop = stops.then(|| (service, principal, thread, started.run.id.clone()));
        Ok::<_, AgentError>((started, AguiClient { stop }))
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
