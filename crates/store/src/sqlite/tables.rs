//! Execution of the statements of cold tables.

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, sqlite::SqliteRow};
use threadline_core::AuditEntry;

use super::{SqliteStore, fetch, rows::text_of};
use crate::{
    StoreResult,
    credentials::log_entry,
    sql::{
        pages,
        secrets::Secrets,
        tables::{Statements, Tables, Value, bound, identity::RECORD},
    },
};

pub(super) const STATEMENTS: Statements = Statements {
    branches: text_of(include_str!("../../queries/sqlite/branches.sql")),
    unlisted: text_of(include_str!("../../queries/sqlite/unlisted.sql")),
    list_branch: text_of(include_str!("../../queries/sqlite/list_branch.sql")),
    put_ticket: text_of(include_str!("../../queries/sqlite/put_ticket.sql")),
    sweep_tickets: text_of(include_str!("../../queries/sqlite/sweep_tickets.sql")),
    put_snapshot: text_of(include_str!("../../queries/sqlite/put_snapshot.sql")),
    unprojected: text_of(include_str!("../../queries/sqlite/unprojected.sql")),
    put_annotation: text_of(include_str!("../../queries/sqlite/put_annotation.sql")),
    annotations: text_of(include_str!("../../queries/sqlite/annotations.sql")),
    claim_tool_call: text_of(include_str!("../../queries/sqlite/claim_tool_call.sql")),
    tool_claim: text_of(include_str!("../../queries/sqlite/tool_claim.sql")),
    kv_entries: text_of(include_str!("../../queries/sqlite/kv_entries.sql")),
    kv_page: text_of(include_str!("../../queries/sqlite/kv_page.sql")),
    kv_namespaces: text_of(include_str!("../../queries/sqlite/kv_namespaces.sql")),
    all_kv: text_of(include_str!("../../queries/sqlite/all_kv.sql")),
    sweep_kv: text_of(include_str!("../../queries/sqlite/sweep_kv.sql")),
    forget_kv: text_of(include_str!("../../queries/sqlite/forget_kv.sql")),
    stream_chunks: text_of(include_str!("../../queries/sqlite/stream_chunks.sql")),
    list_state: text_of(include_str!("../../queries/sqlite/list_state.sql")),
    measure_items: text_of(include_str!("../../queries/sqlite/measure_items.sql")),
    items_after: text_of(include_str!("../../queries/sqlite/items_after.sql")),
    items_before: text_of(include_str!("../../queries/sqlite/items_before.sql")),
    listed_data: text_of(include_str!("../../queries/sqlite/listed_data.sql")),
    checkpoints_in_ns: text_of(include_str!("../../queries/sqlite/checkpoints_in_ns.sql")),
    checkpoints_in_thread: text_of(include_str!("../../queries/sqlite/checkpoints_in_thread.sql")),
    checkpoints_of_project: text_of(include_str!("../../queries/sqlite/checkpoints_of_project.sql")),
    checkpoints_of_user: text_of(include_str!("../../queries/sqlite/checkpoints_of_user.sql")),
    checkpoint_blobs_of: text_of(include_str!("../../queries/sqlite/checkpoint_blobs_of.sql")),
    checkpoint_writes_of: text_of(include_str!("../../queries/sqlite/checkpoint_writes_of.sql")),
    checkpoints_of_run: text_of(include_str!("../../queries/sqlite/checkpoints_of_run.sql")),
    idle: text_of(include_str!("../../queries/sqlite/idle.sql")),
    footprint: text_of(include_str!("../../queries/sqlite/footprint.sql")),
    footprint_rest: text_of(include_str!("../../queries/sqlite/footprint_rest.sql")),
    forget_some: text_of(include_str!("../../queries/sqlite/forget_some.sql")),
    forget: text_of(include_str!("../../queries/sqlite/forget.sql")),
    take_jobs: text_of(include_str!("../../queries/sqlite/take_jobs.sql")),
    end_job: text_of(include_str!("../../queries/sqlite/end_job.sql")),
    delay_job: text_of(include_str!("../../queries/sqlite/delay_job.sql")),
    put_job: text_of(include_str!("../../queries/sqlite/put_job.sql")),
    job_due: text_of(include_str!("../../queries/sqlite/job_due.sql")),
    job_levels: text_of(include_str!("../../queries/sqlite/job_levels.sql")),
    tombstones: "SELECT key FROM threads WHERE deleted > 0 AND deleted <> 4 AND deleted = 1 AND project = $1 AND user = $2 LIMIT $3",
    trash: text_of(include_str!("../../queries/sqlite/trash.sql")),
    count_idle: text_of(include_str!("../../queries/sqlite/count_idle.sql")),
    trash_page: text_of(include_str!("../../queries/sqlite/trash_page.sql")),
    trashed_users: "SELECT DISTINCT user FROM threads WHERE project = $1 AND id = $2 AND deleted = 4 LIMIT 2",
    restore: text_of(include_str!("../../queries/sqlite/restore.sql")),
    discard: text_of(include_str!("../../queries/sqlite/discard.sql")),
    trash_of: "SELECT key FROM threads WHERE deleted = 4 AND project = $1 AND user = $2 LIMIT $3",
    add_usage: text_of(include_str!("../../queries/sqlite/add_usage.sql")),
    count_usage: text_of(include_str!("../../queries/sqlite/count_usage.sql")),
    correct_usage: text_of(include_str!("../../queries/sqlite/correct_usage.sql")),
    correct_project: text_of(include_str!("../../queries/sqlite/correct_project.sql")),
    due_usage: text_of(include_str!("../../queries/sqlite/due_usage.sql")),
    all_threads: text_of(include_str!("../../queries/sqlite/all_threads.sql")),
    annotated_threads: text_of(include_str!("../../queries/sqlite/annotated_threads.sql")),
    all_feeds: "SELECT project, user FROM feed_heads WHERE (project, user) > ($1, $2) ORDER BY project, user LIMIT $3",
    feed_image: text_of(include_str!("../../queries/sqlite/feed_image.sql")),
    stored_entries: text_of(include_str!("../../queries/sqlite/stored_entries.sql")),
};

