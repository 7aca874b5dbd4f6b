//! Threads: creation, lists, changes, deletion and purge.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    CreatedThread, Epoch, NewThread, OpenInterrupt, ProjectId, Seq, Thread, ThreadId, ThreadKey, ThreadPatch, UserId,
    limits::{FORGOTTEN_REQUESTS, PG_RACES, PURGE_ROWS, REQUEST_KEPT, STAGING_TIMEOUT},
};

use super::{
    PgStore,
    fetch::{Rows, Statement},
    rows::{self, Columns, text_of},
};
use crate::{
    ListThreads, Named, Purging, StoreError, StoreResult, ThreadPage, ThreadStore,
    sql::{lists::ListStatements, pages},
};

pub(super) const BY_ID: &str = text_of(include_str!("../../queries/postgres/thread_by_id.sql"));

pub(super) const NAMED: &str = text_of(include_str!("../../queries/postgres/thread_named.sql"));
pub(super) const TAKEN: &str = text_of(include_str!("../../queries/postgres/thread_taken.sql"));

pub(super) const BY_KEY: &str = text_of(include_str!("../../queries/postgres/thread_by_key.sql"));

pub(super) const LISTS: ListStatements = ListStatements {
    recent: text_of(include_str!("../../queries/postgres/list_recent.sql")),
    created: text_of(include_str!("../../queries/postgres/list_created.sql")),
    // A generic plan takes a partial index only by a condition without parameters: a statement for each state.
    recent_failed: text_of(include_str!("../../queries/postgres/list_recent_failed.sql")),
    created_failed: text_of(include_str!("../../queries/postgres/list_created_failed.sql")),
    recent_waiting: text_of(include_str!("../../queries/postgres/list_recent_waiting.sql")),
    created_waiting: text_of(include_str!("../../queries/postgres/list_created_waiting.sql")),
    running: text_of(include_str!("../../queries/postgres/list_running.sql")),
};

pub(super) const CREATE: &str = text_of(include_str!("../../queries/postgres/create_thread.sql"));

pub(super) const OPEN_INTERRUPTS: &str = text_of(include_str!("../../queries/postgres/open_interrupts.sql"));

pub(super) const EDIT: &str = text_of(include_str!("../../queries/postgres/edit_thread.sql"));

pub(super) const MARK: &str = text_of(include_str!("../../queries/postgres/mark_read.sql"));

pub(super) const DELETE: &str = text_of(include_str!("../../queries/postgres/delete_thread.sql"));

pub(super) const TOMBSTONE: &str = text_of(include_str!("../../queries/postgres/tombstone.sql"));
const GIVE_UP: &str = "UPDATE threads SET deleted = 1 WHERE key = $1 AND deleted = 3 AND sort_at = $2";
pub(super) const FORGET_REQUESTS: &str = text_of(include_str!("../../queries/postgres/forget_requests.sql"));
pub(super) const DELETED_REQUEST: &str = "SELECT at FROM deleted_requests WHERE project = $1 AND thread = $2";

pub(super) const PURGE_LOG: &str = text_of(include_str!("../../queries/postgres/purge_log.sql"));
pub(super) const PURGE_RUNS: &str = text_of(include_str!("../../queries/postgres/purge_runs.sql"));
pub(super) const PURGE_ANNOTATIONS: &str = text_of(include_str!("../../queries/postgres/purge_annotations.sql"));
pub(super) const PURGE_KV: &str = text_of(include_str!("../../queries/postgres/purge_kv.sql"));
pub(super) const PURGE_ITEMS: &str = text_of(include_str!("../../queries/postgres/purge_items.sql"));
pub(super) const PURGE_CHECKPOINTS: &str = text_of(include_str!("../../queries/postgres/purge_checkpoints.sql"));
const PURGE_REST: &str = text_of(include_str!("../../queries/postgres/purge_rest.sql"));

fn first_count(rows: &Rows) -> StoreResult<u64> {
    rows.first().map_or(Ok(0), |row| Columns::new(row).count())
}

impl PgStore {
    async fn one(&self, statement: Statement<'_>) -> StoreResult<Option<Thread>> {
        let rows = self.read_rows(statement).await?;
        Ok(rows.first().map(|row| Columns::new(row).thread()).transpose()?.flatten())
    }

    /// The thread that keeps a user from having another one under an id.
    pub(super) async fn taken(
        &self,
        project: &ProjectId,
        user: &UserId,
        id: &ThreadId,
        claims: bool,
    ) -> StoreResult<Option<Thread>> {
        let taken = query(TAKEN).bind(project.as_str()).bind(user.as_str()).bind(id.as_str()).bind(claims);
        self.one(taken).await
    }

