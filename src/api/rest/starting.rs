//! Answers to starts of runs, and runs that an agent produces.

use axum::{
    Json as Answer,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use threadline_core::{
    AgentId, AttemptId, Epoch, NewEvents, Principal, RunId, ThreadId, ToolClaim, agent::Busy, json::AtMost,
    limits::MAX_NAMED_CLAIMS,
};
use threadline_engine::{AttemptedRun, OnExisting, Opening, ServiceError, StartedRun, subscription::FollowMethod};
use threadline_http::{negotiation::StreamFormat, problem::Problem, view::StartedView};
use utoipa::ToSchema;

use super::{events, forks::ForkStartBody, queue, tool_claims::NamedClaim};
use crate::{
    agents::{AgentRun, AgentStart, ClientInput, ForkStart, RunAnswer},
    api::{
        ApiState,
        run_agent::{ask_agent, with_ignored},
    },
};

/// A request to start a run.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StartBody {
    /// Generated (UUIDv7) if absent.
    #[schema(value_type = Option<String>)]
    pub(super) run_id: Option<RunId>,
    /// The agent of the run. With `input`, this agent produces it.
    #[schema(value_type = Option<String>)]
    pub(super) agent_id: Option<AgentId>,
    /// The lease in seconds, 1 to 3600. Default 20. Not with `input`: the server keeps the runs that it drives.
    pub(super) lease_seconds: Option<u64>,
    /// AG-UI's RunAgentInput, complete or with only the new `messages`: Threadline then calls the agent.
    #[schema(value_type = Option<Object>, example = json!({ "messages": [{ "role": "user", "content": "Hello" }] }))]
    #[serde(deserialize_with = "present")]
    pub(super) input: Option<ClientInput>,
    /// The fate of the request while another run is active: `reject` refuses it, `enqueue` queues it behind all others,
    /// `interrupt` queues it before all others and stops the active run. The default is the `busy` of the agent. Only with
    /// `input`.
    #[schema(value_type = Option<String>, example = "enqueue")]
    pub(super) busy: Option<Busy>,
    /// A fork of the thread, in which the run begins. Only with `input`, which may be empty.
    pub(super) fork: Option<ForkStartBody>,
    /// An ID of this attempt at the run, 1 to 64 bytes: a new one for each process that produces the run. A repeated request has
    /// the same. Not with `input`.
    #[schema(value_type = Option<String>)]
    pub(super) attempt_id: Option<AttemptId>,
    /// The first events of the run, stored in the commit that starts it, with the producerSeq from 1. They are not looked at if the
    /// run exists. Not with `input`.
    #[schema(value_type = Option<Vec<Object>>)]
    pub(super) events: Option<Box<RawValue>>,
    /// The fate of a run that exists and is active under another `attemptId`: `return` leaves it as it is, `continue` takes it up and
    /// keeps what is complete, `restart` takes it up and supersedes all that followed its first events. Default `return`. Not with
    /// `input`.
    #[schema(value_type = Option<String>, example = "restart")]
    pub(super) on_existing: Option<OnExisting>,
    /// True if `restart` may repeat tool calls, and what an answer to an interrupt has approved. Not with `input`.
    pub(super) tools_repeatable: Option<bool>,
    /// Claims of tool calls whose results `input` has, at most 100: the run begins only if each is still held. Only with `input`, and not
    /// with `fork` or a `busy` that queues.
    #[serde(deserialize_with = "few")]
    pub(super) claims: Vec<NamedClaim>,
}

const _: () = assert!(MAX_NAMED_CLAIMS == 100, "the API description says so");

/// Rejects null, which would start a run without a producer.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<ClientInput>, D::Error> {
    ClientInput::deserialize(deserializer).map(Some)
}

/// Claims, as many as a start may name.
fn few<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<NamedClaim>, D::Error> {
    AtMost::<_, MAX_NAMED_CLAIMS>::deserialize(deserializer).map(|claims| claims.0)
}

/// Request for a run of an agent.
pub(super) struct AgentRequest {
    pub agent: Option<AgentId>,
    pub run: Option<RunId>,
    pub epoch: Option<Epoch>,
    pub input: ClientInput,
    pub busy: Option<Busy>,
    pub fork: Option<ForkStart>,
    pub claims: Vec<ToolClaim>,
}

pub(super) fn answer(thread: &ThreadId, started: &StartedRun, principal: &Principal) -> Response {
    let status = if started.created { StatusCode::CREATED } else { StatusCode::OK };
    (status, Answer(StartedView::new(thread, started).seen_by(principal))).into_response()
}

/// Answer to the start of a run by its producer.
pub(super) fn answer_attempt(thread: &ThreadId, attempted: &AttemptedRun, principal: &Principal) -> Response {
    let status = if attempted.started.created { StatusCode::CREATED } else { StatusCode::OK };
    (status, Answer(StartedView::of_attempt(thread, attempted).seen_by(principal))).into_response()
}

impl StartBody {
    /// Refuses members that only a run of a producer has.
    pub(super) fn refuse_attempt(&self) -> Result<(), Problem> {
        let members = [
            ("attemptId", self.attempt_id.is_some()),
            ("events", self.events.is_some()),
            ("onExisting", self.on_existing.is_some()),
            ("toolsRepeatable", self.tools_repeatable.is_some()),
        ];
        match members.iter().find(|(_, there)| *there) {
            Some((name, _)) => {
                Err(Problem::invalid(format!("{name} is not available with input: an agent produces the run")))
            }
            None => Ok(()),
        }
    }

    /// First events of a run of a producer.
    pub(super) fn opening(&self) -> Result<Opening, Problem> {
        let Some(events) = &self.events else { return Ok(Opening::Open) };
        Ok(Opening::Begun(NewEvents::from_raw_array(events).map_err(ServiceError::from)?))
    }
}

/// Has an agent produce the run.
pub(super) async fn hand_over(
    state: &ApiState,
    principal: &Principal,
    thread: ThreadId,
    request: AgentRequest,
    form: StreamFormat,
) -> Result<Response, Problem> {
    let AgentRequest { agent, run: named, epoch, mut input, busy, fork, claims } = request;
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
    let run = AgentRun { id: Some(id.clone()), epoch, input, fork, claims, ..AgentRun::default() };
    let waits = form == StreamFormat::Sse;
    if waits {
        state.service.events.may_follow(principal)?;
    }
    let place = if waits { Some(state.http.quota.open(principal)?) } else { None };
    let asked = ask_agent(state, principal, &thread, agent, run, busy, waits).await;
    let (asked, mut requester) = asked.map_err(|problem| problem.of_request(is_named))?;
    let AgentStart { thread, started, ignored } = match asked {
        RunAnswer::Started(start) => *start,
        RunAnswer::Queued(placed) => return Ok(queue::waits(&placed)),
    };
    let Some(place) = place else { return Ok(with_ignored(answer(&thread, &started, principal), &ignored)) };
    let events = &state.service.events;
    let subscription =
        events.subscribe(principal, &thread, started.cursor, Some(started.epoch), Some(&id), FollowMethod::Sse).await;
    let subscription = subscription.inspect_err(|_| requester.done())?;
    Ok(with_ignored(events::stream(&thread, subscription, requester, place, state, principal), &ignored))
}
