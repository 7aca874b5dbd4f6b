//! Execution of the statements of cold tables.

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr, postgres::PgRow};
use threadline_core::{AuditEntry, limits::PG_RACES};

use super::{
    PgStore,
    fetch::Kind,
    rows::{self, text_of},
};
use crate::{
    StoreError, StoreResult,
    credentials::log_entry,
    sql::{
        secrets::Secrets,
        tables::{Statements, Tables, Value, bound},
    },
};

pub(super) const STATEMENTS: Statements = Statements {
    branches: text_of(include_str!("../../queries/postgres/branches.sql")),
    unlisted: text_of(include_str!("../../queries/postgres/unlisted.sql")),
    list_branch: text_of(include_str!("../../queries/postgres/list_branch.sql")),
    put_ticket: text_of(include_str!("../../queries/postgres/put_ticket.sql")),
    sweep_tickets: text_of(include_str!("../../queries/postgres/sweep_tickets.sql")),
    put_snapshot: text_of(include_str!("../../queries/postgres/put_snapshot.sql")),
    unprojected: text_of(include_str!("../../queries/postgres/unprojected.sql")),
    put_annotation: text_of(include_str!("../../queries/postgres/put_annotation.sql")),
    annotations: text_of(include_str!("../../queries/postgres/annotations.sql")),
    claim_tool_call: text_of(include_str!("../../queries/postgres/claim_tool_call.sql")),
    tool_claim: text_of(include_str!("../../queries/postgres/tool_claim.sql")),
    kv_entries: text_of(include_str!("../../queries/postgres/kv_entries.sql")),
    kv_page: text_of(include_str!("../../queries/postgres/kv_page.sql")),
    kv_namespaces: text_of(include_str!("../../queries/postgres/kv_namespaces.sql")),
    all_kv: text_of(include_str!("../../queries/postgres/all_kv.sql")),
    sweep_kv: text_of(include_str!("../../queries/postgres/sweep_kv.sql")),
    forget_kv: text_of(include_str!("../../queries/postgres/forget_kv.sql")),
    stream_chunks: text_of(include_str!("../../queries/postgres/stream_chunks.sql")),
    list_state: text_of(include_str!("../../queries/postgres/list_state.sql")),
    measure_items: text_of(include_str!("../../queries/postgres/measure_items.sql")),
    items_after: text_of(include_str!("../../queries/postgres/items_after.sql")),
    items_before: text_of(include_str!("../../queries/postgres/items_before.sql")),
    listed_data: text_of(include_str!("../../queries/postgres/listed_data.sql")),
    checkpoints_in_ns: text_of(include_str!("../../queries/postgres/checkpoints_in_ns.sql")),
    checkpoints_in_thread: text_of(include_str!("../../queries/postgres/checkpoints_in_thread.sql")),
    checkpoints_of_project: text_of(include_str!("../../queries/postgres/checkpoints_of_project.sql")),
    checkpoints_of_user: text_of(include_str!("../../queries/postgres/checkpoints_of_user.sql")),
    checkpoint_blobs_of: text_of(include_str!("../../queries/postgres/checkpoint_blobs_of.sql")),
    checkpoint_writes_of: text_of(include_str!("../../queries/postgres/checkpoint_writes_of.sql")),
    checkpoints_of_run: text_of(include_str!("../../queries/postgres/checkpoints_of_run.sql")),
    idle: text_of(include_str!("../../queries/postgres/idle.sql")),
    footprint: text_of(include_str!("../../queries/postgres/footprint.sql")),
    footprint_rest: text_of(include_str!("../../queries/postgres/footprint_rest.sql")),
    forget_some: text_of(include_str!("../../queries/postgres/forget_some.sql")),
    forget: text_of(include_str!("../../queries/postgres/forget.sql")),
    take_jobs: text_of(include_str!("../../queries/postgres/take_jobs.sql")),
    end_job: text_of(include_str!("../../queries/postgres/end_job.sql")),
    delay_job: text_of(include_str!("../../queries/postgres/delay_job.sql")),
    put_job: text_of(include_str!("../../queries/postgres/put_job.sql")),
    job_due: text_of(include_str!("../../queries/postgres/job_due.sql")),
    job_levels: text_of(include_str!("../../queries/postgres/job_levels.sql")),
    tombstones: "SELECT key FROM threads WHERE deleted = 1 AND project = $1 AND user_id = $2 LIMIT $3",
    trash: text_of(include_str!("../../queries/postgres/trash.sql")),
    count_idle: text_of(include_str!("../../queries/postgres/count_idle.sql")),
    trash_page: text_of(include_str!("../../queries/postgres/trash_page.sql")),
    trashed_users: "SELECT DISTINCT user_id FROM threads WHERE project = $1 AND id = $2 AND deleted = 4 LIMIT 2",
    restore: text_of(include_str!("../../queries/postgres/restore.sql")),
    discard: text_of(include_str!("../../queries/postgres/discard.sql")),
    trash_of: "SELECT key FROM threads WHERE deleted = 4 AND project = $1 AND user_id = $2 LIMIT $3",
    add_usage: text_of(include_str!("../../queries/postgres/add_usage.sql")),
    count_usage: text_of(include_str!("../../queries/postgres/count_usage.sql")),
    correct_usage: text_of(include_str!("../../queries/postgres/correct_usage.sql")),
    correct_project: text_of(include_str!("../../queries/postgres/correct_project.sql")),
    due_usage: text_of(include_str!("../../queries/postgres/due_usage.sql")),
    all_threads: text_of(include_str!("../../queries/postgres/all_threads.sql")),
    annotated_threads: text_of(include_str!("../../queries/postgres/annotated_threads.sql")),
    all_feeds: "SELECT project, user_id FROM feed_heads WHERE (project, user_id) > ($1, $2) ORDER BY project, user_id LIMIT $3",
    feed_image: text_of(include_str!("../../queries/postgres/feed_image.sql")),
    stored_entries: text_of(include_str!("../../queries/postgres/stored_entries.sql")),
};

