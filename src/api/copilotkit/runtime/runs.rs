//! Runs: have an agent do one, come back to a thread, stop.

use std::collections::HashSet;

use axum::{
    Json as Answer,
    extract::{Request, State},
    response::Response,
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::{
    opening::opening,
    stream::{Run, Telling},
    suggest,
};
use crate::{
    agents::{AgentRun, ClientInput},
    api::{
        ApiState, agui,
        extract::{Caller, InAgent, InAgentThread, Json},
        problem::{Problem, ProblemDocument},
        sse,
    },
    domain::{AgentId, Principal, RunId, RunStatus, ThreadId, json as text},
    service::ServiceError,
    subscription::Via,
};

/// An answer to an interrupt may fail, and be given again, this often.
const CONTINUATIONS: usize = 16;

/// Has an agent do a run, and follows it.
///
/// The thread is made if there is none. The run goes on if the client leaves (unless the agent's `onDisconnect` is `stop`).
/// While another run is active in the thread the answer is 409. Suggestions are made without a thread.
#[utoipa::path(post, path = "/copilotkit/agent/{agentId}/run", tag = "copilotkit", params(("agentId" = String, Path)),
    request_body(content((serde_json::Value = "application/json"))), responses(
    (status = 200, description = "The run's events, until it has ended", content((String = "text/event-stream"))),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 404, description = "No such agent", body = ProblemDocument),
    (status = 409, description = "Another run is active in the thread, or its id is taken", body = ProblemDocument),
    (status = 413, description = "Too large", body = ProblemDocument),
    (status = 415, description = "No such content type", body = ProblemDocument),
    (status = 422, description = "The messages or the state cannot be stored, or the conversation is too large", body = ProblemDocument),
    (status = 429, description = "Too many runs at once", body = ProblemDocument)))]
pub async fn run(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(agent): InAgent,
    request: Request,
) -> Result<Response, Problem> {
    let input = super::read(&state, &principal, request).await?;
    start(&state, &principal, &agent, input).await
}

/// The same, whichever way it was asked for.
pub async fn start(
    state: &ApiState,
    principal: &Principal,
    agent: &AgentId,
    mut input: ClientInput,
) -> Result<Response, Problem> {
    let (agent, _) = state.agents.get(principal, agent).await?;
    if suggest::is_one(&input) {
        return suggest::answer(state, principal, &agent, input).await;
    }
    let place = state.quota.open(principal)?;
    let thread = input.thread_id.take().unwrap_or_else(ThreadId::generate);
    let id = match input.run_id.take() {
        Some(id) => continued(state, principal, &thread, id, &input).await?,
        None => RunId::generate(),
    };
    let run = AgentRun { id: Some(id.clone()), lease: None, input, makes_thread: true };
    let (started, mut requester) = agui::hand_over(state, principal, &thread, agent, run, true).await?;
    let events = &state.service.events;
    let subscription =
        events.subscribe(principal, &thread, started.cursor, Some(started.epoch), Some(&id), Via::Copilotkit).await;
    let subscription = subscription.inspect_err(|_| requester.done())?;
    let rest = Some((subscription, Telling::new(thread, id, false)));
    let followed = Run::new(state, None, rest, Some(requester));
    Ok(sse::response(followed, None, place, state, principal))
}

