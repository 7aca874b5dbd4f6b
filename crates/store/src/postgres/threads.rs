//! Threads: creation, lists, changes, deletion and purge.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    Epoch, NewThread, ProjectId, Seq, Thread, ThreadId, ThreadKey, ThreadPatch,
    limits::{PG_RACES, PURGE_ROWS},
};

use super::{
    PgStore,
    fetch::{Rows, Statement},
    rows::{self, Columns, head_columns, now, run_columns, thread_columns, with_head_and_run},
};
use crate::{ListOrder, ListThreads, StoreError, StoreResult, ThreadPage, ThreadStore, sql::pages};

/// A thread, its head and its active run.
macro_rules! thread_query {
    ($select:literal, $rest:literal) => {
        concat!("SELECT ", $select, thread_columns!(), " FROM threads t", with_head_and_run!(), " WHERE ", $rest)
    };
}

pub(super) use thread_query;

pub(super) const BY_ID: &str = thread_query!("", "t.project = $1 AND t.id = $2 AND t.deleted = 0");

pub(super) const BY_KEY: &str = thread_query!("", "t.key = $1 AND t.deleted < 1");

pub(super) const LIST_RECENT: &str = thread_query!(
    "t.sort_at, ",
    "t.project = $1 AND t.user_id = $2 AND t.deleted = 0 AND ($3 OR NOT t.archived)
     AND ($4::text IS NULL OR t.agent = $4) AND t.sort_at <= $5 AND (t.sort_at < $5 OR t.id > $6)
     ORDER BY t.sort_at DESC, t.id LIMIT $7"
);
pub(super) const LIST_CREATED: &str = thread_query!(
    "t.created_at, ",
    "t.project = $1 AND t.user_id = $2 AND t.deleted = 0 AND ($3 OR NOT t.archived)
     AND ($4::text IS NULL OR t.agent = $4) AND t.created_at >= $5 AND (t.created_at > $5 OR t.id > $6)
     ORDER BY t.created_at, t.id LIMIT $7"
);

/// Inserts no row if the id is taken; waits for a transaction that takes it at this moment. The first condition saves a
/// number of the sequence.
pub(super) const CREATE: &str = concat!(
    "WITH ",
    now!(),
    ", made AS (
       INSERT INTO threads AS t (project, id, user_id, agent, name, name_source, metadata, created_with, created_at,
                                 updated_at, sort_at)
       SELECT $2::text, $3::text, $4::text, $5::text, $6::text, $7::bigint, $8::text, $9::text, c.now, c.now, c.now FROM c
       WHERE NOT EXISTS (SELECT 1 FROM threads WHERE project = $2 AND id = $3 AND deleted = 0)
       ON CONFLICT (project, id) WHERE deleted = 0 DO NOTHING
       RETURNING t.key, t.created_at
     ), head AS (
       INSERT INTO heads (key, epoch) SELECT key, $10::bigint FROM made
     )
     SELECT key, created_at FROM made"
);

/// Head and run are read as they were a moment before. `deleted < 1` and not `= 0`, here and in every statement with a
/// given key: the planner must not consider the indexes that have `deleted = 0` in them.
pub(super) const EDIT: &str = concat!(
    "WITH ",
    now!(),
    ", t AS (
       UPDATE threads AS t SET
         name = CASE WHEN $4 THEN $5::text ELSE t.name END,
         name_source = CASE WHEN $4 THEN $6::bigint ELSE t.name_source END,
         metadata = coalesce($7::text, t.metadata),
         archived = coalesce($8::boolean, t.archived),
         updated_at = c.now, sort_at = coalesce(t.last_run_at, c.now), version = t.version + 1
       FROM c WHERE t.key = $2::bigint AND t.version = $3::bigint AND t.deleted < 1
       RETURNING t.*
     )
     SELECT ",
    thread_columns!(),
    " FROM t",
    with_head_and_run!()
);

/// No row if the marker does not move, or the thread is gone. The tail may be a moment old: it only grows.
pub(super) const MARK: &str = concat!(
    "WITH t AS (
       UPDATE threads AS t SET read_seq = $2::bigint, version = t.version + 1
       WHERE t.key = $1::bigint AND t.deleted < 1 AND t.read_seq < $2 AND $2 <= (SELECT tail FROM heads WHERE key = $1)
       RETURNING t.*
     )
     SELECT ",
    thread_columns!(),
    " FROM t",
    with_head_and_run!()
);

