//! Runs of a chat: send, resume, stop.

use axum::{
    Json as Answer,
    extract::{Request as HttpRequest, State},
    http::{HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use threadline_core::{
    Principal, RunId, Thread, ThreadId,
    agent::Busy,
    hex,
    projection::{
        conversation::Conversation,
        ui_message::{UiStream, of_client},
    },
};
use threadline_engine::{HeldConversation, RunLookupError, StopError, subscription::FollowMethod};
use threadline_http::{
    extract::{Caller, InAgent, InAgentThread},
    idempotency, observe,
    problem::{Problem, ProblemDocument},
    sse,
};

use super::{
    chat::chat_of,
    history::thread_of,
    request::{Members, Request, Said},
    stream::{Message, Source},
};
use crate::{
    agents::{AgentRun, AgentStart, ClientInput, ForkPoint, ForkStart, RunAnswer},
    api::{
        ApiState,
        run_agent::{ask_agent, busy_of, with_ids, with_ignored},
        run_log::Log,
        waiting_turn::WaitingTurn,
    },
};

/// Header by which the AI SDK recognizes a UI message stream.
const STREAM_HEADER: &str = "x-vercel-ai-ui-message-stream";
/// Most runs with ids that derive from one request to regenerate an answer. If all have failed, the id of the next run is generated.
const REPETITIONS: usize = 16;

/// Sends a message to an agent, and streams its answer as UI message chunks of the AI SDK.
///
/// The chat is created if it does not exist. The log has the messages of a chat, so only the last one of `messages` is read: a new
/// message of the user, an edited one (`messageId`), or an assistant message with results of tools or approvals.
/// `regenerate-message` answers the last message of the user again. An edited message or a regenerated answer begins a branch, and
/// stops the active run. The run continues if the client disconnects (unless the agent's `onDisconnect` is `stop`).
#[utoipa::path(post, path = "/ai/{agentId}", tag = "ai-sdk", params(("agentId" = String, Path),
        ("Threadline-Busy" = Option<String>, Header, description = "While another run is active: `reject`, `enqueue` or `interrupt`. The default is the `busy` of the agent. A request that waits gets the chunks of its run once it has begun")),
    request_body(content((serde_json::Value = "application/json"))), responses(
    (status = 200, description = "The chunks of the message until its run ends", content((String = "text/event-stream"))),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Agent not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 409, description = "Active run conflict, unanswered interrupt, or too many branches", body = ProblemDocument),
    (status = 415, description = "Unsupported media type", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 422, description = "Invalid messages or state, or conversation too large", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument),
    (status = 429, description = "Too many active runs", body = ProblemDocument)))]
pub async fn send(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(agent): InAgent,
    http: HttpRequest,
) -> Result<Response, Problem> {
    let busy = busy_of(http.headers())?;
    let (state, principal) = (&state, &principal);
    let (members, room): (Members, _) = state.read_values(principal, http).await?;
    let request = Request::read(members)?;
    let (agent, _) = state.agents.get(principal, &agent).await?;
    let place = state.http.quota.open(principal)?;
    let thread = thread_of(state, principal, &request.chat).await?;
    let Plan { thread, run: id, fork, input, continues } = plan(state, principal, thread, request).await?;
    let mut input: ClientInput = serde_json::from_value(input).map_err(|error| Problem::invalid(error.to_string()))?;
    input.room = Some(room);
    if let Some(conversation) = &continues {
        // Results that a user's token brings count only for tools that its page has supplied.
        let (news, _) = state.agents.said_since(principal, &agent, &input, conversation).await?;
        if news.is_empty() && input.resume.is_none() {
            return Err(Problem::invalid(
                "the results in the last message are of tools that the page has not supplied in `tools`",
            ));
        }
    }
    // Memory of the conversation is no longer needed.
    let continues = continues.map(drop).is_some();
    let makes_thread = fork.is_none();
    let run = AgentRun { id: Some(id.clone()), input, makes_thread, fork, ..AgentRun::default() };
    // Requests that continue a message never wait: the page holds this message open for the response.
    let busy = if continues { Some(Busy::Reject) } else { busy };
    let (asked, mut requester) = ask_agent(state, principal, &thread, agent, run, busy, true).await?;
    let counted = observe::DeliveryMetrics::new(&state.http);
    let AgentStart { thread, started, ignored } = match asked {
        RunAnswer::Started(start) => *start,
        RunAnswer::Queued(_) => {
            let (service, via) = (state.service.clone(), FollowMethod::AiSdk);
            let turn = WaitingTurn::watch(service, principal.clone(), thread.clone(), id.clone(), via).await?;
            let epoch = turn.changes.epoch();
            let (stream, source) = (UiStream::new(id.as_str()), Source::Waiting(Box::new(turn)));
            let message = Message { requester: Some(requester), ..Message::new(stream, source, counted) };
            let response = of_sdk(sse::response(message, None, place, &state.http, principal));
            return Ok(with_ids(response, &thread, &id, epoch));
        }
    };
    let log = Log { state, principal, thread: &thread, epoch: started.epoch };
    let opened = async {
        let chain = if continues { log.message_of(&started.run).await? } else { vec![started.run.clone()] };
        let stream = log.before(&chain).await?;
        let superseded = log.superseded(&started.run).await?;
        let (events, epoch, via) = (&state.service.events, Some(started.epoch), FollowMethod::AiSdk);
        let subscription = events.subscribe(principal, &thread, started.cursor, epoch, Some(&id), via).await?;
        Ok::<_, Problem>((stream, superseded, subscription))
    };
    let (stream, superseded, subscription) = opened.await.inspect_err(|_| requester.done())?;
    let source = Source::Run(Box::new(subscription));
    let message = Message { superseded, requester: Some(requester), ..Message::new(stream, source, counted) };
    let response = of_sdk(sse::response(message, None, place, &state.http, principal));
    Ok(with_ignored(with_ids(response, &thread, &id, started.epoch), &ignored))
}

