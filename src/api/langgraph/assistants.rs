//! The server and its assistants, which are the agents.

use axum::{
    Json as Answer,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use threadline_core::{AgentId, Principal, Timestamp, agent::Agent, limits::MAX_LANGGRAPH_PAGE};
use threadline_http::{
    extract::{Caller, InAgent, Json},
    problem::{Problem, ProblemDocument},
};
use utoipa::ToSchema;

use crate::api::ApiState;

/// Header with the offset of the next page.
pub const NEXT_HEADER: &str = "x-pagination-next";

/// Answers that the server is there.
#[utoipa::path(get, path = "/langgraph/ok", tag = "langgraph", responses(
    (status = 200, description = "`ok` is true", body = Value)))]
pub async fn ok() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], "{\"ok\":true}").into_response()
}

/// Describes the server to its clients.
#[utoipa::path(get, path = "/langgraph/info", tag = "langgraph", responses(
    (status = 200, description = "The version, and what the API has", body = Value)))]
pub async fn info() -> Response {
    let info = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "flags": { "assistants": true, "crons": false, "langsmith": false },
        "host": { "kind": "self-hosted" },
    });
    ([(header::CONTENT_TYPE, "application/json")], info.to_string()).into_response()
}

/// An assistant: an agent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphAssistant)]
pub struct AssistantView {
    assistant_id: String,
    graph_id: String,
    name: String,
    #[schema(required)]
    description: Option<String>,
    #[schema(value_type = Object)]
    config: Value,
    #[schema(value_type = Object)]
    context: Value,
    #[schema(value_type = Object)]
    metadata: Value,
    /// Beginning of 1970: agents have no time of creation.
    created_at: String,
    updated_at: String,
    version: u32,
}

impl AssistantView {
    fn new(agent: &Agent) -> Self {
        let at = Timestamp(0).to_string();
        Self {
            assistant_id: agent.id.to_string(),
            graph_id: agent.id.to_string(),
            name: agent.id.to_string(),
            description: None,
            config: json!({}),
            context: json!({}),
            metadata: json!({}),
            created_at: at.clone(),
            updated_at: at,
            version: 1,
        }
    }
}

/// Shows the assistant of an agent.
#[utoipa::path(get, path = "/langgraph/assistants/{agentId}", tag = "langgraph",
    params(("agentId" = String, Path)), responses(
    (status = 200, description = "The assistant", body = AssistantView),
    (status = 404, description = "Agent not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument)))]
pub async fn get(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InAgent(id): InAgent,
) -> Result<Answer<AssistantView>, Problem> {
    let (agent, _) = state.agents.get(&principal, &id).await?;
    Ok(Answer(AssistantView::new(&agent)))
}

/// Filter and page of a search.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LangGraphAssistantSearch)]
pub struct AssistantSearch {
    /// Only the assistant of this graph: its agent's id.
    graph_id: Option<String>,
    /// Only assistants whose name contains this text.
    name: Option<String>,
    /// Only assistants with these metadata. Assistants have none.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// 1 to 1000. Default 10.
    limit: Option<usize>,
    offset: Option<usize>,
}

async fn found(
    state: &ApiState,
    principal: &Principal,
    search: &AssistantSearch,
) -> Result<Vec<AssistantView>, Problem> {
    let graph = search.graph_id.as_deref().map(AgentId::new);
    let fits = |agent: &Agent| {
        graph.as_ref().is_none_or(|graph| graph.as_ref().is_ok_and(|graph| *graph == agent.id))
            && search.name.as_deref().is_none_or(|name| agent.id.as_str().contains(name))
            && search.metadata.as_ref().is_none_or(Map::is_empty)
    };
    let agents = state.agents.list(principal).await?;
    Ok(agents.iter().map(|(agent, _)| agent).filter(|agent| fits(agent)).map(AssistantView::new).collect())
}

/// Lists the assistants, by name.
#[utoipa::path(post, path = "/langgraph/assistants/search", tag = "langgraph", request_body = AssistantSearch, responses(
    (status = 200, description = "The assistants", body = Vec<AssistantView>,
        headers(("X-Pagination-Next" = usize, description = "Offset of the next page, if there is one"))),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn search(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Json(search): Json<AssistantSearch>,
) -> Result<Response, Problem> {
    let (limit, offset) = page_of(search.limit, search.offset, 10)?;
    let mut found = found(&state, &principal, &search).await?;
    let more = found.len() > offset.saturating_add(limit);
    found = found.into_iter().skip(offset).take(limit).collect();
    Ok(paged(Answer(found).into_response(), more.then(|| offset + limit)))
}

/// Counts the assistants that fit.
#[utoipa::path(post, path = "/langgraph/assistants/count", tag = "langgraph", request_body = AssistantSearch, responses(
    (status = 200, description = "The number", content((usize = "application/json"))),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn count(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Json(search): Json<AssistantSearch>,
) -> Result<Answer<usize>, Problem> {
    Ok(Answer(found(&state, &principal, &search).await?.len()))
}

/// Limit and offset of a page.
pub fn page_of(limit: Option<usize>, offset: Option<usize>, default: usize) -> Result<(usize, usize), Problem> {
    let limit = limit.unwrap_or(default);
    if !(1..=MAX_LANGGRAPH_PAGE).contains(&limit) {
        return Err(Problem::invalid(format!("limit is {limit}, but must be from 1 to {MAX_LANGGRAPH_PAGE}")));
    }
    Ok((limit, offset.unwrap_or_default()))
}

/// The response with the offset of the next page.
pub fn paged(mut response: Response, next: Option<usize>) -> Response {
    if let Some(next) = next {
        response.headers_mut().insert(NEXT_HEADER, next.into());
    }
    response
}
