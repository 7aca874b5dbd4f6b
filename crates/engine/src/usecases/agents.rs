//! Agents defined over the API, as the text of their definitions.

use std::sync::Arc;

use threadline_core::{AgentId, Principal};
use threadline_store::AgentStore;

use crate::StoreError;

/// Use cases of agents' definitions. Definitions belong to a project; the API decides who may change them.
#[derive(Clone)]
pub struct AgentDefinitions {
    pub(crate) store: Arc<dyn AgentStore>,
}

impl AgentDefinitions {
    /// All definitions of the principal's project, by name.
    pub async fn list(&self, principal: &Principal) -> Result<Vec<(AgentId, String)>, StoreError> {
        self.store.agents(&principal.project).await
    }

    /// Creates or replaces an agent.
    pub async fn put(&self, principal: &Principal, id: &AgentId, definition: &str) -> Result<(), StoreError> {
        self.store.put_agent(&principal.project, id, definition).await
    }

    /// Deletes an agent. False if there was none.
    pub async fn delete(&self, principal: &Principal, id: &AgentId) -> Result<bool, StoreError> {
        self.store.delete_agent(&principal.project, id).await
    }
}
