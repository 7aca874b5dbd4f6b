//! Creation of a response: a run of an agent.

use axum::{
    extract::{Request as HttpRequest, State},
    http::HeaderMap,
    response::Response,
};
use serde_json::{Value, value::RawValue};
use threadline_core::{
    Principal, ThreadId,
    agent::{Agent, Busy},
    projection::response::Input,
};
use threadline_engine::{
    EditThread, Service,
    limits::{BudgetPermit, StreamPermit},
};
use threadline_http::{
    extract::Caller,
    idempotency::IdempotencyKey,
    problem::{Problem, ProblemType},
};

use super::{
    errors::{OpenAiError, invalid, locked},
    forgetting::{self, Forget},
    ids::ResponseId,
    object::{self, ResponseView},
    plan::Plan,
    record::Record,
    request::{Asked, Target},
    retries::Identity,
};
use crate::{
    agents::{AgentRun, AgentStart, ClientInput, Ignored, RunAnswer},
    api::{
        ApiState,
        run_agent::{AguiClient, ask_agent, with_ids, with_ignored},
    },
};

/// Path of this route: a repeated request has the same path and body.
const PATH: &str = "/openai/v1/responses";
const UNSTORED_GONE: &str = "an equal request has run the agent before, and its response was not stored (store: false)";
/// Most plans for one request: the conversation may go on between a plan and the start of the run.
const PLANS: usize = 2;

/// Creates a response: has the agent `model` answer the input.
///
/// With `conversation` the response continues this conversation, and with `previous_response_id` it continues after that response: in a
/// fork if the conversation has gone on since. Without both it begins a conversation. With `stream` the response is a stream of events,
/// with `background` the server does not wait for the agent. A response that is not streamed is sent once the run has ended.
#[utoipa::path(post, path = "/openai/v1/responses", tag = "openai", params(IdempotencyKey),
    request_body(content((serde_json::Value = "application/json")),
        example = json!({ "model": "demo", "input": "Hello" })), responses(
    (status = 200, description = "The response, or with `stream` its events",
        content((ResponseView = "application/json"), (String = "text/event-stream"))),
    (status = 400, description = "Invalid request", body = OpenAiError),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 404, description = "Model, conversation or previous response not found", body = OpenAiError),
    (status = 409, description = "A response of the conversation is in progress, or an approval is missing or was given before",
        body = OpenAiError),
    (status = 410, description = "The response to an earlier, equal request was deleted", body = OpenAiError),
    (status = 413, description = "Request body too large", body = OpenAiError),
    (status = 415, description = "Unsupported media type", body = OpenAiError),
    (status = 422, description = "Invalid messages, or conversation too large", body = OpenAiError),
    (status = 507, description = "Storage full", body = OpenAiError)))]
pub async fn create(
    Caller(principal): Caller,
    State(state): State<ApiState>,
    key: IdempotencyKey,
    http: HttpRequest,
) -> Result<Response, Problem> {
    let (state, principal, headers) = (&state, &principal, http.headers().clone());
    let (body, room): (Box<RawValue>, _) = state.read_values(principal, http).await?;
    let read = || Asked::read(body.get());
    let asked = state.service.queue.process(principal, body.get().len(), read).await??;
    let (agent, _) = state.agents.get(principal, &asked.agent).await?;
    let place = state.http.quota.open(principal)?;
    let identity = identity(state, principal, &key, &headers, &body).await?;
    drop(body);
    let said = || asked.said(&identity.run);
    let input = state.service.queue.process(principal, asked.input.len(), said).await??;
    if input.messages.is_empty() && input.resume.is_empty() && asked.target == Target::New {
        return Err(invalid("input", "input has no message to answer"));
    }
    let answered = async {
        let begun = begin(state, principal, &asked, &agent, (&identity, input, room)).await?;
        answer(state, principal, &asked, begun, place).await
    };
    match answered.await {
        // The thread of a response that is not stored is deleted after its run, maybe while a retry looks at it.
        Err(problem)
            if problem.kind == ProblemType::ThreadNotFound
                && !asked.store
                && identity.unstored(state, principal).await?.is_some() =>
        {
            Err(Problem::new(ProblemType::ThreadDeleted, UNSTORED_GONE))
        }
        answered => answered,
    }
}

async fn identity(
    state: &ApiState,
    principal: &Principal,
    key: &IdempotencyKey,
    headers: &HeaderMap,
    body: &RawValue,
) -> Result<Identity, Problem> {
    Identity::of(state, principal, key, headers, (PATH, body.get().as_bytes())).await
}

/// A run that has begun, and its response.
struct Begun {
    id: ResponseId,
    start: AgentStart,
    requester: AguiClient,
    record: Record,
    forget: Option<Forget>,
}

/// Begins the run, and stores the parts of the request that its response repeats.
async fn begin(
    state: &ApiState,
    principal: &Principal,
    asked: &Asked,
    agent: &Agent,
    (identity, Input { messages, resume, .. }, room): (&Identity, Input, BudgetPermit),
) -> Result<Begun, Problem> {
    let answers = !resume.is_empty();
    let input = asked.agent_input(messages, resume);
    let (start, requester) = start(state, principal, asked, agent, (identity, input, answers, room)).await?;
    let id = ResponseId::new(&start.thread, &start.started.run.id);
    if !asked.store {
        identity.remember_unstored(state, principal, &id.thread).await?;
    }
    let forget = (!asked.store).then(|| Forget::new(&state.service, principal, &id));
    let record = Record {
        model: Some(asked.model.clone()),
        previous: asked.previous.clone(),
        background: asked.background,
        unstored: !asked.store,
        hidden: false,
        echo: RawValue::from_string(asked.echo.to_json()).ok(),
    };
    record.begin(state, principal, &id).await?;
    Ok(Begun { id, start, requester, record, forget })
}