/// The run that is meant. A client that answers an interrupt, or has carried out a tool, gives its run the id of the one
/// that asked for it, which has ended. That goes on in a run of its own, whose id begins with it. What is sent again without
/// anything new is the run itself: it was done before.
async fn continued(
    state: &ApiState,
    principal: &Principal,
    thread: &ThreadId,
    id: RunId,
    input: &ClientInput,
) -> Result<RunId, Problem> {
    let ended = async |id: &RunId| match state.service.runs.get(principal, thread, id).await {
        Ok(run) => Ok(Some(run.status).filter(|status| !status.is_active())),
        Err(ServiceError::ThreadNotFound | ServiceError::RunNotFound) => Ok(None),
        Err(error) => Err(Problem::from(error)),
    };
    if ended(&id).await?.is_none() {
        return Ok(id);
    }
    let said = match answer(input) {
        Some(answer) => answer,
        None => {
            let conversation = state.service.projections.at(principal, thread, None, None).await?.conversation;
            let ids = input.messages.iter().filter_map(|message| text::string_member(message.get(), "id"));
            match ids.filter(|id| !conversation.contains(id)).reduce(|all, id| all + "\n" + &id) {
                Some(news) => news,
                None => return Ok(id),
            }
        }
    };
    for attempt in 0..CONTINUATIONS {
        let next = continuation(&id, &said, attempt);
        // One that failed left its question open.
        if ended(&next).await? != Some(RunStatus::Error) {
            return Ok(next);
        }
    }
    Ok(RunId::generate())
}

/// What an input answers: interrupts, as AG-UI has them, or one of LangGraph's.
fn answer(input: &ClientInput) -> Option<String> {
    let resume = input.resume.as_ref().map(|resume| resume.get()).filter(|resume| !is_empty(resume));
    let command = || text::member(text::member(input.forwarded_props.as_ref()?.get(), "command")?, "resume");
    resume.or_else(command).map(str::to_owned)
}

fn is_empty(list: &str) -> bool {
    list.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|rest| rest.trim().is_empty())
}

/// Stands between the id of a run and what makes that of its continuation.
const MARK: char = '~';

/// The same for the same answer, so that one that is sent again is not carried out twice.
fn continuation(id: &RunId, said: &str, attempt: usize) -> RunId {
    let digest = Sha256::new().chain_update(said).chain_update([0]).chain_update(attempt.to_le_bytes()).finalize();
    let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    // What does not fit into an id has one of its own.
    RunId::new(format!("{id}{MARK}{digest}")).unwrap_or_else(|_| RunId::generate())
}

/// Whether an active run is the one that a client means by this id.
fn is_meant(active: &RunId, named: &RunId) -> bool {
    active == named || active.as_str().strip_prefix(named.as_str()).is_some_and(|rest| rest.starts_with(MARK))
}

/// What a client that comes back sends: RunAgentInput, of which the thread and the messages count.
///
/// The answer is what the thread holds, and then the events of its active run until that has ended. Of a thread that there
/// is not, nothing.
#[utoipa::path(post, path = "/copilotkit/agent/{agentId}/connect", tag = "copilotkit",
    params(("agentId" = String, Path)), request_body(content((serde_json::Value = "application/json"))), responses(
    (status = 200, description = "The thread so far, and the active run's events", content((String = "text/event-stream"))),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 404, description = "No such agent", body = ProblemDocument),
    (status = 413, description = "Too large", body = ProblemDocument),
    (status = 415, description = "No such content type", body = ProblemDocument),
    (status = 422, description = "The conversation is too large", body = ProblemDocument)))]
pub async fn connect(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(agent): InAgent,
    request: Request,
) -> Result<Response, Problem> {
    let input = super::read(&state, &principal, request).await?;
    come_back(&state, &principal, &agent, &input).await
}

/// The same, whichever way it was asked for.
pub async fn come_back(
    state: &ApiState,
    principal: &Principal,
    agent: &AgentId,
    input: &ClientInput,
) -> Result<Response, Problem> {
    state.agents.get(principal, agent).await?;
    let Some(thread) = &input.thread_id else { return Err(Problem::invalid("threadId: which thread?")) };
    let place = state.quota.open(principal)?;
    let known = reasoning(&input.messages);
    let mut answer = state.answers.to(principal);
    let (first, rest) = loop {
        let Some(opening) = opening(state, principal, thread, &known).await? else { break (None, None) };
        match answer.bytes(opening.told).await? {
            std::ops::ControlFlow::Break(told) => break (Some(told).filter(|told| !told.is_empty()), opening.rest),
            std::ops::ControlFlow::Continue(again) => answer = again,
        }
    };
    let followed = Run::new(state, first, rest, None);
    Ok(sse::response(followed, None, place, state, principal))
}