    /// Removes a chunk of the rows left of a deleted thread. True if there are more.
    async fn purge_thread(&self, key: i64, rows: usize) -> StoreResult<bool> {
        for text in [PURGE_LOG, PURGE_RUNS, PURGE_ANNOTATIONS, PURGE_KV, PURGE_ITEMS, PURGE_CHECKPOINTS] {
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
    async fn create_thread(&self, mut new: NewThread) -> StoreResult<CreatedThread> {
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
                .bind(epoch.to_i64())
                .bind(new.request.as_deref())
                .bind(new.claimed);
            if let Some(row) = self.write(create).await?.first() {
                let mut columns = Columns::new(row);
                let (key, now) = (ThreadKey(columns.int()?), columns.time()?);
                return Ok(CreatedThread { thread: new.made(key, epoch, now), created: true });
            }
            // The id is taken, unless its thread was deleted meanwhile.
            if let Some(thread) = self.taken(&new.project, &new.user, &new.id, new.claimed).await? {
                return Ok(CreatedThread { thread, created: false });
            }
        }
        Err(StoreError::Unavailable("the thread is made and deleted all the time".to_owned()))
    }

    async fn was_request_deleted(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<bool> {
        let rows = self.read_rows(query(DELETED_REQUEST).bind(project.as_str()).bind(id.as_str())).await?;
        Ok(!rows.is_empty())
    }

    async fn thread_of(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> StoreResult<Option<Thread>> {
        self.one(query(BY_ID).bind(project.as_str()).bind(user.as_str()).bind(id.as_str())).await
    }

    async fn thread_named(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<Named> {
        pages::named(&self.read_rows(query(NAMED).bind(project.as_str()).bind(id.as_str())).await?)
    }

    async fn open_interrupts(&self, keys: &[ThreadKey]) -> StoreResult<Vec<(ThreadKey, Vec<OpenInterrupt>)>> {
        let list: Vec<i64> = keys.iter().map(|key| key.0).collect();
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
        let (renamed, (name, source)) = (patch.name.is_some(), patch.name.flatten().unzip());
        let edit = query(EDIT)
            .bind(self.now())
            .bind(key.0)
            .bind(version)
            .bind(renamed)
            .bind(name.map(rows::text))
            .bind(source.map(|source| source as i64))
            .bind(patch.metadata)
            .bind(patch.archived)
            .bind(epoch.map(Epoch::to_i64));
        let rows = self.write(edit).await?;
        Ok(rows.first().map(|row| Columns::new(row).thread()).transpose()?.flatten())
    }

    async fn mark_read(&self, key: ThreadKey, seq: Seq, epoch: Option<Epoch>) -> StoreResult<Option<Thread>> {
        let mark = query(MARK).bind(key.0).bind(rows::to_i64(seq)).bind(epoch.map(Epoch::to_i64));
        let rows = self.write(mark).await?;
        if let Some(row) = rows.first() {
            return Columns::new(row).thread();
        }
        let thread = self.one(query(BY_KEY).bind(key.0)).await?;
        Ok(thread.filter(|thread| seq <= thread.tail && epoch.is_none_or(|epoch| epoch == thread.epoch)))
    }

    async fn delete_thread(&self, key: ThreadKey, epoch: Option<Epoch>) -> StoreResult<bool> {
        Ok(!self.write(query(DELETE).bind(self.now()).bind(key.0).bind(epoch.map(Epoch::to_i64))).await?.is_empty())
    }

    async fn forget_requests(&self) -> StoreResult<()> {
        let forget = query(FORGET_REQUESTS)
            .bind(self.now())
            .bind(rows::millis(REQUEST_KEPT))
            .bind(rows::limit(FORGOTTEN_REQUESTS));
        self.write(forget).await.map(drop)
    }

    async fn purge(&self, key: ThreadKey, rows: usize) -> StoreResult<Purging> {
        let found = self.read_rows(query(TOMBSTONE).bind(self.now()).bind(key.0)).await?;
        let Some(row) = found.first() else { return Ok(Purging::Done) };
        let mut columns = Columns::new(row);
        let (state, touched, age, in_trash) = (columns.int()?, columns.int()?, columns.int()?, columns.maybe_int()?);
        let left = rows::millis(STAGING_TIMEOUT).saturating_sub(age);
        match state {
            1 => {}
            3 if left > 0 => return Ok(Purging::Staged(Duration::from_millis(left.unsigned_abs()))),
            // Unless the import has made a step since.
            3 => {
                self.write(query(GIVE_UP).bind(key.0).bind(touched)).await?;
                return Ok(Purging::More);
            }
            4 => {
                let left = u64::try_from(in_trash.unwrap_or(0)).unwrap_or(0);
                return Ok(Purging::Trashed(Duration::from_millis(left)));
            }
            _ => return Ok(Purging::Done),
        }
        let left = self.purge_thread(key.0, rows.min(PURGE_ROWS)).await?;
        Ok(if left { Purging::More } else { Purging::Done })
    }
}
