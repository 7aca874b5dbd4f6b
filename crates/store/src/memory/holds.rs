//! Holds of retention in the memory store.

use async_trait::async_trait;
use threadline_core::{AuditEntry, ProjectId, Timestamp};

use super::MemoryStore;
use crate::{HoldStore, RetentionHold, StoreResult};

#[async_trait]
impl HoldStore for MemoryStore {
    async fn count_idle(&self, project: &ProjectId, before: Timestamp, bound: usize) -> StoreResult<u64> {
        let state = self.state();
        let idle = state
            .threads
            .values()
            .filter(|row| row.thread.project == *project && row.is_idle(before) && state.is_family_idle(row, before));
        Ok(idle.take(bound).count() as u64)
    }

    async fn count_own(&self, project: &ProjectId) -> StoreResult<u64> {
        let state = self.state();
        Ok(state.threads.values().filter(|row| row.thread.project == *project).count() as u64)
    }

    async fn hold(&self, hold: &RetentionHold, entry: &AuditEntry) -> StoreResult<bool> {
        let state = &mut *self.state();
        let holds = &mut state.holds;
        let before = holds.get(&hold.project).map(|before| before.approved);
        let hold = RetentionHold { approved: before.unwrap_or(0), ..hold.clone() };
        holds.insert(hold.project.clone(), hold);
        if before.is_none() {
            state.identity.record(entry.clone());
        }
        Ok(before.is_none())
    }

    async fn holds(&self) -> StoreResult<Vec<RetentionHold>> {
        Ok(self.state().holds.values().cloned().collect())
    }

    async fn approve(&self, project: &ProjectId, count: u64, entry: &AuditEntry) -> StoreResult<Option<RetentionHold>> {
        let state = &mut *self.state();
        Ok(state.holds.get_mut(project).map(|hold| {
            hold.approved = count;
            state.identity.record(entry.clone());
            hold.clone()
        }))
    }

    async fn spend(&self, project: &ProjectId, count: u64) -> StoreResult<()> {
        let holds = &mut self.state().holds;
        if let Some(hold) = holds.get_mut(project).filter(|hold| hold.approved > count) {
            hold.approved -= count;
        } else {
            holds.remove(project);
        }
        Ok(())
    }

    async fn end_hold(&self, project: &ProjectId) -> StoreResult<()> {
        self.state().holds.remove(project);
        Ok(())
    }
}