fn of_sdk(mut response: Response) -> Response {
    response.headers_mut().insert(HeaderName::from_static(STREAM_HEADER), HeaderValue::from_static("v1"));
    response
}

/// Run that a request asks for.
struct Plan {
    thread: ThreadId,
    run: RunId,
    fork: Option<ForkStart>,
    input: Value,
    /// Conversation whose last message the run continues; `None` if the run begins a message.
    continues: Option<HeldConversation>,
}

async fn plan(
    state: &ApiState,
    principal: &Principal,
    thread: Option<Thread>,
    request: Request,
) -> Result<Plan, Problem> {
    let nothing = Conversation::default();
    let Some(thread) = thread else {
        let (messages, resume) = match request.said(&nothing)? {
            Said::Message(message) => (vec![message], Vec::new()),
            // Runs of first messages may be refused. Then the chat does not exist, and the message is sent again.
            Said::Nothing => (vec![last_of_user(&request)?], Vec::new()),
            Said::Answers { messages, resume } => (messages, resume),
        };
        let thread = request.chat.clone();
        let input = request.input(messages, resume);
        return Ok(Plan { thread, run: RunId::generate(), fork: None, input, continues: None });
    };
    let before = state.service.projections.at(principal, &thread.id, None, None).await?.conversation;
    let is_known = |id: Option<&String>| id.filter(|id| before.contains(id)).cloned();
    let said = request.said(&before)?;
    let point = match &said {
        Said::Message(message) => {
            let edited = request.named.as_ref().filter(|named| message["id"] == ***named);
            is_known(edited).map(ForkPoint::Before)
        }
        Said::Nothing => is_known(request.asked.as_ref()).map(ForkPoint::Regenerate),
        Said::Answers { .. } => None,
    };
    let continues = matches!(said, Said::Answers { .. }).then_some(before);
    let (messages, resume) = match said {
        Said::Message(message) => (vec![message], Vec::new()),
        Said::Nothing if point.is_some() => (Vec::new(), Vec::new()),
        Said::Nothing => (vec![last_of_user(&request)?], Vec::new()),
        Said::Answers { messages, resume } => (messages, resume),
    };
    let Some(point) = point else {
        let input = request.input(messages, resume);
        return Ok(Plan { thread: thread.id, run: RunId::generate(), fork: None, input, continues });
    };
    let asked = json!([request.named, messages, format!("{point:?}")]).to_string();
    let (thread, run) = match (&thread.active_run, &thread.branch.forked_from) {
        // Repeated requests of a branch whose answer is under way belong to that branch.
        (Some(active), Some(from)) if (0..REPETITIONS).any(|at| run_of(&from.thread, &asked, at) == active.id) => {
            (from.thread.clone(), active.id.clone())
        }
        _ => {
            let run = unused(state, principal, &thread.id, &asked).await?;
            (thread.id, run)
        }
    };
    let fork = Some(fork_at(principal, &thread, &run, point));
    Ok(Plan { thread, run, fork, input: request.input(messages, resume), continues })
}

/// Fork in which a run of this id begins. Its id derives from that of the run, so that a repeated request finds it again.
fn fork_at(principal: &Principal, thread: &ThreadId, run: &RunId, point: ForkPoint) -> ForkStart {
    ForkStart { point, thread: idempotency::fork_of(principal, thread, run), stop: true, listed: true }
}