#[async_trait]
impl Tables for PgStore {
    type Row = PgRow;

    const STATEMENTS: Statements = STATEMENTS;

    fn time(&self) -> Option<i64> {
        self.now()
    }

    fn secrets(&self) -> &Secrets {
        &self.inner.secrets
    }

    fn kept(text: &str) -> String {
        rows::text(text.to_owned())
    }

    async fn found(&self, text: &'static str, values: Vec<Value>) -> StoreResult<Vec<PgRow>> {
        self.read_rows(bound(text, values)).await
    }

    async fn damaged_files(&self, _limit: usize) -> StoreResult<Vec<String>> {
        Ok(Vec::new())
    }

    async fn changed(&self, text: &'static str, values: Vec<Value>) -> StoreResult<Vec<PgRow>> {
        self.change(text.into_sql_str(), values).await
    }

    async fn recorded(
        &self,
        text: &'static str,
        mut values: Vec<Value>,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<Vec<PgRow>> {
        let Some(entry) = entry else { return self.changed(text, values).await };
        let [project, at, actor, action, facts] = [1, 2, 3, 4, 5].map(|place| values.len() + place);
        let text = format!(
            "WITH done AS ({text}), noted AS (
               INSERT INTO audit (project, at, actor, action, facts)
               SELECT ${project}::text, ${at}::bigint, ${actor}::text, ${action}::text, ${facts}::text FROM done LIMIT 1
             )
             SELECT * FROM done"
        );
        values.extend(Self::entry(entry));
        let rows = self.change(AssertSqlSafe(text).into_sql_str(), values).await?;
        if !rows.is_empty() {
            log_entry(entry);
        }
        Ok(rows)
    }
}

impl PgStore {
    /// The rows of a statement that is a transaction of its own.
    async fn change(&self, text: SqlStr, values: Vec<Value>) -> StoreResult<Vec<PgRow>> {
        for _ in 0..PG_RACES {
            match self.write_once(bound(text.clone(), values.clone())).await {
                // Another caller has stored this key a moment ago: the next attempt sees it.
                Err(failure) if failure.kind == Kind::Duplicate => {}
                done => return Ok(done?),
            }
        }
        Err(StoreError::Unavailable("other callers store and remove the same key all the time".to_owned()))
    }
}
