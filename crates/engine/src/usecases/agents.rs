//! Agents defined over the API, as the text of their definitions.

use serde_json::json;
use threadline_core::{AgentId, AuditEntry, Principal};
use threadline_store::{DynStore, StoreClock};

use crate::StoreError;

/// Use cases of agents' definitions. Definitions belong to a project; the API decides who may change them.
#[derive(Clone)]
pub struct AgentDefinitions {
    pub(crate) store: DynStore,
    pub(crate) clock: StoreClock,
}

/// Change of a definition.
#[derive(Debug, Clone, Copy)]
pub struct NewDefinition<'a> {
    /// Text of the definition.
    pub definition: &'a str,
    /// Scheme, host and port of the agent.
    pub origin: &'a str,
    /// Origin that an agent of this name had last, as the caller has seen it.
    pub before: Option<&'a str>,
    /// True if the agent exists.
    pub exists: bool,
}

impl AgentDefinitions {
    /// All definitions of the principal's project, by name.
    pub async fn list(&self, principal: &Principal) -> Result<Vec<(AgentId, String)>, StoreError> {
        self.store.agents(&principal.project).await
    }

    /// Origin of the last definition under this name, also of a deleted one.
    pub async fn origin(&self, principal: &Principal, id: &AgentId) -> Result<Option<String>, StoreError> {
        self.store.agent_origin(&principal.project, id).await
    }

    /// Creates or replaces an agent. False, and nothing is changed, if its origin has changed since the caller saw it.
    pub async fn put(&self, principal: &Principal, id: &AgentId, new: NewDefinition<'_>) -> Result<bool, StoreError> {
        let NewDefinition { definition, origin, before, exists } = new;
        let project = &principal.project;
        let now = self.clock.now();
        // The origin comes first: a node that fails in between has allowed no more than this caller may. Its entry is in the
        // audit with it, so that a repeated request loses no origin.
        let facts = json!({ "agentId": id.as_str(), "origin": origin, "originBefore": before });
        let moved = AuditEntry::by(principal, project, now, "agent.origin-changed", &facts);
        if before != Some(origin) && !self.store.put_agent_origin(project, id, origin, before, Some(&moved)).await? {
            return Ok(false);
        }
        let facts = json!({ "agentId": id.as_str(), "origin": origin });
        let action = if exists { "agent.changed" } else { "agent.created" };
        let entry = AuditEntry::by(principal, project, now, action, &facts);
        self.store.put_agent(project, id, definition, Some(&entry)).await?;
        Ok(true)
    }

    /// Deletes an agent of this origin. False if there was none.
    pub async fn delete(&self, principal: &Principal, id: &AgentId, origin: Option<&str>) -> Result<bool, StoreError> {
        let project = &principal.project;
        // An agent from before origins were stored has none yet. A stored origin stays.
        if let Some(origin) = origin {
            self.store.put_agent_origin(project, id, origin, None, None).await?;
        }
        let facts = json!({ "agentId": id.as_str(), "origin": origin });
        let entry = AuditEntry::by(principal, project, self.clock.now(), "agent.deleted", &facts);
        self.store.delete_agent(project, id, Some(&entry)).await
    }
}