/// Id of the run of a request in a thread, at this attempt: the same for equal requests.
fn run_of(thread: &ThreadId, asked: &str, attempt: usize) -> RunId {
    let digest = Sha256::new().chain_update(thread.as_str()).chain_update([0]).chain_update(asked);
    let digest = digest.chain_update(attempt.to_le_bytes()).finalize();
    RunId::new(hex(&digest[..16])).unwrap_or_else(|_| RunId::generate())
}

/// Id of the first run of a request that has not failed, or of the next one if all have.
async fn unused(state: &ApiState, principal: &Principal, thread: &ThreadId, asked: &str) -> Result<RunId, Problem> {
    for attempt in 0..REPETITIONS {
        let run = run_of(thread, asked, attempt);
        let Some(fork) = idempotency::fork_of(principal, thread, &run) else { break };
        match state.service.runs.get(principal, &fork, &run).await {
            Err(RunLookupError::ThreadNotFound | RunLookupError::RunNotFound) => return Ok(run),
            Ok(found) if found.status.is_active() => return Ok(run),
            // The answer is complete or has failed: this request is for another one.
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(RunId::generate())
}

/// Last message of the request, for a chat that does not have it.
fn last_of_user(request: &Request) -> Result<Value, Problem> {
    let message = request.last.as_ref().and_then(of_client);
    message.ok_or_else(|| Problem::invalid("there is no message of the user to answer again"))
}

/// Streams the message whose run is active, from its beginning.
///
/// The response is 204 if no run is active. A client that has a part of the message replaces it, as the AI SDK does.
#[utoipa::path(get, path = "/ai/{agentId}/{threadId}/stream", tag = "ai-sdk",
    params(("agentId" = String, Path), ("threadId" = String, Path, description = "Id of the chat")), responses(
    (status = 200, description = "The chunks of the message until its run ends", content((String = "text/event-stream"))),
    (status = 204, description = "No run is active, or the chat does not exist"),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Agent not found", body = ProblemDocument)))]
pub async fn resume(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgentThread(agent, chat): InAgentThread,
) -> Result<Response, Problem> {
    let (state, principal) = (&state, &principal);
    state.agents.get(principal, &agent).await?;
    let thread = thread_of(state, principal, &chat).await?;
    let active = thread.as_ref().and_then(|thread| Some((thread, thread.active_run.as_ref()?)));
    let Some((thread, active)) = active else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let place = state.http.quota.open(principal)?;
    let log = Log { state, principal, thread: &thread.id, epoch: thread.epoch };
    let run = match state.service.runs.get(principal, &thread.id, &active.id).await {
        Err(RunLookupError::ThreadNotFound | RunLookupError::RunNotFound) => {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        run => run?,
    };
    let chain = log.message_of(&run).await?;
    let superseded = log.superseded_of(&mut log.begin().await?, &chain).await?;
    let (first, several) = (&chain[0], chain.len() > 1);
    let (events, epoch, via) = (&state.service.events, Some(thread.epoch), FollowMethod::AiSdk);
    // Runs of a thread follow each other, so the message is a part of its log.
    let only = (!several).then_some(&run.id);
    let subscription = events.subscribe(principal, &thread.id, first.first_seq - 1, epoch, only, via).await?;
    let (stream, source) = (UiStream::new(first.id.as_str()), Source::Run(Box::new(subscription)));
    let message = Message {
        replayed: chain.iter().filter(|_| several).map(|run| run.id.clone()).collect(),
        superseded,
        driven: run.driven,
        ..Message::new(stream, source, observe::DeliveryMetrics::new(&state.http))
    };
    let response = of_sdk(sse::response(message, None, place, &state.http, principal));
    Ok(with_ids(response, &thread.id, &run.id, thread.epoch))
}

/// Stops the active run of a chat.
#[utoipa::path(post, path = "/ai/{agentId}/{threadId}/stop", tag = "ai-sdk",
    params(("agentId" = String, Path), ("threadId" = String, Path, description = "Id of the chat")), responses(
    (status = 200, description = "Stop requested, or no run to stop: `success` is true", body = serde_json::Value),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Agent or thread not found", body = ProblemDocument)))]
pub async fn stop(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgentThread(agent, chat): InAgentThread,
) -> Result<Answer<Value>, Problem> {
    let thread = chat_of(&state, &principal, &agent, &chat).await?;
    if let Some(active) = &thread.active_run {
        match state.service.runs.stop(&principal, &thread.id, &active.id).await {
            Ok(_) | Err(StopError::RunNotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Answer(json!({ "success": true })))
}