/// Ids of the reasoning among messages.
fn reasoning(messages: &[Box<RawValue>]) -> HashSet<String> {
    let reasoning = messages
        .iter()
        .map(|message| message.get())
        .filter(|message| text::member(message, "role") == Some("\"reasoning\""));
    reasoning.filter_map(|message| text::string_member(message, "id")).collect()
}

/// Which run is to be stopped.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StopBody {
    /// Only this one; the active one, whichever it is, if absent.
    #[schema(value_type = Option<String>)]
    run_id: Option<RunId>,
}

/// Asks the active run of a thread to stop, from whichever page and on whichever node. Its own stream tells how it ends.
#[utoipa::path(post, path = "/copilotkit/agent/{agentId}/stop/{threadId}", tag = "copilotkit",
    params(("agentId" = String, Path), ("threadId" = String, Path)), request_body = StopBody, responses(
    (status = 200, description = "Asked; or there was nothing to stop, as `stopped` says", body = serde_json::Value),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 404, description = "No such thread", body = ProblemDocument),
    (status = 413, description = "Too large", body = ProblemDocument)))]
pub async fn stop(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgentThread(_agent, thread): InAgentThread,
    Json(body): Json<StopBody>,
) -> Result<Answer<Value>, Problem> {
    end(&state, &principal, &thread, body).await.map(Answer)
}

/// The same, whichever way it was asked for.
pub async fn end(state: &ApiState, principal: &Principal, thread: &ThreadId, body: StopBody) -> Result<Value, Problem> {
    let active = state.service.threads.get(principal, thread).await?.active_run.map(|run| run.id);
    let meant = active.filter(|active| body.run_id.as_ref().is_none_or(|named| is_meant(active, named)));
    let Some(run) = meant else {
        return Ok(json!({ "stopped": false, "message": format!("There is no such run in thread {thread} to stop.") }));
    };
    let run = state.service.runs.stop(principal, thread, &run).await?;
    if !run.status.is_active() {
        return Ok(json!({ "stopped": false, "message": format!("Run {} has just ended.", run.id) }));
    }
    let interrupt = json!({ "type": "RUN_ERROR", "message": "Run stopped by user", "code": "STOPPED" });
    Ok(json!({ "stopped": true, "interrupt": interrupt }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> RunId {
        RunId::new(text).expect("an id")
    }

    #[test]
    fn a_continuation_is_named_after_what_it_goes_on_from() {
        let first = continuation(&id("r"), "yes", 0);
        assert_eq!(first, continuation(&id("r"), "yes", 0));
        assert_ne!(first, continuation(&id("r"), "no", 0));
        assert_ne!(first, continuation(&id("r"), "yes", 1));
        assert!(is_meant(&first, &id("r")) && is_meant(&first, &first) && is_meant(&id("r"), &id("r")));
        assert!(!is_meant(&id("rx"), &id("r")) && !is_meant(&id("r"), &first));
        let long = id(&"r".repeat(250));
        assert_ne!(continuation(&long, "yes", 0), long);
    }

    #[test]
    fn answers_are_known_in_both_forms() {
        let input = |input: Value| serde_json::from_value::<ClientInput>(input).expect("an input");
        assert_eq!(
            answer(&input(json!({ "resume": [{ "interruptId": "i" }] }))).as_deref(),
            Some("[{\"interruptId\":\"i\"}]")
        );
        assert_eq!(
            answer(&input(json!({ "forwardedProps": { "command": { "resume": "yes" } } }))).as_deref(),
            Some("\"yes\"")
        );
        for nothing in [json!({}), json!({ "resume": [ ] }), json!({ "forwardedProps": { "command": {} } })] {
            assert_eq!(answer(&input(nothing)), None);
        }
    }
}
