//! Holds of retention, in both databases.

use async_trait::async_trait;
use threadline_core::{AuditEntry, ProjectId, Timestamp};

use super::Tables;
use crate::{
    HoldStore, RetentionHold, StoreResult,
    sql::{
        columns::{Cells, Columns},
        limit,
        pages::each,
        to_i64,
    },
};

const COUNT: &str = "SELECT count(*) FROM threads WHERE project = $1 AND deleted = 0";
const HOLD: &str = "\
    INSERT INTO retention_holds (project, idle, threads) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING project";
const HOLD_STILL: &str = "UPDATE retention_holds SET idle = $2, threads = $3 WHERE project = $1 RETURNING project";
const HOLDS: &str = "SELECT project, idle, threads, approved FROM retention_holds ORDER BY project";
const APPROVE: &str = "\
    UPDATE retention_holds SET approved = $2 WHERE project = $1 RETURNING project, idle, threads, approved";
const SPEND: &str = "\
    UPDATE retention_holds SET approved = approved - $2 WHERE project = $1 AND approved > $2 RETURNING project";
const END: &str = "DELETE FROM retention_holds WHERE project = $1 RETURNING project";

fn holds<R: Cells>(rows: &[R]) -> StoreResult<Vec<RetentionHold>> {
    each(rows, |columns| {
        Ok(RetentionHold {
            project: columns.id(ProjectId::new)?,
            idle: columns.count()?,
            threads: columns.count()?,
            approved: columns.count()?,
        })
    })
}

#[async_trait]
impl<S: Tables> HoldStore for S {
    async fn count_idle(&self, project: &ProjectId, before: Timestamp, bound: usize) -> StoreResult<u64> {
        let values = vec![project.as_str().into(), before.0.into(), limit(bound).into()];
        let rows = self.found(S::STATEMENTS.count_idle, values).await?;
        rows.first().map_or(Ok(0), |row| Columns::new(row).count())
    }

    async fn count_own(&self, project: &ProjectId) -> StoreResult<u64> {
        let rows = self.found(COUNT, vec![project.as_str().into()]).await?;
        rows.first().map_or(Ok(0), |row| Columns::new(row).count())
    }

    async fn hold(&self, hold: &RetentionHold, entry: &AuditEntry) -> StoreResult<bool> {
        let values = vec![hold.project.as_str().into(), to_i64(hold.idle).into(), to_i64(hold.threads).into()];
        let new = !self.recorded(HOLD, values.clone(), Some(entry)).await?.is_empty();
        if !new {
            self.changed(HOLD_STILL, values).await?;
        }
        Ok(new)
    }

    async fn holds(&self) -> StoreResult<Vec<RetentionHold>> {
        holds(&self.found(HOLDS, Vec::new()).await?)
    }

    async fn approve(&self, project: &ProjectId, count: u64, entry: &AuditEntry) -> StoreResult<Option<RetentionHold>> {
        let values = vec![project.as_str().into(), to_i64(count).into()];
        Ok(holds(&self.recorded(APPROVE, values, Some(entry)).await?)?.pop())
    }

    async fn spend(&self, project: &ProjectId, count: u64) -> StoreResult<()> {
        let values = vec![project.as_str().into(), to_i64(count).into()];
        if self.changed(SPEND, values).await?.is_empty() {
            self.end_hold(project).await?;
        }
        Ok(())
    }

    async fn end_hold(&self, project: &ProjectId) -> StoreResult<()> {
        self.changed(END, vec![project.as_str().into()]).await.map(drop)
    }
}
