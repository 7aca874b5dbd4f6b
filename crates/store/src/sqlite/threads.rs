//! Threads: create, list, edit, delete.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::{SqliteConnection, query};
use threadline_core::{
    CreatedThread, Epoch, NewThread, OpenInterrupt, ProjectId, Seq, Thread, ThreadId, ThreadKey, ThreadPatch,
    Timestamp, UserId,
    limits::{FORGOTTEN_REQUESTS, PURGE_ROWS, REQUEST_KEPT, STAGING_TIMEOUT},
};

use super::{
    SqliteStore, corrupt,
    fetch::{self, Work},
    rows::{self, Columns, text_of},
};
use crate::{
    ListThreads, Named, Purging, StoreResult, ThreadPage, ThreadStore,
    sql::{lists::ListStatements, pages},
};

pub(super) const BY_ID: &str = text_of(include_str!("../../queries/sqlite/thread_by_id.sql"));
pub(super) const NAMED: &str = text_of(include_str!("../../queries/sqlite/thread_named.sql"));
pub(super) const TAKEN: &str = text_of(include_str!("../../queries/sqlite/thread_taken.sql"));
const BY_KEY: &str = text_of(include_str!("../../queries/sqlite/thread_by_key.sql"));

pub(super) const LISTS: ListStatements = ListStatements {
    recent: text_of(include_str!("../../queries/sqlite/list_recent.sql")),
    created: text_of(include_str!("../../queries/sqlite/list_created.sql")),
    recent_failed: text_of(include_str!("../../queries/sqlite/list_recent_failed.sql")),
    created_failed: text_of(include_str!("../../queries/sqlite/list_created_failed.sql")),
    recent_waiting: text_of(include_str!("../../queries/sqlite/list_recent_waiting.sql")),
    created_waiting: text_of(include_str!("../../queries/sqlite/list_created_waiting.sql")),
    running: text_of(include_str!("../../queries/sqlite/list_running.sql")),
};

const CREATE: &str = text_of(include_str!("../../queries/sqlite/create_thread.sql"));

pub(super) const OPEN_INTERRUPTS: &str = text_of(include_str!("../../queries/sqlite/open_interrupts.sql"));

const EDIT: &str = text_of(include_str!("../../queries/sqlite/edit_thread.sql"));

pub(super) const MARK: &str = text_of(include_str!("../../queries/sqlite/mark_read.sql"));

pub(super) const DELETE: &str = text_of(include_str!("../../queries/sqlite/delete_thread.sql"));

/// Adds rows of a thread to the sums of stored data, or subtracts them.
const CHARGE: &str = text_of(include_str!("../../queries/sqlite/charge_thread.sql"));

/// Adds bytes to the sums of a user and the project.
const SPEND: &str = "\
    INSERT INTO usage (project, owner, bytes, threads, checked_at) VALUES (?1, ?2, ?3, 0, 0), (?1, '', ?3, 0, 0)
    ON CONFLICT (project, owner) DO UPDATE SET bytes = bytes + excluded.bytes";

const DELETED_REQUEST: &str = "SELECT at FROM deleted_requests WHERE project = ? AND thread = ?";
const OLD_REQUEST: &str = "SELECT at FROM deleted_requests WHERE at <= ? LIMIT 1";
const FORGET_REQUESTS: &str = "\
    DELETE FROM deleted_requests
    WHERE (project, thread) IN (SELECT project, thread FROM deleted_requests WHERE at <= ?1 ORDER BY at LIMIT ?2)";

/// State of a thread that is to be purged, the time of its last step if it is staged, and of its purge if it is in the trash.
const TOMBSTONE: &str = "SELECT deleted, sort_at, coalesce(purge_at, 0) FROM threads WHERE key = ?1";
const GIVE_UP: &str = "UPDATE threads SET deleted = 1 WHERE key = ?1 AND deleted = 3";

