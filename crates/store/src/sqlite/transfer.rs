//! Export and import of threads. An imported thread is staged as a row of `threads` with `deleted` = 3 and without a
//! head, so that no client sees it; meanwhile `sort_at` is the time of the last step of the import.

use async_trait::async_trait;
use serde_json::{Value, json};
use sqlx::{SqliteConnection, query};
use threadline_core::{
    AgentId, ApiKey, Digest, ProjectId, Run, RunStatus, ThreadKey, Timestamp, UserId,
    limits::{FEED_RENEWAL, STAGING_TIMEOUT},
};

use super::{
    SqliteStore, annotations, corrupt,
    fetch::{self, Work},
    identity,
    rows::{self, Columns, head_columns, run_columns, thread_columns},
    threads::{BY_ID, one, thread_query},
};
use crate::{
    AnnotatedThread, FeedImage, MovedThread, Published, StagedPart, Staging, StoreResult, TransferStore,
    sql::{self, pages},
};

pub(super) const ALL: &str = thread_query!("h.fence, ", "t.key > ?1 AND t.deleted = 0 ORDER BY t.key LIMIT ?2");
pub(super) const FEEDS: &str = "\
    SELECT project, user FROM feed_heads WHERE (project, user) > (?1, ?2) ORDER BY project, user LIMIT ?3";
/// The head of the feed is in every row, and in one without an entry if the feed has none.
pub(super) const IMAGE: &str = "\
    SELECT f.head, e.pos, e.thread FROM feed_heads f
    LEFT JOIN feed_entries e ON e.project = f.project AND e.user = f.user
    WHERE f.project = ?1 AND f.user = ?2 ORDER BY e.pos";

/// `deleted > 0` is the condition of the partial index. Beyond it the statement reads only tombstones.
pub(super) const FORGET: &str =
    "UPDATE threads SET deleted = 1 WHERE deleted > 0 AND deleted = 3 AND project = ?1 AND id = ?2";
const UNSTAGE: &str = "UPDATE threads SET deleted = 1 WHERE key = ?1 AND deleted = 3";
const GIVE_UP: &str = "UPDATE threads SET deleted = 1 WHERE deleted > 0 AND deleted = 3 AND sort_at <= ?1";
pub(super) const GIVEN_UP: &str = "SELECT key FROM threads WHERE deleted > 0 AND deleted = 3 AND sort_at <= ?1 LIMIT 1";
/// `fed_version` equals the version, so that the feed owes a staged thread no position.
const STAGE: &str = "\
    INSERT INTO threads (project, id, user, agent, name, name_source, archived, metadata, created_at, updated_at, \
                         last_run_at, version, fed_version, created_with, sort_at, read_seq, deleted)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?14, ?15, 3) RETURNING key";
pub(super) const TOUCH: &str = "UPDATE threads SET sort_at = ?2 WHERE key = ?1 AND deleted = 3";
/// Inserts runs: `?2` is the list of [`run_item`]s.
pub(super) const RUNS: &str = "\
    INSERT INTO runs (key, fence, id, agent, status, error_code, error_message, usage, first_seq, producer_seq, \
                      started_at, ended_at, stop_at, driven)
    SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, \
           value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12 FROM jsonb_each(?2)";
/// `?2` is `[[first_seq, last_seq, fence, at, raw, offset, length], …]`, `?3` the concatenated bodies.
pub(super) const LOG: &str = "\
    INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body)
    SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, substr(?3, value ->> 5, value ->> 6)
    FROM jsonb_each(?2)";
const SEALED: &str = "\
    INSERT INTO sealing (key, upto) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET upto = max(upto, excluded.upto)";
pub(super) const WHOLE: &str = "\
    SELECT t.deleted = 3, coalesce((SELECT max(last_seq) FROM log WHERE key = ?1 AND first_seq =
                                    (SELECT max(first_seq) FROM log WHERE key = ?1)), 0)
    FROM threads t WHERE t.key = ?1";
