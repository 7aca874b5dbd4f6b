//! Threads that are written in steps. A staged thread is a row of `threads` with `deleted` = 3 and without a head, so that no
//! client sees it; meanwhile `sort_at` is the time of the last step.

use async_trait::async_trait;
use serde_json::{Value, json};
use sqlx::{SqliteConnection, query};
use threadline_core::{
    Author, Run, RunStatus, ThreadKey, Timestamp,
    limits::{PACK_FIRST_LOOK, STAGING_TIMEOUT},
};

use super::{
    SqliteStore, corrupt,
    fetch::{self, Work},
    rows::{self, Columns, text_of},
    threads::{charge, taken},
};
use crate::{Arrival, MovedThread, Published, StagedPart, Staging, StagingStore, StoreResult, sql::crc};

/// `deleted > 0` is the condition of the partial index. Beyond it the statements read only tombstones.
pub(super) const FORGET: &str = "\
    UPDATE jobs SET due_at = ?3 WHERE kind = 'purge' AND ref IN (
      SELECT CAST(key AS TEXT) FROM threads WHERE deleted > 0 AND deleted <> 4 AND deleted = 3 AND project = ?1 AND id = ?2 AND user = ?4);
    UPDATE threads SET deleted = 1
    WHERE deleted > 0 AND deleted <> 4 AND deleted = 3 AND project = ?1 AND id = ?2 AND ?3 > 0 AND user = ?4";
const UNSTAGE: &str = "\
    UPDATE jobs SET due_at = ?2 WHERE kind = 'purge' AND ref = CAST(?1 AS TEXT)
      AND EXISTS (SELECT 1 FROM threads WHERE key = ?1 AND deleted = 3);
    UPDATE threads SET deleted = 1 WHERE key = ?1 AND deleted = 3";
/// A thread that was imported is packed later.
const PACK_JOB: &str = "INSERT INTO jobs (kind, ref, due_at) VALUES ('pack', CAST(?1 AS TEXT), ?2)";
/// An import that is abandoned is purged.
const STAGE_JOB: &str = "INSERT INTO jobs (kind, ref, due_at) VALUES ('purge', CAST(?1 AS TEXT), ?2)";
const STAGE: &str = text_of(include_str!("../../queries/sqlite/stage.sql"));
pub(super) const TOUCH: &str = "UPDATE threads SET sort_at = ?2 WHERE key = ?1 AND deleted = 3";
pub(super) const RUNS: &str = text_of(include_str!("../../queries/sqlite/stage_runs.sql"));
pub(super) const LOG: &str = text_of(include_str!("../../queries/sqlite/stage_log.sql"));
const SEALED: &str = "\
    INSERT INTO sealing (key, upto) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET upto = max(upto, excluded.upto)";
pub(super) const WHOLE: &str = text_of(include_str!("../../queries/sqlite/staged.sql"));
pub(super) const PUBLISH: &str = text_of(include_str!("../../queries/sqlite/publish.sql"));
/// Head of a thread that is forked, if its log still has the epoch that was read.
const PARENT: &str = "SELECT 1 FROM heads WHERE key = ?1 AND epoch = ?2";
/// A fork is a new thread for its feed.
const OWED: &str = "UPDATE threads SET fed_version = 0 WHERE key = ?1";
/// A thread that is forked gets the family of its first fork.
const RELATE: &str = "\
    UPDATE threads SET family = (SELECT family FROM threads WHERE key = ?1), version = version + 1
    WHERE key = ?2 AND family IS NULL AND (SELECT family FROM threads WHERE key = ?1) IS NOT NULL";

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
        run.author.as_ref().map(Author::as_str),
        run.asked_by.as_ref().map(Author::as_str),
        run.attempt,
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
        let raw = part.rows.iter().map(|staged| rows::limit(staged.raw)).sum();
        charge(connection, key, raw, 0).await?;
        for staged in part.rows {
            let (row, offset) = (staged.row, bodies.len() + 1);
            bodies.extend_from_slice(&row.body);
            let fence = staged.fence.map(|fence| fence.0);
            let (length, crc) = (row.body.len(), crc(&row.body));
            list.push(json!([row.first_seq, row.last_seq, fence, row.at.0, staged.raw, offset, length, crc]));
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
    if let Some(taken) = taken(connection, &thread.project, &thread.user, &thread.id, thread.claimed).await? {
        return Ok(Staging::Taken(Box::new(taken)));
    }
    fetch::run(connection, id(FORGET).bind(now.0).bind(thread.user.as_str())).await?;
    let forked = thread.branch.forked_from.as_ref();
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
        .bind(rows::to_i64(thread.read_seq))
        .bind(thread.claimed)
        .bind(thread.branch.family.map(|family| family.0))
        .bind(thread.branch.listed)
        .bind(forked.map(|from| from.thread.as_str()))
        .bind(forked.map(|from| from.epoch.to_i64()))
        .bind(forked.map(|from| rows::to_i64(from.seq)))
        .bind(&moved.request);
    let row = fetch::row(connection, insert).await?.ok_or_else(|| corrupt("a staged thread without a key"))?;
    let key = Columns::new(&row).int()?;
    charge(connection, key, 0, 1).await?;
    fetch::run(connection, query(STAGE_JOB).bind(key).bind(now.plus(STAGING_TIMEOUT).0)).await?;
    if !put(connection, key, part, now).await? {
        return Err(corrupt("what was just staged is gone").into());
    }
    Ok(Staging::Staged(ThreadKey(key)))
}

