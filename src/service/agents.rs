//! Agents that were made over the API, as the text of their definitions.

use super::{ServiceError, context::Context};
use crate::domain::{AgentId, Principal};

/// The use cases of agents' definitions. They belong to a project; who may change them is decided at the door.
#[derive(Clone)]
pub struct AgentDefinitions {
    pub(super) context: Context,
}

impl AgentDefinitions {
    /// All of the principal's project, by name.
    pub async fn list(&self, principal: &Principal) -> Result<Vec<(AgentId, String)>, ServiceError> {
        Ok(self.context.store.agents(&principal.project).await?)
    }

    /// Makes an agent, or replaces it.
    pub async fn put(&self, principal: &Principal, id: &AgentId, definition: &str) -> Result<(), ServiceError> {
        Ok(self.context.store.put_agent(&principal.project, id, definition).await?)
    }

    /// Forgets an agent. False if there was none.
    pub async fn delete(&self, principal: &Principal, id: &AgentId) -> Result<bool, ServiceError> {
        Ok(self.context.store.delete_agent(&principal.project, id).await?)
    }
}