pub(super) const PUBLISH: &str = "\
    UPDATE threads SET deleted = 0, sort_at = coalesce(last_run_at, updated_at), fed_version = -version WHERE key = ?1;
    INSERT INTO heads (key, epoch, tail, fence, run, producer_seq, lease_until, stop_at, finishing)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
/// An epoch is a positive number of 62 bits.
pub(super) const RENEW: &str = "\
    UPDATE heads SET epoch = random() & 0x3fffffffffffffff
    WHERE key IN (SELECT key FROM heads WHERE key > ?1 ORDER BY key LIMIT ?2) RETURNING key";
pub(super) const RENEW_FEED: &str = "\
    UPDATE feed_entries SET pos = pos + ?3 WHERE project = ?1 AND user = ?2;
    UPDATE feed_heads SET head = head + ?3 WHERE project = ?1 AND user = ?2";

const FEED: &str = "\
    DELETE FROM feed_entries WHERE project = ?1 AND user = ?2;
    INSERT INTO feed_entries (project, user, pos, thread, key)
    SELECT ?1, ?2, v.value ->> 0, v.value ->> 1, t.key FROM json_each(?3) AS v
    LEFT JOIN threads t ON t.project = ?1 AND t.id = v.value ->> 1 AND t.deleted = 0 AND t.user = ?2;
    INSERT INTO feed_heads (project, user, head) VALUES (?1, ?2, ?4)
    ON CONFLICT (project, user) DO UPDATE SET head = excluded.head;
    UPDATE threads SET fed_version = -fed_version
    WHERE fed_version < 0
      AND key IN (SELECT key FROM feed_entries WHERE project = ?1 AND user = ?2 AND key IS NOT NULL)";

fn run_item(run: &Run) -> Value {
    // While a run is active its head has the exact state; the record only says that the run is active.
    let status = if run.status.is_active() { RunStatus::Running } else { run.status };
    json!([
        run.fence.0,
        run.id.as_str(),
        run.agent.as_ref().map(|agent| agent.as_str()),
        status.to_i64(),
        run.error_code,
        run.error_message,
        run.usage,
        run.first_seq,
        run.producer_seq,
        run.started_at.0,
        run.ended_at.map(|at| at.0),
        run.stop_requested_at.map(|at| at.0),
        run.driven.then_some(1),
    ])
}

/// Stores a part of a staged thread. False if the staged thread was removed.
async fn put(connection: &mut SqliteConnection, key: i64, part: StagedPart, now: Timestamp) -> Work<bool> {
    if fetch::change(connection, query(TOUCH).bind(key).bind(now.0)).await? == 0 {
        return Ok(false);
    }
    if !part.runs.is_empty() {
        let runs = Value::Array(part.runs.iter().map(run_item).collect()).to_string();
        fetch::run(connection, query(RUNS).bind(key).bind(runs)).await?;
    }
    let sealed = part.sealed();
    if !part.rows.is_empty() {
        let mut bodies = Vec::with_capacity(part.rows.iter().map(|row| row.row.body.len()).sum());
        let mut list = Vec::with_capacity(part.rows.len());
        for staged in part.rows {
            let (row, offset) = (staged.row, bodies.len() + 1);
            bodies.extend_from_slice(&row.body);
            let fence = staged.fence.map(|fence| fence.0);
            list.push(json!([row.first_seq, row.last_seq, fence, row.at.0, staged.raw, offset, row.body.len()]));
        }
        fetch::run(connection, query(LOG).bind(key).bind(Value::Array(list).to_string()).bind(bodies)).await?;
    }
    if let Some(upto) = sealed {
        fetch::run(connection, query(SEALED).bind(key).bind(rows::to_i64(upto))).await?;
    }
    Ok(true)
}

