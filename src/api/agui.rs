//! The AG-UI door: `POST /agui/{agentId}` with a RunAgentInput, answered by the run's events as AG-UI has them.
//!
//! Any AG-UI client gets threads that last by changing a URL. The events come from the log, like everywhere: a client
//! that lost its connection sends the same request (the same `runId`) again, with `Last-Event-ID` if it wants only what
//! it has not seen. Protocol: <https://docs.ag-ui.com/sdk/js/client/http-agent>.

use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{Request, State},
    http::HeaderValue,
    response::Response,
};
use serde_json::json;
use tokio::time;
use utoipa_axum::routes;

use super::{
    ApiState,
    doors::{Access, Doors},
    extract::{Caller, InAgent, parse_json},
    native::{envelope, events::EventId, runs::Content},
    observe,
    problem::{Problem, ProblemDocument, ProblemType},
    sse::{self, Farewell, Followed},
};
use crate::{
    agents::{AgentError, AgentRun, ClientInput},
    domain::{
        Principal, RunId, ThreadId,
        agent::{Agent, OnDisconnect},
        limits::{AGENT_RETRY, RUN_END_TIMEOUT},
    },
    service::{Service, ServiceError, StartedRun},
    store::StoreError,
    subscription::{Delivery, EndReason, Subscription, Via},
};

/// The thread of the run, which the server may have made up.
pub const THREAD_HEADER: &str = "threadline-thread-id";
/// The run, which the server may have made up.
pub const RUN_HEADER: &str = crate::agents::agui::RUN_HEADER;

/// A stop on behalf of a client that has left is tried this often.
const STOP_TRIES: usize = 20;

/// Adds the routes of this door.
pub fn register(doors: Doors) -> Doors {
    doors.route(Access::WRITE, routes!(run))
}

/// Has an agent do a run and follows it: AG-UI's RunAgentInput in, AG-UI's events out.
///
/// The thread is made if there is none. New messages are stored; a client that sends only what is new gets the history
/// put before it. Each event has its epoch and seq as SSE `id`. The run goes on if the client leaves (unless
/// the agent's `onDisconnect` is `stop`); the same `runId` again follows the same run, from `Last-Event-ID` on. A request with
/// `Last-Event-ID` makes no thread, and is refused if the thread has another log by now. While
/// interrupts are open, `resume` must answer all of them.
#[utoipa::path(post, path = "/agui/{agentId}", tag = "agents",
    params(("agentId" = String, Path),
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event seen: `<epoch>:<seq>`")),
    request_body(content((serde_json::Value = "application/json"))), responses(
    (status = 200, description = "The run's events, until it has ended", content((String = "text/event-stream"))),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 404, description = "No such agent; or, with Last-Event-ID, no such thread", body = ProblemDocument),
    (status = 409, description = "Another run is active in the thread, its id is taken, or interrupts wait for an answer",
        body = ProblemDocument),
    (status = 410, description = "Last-Event-ID belongs to another log", body = ProblemDocument),
    (status = 413, description = "Too large", body = ProblemDocument),
    (status = 415, description = "No such content type", body = ProblemDocument),
    (status = 416, description = "Last-Event-ID is beyond the end", body = ProblemDocument),
    (status = 422, description = "The messages or the state cannot be stored, or the conversation is too large", body = ProblemDocument),
    (status = 429, description = "Too many runs at once", body = ProblemDocument)))]
