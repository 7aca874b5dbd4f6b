//! The AG-UI API: `POST /agui/{agentId}` with a RunAgentInput; the response is the run's events as AG-UI defines them.
//!
//! An AG-UI client gets durable threads by changing a URL. The events come from the log, as in every API: a client that
//! lost its connection sends the same request (the same `runId`) again, with `Last-Event-ID` to receive only events
//! that it has not seen. Protocol: <https://docs.ag-ui.com/sdk/js/client/http-agent>.

use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{Request, State},
    response::Response,
};
use serde_json::json;
use threadline_core::{ReadFrom, RunId, ThreadId, limits::RUN_END_TIMEOUT, projection::beginning::missing_start};
use threadline_engine::{
    PageRequest, ReadError, StoreError,
    subscription::{Delivery, EndReason, FollowMethod, Subscription},
};
use threadline_http::{
    cursor::EventId,
    extract::{Caller, InAgent},
    observe,
    problem::{Problem, ProblemDocument},
    routes::{Access, Routes},
    sse::{self, EventSource, Farewell},
};
use utoipa_axum::routes;

use super::ApiState;
use crate::{
    agents::{AgentRun, AgentStart, RunAnswer},
    api::{
        run_agent::{AguiClient, RUN_HEADER, ask_agent, busy_of, with_ids, with_ignored},
        waiting_turn::WaitingTurn,
    },
};

/// Adds the routes of this API.
pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    routes.route(Access::CONVERSE, routes!(run))
}

/// Runs an agent and follows the run: AG-UI's RunAgentInput in, AG-UI's events out.
///
/// The thread is created if it does not exist. New messages are stored; if the client sends only new messages, the
/// stored history precedes them. Each event has its epoch and seq as SSE `id`. The run continues if the client
/// disconnects (unless the agent's `onDisconnect` is `stop`); the same `runId` again follows the same run, from
/// `Last-Event-ID` on. A request with `Last-Event-ID` creates no thread, and is rejected if the log of the thread was
/// replaced. While interrupts are open, `resume` must answer all of them. Parts of an untrusted client's input that the
/// agent is not given are named in `Threadline-Ignored`.
#[utoipa::path(post, path = "/agui/{agentId}", tag = "agents",
    params(("agentId" = String, Path),
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event seen: `<epoch>:<seq>`"),
        ("Threadline-Busy" = Option<String>, Header, description = "While another run is active: `reject`, `enqueue` or `interrupt`. The default is the `busy` of the agent. A request that waits gets the events of its run once it has begun")),
    request_body(content((serde_json::Value = "application/json"))), responses(
    (status = 200, description = "The events of the run until it ends", content((String = "text/event-stream"))),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Agent not found; with Last-Event-ID, thread not found", body = ProblemDocument),
    (status = 409, description = "Active run conflict, run ID already in use, or unanswered interrupt",
        body = ProblemDocument),
    (status = 410, description = "Last-Event-ID belongs to a log that was replaced", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 415, description = "Unsupported media type", body = ProblemDocument),
    (status = 416, description = "Last-Event-ID is beyond the end of the log", body = ProblemDocument),
    (status = 422, description = "Invalid messages or state, or conversation too large", body = ProblemDocument),
    (status = 429, description = "Too many active runs", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument)))]