pub(super) async fn one(connection: &mut SqliteConnection, statement: fetch::Statement<'_>) -> Work<Option<Thread>> {
    match fetch::row(connection, statement).await? {
        Some(row) => Ok(Columns::new(&row).thread()?),
        None => Ok(None),
    }
}

#[async_trait]
impl ThreadStore for SqliteStore {
    async fn create_thread(&self, new: NewThread) -> StoreResult<CreatedThread> {
        let clock = self.inner.clock.clone();
        self.transact(move |connection| {
            Box::pin(async move {
                if let Some(thread) = taken(connection, &new.project, &new.user, &new.id, new.claimed).await? {
                    return Ok(CreatedThread { thread, created: false });
                }
                let (now, epoch) = (clock.now(), Epoch::generate());
                let insert = query(CREATE)
                    .bind(new.project.as_str())
                    .bind(new.id.as_str())
                    .bind(new.user.as_str())
                    .bind(new.agent.as_ref().map(|agent| agent.as_str()))
                    .bind(&new.name)
                    .bind(new.name_source().map(|source| source as i64))
                    .bind(&new.metadata)
                    .bind(now.0)
                    .bind(&new.created_with)
                    .bind(epoch.to_i64())
                    .bind(&new.request)
                    .bind(new.claimed);
                let row = fetch::row(connection, insert).await?.ok_or_else(|| corrupt("a new head without a key"))?;
                let thread = new.made(ThreadKey(Columns::new(&row).int()?), epoch, now);
                Ok(CreatedThread { thread, created: true })
            })
        })
        .await
    }

