//! Models: the agents that the caller can have respond.

use axum::{Json as Answer, extract::State};
use serde::Serialize;
use threadline_core::AgentId;
use threadline_http::{
    extract::{Caller, InPath},
    problem::{Problem, ProblemType},
};
use utoipa::ToSchema;

use super::errors::OpenAiError;
use crate::{agents::Origin, api::ApiState};

/// Value of `created` of every model: agents have no time of creation.
const CREATED: i64 = 0;

/// An agent, as a model.
#[derive(Debug, Serialize, ToSchema)]
pub struct Model {
    /// The id of the agent.
    id: String,
    #[schema(example = "model")]
    object: &'static str,
    /// Always 0: agents have no time of creation.
    created: i64,
    /// `threadline` for an agent that is built in or part of the configuration, else `project`.
    owned_by: &'static str,
}

/// All agents, as models.
#[derive(Debug, Serialize, ToSchema)]
pub struct Models {
    #[schema(example = "list")]
    object: &'static str,
    data: Vec<Model>,
}

impl Model {
    fn new(id: &AgentId, origin: Origin) -> Self {
        let owned_by = match origin {
            Origin::BuiltIn | Origin::Configuration => "threadline",
            Origin::Api => "project",
        };
        Self { id: id.to_string(), object: "model", created: CREATED, owned_by }
    }
}

/// Lists the agents as models, by name.
#[utoipa::path(get, path = "/openai/v1/models", tag = "openai", responses(
    (status = 200, description = "The models", body = Models),
    (status = 401, description = "Authentication required", body = OpenAiError)))]
pub async fn list(State(state): State<ApiState>, Caller(principal): Caller) -> Result<Answer<Models>, Problem> {
    let agents = state.agents.list(&principal).await?;
    let data = agents.iter().map(|(agent, origin)| Model::new(&agent.id, *origin)).collect();
    Ok(Answer(Models { object: "list", data }))
}

/// Reads an agent as a model.
#[utoipa::path(get, path = "/openai/v1/models/{model}", tag = "openai",
    params(("model" = String, Path, description = "Id of the agent")), responses(
    (status = 200, description = "The model", body = Model),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 404, description = "Model not found", body = OpenAiError)))]
pub async fn get(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InPath(model): InPath,
) -> Result<Answer<Model>, Problem> {
    let id = agent_id(&model)?;
    let (agent, origin) = state.agents.get(&principal, &id).await?;
    Ok(Answer(Model::new(&agent.id, origin)))
}

/// Agent that a model's name means. A name that no agent can have is not found.
pub fn agent_id(model: &str) -> Result<AgentId, Problem> {
    AgentId::new(model).map_err(|error| {
        Problem::new(ProblemType::AgentNotFound, format!("no agent has the ID {:?}: {error}", short(model)))
    })
}

fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(128)]
}