#[async_trait]
impl Tables for SqliteStore {
    type Row = SqliteRow;

    const STATEMENTS: Statements = STATEMENTS;

    fn time(&self) -> Option<i64> {
        Some(self.inner.clock.now().0)
    }

    fn secrets(&self) -> &Secrets {
        &self.inner.secrets
    }

    fn kept(text: &str) -> String {
        text.to_owned()
    }

    async fn found(&self, text: &'static str, values: Vec<Value>) -> StoreResult<Vec<SqliteRow>> {
        Ok(self.read_rows(bound(text, values)).await?)
    }

    async fn damaged_files(&self, limit: usize) -> StoreResult<Vec<String>> {
        // A pragma takes no parameters.
        let text = format!("PRAGMA integrity_check({limit})");
        let rows = self.read_rows(sqlx::query(AssertSqlSafe(text))).await?;
        let mut found = pages::each(&rows, |columns| columns.text())?;
        found.retain(|line| line != "ok");
        Ok(found)
    }

    async fn changed(&self, text: &'static str, values: Vec<Value>) -> StoreResult<Vec<SqliteRow>> {
        let statement = bound(text, values);
        self.transact(move |connection| Box::pin(fetch::rows(connection, statement))).await
    }

    async fn recorded(
        &self,
        text: &'static str,
        values: Vec<Value>,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<Vec<SqliteRow>> {
        let (statement, noted) = (bound(text, values), entry.map(Self::entry));
        let rows = self.transact(move |connection| {
            Box::pin(async move {
                let rows = fetch::rows(connection, statement).await?;
                if let Some(noted) = noted.filter(|_| !rows.is_empty()) {
                    fetch::rows(connection, bound(RECORD, noted)).await?;
                }
                Ok(rows)
            })
        });
        let rows = rows.await?;
        entry.filter(|_| !rows.is_empty()).into_iter().for_each(log_entry);
        Ok(rows)
    }
}
