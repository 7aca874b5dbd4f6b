//! Runs: start an agent, reconnect to a thread, stop a run.

use std::collections::HashSet;

use axum::{
    Json as Answer,
    extract::{Request, State},
    response::Response,
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use sha2::{Digest, Sha256};
use threadline_core::{Principal, RunId, RunStatus, ThreadId, agent::Agent, hex, json as text};
use threadline_engine::{RunLookupError, subscription::FollowMethod};
use threadline_http::{
    extract::{Caller, InAgent, InAgentThread, Json},
    problem::{Problem, ProblemDocument},
    sse,
};
use utoipa::ToSchema;

use super::{
    opening::opening,
    stream::{Run, Telling},
    suggest,
};
use crate::{
    agents::{AgentRun, AgentStart, ClientInput},
    api::{
        ApiState,
        run_agent::{run_agent, with_ignored},
    },
};

/// Most failed runs for the same answer to an interrupt before the next run has a generated id.
const CONTINUATIONS: usize = 16;

/// Runs an agent, and follows the run.
///
/// The thread is created if it does not exist. The run continues if the client disconnects (unless the agent's
/// `onDisconnect` is `stop`). While another run is active in the thread the response is 409. Suggestions create no
/// thread.
#[utoipa::path(post, path = "/copilotkit/agent/{agentId}/run", tag = "copilotkit", params(("agentId" = String, Path)),
    request_body(content((serde_json::Value = "application/json"))), responses(
    (status = 200, description = "The events of the run until it ends", content((String = "text/event-stream"))),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Agent not found", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument),
    (status = 409, description = "Active run conflict, or run ID already in use", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 415, description = "Unsupported media type", body = ProblemDocument),
    (status = 422, description = "Invalid messages or state, or conversation too large", body = ProblemDocument),
    (status = 429, description = "Too many active runs", body = ProblemDocument)))]
pub async fn run(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(agent): InAgent,
    request: Request,
) -> Result<Response, Problem> {
    let mut input = state.read_run_input(&principal, request).await?;
    let (state, principal) = (&state, &principal);
    let (agent, _) = state.agents.get(principal, &agent).await?;
    if suggest::is_one(&input) {
        return suggest::answer(state, principal, &agent, input).await;
    }
    let place = state.http.quota.open(principal)?;
    // Without both IDs a repetition would begin another run.
    let repeatable = input.thread_id.is_some() && input.run_id.is_some();
    let thread = input.thread_id.take().unwrap_or_else(ThreadId::generate);
    let id = match input.run_id.take() {
        Some(id) => continued(state, principal, &agent, &thread, id, &input).await?,
        None => RunId::generate(),
    };
    let run = AgentRun { id: Some(id.clone()), input, makes_thread: true, ..AgentRun::default() };
    let started = run_agent(state, principal, &thread, agent, run, true).await;
    let (start, mut requester) = started.map_err(|problem| problem.of_request(repeatable))?;
    let AgentStart { started, ignored, .. } = start;
    let events = &state.service.events;
    let subscription = events
        .subscribe(principal, &thread, started.cursor, Some(started.epoch), Some(&id), FollowMethod::Copilotkit)
        .await;
    let subscription = subscription.inspect_err(|_| requester.done())?;
    let rest = Some((subscription, Telling::new(thread, id, false)));
    let followed = Run::new(state, None, rest, Some(requester));
    Ok(with_ignored(sse::response(followed, None, place, &state.http, principal), &ignored))
}

/// Finds the id of the run that a request starts. A client that answers an interrupt, or has executed a tool, sends the
/// id of the run that requested it, and that run has ended. The continuation is a run of its own, with an id that
/// begins with the id of the ended run. A repeated request without new content is the continuation that it has begun, or
/// that ended run itself, which is not run again.
async fn continued(
    state: &ApiState,
    principal: &Principal,
    agent: &Agent,
    thread: &ThreadId,
    id: RunId,
    input: &ClientInput,
) -> Result<RunId, Problem> {
    let status = async |id: &RunId| match state.service.runs.get(principal, thread, id).await {
        Ok(run) => Ok(Some(run.status)),
        Err(RunLookupError::ThreadNotFound | RunLookupError::RunNotFound) => Ok(None),
        Err(error) => Err(Problem::from(error)),
    };
    if status(&id).await?.is_none_or(RunStatus::is_active) {
        return Ok(id);
    }
    let said = match answer(input) {
        Some(answer) => answer,
        None => {
            let conversation = state.service.projections.at(principal, thread, None, None).await?.conversation;
            let (news, last) = state.agents.said_since(principal, agent, input, &conversation).await?;
            // A request without new content is repeated: it may have begun a continuation before.
            let said = if news.is_empty() { &last } else { &news }.join("\n");
            if news.is_empty() && status(&continuation(&id, &said, 0)).await?.is_none() {
                return Ok(id);
            }
            said
        }
    };
    for attempt in 0..CONTINUATIONS {
        let next = continuation(&id, &said, attempt);
        // A failed continuation leaves the interrupt open.
        if status(&next).await? != Some(RunStatus::Error) {
            return Ok(next);
        }
    }
    Ok(RunId::generate())
}