async fn start(
    state: &ApiState,
    principal: &Principal,
    asked: &Asked,
    agent: &Agent,
    (identity, input, answers, room): (&Identity, Value, bool, BudgetPermit),
) -> Result<(AgentStart, AguiClient), Problem> {
    let (mut input, mut room, mut tries) = (Some(input), Some(room), 0);
    let begun = if asked.store { None } else { identity.unstored(state, principal).await? };
    loop {
        tries += 1;
        let plan = match &begun {
            Some(thread) => Plan::within(thread),
            None => Plan::of(state, principal, asked, identity, answers).await?,
        };
        // Another request may have continued the conversation after the plan: the next plan is a fork.
        let is_last = tries == PLANS || plan.fork.is_some() || !matches!(asked.target, Target::After(_));
        let value = if is_last { input.take() } else { input.clone() }.unwrap_or_default();
        let mut given: ClientInput =
            serde_json::from_value(value).map_err(|error| invalid("input", error.to_string()))?;
        given.room = if is_last { room.take() } else { None };
        let Plan { thread, fork, makes_thread, is_fork } = plan;
        let unlisted = match makes_thread && !asked.store {
            true => Some(Unlisted::make(state, principal, &thread, agent).await?),
            false => None,
        };
        let request = identity.request.clone().filter(|_| asked.store);
        let id = Some(identity.run.clone());
        let run = AgentRun { id, input: given, makes_thread, request, fork, ..AgentRun::default() };
        let asked_for = ask_agent(state, principal, &thread, agent.clone(), run, Some(Busy::Reject), !asked.background);
        match asked_for.await {
            Ok((RunAnswer::Started(start), requester)) => {
                unlisted.into_iter().for_each(Unlisted::keep);
                if is_fork && asked.store {
                    state.service.forks.choose(principal, &start.thread, &start.thread).await?;
                }
                return Ok((*start, requester));
            }
            Ok((RunAnswer::Queued(placed), _)) => {
                let id = ResponseId::new(&thread, &placed.turn.run).to_string();
                return Err(locked(Problem::new(ProblemType::RunActive, ""), &id));
            }
            Err(problem) if problem.kind == ProblemType::RunActive && !is_last => {}
            Err(problem) => {
                // The outcome of a failed store is unknown: a repeated request continues with the fork.
                if is_fork && problem.kind != ProblemType::StoreUnavailable {
                    forgetting::delete(&state.service, principal, &thread).await;
                }
                return Err(refused(problem, &thread));
            }
        }
    }
}

/// The refusal of a start, with the response that is in progress.
fn refused(problem: Problem, thread: &ThreadId) -> Problem {
    let active = problem.facts.get("run").and_then(|run| run["runId"].as_str());
    let active = active.and_then(|run| threadline_core::RunId::new(run).ok());
    match (problem.kind, active) {
        (ProblemType::RunActive, Some(run)) => locked(problem, &ResponseId::new(thread, &run).to_string()),
        _ => problem,
    }
}

/// Thread that was created for a response that is not stored. Lists leave it out. Without a run, the drop deletes it.
struct Unlisted(Option<(Service, Principal, ThreadId)>);

impl Unlisted {
    async fn make(state: &ApiState, principal: &Principal, thread: &ThreadId, agent: &Agent) -> Result<Self, Problem> {
        if state.service.threads.get(principal, thread).await.is_ok() {
            // An earlier attempt of the request has created the thread.
            return Ok(Self(None));
        }
        state.service.threads.ensure(principal, thread, Some(&agent.id), None).await?;
        let made = Self(Some((state.service.clone(), principal.clone(), thread.clone())));
        let edit = EditThread { archived: Some(true), ..EditThread::default() };
        state.service.threads.edit(principal, thread, edit).await?;
        Ok(made)
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Unlisted {
    fn drop(&mut self) {
        if let Some((service, principal, thread)) = self.0.take() {
            tokio::spawn(async move { forgetting::delete(&service, &principal, &thread).await });
        }
    }
}

async fn answer(
    state: &ApiState,
    principal: &Principal,
    asked: &Asked,
    begun: Begun,
    place: StreamPermit,
) -> Result<Response, Problem> {
    let Begun { id, start, mut requester, record, forget } = begun;
    let (run, epoch, ignored): (_, _, Ignored) = (&start.started.run, start.started.epoch, start.ignored);
    let response = if asked.stream {
        let header = record.header(&id, run);
        object::follow(state, principal, &id, (header, None), (Some(requester), forget), place).await?
    } else if asked.background {
        object::read(state, principal, &id, &record).await?
    } else {
        object::wait(state, principal, &id).await?;
        requester.done();
        object::read(state, principal, &id, &record).await?
    };
    Ok(with_ignored(with_ids(response, &id.thread, &id.run, epoch), &ignored))
}