    async fn was_request_deleted(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<bool> {
        let rows = self.read_rows(query(DELETED_REQUEST).bind(project.as_str()).bind(id.as_str())).await?;
        Ok(!rows.is_empty())
    }

    async fn thread_of(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> StoreResult<Option<Thread>> {
        let by_id = query(BY_ID).bind(project.as_str()).bind(user.as_str()).bind(id.as_str());
        let rows = self.read_rows(by_id).await?;
        Ok(rows.first().map(|row| Columns::new(row).thread()).transpose()?.flatten())
    }

    async fn thread_named(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<Named> {
        let rows = self.read_rows(query(NAMED).bind(project.as_str()).bind(id.as_str())).await?;
        pages::named(&rows)
    }

    async fn open_interrupts(&self, keys: &[ThreadKey]) -> StoreResult<Vec<(ThreadKey, Vec<OpenInterrupt>)>> {
        let list = serde_json::json!(keys.iter().map(|key| key.0).collect::<Vec<_>>()).to_string();
        pages::open_interrupts(&self.read_rows(query(OPEN_INTERRUPTS).bind(list)).await?)
    }

    async fn list_threads(&self, list: ListThreads) -> StoreResult<ThreadPage> {
        // The feed's position is read before the page: a change in between is reported again, never missed.
        let feed_cursor = self.feed_head(&list.project, &list.user).await?.cursor();
        let (text, start, last) = LISTS.of(&list);
        let statement = query(text)
            .bind(list.project.as_str())
            .bind(list.user.as_str())
            .bind(list.include_archived)
            .bind(list.agent.as_ref().map(|agent| agent.as_str()))
            .bind(list.after.as_ref().map_or(start, |after| after.at.0))
            .bind(list.after.as_ref().map_or("", |after| after.id.as_str()))
            .bind(rows::limit(list.limit).saturating_add(1));
        let statement = match last {
            Some(flag) => statement.bind(flag),
            None => statement,
        };
        pages::thread_page(&self.read_rows(statement).await?, list.limit, feed_cursor)
    }

    async fn edit_thread(
        &self,
        key: ThreadKey,
        version: i64,
        patch: ThreadPatch,
        epoch: Option<Epoch>,
    ) -> StoreResult<Option<Thread>> {
        let clock = self.inner.clock.clone();
        self.transact(move |connection| {
            Box::pin(async move {
                let (renamed, (name, source)) = (patch.name.is_some(), patch.name.flatten().unzip());
                let edit = query(EDIT)
                    .bind(key.0)
                    .bind(version)
                    .bind(renamed)
                    .bind(name)
                    .bind(source.map(|source| source as i64))
                    .bind(patch.metadata)
                    .bind(patch.archived)
                    .bind(clock.now().0)
                    .bind(epoch.map(Epoch::to_i64));
                match fetch::change(connection, edit).await? {
                    0 => Ok(None),
                    _ => one(connection, query(BY_KEY).bind(key.0)).await,
                }
            })
        })
        .await
    }

    async fn mark_read(&self, key: ThreadKey, seq: Seq, epoch: Option<Epoch>) -> StoreResult<Option<Thread>> {
        self.transact(move |connection| {
            Box::pin(async move {
                let mark = query(MARK).bind(key.0).bind(rows::to_i64(seq)).bind(epoch.map(Epoch::to_i64));
                fetch::change(connection, mark).await?;
                let thread = one(connection, query(BY_KEY).bind(key.0)).await?;
                Ok(thread.filter(|thread| seq <= thread.tail && epoch.is_none_or(|epoch| epoch == thread.epoch)))
            })
        })
        .await
    }

    async fn delete_thread(&self, key: ThreadKey, epoch: Option<Epoch>) -> StoreResult<bool> {
        let now = self.inner.clock.now();
        self.transact(move |connection| {
            let delete = query(DELETE).bind(key.0).bind(epoch.map(Epoch::to_i64)).bind(now.0);
            Box::pin(async move { Ok(fetch::change(connection, delete).await? > 0) })
        })
        .await
    }

    async fn purge(&self, key: ThreadKey, rows: usize) -> StoreResult<Purging> {
        let now = self.inner.clock.now();
        self.transact(move |connection| Box::pin(purge(connection, key.0, rows.min(PURGE_ROWS), now))).await
    }

    async fn forget_requests(&self) -> StoreResult<()> {
        // Read first, so that nothing is committed if there is nothing to do.
        let before = self.inner.clock.now().minus(REQUEST_KEPT).0;
        let limit = rows::limit(FORGOTTEN_REQUESTS);
        if self.read_rows(query(OLD_REQUEST).bind(before)).await?.is_empty() {
            return Ok(());
        }
        self.transact(move |connection| {
            Box::pin(fetch::run(connection, query(FORGET_REQUESTS).bind(before).bind(limit)))
        })
        .await
    }
}

/// The thread that keeps a user from having another one under an id.
pub(super) async fn taken(
    connection: &mut SqliteConnection,
    project: &ProjectId,
    user: &UserId,
    id: &ThreadId,
    claims: bool,
) -> Work<Option<Thread>> {
    one(connection, query(TAKEN).bind(project.as_str()).bind(user.as_str()).bind(id.as_str()).bind(claims)).await
}

/// Adds bytes and threads to the sums of a thread's user and project.
pub(super) async fn charge(connection: &mut SqliteConnection, key: i64, bytes: i64, threads: i64) -> Work<()> {
    fetch::run(connection, query(CHARGE).bind(key).bind(bytes).bind(threads)).await
}

/// Removes a chunk of the remaining rows of a deleted thread, and takes them from the sums.
async fn purge(connection: &mut SqliteConnection, key: i64, rows: usize, now: Timestamp) -> Work<Purging> {
    const LOG: &str = "DELETE FROM log WHERE rowid IN (SELECT rowid FROM log WHERE key = ?1 LIMIT ?2) RETURNING raw";
    const RUNS: &str = "DELETE FROM runs WHERE key = ?1 AND fence IN (SELECT fence FROM runs WHERE key = ?1 LIMIT ?2)";
    const ANNOTATIONS: &str =
        "DELETE FROM annotations WHERE rowid IN (SELECT rowid FROM annotations WHERE key = ?1 LIMIT ?2)";
    const KV: &str = "\
        DELETE FROM kv WHERE rowid IN (SELECT rowid FROM kv WHERE thread = ?1 LIMIT ?2) RETURNING project, owner, size";
    const ITEMS: &str = "DELETE FROM items WHERE rowid IN (SELECT rowid FROM items WHERE key = ?1 LIMIT ?2)";
    const OPS: &str = "DELETE FROM item_ops WHERE rowid IN (SELECT rowid FROM item_ops WHERE key = ?1 LIMIT ?2)";
    const CHECKPOINTS: &str =
        "DELETE FROM checkpoints WHERE rowid IN (SELECT rowid FROM checkpoints WHERE key = ?1 LIMIT ?2)";
    const BLOBS: &str =
        "DELETE FROM checkpoint_blobs WHERE rowid IN (SELECT rowid FROM checkpoint_blobs WHERE key = ?1 LIMIT ?2)";
    const WRITES: &str =
        "DELETE FROM checkpoint_writes WHERE rowid IN (SELECT rowid FROM checkpoint_writes WHERE key = ?1 LIMIT ?2)";
    const DATA: &str = "DELETE FROM agent_data WHERE key = ?1 RETURNING bytes";
    // The tombstone stays until the feed has the deletion; then the pump removes it.
    const REST: &str = "\
        DELETE FROM sealing WHERE key = ?1;
        DELETE FROM snapshots WHERE key = ?1;
        DELETE FROM tool_claims WHERE key = ?1;
        DELETE FROM item_lists WHERE key = ?1;
        DELETE FROM loose_blobs WHERE key = ?1;
        DELETE FROM jobs WHERE kind IN ('seal', 'pack', 'purge') AND ref = CAST(?1 AS TEXT);
        DELETE FROM threads WHERE key = ?1 AND deleted = 1 AND version = fed_version;
        UPDATE threads SET deleted = 2 WHERE key = ?1 AND deleted = 1";
    let Some(row) = fetch::row(connection, query(TOMBSTONE).bind(key)).await? else { return Ok(Purging::Done) };
    let mut columns = Columns::new(&row);
    let (state, touched, purge_at) = (columns.int()?, columns.time()?, columns.time()?);
    let left = touched.plus(STAGING_TIMEOUT).0.saturating_sub(now.0);
    match state {
        1 => {}
        3 if left > 0 => return Ok(Purging::Staged(Duration::from_millis(left.unsigned_abs()))),
        3 => fetch::run(connection, query(GIVE_UP).bind(key)).await?,
        4 => {
            let left = u64::try_from(purge_at.0.saturating_sub(now.0)).unwrap_or(0);
            return Ok(Purging::Trashed(Duration::from_millis(left)));
        }
        _ => return Ok(Purging::Done),
    }
    let limit = rows::limit(rows);
    let gone = fetch::rows(connection, query(LOG).bind(key).bind(limit)).await?;
    if !gone.is_empty() {
        let mut bytes = 0;
        for row in &gone {
            bytes += Columns::new(row).int()?;
        }
        charge(connection, key, -bytes, 0).await?;
    }
    if gone.len() >= rows {
        return Ok(Purging::More);
    }
    let entries = fetch::rows(connection, query(KV).bind(key).bind(limit)).await?;
    for row in &entries {
        let mut columns = Columns::new(row);
        let (project, owner, bytes) = (columns.text()?, columns.text()?, columns.int()?);
        // Entries of a project itself are counted only once a day.
        if !owner.is_empty() {
            fetch::run(connection, query(SPEND).bind(project).bind(owner).bind(-bytes)).await?;
        }
    }
    if entries.len() >= rows {
        return Ok(Purging::More);
    }
    for text in [RUNS, ANNOTATIONS, ITEMS, OPS, CHECKPOINTS, BLOBS, WRITES] {
        if fetch::change(connection, query(text).bind(key).bind(limit)).await? >= rows as u64 {
            return Ok(Purging::More);
        }
    }
    let kept = fetch::row(connection, query(DATA).bind(key)).await?;
    let kept = kept.map_or(Ok(0), |row| Columns::new(&row).int())?;
    charge(connection, key, -kept, -1).await?;
    fetch::run(connection, query(REST).bind(key)).await?;
    Ok(Purging::Done)
}