async fn stage(
    connection: &mut SqliteConnection,
    moved: MovedThread,
    part: StagedPart,
    now: Timestamp,
) -> Work<Staging> {
    let thread = moved.thread;
    let id = |text| query(text).bind(thread.project.as_str()).bind(thread.id.as_str());
    if let Some(taken) = one(connection, id(BY_ID)).await? {
        return Ok(Staging::Taken(Box::new(taken)));
    }
    fetch::run(connection, id(FORGET)).await?;
    let insert = id(STAGE)
        .bind(thread.user.as_str())
        .bind(thread.agent.as_ref().map(|agent| agent.as_str()))
        .bind(&thread.name)
        .bind(thread.name_source.map(|source| source as i64))
        .bind(thread.archived)
        .bind(&thread.metadata)
        .bind(thread.created_at.0)
        .bind(thread.updated_at.0)
        .bind(thread.last_run_at.map(|at| at.0))
        .bind(thread.version)
        .bind(&thread.created_with)
        .bind(now.0)
        .bind(rows::to_i64(thread.read_seq));
    let row = fetch::row(connection, insert).await?.ok_or_else(|| corrupt("a staged thread without a key"))?;
    let key = Columns::new(&row).int()?;
    if !put(connection, key, part, now).await? {
        return Err(corrupt("what was just staged is gone").into());
    }
    Ok(Staging::Staged(ThreadKey(key)))
}

async fn publish(connection: &mut SqliteConnection, key: i64, moved: MovedThread, now: Timestamp) -> Work<Published> {
    let thread = moved.thread;
    let taken = query(BY_ID).bind(thread.project.as_str()).bind(thread.id.as_str());
    if one(connection, taken).await?.is_some() {
        return Ok(Published::Taken);
    }
    let Some(row) = fetch::row(connection, query(WHOLE).bind(key)).await? else { return Ok(Published::Gone) };
    let mut columns = Columns::new(&row);
    let (staged, tail) = (columns.int()? != 0, columns.count()?);
    if !staged {
        return Ok(Published::Gone);
    }
    if tail != thread.tail {
        return Err(corrupt(format_args!("the log of thread {} was not staged whole", thread.id)).into());
    }
    let active = thread.active_run.as_ref();
    let publish = query(PUBLISH)
        .bind(key)
        .bind(thread.epoch.to_i64())
        .bind(rows::to_i64(thread.tail))
        .bind(moved.fence.0)
        .bind(active.map(|run| run.id.as_str()))
        .bind(active.map_or(0, |run| rows::to_i64(run.producer_seq)))
        .bind(active.map_or(0, |run| run.lease_until.unwrap_or(now).min(now).0))
        .bind(active.and_then(|run| run.stop_requested_at).map(|at| at.0))
        .bind(active.is_some_and(|run| run.status == RunStatus::Finishing));
    fetch::run(connection, publish).await?;
    Ok(Published::Done)
}

async fn put_feed(connection: &mut SqliteConnection, project: ProjectId, user: UserId, moved: FeedImage) -> Work<bool> {
    let own = query(IMAGE).bind(project.as_str()).bind(user.as_str());
    let own = pages::feed_image(&fetch::rows(connection, own).await?)?;
    let Some(taken) = own.taking(&moved) else { return Ok(false) };
    let entries = taken.entries.iter().map(|(pos, id)| json!([pos, id.as_str()]));
    let put = query(FEED)
        .bind(project.as_str())
        .bind(user.as_str())
        .bind(Value::Array(entries.collect()).to_string())
        .bind(rows::to_i64(taken.head));
    fetch::run(connection, put).await?;
    Ok(true)
}

impl SqliteStore {
    /// Turns imports that were not touched for long into tombstones. True if there was any.
    pub(super) async fn give_up_staged(&self) -> StoreResult<bool> {
        let before = self.inner.clock.now().minus(STAGING_TIMEOUT).0;
        if self.read_rows(query(GIVEN_UP).bind(before)).await?.is_empty() {
            return Ok(false);
        }
        self.transact(move |connection| {
            Box::pin(async move { Ok(fetch::change(connection, query(GIVE_UP).bind(before)).await? > 0) })
        })
        .await
    }
}