/// The tombstone keeps the rows reachable for the purge and the feed. The head is removed at once, which ends every
/// append, start, close and read.
pub(super) const DELETE: &str = "\
    WITH gone AS (
      DELETE FROM heads WHERE key = $1 RETURNING key
    ), buried AS (
      UPDATE threads AS t SET deleted = 1, version = t.version + 1 FROM gone WHERE t.key = $1
    )
    SELECT key FROM gone";

pub(super) const TOMBSTONES: &str = "SELECT key FROM threads WHERE deleted = 1 ORDER BY key LIMIT 2";

/// Other nodes may be purging the same thread, or sealing it: locked rows are skipped, so that no node waits for
/// another.
pub(super) const PURGE_LOG: &str = "\
    WITH doomed AS MATERIALIZED (
      SELECT first_seq FROM log WHERE key = $1 ORDER BY first_seq LIMIT $2 FOR UPDATE SKIP LOCKED
    ), gone AS (
      DELETE FROM log USING doomed d WHERE log.key = $1 AND log.first_seq = d.first_seq RETURNING log.key
    )
    SELECT count(*) FROM gone";
pub(super) const PURGE_RUNS: &str = "\
    WITH doomed AS MATERIALIZED (
      SELECT fence FROM runs WHERE key = $1 ORDER BY fence LIMIT $2 FOR UPDATE SKIP LOCKED
    ), gone AS (
      DELETE FROM runs USING doomed d WHERE runs.key = $1 AND runs.fence = d.fence RETURNING runs.key
    )
    SELECT count(*) FROM gone";
pub(super) const PURGE_ANNOTATIONS: &str = "\
    WITH doomed AS MATERIALIZED (
      SELECT number FROM annotations WHERE key = $1 ORDER BY number LIMIT $2 FOR UPDATE SKIP LOCKED
    ), gone AS (
      DELETE FROM annotations a USING doomed d WHERE a.key = $1 AND a.number = d.number RETURNING a.key
    )
    SELECT count(*) FROM gone";
/// Applies only once no row is left that another node is still removing. The tombstone stays until the feed has the
/// deletion; then the pump removes it.
const PURGE_REST: &str = "\
    WITH empty AS MATERIALIZED (
      SELECT $1::bigint AS key
      WHERE NOT EXISTS (SELECT 1 FROM log WHERE key = $1) AND NOT EXISTS (SELECT 1 FROM runs WHERE key = $1)
        AND NOT EXISTS (SELECT 1 FROM annotations WHERE key = $1)
    ), sealing_gone AS (
      DELETE FROM sealing s USING empty e WHERE s.key = e.key
    ), snapshots_gone AS (
      DELETE FROM snapshots s USING empty e WHERE s.key = e.key
    ), annotated_gone AS (
      DELETE FROM annotated n USING empty e WHERE n.key = e.key
    ), fed AS (
      DELETE FROM threads t USING empty e WHERE t.key = e.key AND t.deleted = 1 AND t.version = t.fed_version
    ), left_over AS (
      UPDATE threads AS t SET deleted = 2 FROM empty e
      WHERE t.key = e.key AND t.deleted = 1 AND t.version > t.fed_version
    )
    SELECT count(*) FROM empty";

fn first_count(rows: &Rows) -> StoreResult<u64> {
    rows.first().map_or(Ok(0), |row| Columns::new(row).count())
}

impl PgStore {
    async fn one(&self, statement: Statement<'_>) -> StoreResult<Option<Thread>> {
        let rows = self.read_rows(statement).await?;
        Ok(rows.first().map(|row| Columns::new(row).thread()).transpose()?.flatten())
    }

    /// Removes a chunk of the rows left of a deleted thread. True if there are more.
    async fn purge_thread(&self, key: i64, rows: usize) -> StoreResult<bool> {
        for text in [PURGE_LOG, PURGE_RUNS, PURGE_ANNOTATIONS] {
            let gone = first_count(&self.write(query(text).bind(key).bind(rows::limit(rows))).await?)?;
            if gone >= rows as u64 {
                return Ok(true);
            }
        }
        Ok(first_count(&self.write(query(PURGE_REST).bind(key)).await?)? == 0)
    }
}

