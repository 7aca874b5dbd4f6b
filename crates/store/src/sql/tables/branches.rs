//! Branches of conversations in both databases.

use async_trait::async_trait;
use threadline_core::{Family, ProjectId, Thread, ThreadKey, UserId};

use super::Tables;
use crate::{
    BranchStore, StoreResult,
    sql::{corrupt, limit, pages},
};

#[async_trait]
impl<S: Tables> BranchStore for S {
    async fn branches(
        &self,
        project: &ProjectId,
        user: &UserId,
        family: Family,
        most: usize,
    ) -> StoreResult<Vec<Thread>> {
        let values = vec![project.as_str().into(), user.as_str().into(), family.0.into(), limit(most).into()];
        let rows = self.found(S::STATEMENTS.branches, values).await?;
        pages::each(&rows, |columns| columns.thread()?.ok_or_else(|| corrupt("a branch without columns")))
    }

    async fn unlisted(&self, project: &ProjectId, user: &UserId, most: usize) -> StoreResult<Vec<Thread>> {
        let values = vec![project.as_str().into(), user.as_str().into(), limit(most).into()];
        let rows = self.found(S::STATEMENTS.unlisted, values).await?;
        pages::each(&rows, |columns| columns.thread()?.ok_or_else(|| corrupt("a branch without columns")))
    }

    async fn list_branch(
        &self,
        project: &ProjectId,
        user: &UserId,
        family: Family,
        key: Option<ThreadKey>,
    ) -> StoreResult<bool> {
        let values = vec![project.as_str().into(), user.as_str().into(), family.0.into(), key.map(|key| key.0).into()];
        Ok(!self.changed(S::STATEMENTS.list_branch, values).await?.is_empty())
    }
}
