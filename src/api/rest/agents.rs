//! REST routes of agents: list, show, create and delete.

use axum::{Json as Answer, extract::State, http::StatusCode};
use serde::Serialize;
use threadline_core::{
    Principal,
    agent::{Agent, AgentKind, Approvals, Busy, ClientMay, OnDisconnect, Record, Recovery},
};
use threadline_http::{
    extract::{Caller, InAgent, Json},
    problem::{Problem, ProblemDocument},
    routes::Access,
};
use utoipa::ToSchema;

use crate::{
    agents::{Definition, Origin, definition::Kind},
    api::ApiState,
};

/// An agent, without keys and without the values of header fields.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    agent_id: String,
    #[schema(value_type = String, example = "ag-ui")]
    kind: Kind,
    #[schema(value_type = String, example = "continue")]
    on_disconnect: OnDisconnect,
    idle_timeout_seconds: u64,
    /// If true, the agent generates the names of its threads where the server has no endpoint for names.
    names_threads: bool,
    /// Clients that may answer the agent's interrupts: `user` or `backend`.
    #[schema(value_type = String, example = "user")]
    approvals: Approvals,
    /// Input that untrusted clients may supply to a run.
    #[schema(value_type = Object)]
    client_may: ClientMay,
    /// Names of the agent's own tools, which no untrusted client may supply.
    reserved_tools: Vec<String>,
    /// Parts of a run's input that are kept with the run: `digest` or `full`.
    #[schema(value_type = String, example = "digest")]
    record: Record,
    /// Policy for a run whose server is lost while the agent answers: `retry`, `continue` or `none`.
    #[schema(value_type = String, example = "retry")]
    recovery: Recovery,
    /// If true, the agent's tool calls may be carried out twice.
    tools_repeatable: bool,
    /// Fate of a request that meets an active run and does not choose: `reject`, `enqueue` or `interrupt`.
    #[schema(value_type = String, example = "reject")]
    busy: Busy,
    /// `built-in`, `configuration` or `api`.
    #[schema(example = "api")]
    origin: &'static str,
    /// Address to which runs are sent; shown to the project, not to end users.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Names of the header fields sent with runs; shown to the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    header_names: Option<Vec<String>>,
    /// The model; shown to the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

impl AgentView {
    fn new(agent: &Agent, origin: Origin, detail: Detail) -> Self {
        let (kind, url, header_names, model) = match &agent.kind {
            AgentKind::AgUi { url, headers } => {
                let names = headers.iter().map(|(name, _)| name.clone()).collect();
                (Kind::AgUi, Some(url.clone()), Some(names), None)
            }
            AgentKind::OpenAi { base_url, model, .. } => {
                (Kind::OpenAi, Some(base_url.clone()), None, Some(model.clone()))
            }
            AgentKind::Demo => (Kind::Demo, None, None, None),
        };
        Self {
            agent_id: agent.id.to_string(),
            kind,
            on_disconnect: agent.on_disconnect,
            idle_timeout_seconds: agent.idle_timeout.as_secs(),
            names_threads: agent.names_threads,
            approvals: agent.approvals,
            client_may: agent.client_may.clone(),
            reserved_tools: agent.reserved_tools.clone(),
            record: agent.record,
            recovery: agent.recovery,
            tools_repeatable: agent.tools_repeatable,
            busy: agent.busy,
            origin: match origin {
                Origin::BuiltIn => "built-in",
                Origin::Configuration => "configuration",
                Origin::Api => "api",
            },
            url: url.filter(|_| detail == Detail::Project),
            header_names: header_names.filter(|_| detail == Detail::Project),
            model: model.filter(|_| detail == Detail::Project),
        }
    }
}

/// All agents.
#[derive(Debug, Serialize, ToSchema)]
pub struct AgentsView {
    agents: Vec<AgentView>,
}

/// Part of a definition that a client sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// All but keys and the values of header fields.
    Project,
    /// No address, no header field and no model.
    User,
}

impl Detail {
    fn of(principal: &Principal) -> Self {
        if Access::MANAGE_AGENTS.is_granted_to(principal) { Self::Project } else { Self::User }
    }
}

/// Lists the agents.
#[utoipa::path(get, path = "/v1/agents", tag = "agents", responses(
    (status = 200, description = "The agents, by name", body = AgentsView),
    (status = 401, description = "Authentication required", body = ProblemDocument)))]
pub async fn list(State(state): State<ApiState>, Caller(principal): Caller) -> Result<Answer<AgentsView>, Problem> {
    let detail = Detail::of(&principal);
    let agents = state.agents.list(&principal).await?;
    Ok(Answer(AgentsView {
        agents: agents.iter().map(|(agent, origin)| AgentView::new(agent, *origin, detail)).collect(),
    }))
}

/// Shows an agent.
#[utoipa::path(get, path = "/v1/agents/{agentId}", tag = "agents", params(("agentId" = String, Path)), responses(
    (status = 200, description = "The agent", body = AgentView),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Agent not found", body = ProblemDocument)))]
pub async fn get(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(id): InAgent,
) -> Result<Answer<AgentView>, Problem> {
    let (agent, origin) = state.agents.get(&principal, &id).await?;
    Ok(Answer(AgentView::new(&agent, origin, Detail::of(&principal))))
}

/// Creates an agent, or replaces it. For the project, not for end users.
///
/// `kind` is `ag-ui` (with `url`, optionally `headers`), `openai` (with `baseUrl`, `model`, optionally `apiKey` and
/// `instructions`) or `demo`. `onDisconnect` is `continue` or `stop`: what happens to a run when its requester
/// disconnects. `busy` is what happens to a request while another run is active, if the request does not say so itself:
/// `reject` (the default), `enqueue` or `interrupt`. With `namesThreads: true` the agent also generates the names of its threads, in requests that are not
/// runs. An agent whose origin (scheme, host and port) differs from the last one under its name, also that of a deleted
/// agent, needs the scope `admin` as well, unless the new origin is in the project's `agentOrigins`.
#[utoipa::path(put, path = "/v1/agents/{agentId}", tag = "agents", params(("agentId" = String, Path)),
    request_body(content((serde_json::Value = "application/json"))), responses(
    (status = 200, description = "The agent", body = AgentView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 403, description = "Insufficient permission: for the project only", body = ProblemDocument),
    (status = 409, description = "Agent defined by server configuration", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 422, description = "Invalid agent definition", body = ProblemDocument)))]
pub async fn put(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(id): InAgent,
    Json(definition): Json<Definition>,
) -> Result<Answer<AgentView>, Problem> {
    let free = state.http.auth.projects().settings(&principal.project).await?.agent_origins;
    let (agent, origin) = state.agents.put(&principal, &id, definition, &free).await?;
    Ok(Answer(AgentView::new(&agent, origin, Detail::Project)))
}

/// Deletes an agent; its active runs continue. For the project, not for end users.
#[utoipa::path(delete, path = "/v1/agents/{agentId}", tag = "agents", params(("agentId" = String, Path)), responses(
    (status = 204, description = "Agent deleted, or not found"),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 403, description = "Insufficient permission: for the project only", body = ProblemDocument),
    (status = 409, description = "Agent defined by server configuration", body = ProblemDocument)))]
pub async fn delete(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(id): InAgent,
) -> Result<StatusCode, Problem> {
    state.agents.delete(&principal, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