#[async_trait]
impl TransferStore for SqliteStore {
    async fn count_threads(&self) -> StoreResult<u64> {
        let rows = self.read_rows(query("SELECT count(*) FROM heads")).await?;
        Ok(rows.first().map_or(Ok(0), |row| Columns::new(row).count())?)
    }

    async fn all_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<MovedThread>> {
        let all = query(ALL).bind(after.map_or(i64::MIN, |key| key.0)).bind(rows::limit(limit));
        pages::moved_threads(&self.read_rows(all).await?)
    }

    async fn annotated_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<AnnotatedThread>> {
        let page = query(annotations::THREADS).bind(after.map_or(i64::MIN, |key| key.0)).bind(rows::limit(limit));
        sql::annotations::threads(&self.read_rows(page).await?)
    }

    async fn all_agents(&self) -> StoreResult<Vec<(ProjectId, AgentId, String)>> {
        pages::all_agents(
            &self.read_rows(query("SELECT project, id, definition FROM agents ORDER BY project, id")).await?,
        )
    }

    async fn all_keys(&self) -> StoreResult<Vec<(ApiKey, Digest)>> {
        sql::identity::all_keys(&self.read_rows(query(identity::ALL_KEYS)).await?)
    }

    async fn all_feeds(
        &self,
        after: Option<&(ProjectId, UserId)>,
        limit: usize,
    ) -> StoreResult<Vec<(ProjectId, UserId)>> {
        // No id is empty, so an empty one is before all others.
        let (project, user) = after.map_or(("", ""), |(project, user)| (project.as_str(), user.as_str()));
        pages::feeds(&self.read_rows(query(FEEDS).bind(project).bind(user).bind(rows::limit(limit))).await?)
    }

    async fn feed_image(&self, project: &ProjectId, user: &UserId) -> StoreResult<FeedImage> {
        Ok(pages::feed_image(&self.read_rows(query(IMAGE).bind(project.as_str()).bind(user.as_str())).await?)?)
    }

    async fn stage(&self, moved: &MovedThread, part: StagedPart) -> StoreResult<Staging> {
        let (moved, now) = (moved.clone(), self.inner.clock.now());
        self.transact(move |connection| Box::pin(stage(connection, moved, part, now))).await
    }

    async fn stage_more(&self, key: ThreadKey, part: StagedPart) -> StoreResult<bool> {
        let now = self.inner.clock.now();
        self.transact(move |connection| Box::pin(put(connection, key.0, part, now))).await
    }

    async fn publish(&self, key: ThreadKey, moved: &MovedThread) -> StoreResult<Published> {
        let (moved, now) = (moved.clone(), self.inner.clock.now());
        self.transact(move |connection| Box::pin(publish(connection, key.0, moved, now))).await
    }

    async fn unstage(&self, key: ThreadKey) -> StoreResult<()> {
        self.transact(move |connection| {
            Box::pin(async move { fetch::run(connection, query(UNSTAGE).bind(key.0)).await })
        })
        .await
    }

    async fn put_feed(&self, project: &ProjectId, user: &UserId, moved: &FeedImage) -> StoreResult<bool> {
        let (project, user, moved) = (project.clone(), user.clone(), moved.clone());
        self.transact(move |connection| Box::pin(put_feed(connection, project, user, moved))).await
    }

    async fn renew_epochs(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<ThreadKey>> {
        let after = after.map_or(i64::MIN, |key| key.0);
        let rows = self
            .transact(move |connection| {
                Box::pin(
                    async move { fetch::rows(connection, query(RENEW).bind(after).bind(rows::limit(limit))).await },
                )
            })
            .await?;
        Ok(pages::keys(&rows)?)
    }

    async fn renew_feed(&self, project: &ProjectId, user: &UserId) -> StoreResult<()> {
        let (project, user) = (project.to_string(), user.to_string());
        self.transact(move |connection| {
            Box::pin(async move {
                let renew = query(RENEW_FEED).bind(project).bind(user).bind(FEED_RENEWAL as i64);
                fetch::run(connection, renew).await
            })
        })
        .await
    }
}