pub async fn run(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(agent): InAgent,
    request: Request,
) -> Result<Response, Problem> {
    let seen = EventId::last_seen(request.headers())?;
    let from_an_agent = request.headers().contains_key(RUN_HEADER);
    if Content::of(request.headers())? != Content::Json {
        return Err(Problem::new(ProblemType::UnsupportedMediaType, "send a RunAgentInput as application/json"));
    }
    let bytes = state.bodies.read_appended(request, &principal).await?;
    let mut input: ClientInput = parse_json(&bytes)?;
    drop(bytes);
    let (agent, _) = state.agents.get(&principal, &agent).await?;
    let place = state.quota.open(&principal)?;
    let thread = input.thread_id.take().unwrap_or_else(ThreadId::generate);
    let id = input.run_id.take().unwrap_or_else(RunId::generate);
    if let Some(seen) = seen {
        // The run of a log that was replaced is not to be done once more.
        let known = state.service.threads.get(&principal, &thread).await?;
        if known.epoch != seen.epoch {
            return Err(ServiceError::LogReplaced { epoch: known.epoch, tail: known.tail }.into());
        }
    }
    let run = AgentRun { id: Some(id.clone()), lease: None, input, makes_thread: seen.is_none() };
    let (started, mut requester) = hand_over(&state, &principal, &thread, agent, run, true).await?;
    if from_an_agent && !started.created {
        return Err(Problem::invalid("this run is what asks: its agent's address leads back to the run itself"));
    }
    // Nothing of a run that has just begun was seen before.
    let after = seen.filter(|_| !started.created).map_or(started.cursor, |seen| seen.seq.max(started.cursor));
    let epoch = seen.map_or(started.epoch, |seen| seen.epoch);
    let events = &state.service.events;
    let subscription = events.subscribe(&principal, &thread, after, Some(epoch), Some(&id), Via::AgUi).await;
    let subscription = subscription.inspect_err(|_| requester.done())?;
    let followed = Run { subscription, counted: observe::Followed::new(&state), requester };
    let mut response = sse::response(followed, None, place, &state, &principal);
    for (name, value) in [
        (THREAD_HEADER, thread.to_string()),
        (RUN_HEADER, id.to_string()),
        (envelope::EPOCH_HEADER, started.epoch.to_string()),
    ] {
        // Header values are bytes; an id has no control characters.
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}

/// Has an agent do a run. If whoever asked for it `waits` for its events, they have come with the answer; a client that
/// leaves before leaves neither half a start behind nor a run that was to be stopped.
pub async fn hand_over(
    state: &ApiState,
    principal: &Principal,
    thread: &ThreadId,
    agent: Agent,
    run: AgentRun,
    waits: bool,
) -> Result<(StartedRun, Requester), Problem> {
    let (agents, service) = (state.agents.clone(), state.service.clone());
    let (principal, thread) = (principal.clone(), thread.clone());
    let work = async move {
        let started = agents.run(&principal, &thread, &agent, run).await?;
        let stops = waits && started.created && agent.on_disconnect == OnDisconnect::Stop;
        let stop = stops.then(|| (service, principal, thread, started.run.id.clone()));
        Ok::<_, AgentError>((started, Requester { stop }))
    };
    // What nobody takes any more is dropped, the requester with it.
    Ok(super::detached(work).await??)
}

/// Whoever asked for a run and waits for its events. Dropped before the end, it has left: that may stop the run.
pub struct Requester {
    stop: Option<(Service, Principal, ThreadId, RunId)>,
}

impl Requester {
    /// The answer has come to its end, or it is the server that goes.
    pub fn done(&mut self) {
        self.stop = None;
    }
}

impl Drop for Requester {
    fn drop(&mut self) {
        let Some((service, principal, thread, run)) = self.stop.take() else { return };
        tokio::spawn(async move {
            // Nobody is left to ask again, so a store that is away is waited for.
            for _ in 0..STOP_TRIES {
                let Err(error) = service.runs.stop(&principal, &thread, &run).await else { return };
                tracing::warn!(%error, %thread, %run, project = %principal.project, "a run whose requester left could not be stopped");
                if !matches!(error, ServiceError::Store(_)) {
                    return;
                }
                time::sleep(AGENT_RETRY).await;
            }
        });
    }
}

/// The end of a run whose log is gone, its end with it. Not from the log: it has no seq.
fn deleted() -> Bytes {
    let event = json!({ "type": "RUN_ERROR", "message": "The thread was deleted.", "code": "thread-deleted" });
    format!("data: {event}\n\n").into()
}

/// The events of one run, and nothing else: AG-UI clients take every `data:` for an event, and a stream that ends
/// cleanly for a run that succeeded. So a run that has not ended is cut off.
struct Run {
    subscription: Subscription,
    counted: observe::Followed,
    requester: Requester,
}

impl Followed for Run {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        loop {
            let delivery = self.subscription.next().await?;
            if let Some(delivery) = &delivery {
                self.counted.delivers(delivery);
            }
            match delivery {
                Some(Delivery::Events(slice)) => {
                    let epoch = self.subscription.epoch();
                    let mut out = Vec::with_capacity(slice.bytes() + slice.count() as usize * 44);
                    for (seq, event, _) in slice.events() {
                        out.extend_from_slice(format!("id: {epoch}:{seq}\ndata: ").as_bytes());
                        out.extend_from_slice(event);
                        out.extend_from_slice(b"\n\n");
                    }
                    return Ok(Some(out.into()));
                }
                Some(Delivery::CaughtUp(_) | Delivery::FellBehind(_)) => {}
                Some(Delivery::Ended(EndReason::ThreadDeleted)) => {
                    self.requester.done();
                    return Ok(Some(deleted()));
                }
                Some(Delivery::Ended(EndReason::RunEnded)) | None => {
                    self.requester.done();
                    return Ok(None);
                }
            }
        }
    }

    fn tail(&self) -> u64 {
        self.subscription.tail()
    }

    fn failed(&mut self, _: StoreError) -> Option<Bytes> {
        self.requester.done();
        None
    }

    /// The server ends the runs of its agents when it shuts down, and clients are to be told how theirs ended.
    fn grace(&self) -> Duration {
        RUN_END_TIMEOUT
    }

    fn goodbye(&mut self, _: Farewell) -> Option<Bytes> {
        self.requester.done();
        None
    }
}