async fn publish(
    connection: &mut SqliteConnection,
    key: i64,
    moved: MovedThread,
    arrival: Arrival,
    now: Timestamp,
) -> Work<Published> {
    let thread = moved.thread;
    if taken(connection, &thread.project, &thread.user, &thread.id, thread.claimed).await?.is_some() {
        return Ok(Published::Taken);
    }
    if let Arrival::Fork { parent, epoch } = arrival {
        let there = fetch::row(connection, query(PARENT).bind(parent.0).bind(epoch.to_i64())).await?;
        if there.is_none() {
            return Ok(Published::Gone);
        }
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
        .bind(&moved.interrupts)
        .bind(thread.epoch.to_i64())
        .bind(rows::to_i64(thread.tail))
        .bind(moved.fence.0)
        .bind(active.map(|run| run.id.as_str()))
        .bind(active.map_or(0, |run| rows::to_i64(run.producer_seq)))
        .bind(active.map_or(0, |run| run.lease_until.unwrap_or(now).min(now).0))
        .bind(active.and_then(|run| run.stop_requested_at).map(|at| at.0))
        .bind(active.is_some_and(|run| run.status == RunStatus::Finishing))
        .bind(active.and_then(|run| run.agent.as_ref()).map(|agent| agent.as_str()))
        .bind(now.0);
    fetch::run(connection, publish).await?;
    if let Arrival::Fork { parent, .. } = arrival {
        fetch::run(connection, query(OWED).bind(key)).await?;
        fetch::run(connection, query(RELATE).bind(key).bind(parent.0)).await?;
    }
    fetch::run(connection, query(PACK_JOB).bind(key).bind(now.plus(PACK_FIRST_LOOK).0)).await?;
    Ok(Published::Done)
}

#[async_trait]
impl StagingStore for SqliteStore {
    async fn stage(&self, moved: &MovedThread, part: StagedPart) -> StoreResult<Staging> {
        let (moved, now) = (moved.clone(), self.inner.clock.now());
        self.transact(move |connection| Box::pin(stage(connection, moved, part, now))).await
    }

    async fn stage_more(&self, key: ThreadKey, part: StagedPart) -> StoreResult<bool> {
        let now = self.inner.clock.now();
        self.transact(move |connection| Box::pin(put(connection, key.0, part, now))).await
    }

    async fn publish(&self, key: ThreadKey, moved: &MovedThread, arrival: Arrival) -> StoreResult<Published> {
        let (moved, now) = (moved.clone(), self.inner.clock.now());
        self.transact(move |connection| Box::pin(publish(connection, key.0, moved, arrival, now))).await
    }

    async fn unstage(&self, key: ThreadKey) -> StoreResult<()> {
        let now = self.inner.clock.now().0;
        self.transact(move |connection| {
            Box::pin(async move { fetch::run(connection, query(UNSTAGE).bind(key.0).bind(now)).await })
        })
        .await
    }
}