#[async_trait]
impl ThreadStore for PgStore {
    async fn create_thread(&self, mut new: NewThread) -> StoreResult<(Thread, bool)> {
        new.name = new.name.map(rows::text);
        let epoch = Epoch::generate();
        for _ in 0..PG_RACES {
            let create = query(CREATE)
                .bind(self.now())
                .bind(new.project.as_str())
                .bind(new.id.as_str())
                .bind(new.user.as_str())
                .bind(new.agent.as_ref().map(|agent| agent.as_str()))
                .bind(new.name.as_deref())
                .bind(new.name_source().map(|source| source as i64))
                .bind(&new.metadata)
                .bind(&new.created_with)
                .bind(epoch.to_i64());
            if let Some(row) = self.write(create).await?.first() {
                let mut columns = Columns::new(row);
                let (key, now) = (ThreadKey(columns.int()?), columns.time()?);
                return Ok((new.made(key, epoch, now), true));
            }
            // The id is taken, unless its thread was deleted meanwhile.
            if let Some(thread) = self.thread(&new.project, &new.id).await? {
                return Ok((thread, false));
            }
        }
        Err(StoreError::Unavailable("the thread is made and deleted all the time".to_owned()))
    }

    async fn thread(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<Option<Thread>> {
        self.one(query(BY_ID).bind(project.as_str()).bind(id.as_str())).await
    }

    async fn list_threads(&self, list: ListThreads) -> StoreResult<ThreadPage> {
        // The feed's position is read before the page: a change in between is reported again, never missed.
        let feed_cursor = self.feed_head(&list.project, &list.user).await?;
        let (text, start) = match list.order {
            ListOrder::Recent => (LIST_RECENT, i64::MAX),
            ListOrder::Created => (LIST_CREATED, i64::MIN),
        };
        let statement = query(text)
            .bind(list.project.as_str())
            .bind(list.user.as_str())
            .bind(list.include_archived)
            .bind(list.agent.as_ref().map(|agent| agent.as_str()))
            .bind(list.after.as_ref().map_or(start, |after| after.at.0))
            .bind(list.after.as_ref().map_or("", |after| after.id.as_str()))
            .bind(rows::limit(list.limit).saturating_add(1));
        pages::thread_page(&self.read_rows(statement).await?, list.limit, feed_cursor)
    }

    async fn edit_thread(&self, key: ThreadKey, version: i64, patch: ThreadPatch) -> StoreResult<Option<Thread>> {
        let (renamed, (name, source)) = (patch.name.is_some(), patch.name.flatten().unzip());
        let edit = query(EDIT)
            .bind(self.now())
            .bind(key.0)
            .bind(version)
            .bind(renamed)
            .bind(name.map(rows::text))
            .bind(source.map(|source| source as i64))
            .bind(patch.metadata)
            .bind(patch.archived);
        let rows = self.write(edit).await?;
        Ok(rows.first().map(|row| Columns::new(row).thread()).transpose()?.flatten())
    }

    async fn mark_read(&self, key: ThreadKey, seq: Seq) -> StoreResult<Option<Thread>> {
        let rows = self.write(query(MARK).bind(key.0).bind(rows::to_i64(seq))).await?;
        if let Some(row) = rows.first() {
            return Columns::new(row).thread();
        }
        Ok(self.one(query(BY_KEY).bind(key.0)).await?.filter(|thread| seq <= thread.tail))
    }

    async fn delete_thread(&self, key: ThreadKey) -> StoreResult<bool> {
        Ok(!self.write(query(DELETE).bind(key.0)).await?.is_empty())
    }

    async fn purge(&self, rows: usize) -> StoreResult<bool> {
        let given_up = self.give_up_staged().await?;
        let found = self.read_rows(query(TOMBSTONES)).await?;
        let Some(row) = found.first() else { return Ok(given_up) };
        let left = self.purge_thread(Columns::new(row).int()?, rows.min(PURGE_ROWS)).await?;
        Ok(left || found.len() > 1)
    }
}
