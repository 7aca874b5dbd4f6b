//! Branches of a conversation, in memory.

use async_trait::async_trait;
use threadline_core::{Family, ListOrder, ProjectId, Thread, ThreadKey, Timestamp, UserId};

use super::{MemoryStore, Row, State};
use crate::{BranchStore, StoreResult};

impl State {
    /// Gives the thread that is forked the family of the fork, if it has none.
    pub(super) fn relate(&mut self, parent: ThreadKey, family: Option<Family>) {
        if let Some(row) = self.threads.get_mut(&parent).filter(|row| row.thread.branch.family.is_none())
            && family.is_some()
        {
            row.thread.branch.family = family;
            row.thread.version += 1;
        }
    }

    /// True if no thread of the row's family, itself included, was used since.
    pub(super) fn is_family_idle(&self, row: &Row, before: Timestamp) -> bool {
        let Some(family) = row.thread.branch.family else { return true };
        self.family(&row.thread.project, &row.thread.user, family).all(|row| row.sort_at(ListOrder::Recent) < before)
    }

    fn family(&self, project: &ProjectId, user: &UserId, family: Family) -> impl Iterator<Item = &Row> {
        self.threads.values().filter(move |row| {
            row.thread.branch.family == Some(family) && row.thread.project == *project && row.thread.user == *user
        })
    }
}

#[async_trait]
impl BranchStore for MemoryStore {
    async fn branches(
        &self,
        project: &ProjectId,
        user: &UserId,
        family: Family,
        limit: usize,
    ) -> StoreResult<Vec<Thread>> {
        let state = self.state();
        let mut rows: Vec<_> = state.family(project, user, family).collect();
        rows.sort_by_key(|row| (row.thread.created_at, row.thread.key));
        Ok(rows.into_iter().take(limit).map(Row::snapshot).collect())
    }

    async fn unlisted(&self, project: &ProjectId, user: &UserId, limit: usize) -> StoreResult<Vec<Thread>> {
        let state = self.state();
        let hidden = state.threads.values().filter(|row| !row.thread.branch.listed);
        let own = hidden.filter(|row| row.thread.project == *project && row.thread.user == *user);
        Ok(own.take(limit).map(Row::snapshot).collect())
    }

    async fn list_branch(
        &self,
        project: &ProjectId,
        user: &UserId,
        family: Family,
        key: Option<ThreadKey>,
    ) -> StoreResult<bool> {
        let state = &mut *self.state();
        let members: Vec<_> = state
            .family(project, user, family)
            .map(|row| (row.thread.branch.listed, row.sort_at(ListOrder::Recent), row.thread.key))
            .collect();
        let wanted = members.iter().filter(|member| key.is_none_or(|key| key == member.2)).max();
        let Some((_, _, chosen)) = wanted.copied() else { return Ok(false) };
        let mut changed = false;
        for (listed, _, key) in members {
            if listed != (key == chosen)
                && let Some(row) = state.threads.get_mut(&key)
            {
                row.thread.branch.listed = key == chosen;
                row.thread.version += 1;
                changed = true;
            }
        }
        Ok(changed)
    }
}
