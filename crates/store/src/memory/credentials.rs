//! Sign-outs, uses of keys, origins of agents, and the audit for readers that follow it.

use async_trait::async_trait;
use threadline_core::{AgentId, ApiKey, AuditEntry, Cutoff, KeyId, KeyUse, ProjectId, Timestamp};

use super::MemoryStore;
use crate::{CredentialStore, StoreResult};

#[async_trait]
impl CredentialStore for MemoryStore {
    async fn key_named(&self, project: &ProjectId, id: &KeyId) -> StoreResult<Option<ApiKey>> {
        Ok(self.state().identity.key_mut(project, id).cloned())
    }

    async fn note_uses(&self, uses: &[(ProjectId, KeyId, KeyUse)]) -> StoreResult<()> {
        let identity = &mut self.state().identity;
        for (project, id, used) in uses {
            let Some(key) = identity.key_mut(project, id) else { continue };
            if key.last_used.as_ref().is_none_or(|last| last.at < used.at) {
                key.last_used = Some(used.clone());
            }
        }
        Ok(())
    }

    async fn put_cutoff(&self, cutoff: &Cutoff, entry: Option<&AuditEntry>) -> StoreResult<()> {
        let identity = &mut self.state().identity;
        let subject = (cutoff.project.clone(), cutoff.kind, cutoff.subject);
        if identity.cutoffs.get(&subject).is_none_or(|stored| stored.not_before < cutoff.not_before) {
            identity.cutoffs.insert(subject, cutoff.clone());
            identity.audit.extend(entry.cloned());
        }
        Ok(())
    }

    async fn cutoffs(&self, since: Timestamp) -> StoreResult<Vec<Cutoff>> {
        let state = self.state();
        let mut found: Vec<_> = state.identity.cutoffs.values().filter(|cutoff| cutoff.at >= since).cloned().collect();
        found.sort_by_key(|cutoff| cutoff.at);
        Ok(found)
    }

    async fn forget_cutoffs(&self, before: Timestamp) -> StoreResult<()> {
        self.state().identity.cutoffs.retain(|_, cutoff| cutoff.at >= before);
        Ok(())
    }

    async fn audit_after(&self, project: &ProjectId, after: i64, limit: usize) -> StoreResult<Vec<(i64, AuditEntry)>> {
        let state = self.state();
        let wanted = state.identity.audit.of(project).filter(|(number, _)| *number > after);
        Ok(wanted.take(limit).map(|(number, entry)| (number, entry.clone())).collect())
    }

    async fn forget_audit(&self, project: &ProjectId, before: Timestamp, limit: usize) -> StoreResult<bool> {
        Ok(self.state().identity.audit.forget(project, before, limit) >= limit)
    }

    async fn agent_origin(&self, project: &ProjectId, id: &AgentId) -> StoreResult<Option<String>> {
        Ok(self.state().agent_origins.get(&(project.clone(), id.clone())).cloned())
    }

    async fn put_agent_origin(
        &self,
        project: &ProjectId,
        id: &AgentId,
        origin: &str,
        seen: Option<&str>,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<bool> {
        let mut state = self.state();
        let stored = state.agent_origins.get(&(project.clone(), id.clone()));
        let fits = stored.is_none_or(|stored| Some(stored.as_str()) == seen);
        if fits {
            state.agent_origins.insert((project.clone(), id.clone()), origin.to_owned());
            state.identity.audit.extend(entry.cloned());
        }
        Ok(fits)
    }
}
