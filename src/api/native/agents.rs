//! Agents over REST.

use axum::{Json as Answer, extract::State, http::StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    agents::{Definition, Origin, definition::Kind},
    api::{
        ApiState,
        extract::{Caller, InAgent, Json},
        problem::{Problem, ProblemDocument, ProblemType},
    },
    domain::{
        Principal, Scope,
        agent::{Agent, AgentKind, OnDisconnect},
    },
};

/// An agent. Keys and the values of header fields are never shown.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    agent_id: String,
    #[schema(value_type = String, example = "ag-ui")]
    kind: Kind,
    #[schema(value_type = String, example = "continue")]
    on_disconnect: OnDisconnect,
    idle_timeout_seconds: u64,
    /// Whether it is asked for the names of its threads, where the server has no endpoint for that.
    names_threads: bool,
    /// `built-in`, `configuration` or `api`.
    #[schema(example = "api")]
    origin: &'static str,
    /// Where runs are sent; shown to the project, not to end users.
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
    fn new(agent: &Agent, origin: Origin, all: bool) -> Self {
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
            origin: match origin {
                Origin::BuiltIn => "built-in",
                Origin::Configuration => "configuration",
                Origin::Api => "api",
            },
            url: url.filter(|_| all),
            header_names: header_names.filter(|_| all),
            model: model.filter(|_| all),
        }
    }
}

/// All agents.
#[derive(Debug, Serialize, ToSchema)]
pub struct AgentsView {
    agents: Vec<AgentView>,
}

/// Whether the principal speaks for the project: its API key without a user, or a developer on their own machine.
fn is_project(state: &ApiState, principal: &Principal) -> bool {
    principal.scopes.contains(Scope::Agents) && (state.auth.is_development() || principal.user.is_none())
}

fn project_only(state: &ApiState, principal: &Principal) -> Result<(), Problem> {
    if is_project(state, principal) {
        return Ok(());
    }
    Err(Problem::new(ProblemType::Forbidden, "agents are changed by the project, not by its users"))
}

/// Lists the agents that runs can be handed to.
#[utoipa::path(get, path = "/v1/agents", tag = "agents", responses(
    (status = 200, description = "The agents, by name", body = AgentsView),
    (status = 401, description = "Not let in", body = ProblemDocument)))]
pub async fn list(State(state): State<ApiState>, Caller(principal): Caller) -> Result<Answer<AgentsView>, Problem> {
    let all = is_project(&state, &principal);
    let agents = state.agents.list(&principal).await?;
    Ok(Answer(AgentsView {
        agents: agents.iter().map(|(agent, origin)| AgentView::new(agent, *origin, all)).collect(),
    }))
}

/// Shows an agent.
#[utoipa::path(get, path = "/v1/agents/{agentId}", tag = "agents", params(("agentId" = String, Path)), responses(
    (status = 200, description = "The agent", body = AgentView),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 404, description = "No such agent", body = ProblemDocument)))]
pub async fn get(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(id): InAgent,
) -> Result<Answer<AgentView>, Problem> {
    let (agent, origin) = state.agents.get(&principal, &id).await?;
    Ok(Answer(AgentView::new(&agent, origin, is_project(&state, &principal))))
}

/// Makes an agent, or replaces it. For the project, not for end users.
///
/// `kind` is `ag-ui` (with `url` and maybe `headers`), `openai` (with `baseUrl`, `model`, maybe `apiKey` and
/// `instructions`) or `demo`. `onDisconnect` is `continue` or `stop`: what becomes of a run whose requester leaves.
/// With `namesThreads: true` it is asked for the names of its threads as well, in requests that are no runs.
#[utoipa::path(put, path = "/v1/agents/{agentId}", tag = "agents", params(("agentId" = String, Path)),
    request_body(content((serde_json::Value = "application/json"))), responses(
    (status = 200, description = "The agent", body = AgentView),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 403, description = "For the project only", body = ProblemDocument),
    (status = 409, description = "The agent stands in the configuration", body = ProblemDocument),
    (status = 413, description = "Too large", body = ProblemDocument),
    (status = 422, description = "This is no agent", body = ProblemDocument)))]
pub async fn put(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(id): InAgent,
    Json(definition): Json<Definition>,
) -> Result<Answer<AgentView>, Problem> {
    project_only(&state, &principal)?;
    let (agent, origin) = state.agents.put(&principal, &id, definition).await?;
    Ok(Answer(AgentView::new(&agent, origin, true)))
}

/// Forgets an agent; its runs under way go on. For the project, not for end users.
#[utoipa::path(delete, path = "/v1/agents/{agentId}", tag = "agents", params(("agentId" = String, Path)), responses(
    (status = 204, description = "Forgotten, or was not there"),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 403, description = "For the project only", body = ProblemDocument),
    (status = 409, description = "The agent stands in the configuration", body = ProblemDocument)))]
pub async fn delete(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(id): InAgent,
) -> Result<StatusCode, Problem> {
    project_only(&state, &principal)?;
    state.agents.delete(&principal, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
