//! Lines of the file of agents, as described in `proto/export.md`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{AgentId, ProjectId};
use threadline_store::StoreError;

use super::format::raw;

/// Line with an agent: `{"agent":{…}}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentLine {
    pub agent: AgentFacts,
}

/// Agent that was made over the API.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentFacts {
    pub project_id: ProjectId,
    /// Name of the agent.
    pub agent_id: AgentId,
    /// Definition as a JSON object.
    pub definition: Box<RawValue>,
}

impl AgentFacts {
    /// Facts of this agent.
    pub fn of(project_id: ProjectId, agent_id: AgentId, definition: String) -> Result<Self, StoreError> {
        Ok(Self { project_id, agent_id, definition: raw(definition)? })
    }
}
