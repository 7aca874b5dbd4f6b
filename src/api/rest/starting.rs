//! Answers to starts of runs, and runs that an agent produces.

use axum::{
    Json as Answer,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use threadline_core::{AgentId, Epoch, Principal, RunId, ThreadId, agent::Busy};
use threadline_engine::{StartedRun, subscription::FollowMethod};
use threadline_http::{negotiation::StreamFormat, problem::Problem, view::StartedView};

use super::{events, queue};
use crate::{
    agents::{AgentRun, AgentStart, ClientInput, RunAnswer},
    api::{
        ApiState,
        run_agent::{ask_agent, with_ignored},
    },
};

/// Request for a run of an agent.
pub(super) struct AgentRequest {
    pub agent: Option<AgentId>,
    pub run: Option<RunId>,
    pub epoch: Option<Epoch>,
    pub input: ClientInput,
    pub busy: Option<Busy>,
}

pub(super) fn answer(started: &StartedRun, principal: &Principal) -> Response {
    let status = if started.created { StatusCode::CREATED } else { StatusCode::OK };
    (status, Answer(StartedView::new(started).seen_by(principal))).into_response()
}

/// Has an agent produce the run.
pub(super) async fn hand_over(
    state: &ApiState,
    principal: &Principal,
    thread: ThreadId,
    request: AgentRequest,
    form: StreamFormat,
) -> Result<Response, Problem> {
    let AgentRequest { agent, run: named, epoch, mut input, busy } = request;
    let Some(agent) = agent else { return Err(Problem::invalid("input requires agentId")) };
    if input.thread_id.take().is_some_and(|named| named != thread) {
        return Err(Problem::invalid("input.threadId names another thread than the path"));
    }
    if named.is_some() && input.run_id.is_some() && named != input.run_id {
        return Err(Problem::invalid("input.runId and runId differ"));
    }
    let named = named.or(input.run_id.take());
    let is_named = named.is_some();
    let id = named.unwrap_or_else(RunId::generate);
    let (agent, _) = state.agents.get(principal, &agent).await?;
    let run = AgentRun { id: Some(id.clone()), epoch, input, makes_thread: false };
    let waits = form == StreamFormat::Sse;
    if waits {
        state.service.events.may_follow(principal)?;
    }
    let place = if waits { Some(state.http.quota.open(principal)?) } else { None };
    let asked = ask_agent(state, principal, &thread, agent, run, busy, waits).await;
    let (asked, mut requester) = asked.map_err(|problem| problem.of_request(is_named))?;
    let AgentStart { started, ignored } = match asked {
        RunAnswer::Started(start) => *start,
        RunAnswer::Queued(placed) => return Ok(queue::waits(&placed)),
    };
    let Some(place) = place else { return Ok(with_ignored(answer(&started, principal), &ignored)) };
    let events = &state.service.events;
    let subscription =
        events.subscribe(principal, &thread, started.cursor, Some(started.epoch), Some(&id), FollowMethod::Sse).await;
    let subscription = subscription.inspect_err(|_| requester.done())?;
    Ok(with_ignored(events::stream(&thread, subscription, requester, place, state, principal), &ignored))
}