/// Answer that an input contains: to interrupts of AG-UI, or to one of LangGraph.
fn answer(input: &ClientInput) -> Option<String> {
    let resume = input.resume.as_ref().map(|resume| resume.get()).filter(|resume| !is_empty(resume));
    let command = || text::member(text::member(input.forwarded_props.as_ref()?.get(), "command")?, "resume");
    resume.or_else(command).map(str::to_owned)
}

fn is_empty(list: &str) -> bool {
    list.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|rest| rest.trim().is_empty())
}

/// Separator between the id of a run and the suffix of its continuation's id.
const MARK: char = '~';

/// Id of the continuation of a run. The same answer gives the same id, so a repeated request is not executed twice.
fn continuation(id: &RunId, said: &str, attempt: usize) -> RunId {
    let digest = Sha256::new().chain_update(said).chain_update([0]).chain_update(attempt.to_le_bytes()).finalize();
    let digest = hex(&digest[..8]);
    // A result that is too long for an id is replaced by a generated id.
    RunId::new(format!("{id}{MARK}{digest}")).unwrap_or_else(|_| RunId::generate())
}

/// True if the active run is the run that a client names, or its continuation.
fn is_meant(active: &RunId, named: &RunId) -> bool {
    active == named || active.as_str().strip_prefix(named.as_str()).is_some_and(|rest| rest.starts_with(MARK))
}

/// Connects a client that returns to a thread: RunAgentInput, of which only the thread and the messages are used.
///
/// The response is the content of the thread, and then the events of its active run until it ends. It is empty if the
/// thread does not exist.
#[utoipa::path(post, path = "/copilotkit/agent/{agentId}/connect", tag = "copilotkit",
    params(("agentId" = String, Path)), request_body(content((serde_json::Value = "application/json"))), responses(
    (status = 200, description = "The thread so far, then the events of the active run", content((String = "text/event-stream"))),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Agent not found", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 415, description = "Unsupported media type", body = ProblemDocument),
    (status = 422, description = "Conversation too large", body = ProblemDocument)))]
pub async fn connect(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(agent): InAgent,
    request: Request,
) -> Result<Response, Problem> {
    let input = state.read_run_input(&principal, request).await?;
    let (state, principal) = (&state, &principal);
    state.agents.get(principal, &agent).await?;
    let Some(thread) = &input.thread_id else { return Err(Problem::invalid("threadId is missing")) };
    let place = state.http.quota.open(principal)?;
    let known = &reasoning(&input.messages);
    let make = || async move {
        let opening = opening(state, principal, thread, known).await?;
        Ok(opening.map_or_else(|| (Vec::new(), None), |opening| (opening.told, opening.rest)))
    };
    let (first, rest) = state.http.responses.chunk(principal, make).await?;
    let first = Some(first).filter(|first| !first.is_empty());
    let followed = Run::new(state, first, rest, None);
    Ok(sse::response(followed, None, place, &state.http, principal))
}

/// Ids of the reasoning among messages.
fn reasoning(messages: &[Box<RawValue>]) -> HashSet<String> {
    let reasoning = messages
        .iter()
        .map(|message| message.get())
        .filter(|message| text::member(message, "role") == Some("\"reasoning\""));
    reasoning.filter_map(|message| text::string_member(message, "id")).collect()
}

/// A request to stop a run.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StopBody {
    /// Only this run; the active run if absent.
    #[schema(value_type = Option<String>)]
    run_id: Option<RunId>,
}

/// Requests that the active run of a thread stops, from any page and on any node. The stream of the run contains its
/// end.
#[utoipa::path(post, path = "/copilotkit/agent/{agentId}/stop/{threadId}", tag = "copilotkit",
    params(("agentId" = String, Path), ("threadId" = String, Path)), request_body = StopBody, responses(
    (status = 200, description = "Stop requested, or no run to stop: see `stopped`", body = serde_json::Value),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn stop(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgentThread(_agent, thread): InAgentThread,
    Json(body): Json<StopBody>,
) -> Result<Answer<Value>, Problem> {
    let active = state.service.threads.get(&principal, &thread).await?.active_run.map(|run| run.id);
    let meant = active.filter(|active| body.run_id.as_ref().is_none_or(|named| is_meant(active, named)));
    let Some(run) = meant else {
        return Ok(Answer(json!({ "stopped": false, "message": format!("Thread {thread} has no such active run.") })));
    };
    let run = state.service.runs.stop(&principal, &thread, &run).await?;
    if !run.status.is_active() {
        return Ok(Answer(json!({ "stopped": false, "message": format!("Run {} has just ended.", run.id) })));
    }
    let interrupt = json!({ "type": "RUN_ERROR", "message": "Run stopped by user", "code": "STOPPED" });
    Ok(Answer(json!({ "stopped": true, "interrupt": interrupt })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> RunId {
        RunId::new(text).expect("an id")
    }

    #[test]
    fn a_continuation_is_named_after_what_it_continues_from() {
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