pub async fn run(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(agent): InAgent,
    request: Request,
) -> Result<Response, Problem> {
    let seen = EventId::last_seen(request.headers())?;
    let busy = busy_of(request.headers())?;
    let from_an_agent = request.headers().contains_key(RUN_HEADER);
    let mut input = state.read_run_input(&principal, request).await?;
    let (agent, _) = state.agents.get(&principal, &agent).await?;
    let place = state.http.quota.open(&principal)?;
    // Without both IDs a repetition would begin another run.
    let repeatable = input.thread_id.is_some() && input.run_id.is_some();
    let thread = input.thread_id.take().unwrap_or_else(ThreadId::generate);
    let id = input.run_id.take().unwrap_or_else(RunId::generate);
    if let Some(seen) = seen {
        // A run of a log that was replaced must not be repeated. The page is judged as the cursor will be.
        let from = ReadFrom::After(seen.seq);
        let request = PageRequest { from, limit: 1, epoch: Some(seen.epoch), run: None, wait: None };
        match state.service.events.page(&principal, &thread, request).await {
            // Only a run that exists already can be continued from a cursor beyond the tail, and is refused then.
            Ok(_) | Err(ReadError::CursorAhead { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let makes_thread = seen.is_none();
    let run = AgentRun { id: Some(id.clone()), input, makes_thread, ..AgentRun::default() };
    let asked = ask_agent(&state, &principal, &thread, agent, run, busy, true).await;
    let (asked, mut requester) = asked.map_err(|problem| problem.of_request(repeatable))?;
    let AgentStart { started, ignored, .. } = match asked {
        RunAnswer::Started(start) => *start,
        RunAnswer::Queued(_) => {
            let (service, counted) = (state.service.clone(), observe::DeliveryMetrics::new(&state.http));
            let via = FollowMethod::AgUi;
            let turn = WaitingTurn::watch(service, principal.clone(), thread.clone(), id.clone(), via).await?;
            let epoch = turn.changes.epoch();
            let followed = Followed::Waiting(Box::new((turn, Some((counted, requester)))));
            let response = sse::response(followed, None, place, &state.http, &principal);
            return Ok(with_ids(response, &thread, &id, epoch));
        }
    };
    if from_an_agent && !started.created {
        return Err(Problem::invalid("the agent's URL leads back to the run that sent this request"));
    }
    // A run that has just started has no events that were seen before. A cursor before the run is not judged again: the
    // events between may belong to another epoch than the cursor.
    let seen = seen.filter(|seen| !started.created && seen.seq >= started.cursor);
    let (after, epoch) = seen.map_or((started.cursor, started.epoch), |seen| (seen.seq, seen.epoch));
    let events = &state.service.events;
    let subscription = events.subscribe(&principal, &thread, after, Some(epoch), Some(&id), FollowMethod::AgUi).await;
    let subscription = subscription.inspect_err(|_| requester.done())?;
    let starts = (after == started.cursor).then(|| (thread.clone(), id.clone()));
    let run = Run { subscription, counted: observe::DeliveryMetrics::new(&state.http), requester, starts };
    let response = sse::response(Followed::Run(Box::new(run)), None, place, &state.http, &principal);
    Ok(with_ignored(with_ids(response, &thread, &id, started.epoch), &ignored))
}

/// Event that ends the stream of a turn that does not become a run. The event is not from the log, so it has no seq.
fn cancelled() -> Bytes {
    let event = json!({ "type": "RUN_ERROR", "message": "The queued turn was cancelled.", "code": "turn-cancelled" });
    format!("data: {event}\n\n").into()
}

/// Event that ends the stream of a run whose log was deleted. The event is not from the log, so it has no seq.
fn deleted() -> Bytes {
    let event = json!({ "type": "RUN_ERROR", "message": "The thread was deleted.", "code": "thread-deleted" });
    format!("data: {event}\n\n").into()
}

/// Event that ends the stream of a run of which the client has seen events that the store has lost.
fn lost() -> Bytes {
    let event =
        json!({ "type": "RUN_ERROR", "message": "The store has lost events of the run.", "code": "history-lost" });
    format!("data: {event}\n\n").into()
}

/// Event that ends the stream of a run whose next events are damaged. No retry reads them.
fn damaged() -> Bytes {
    let event =
        json!({ "type": "RUN_ERROR", "message": "Events of the run are damaged in the store.", "code": "log-damaged" });
    format!("data: {event}\n\n").into()
}

/// Stream of a client: a run, or a turn that waits to become one.
enum Followed {
    Run(Box<Run>),
    /// With what follows the run once it has begun.
    Waiting(Box<(WaitingTurn, Option<(observe::DeliveryMetrics, AguiClient)>)>),
    /// The turn was cancelled.
    Gone,
}

impl EventSource for Followed {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        loop {
            match self {
                Self::Run(run) => return run.next().await,
                Self::Gone => return Ok(None),
                Self::Waiting(waiting) => match (waiting.0.begun().await?, waiting.1.take()) {
                    (Some(subscription), Some((counted, requester))) => {
                        // The server begins the run, with RUN_STARTED.
                        *self = Self::Run(Box::new(Run { subscription, counted, requester, starts: None }));
                    }
                    _ => {
                        *self = Self::Gone;
                        return Ok(Some(cancelled()));
                    }
                },
            }
        }
    }

    fn tail(&self) -> u64 {
        match self {
            Self::Run(run) => run.subscription.tail(),
            Self::Waiting(waiting) => waiting.0.changes.tail(),
            Self::Gone => 0,
        }
    }

    fn failed(&mut self, _: StoreError) -> Option<Bytes> {
        self.done();
        None
    }

    /// The server ends the runs of its agents when it shuts down, and clients must receive how their runs ended.
    fn grace(&self) -> Duration {
        match self {
            Self::Run(_) => RUN_END_TIMEOUT,
            Self::Waiting(..) | Self::Gone => Duration::ZERO,
        }
    }

    fn goodbye(&mut self, _: Farewell) -> Option<Bytes> {
        self.done();
        None
    }
}

impl Followed {
    fn done(&mut self) {
        if let Self::Run(run) = self {
            run.requester.done();
        }
    }
}

/// Events of one run, and nothing else: AG-UI clients take every `data:` as an event, and a clean end of the stream as
/// a run that succeeded. So the stream of a run that has not ended is cut off.
struct Run {
    subscription: Subscription,
    counted: observe::DeliveryMetrics,
    requester: AguiClient,
    /// The run, until its first event is sent.
    starts: Option<(ThreadId, RunId)>,
}

impl Run {
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
                        // The event is not from the log, so it has no seq.
                        if let Some(start) =
                            self.starts.take().and_then(|(thread, run)| missing_start(&thread, &run, event))
                        {
                            out.extend_from_slice(format!("data: {start}\n\n").as_bytes());
                        }
                        out.extend_from_slice(format!("id: {epoch}:{seq}\ndata: ").as_bytes());
                        out.extend_from_slice(event);
                        out.extend_from_slice(b"\n\n");
                    }
                    return Ok(Some(out.into()));
                }
                Some(
                    Delivery::CaughtUp(_) | Delivery::FellBehind(_) | Delivery::Rebased { .. } | Delivery::Queue(_),
                ) => {}
                Some(Delivery::Ended(EndReason::ThreadDeleted)) => {
                    self.requester.done();
                    return Ok(Some(deleted()));
                }
                Some(Delivery::Ended(EndReason::LogReplaced(_))) => {
                    self.requester.done();
                    return Ok(Some(lost()));
                }
                Some(Delivery::Ended(EndReason::LogDamaged { .. })) => {
                    self.requester.done();
                    return Ok(Some(damaged()));
                }
                Some(Delivery::Ended(EndReason::RunEnded)) | None => {
                    self.requester.done();
                    return Ok(None);
                }
            }
        }
    }
}
