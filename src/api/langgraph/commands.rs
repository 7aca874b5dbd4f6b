//! Commands of the streaming protocol: starts of runs, and answers to interrupts.

use axum::{
    extract::{Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use threadline_core::{AgentId, Principal, Scope, ThreadId, agent::Busy, limits::MAX_PAGE};
use threadline_engine::{ServiceError, limits::BudgetPermit};
use threadline_http::{
    extract::{Caller, InThread},
    problem::{Problem, ProblemDocument},
};

use super::{
    refusals::{code_of, refusal},
    start::{Asked, NewInput, NotStarted, StartParams, ask, configurable, thread_of},
};
use crate::api::ApiState;

/// Command of a client.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Command {
    /// Number by which the client knows the response.
    id: Value,
    method: String,
    params: Value,
}

/// Answer to one or more interrupts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RespondParams {
    interrupt_id: Option<String>,
    response: Value,
    /// Answers to several interrupts.
    responses: Vec<Answered>,
    update: Value,
    goto: Value,
    config: Map<String, Value>,
}

/// One of several answers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answered {
    interrupt_id: String,
    response: Value,
}

/// Executes a command of the streaming protocol: `run.start`, or `input.respond`.
///
/// `run.start` creates the thread if it does not exist. While another run is active the new one waits in the queue
/// (`multitaskStrategy`: `enqueue`, the default, `interrupt` or `reject`). A command that is refused for its content is answered with
/// 200 and `type: "error"`, as clients of the protocol expect it.
#[utoipa::path(post, path = "/langgraph/threads/{threadId}/commands", tag = "langgraph",
    params(("threadId" = String, Path)),
    request_body(content((serde_json::Value = "application/json"))), responses(
    (status = 200, description = "`type` is `success`, or `error` with the reason", body = serde_json::Value, example = json!({
        "type": "success", "id": 1, "result": { "run_id": "0199a1d2-0000-8000-8000-000000000000" }, "meta": { "applied_through_seq": 4095 }
    })),
    (status = 400, description = "Body that is not a JSON object", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 415, description = "Unsupported media type", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument),
    (status = 429, description = "Too many active runs", body = ProblemDocument)))]
pub async fn command(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    request: Request,
) -> Result<Response, Problem> {
    let (command, room): (Command, _) = state.read_values(&principal, request).await?;
    let Command { id, method, params } = command;
    let done = match method.as_str() {
        "run.start" => run_start(&state, &principal, &thread, params, room).await,
        "input.respond" => respond(&state, &principal, &thread, params, room).await,
        _ => {
            let detail = format!("the command {method:?} is unknown: the commands are run.start and input.respond");
            return Ok(json_response(refusal(&id, "unknown_command", &detail)));
        }
    };
    match done {
        Ok(Asked { run, through }) => {
            let meta = json!({ "applied_through_seq": through });
            let result = json!({ "run_id": run.as_str() });
            Ok(json_response(json!({ "type": "success", "id": id, "result": result, "meta": meta }).to_string()))
        }
        Err(NotStarted::NotSupported(detail)) => Ok(json_response(refusal(&id, "not_supported", &detail))),
        Err(NotStarted::NotAsked(detail)) => Ok(json_response(refusal(&id, "no_such_interrupt", &detail))),
        Err(NotStarted::Problem(problem)) => match code_of(&problem) {
            Some(code) => Ok(json_response(refusal(&id, code, &problem.detail))),
            None => Err(problem),
        },
    }
}

async fn run_start(
    state: &ApiState,
    principal: &Principal,
    thread: &ThreadId,
    params: Value,
    room: BudgetPermit,
) -> Result<Asked, NotStarted> {
    let params: StartParams =
        serde_json::from_value(params).map_err(|error| Problem::invalid(format!("params: {error}")))?;
    params.start(state, principal, thread, room).await
}

async fn respond(
    state: &ApiState,
    principal: &Principal,
    id: &ThreadId,
    params: Value,
    room: BudgetPermit,
) -> Result<Asked, NotStarted> {
    let params: RespondParams =
        serde_json::from_value(params).map_err(|error| Problem::invalid(format!("params: {error}")))?;
    if !principal.scopes.contains(Scope::Approve) {
        return Err(Problem::from(ServiceError::Forbidden(Scope::Approve)).into());
    }
    if !params.goto.is_null() {
        let detail = "goto is not supported, because a thread has no nodes to go to: send update or a response";
        return Err(NotStarted::NotSupported(detail.to_owned()));
    }
    let one = params.interrupt_id.map(|interrupt_id| Answered { interrupt_id, response: params.response });
    let answers: Vec<Answered> = params.responses.into_iter().chain(one).collect();
    if answers.is_empty() || answers.iter().any(|answer| answer.interrupt_id.is_empty()) {
        return Err(Problem::invalid(
            "the command answers no interrupt: send interrupt_id, which is not empty, with response, or responses",
        )
        .into());
    }
    let answers = answers.into_iter().map(|Answered { interrupt_id, response }| {
        json!({ "interruptId": interrupt_id, "status": "resolved", "payload": response })
    });
    let not_asked = || NotStarted::NotAsked("the thread does not exist, so no agent has asked in it".to_owned());
    let thread = thread_of(state, principal, id).await?.ok_or_else(not_asked)?;
    let agent = asker(state, principal, id).await?.or_else(|| thread.agent.clone());
    let Some(agent) = agent else {
        return Err(Problem::invalid("no agent has asked in this thread: start a run with run.start").into());
    };
    let (agent, _) = state.agents.get(principal, &agent).await.map_err(Problem::from)?;
    let configurable = configurable(params.config);
    let forwarded = if configurable.is_empty() {
        Map::new()
    } else {
        Map::from_iter([("configurable".to_owned(), configurable.into())])
    };
    let input = NewInput::new(params.update, answers.collect(), forwarded)?;
    // An answer never waits in the queue: a run that begins before it may ask again.
    ask(state, principal, (id, Some(&thread)), agent, input, room, Busy::Reject).await
}

/// Agent of the newest run that an agent has produced.
async fn asker(state: &ApiState, principal: &Principal, thread: &ThreadId) -> Result<Option<AgentId>, Problem> {
    let page = state.service.runs.list(principal, thread, None, MAX_PAGE, None).await?;
    Ok(page.items.into_iter().find_map(|run| run.agent))
}

fn json_response(body: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
