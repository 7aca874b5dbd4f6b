//! The feed: a compacted change index. A thread's own commit makes it dirty (version > fed_version); this module gives
//! dirty threads their positions.

use async_trait::async_trait;
use serde_json::{Value, json};
use sqlx::{SqliteConnection, query};
use threadline_core::{FeedHead, ProjectId, ThreadId, UserId, limits::FEED_CHUNK};

use super::{
    SqliteStore,
    fetch::{self, Work},
    rows::{self, Columns, text_of},
};
use crate::{
    FeedPage, FeedStore, StoreResult,
    sql::{corrupt, pages},
};

/// Deleted threads first, so that a thread created again under an id replaces the entry of its deletion.
pub(super) const DIRTY: &str = "\
    SELECT key, id, deleted FROM threads WHERE project = ?1 AND user = ?2 AND version > fed_version
    ORDER BY deleted = 0, key LIMIT ?3";
const PUT: &str = text_of(include_str!("../../queries/sqlite/feed_put.sql"));
/// The generation of an existing feed is the newest one: feeds enter it when the file is opened.
const HEAD_UP: &str = "\
    INSERT INTO feed_heads (project, user, head, epoch, generation)
    VALUES (?1, ?2, ?3, random() & 0x3fffffffffffffff, (SELECT max(generation) FROM lineage))
    ON CONFLICT (project, user) DO UPDATE SET head = excluded.head
    RETURNING head, epoch, generation, prior_epoch, prior_head";
const FED: &str = text_of(include_str!("../../queries/sqlite/feed_fed.sql"));
const HEAD: &str = "\
    SELECT head, epoch, generation, prior_epoch, prior_head FROM feed_heads WHERE project = ?1 AND user = ?2";
pub(super) const HEADS: &str = text_of(include_str!("../../queries/sqlite/feed_heads.sql"));
const STATE: &str = text_of(include_str!("../../queries/sqlite/feed_state.sql"));
pub(super) const PAGE: &str = text_of(include_str!("../../queries/sqlite/feed.sql"));
pub(super) const WAS_DELETED: &str = text_of(include_str!("../../queries/sqlite/was_deleted.sql"));
pub(super) const DIRTY_FEEDS: &str = "\
    SELECT DISTINCT project, user FROM threads WHERE version > fed_version ORDER BY project, user LIMIT ?";

/// Feed after a chunk of dirty threads.
struct Pumped {
    head: FeedHead,
    /// True if more threads may be dirty.
    more: bool,
}

/// Gives positions to a chunk of dirty threads.
async fn pump(connection: &mut SqliteConnection, project: ProjectId, user: UserId) -> Work<Pumped> {
    let (project, user) = (project.as_str(), user.as_str());
    let head = match fetch::row(connection, query(HEAD).bind(project).bind(user)).await? {
        Some(row) => Columns::new(&row).feed_head()?,
        None => FeedHead::EMPTY,
    };
    let dirty = query(DIRTY).bind(project).bind(user).bind(rows::limit(FEED_CHUNK));
    let dirty = fetch::rows(connection, dirty).await?;
    if dirty.is_empty() {
        return Ok(Pumped { head, more: false });
    }
    let mut position = head.position;
    let (mut entries, mut keys) = (Vec::with_capacity(dirty.len()), Vec::with_capacity(dirty.len()));
    for row in &dirty {
        let mut columns = Columns::new(row);
        let (key, id, deleted) = (columns.int()?, columns.text()?, columns.int()? != 0);
        position += 1;
        entries.push(json!([position, id, (!deleted).then_some(key)]));
        keys.push(json!(key));
    }
    let (entries, keys) = (Value::Array(entries).to_string(), Value::Array(keys).to_string());
    fetch::run(connection, query(PUT).bind(project).bind(user).bind(entries)).await?;
    let up = query(HEAD_UP).bind(project).bind(user).bind(rows::to_i64(position));
    let up = fetch::row(connection, up).await?.ok_or_else(|| corrupt("a feed without a head"))?;
    fetch::run(connection, query(FED).bind(keys)).await?;
    Ok(Pumped { head: Columns::new(&up).feed_head()?, more: dirty.len() == FEED_CHUNK })
}

impl SqliteStore {
    pub(super) async fn feed_head(&self, project: &ProjectId, user: &UserId) -> StoreResult<FeedHead> {
        let rows = self.read_rows(query(HEAD).bind(project.as_str()).bind(user.as_str())).await?;
        rows.first().map_or(Ok(FeedHead::EMPTY), |row| Columns::new(row).feed_head())
    }
}

#[async_trait]
impl FeedStore for SqliteStore {
    async fn pump_feed(&self, project: &ProjectId, user: &UserId) -> StoreResult<FeedHead> {
        // Most often no thread is dirty, and then the writing connection is not used.
        let state = self.read_rows(query(STATE).bind(project.as_str()).bind(user.as_str())).await?;
        if let Some(row) = state.first() {
            let mut columns = Columns::new(row);
            let (head, dirty) = (columns.feed_head()?, columns.int()? != 0);
            if !dirty {
                return Ok(head);
            }
        }
        loop {
            let (project, user) = (project.clone(), user.clone());
            let Pumped { head, more } =
                self.transact(move |connection| Box::pin(pump(connection, project, user))).await?;
            if !more {
                return Ok(head);
            }
        }
    }

    async fn feed(&self, project: &ProjectId, user: &UserId, after: u64, limit: usize) -> StoreResult<FeedPage> {
        let statement =
            query(PAGE).bind(project.as_str()).bind(user.as_str()).bind(rows::to_i64(after)).bind(rows::limit(limit));
        pages::feed_page(&self.read_rows(statement).await?)
    }

    async fn was_deleted(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> StoreResult<bool> {
        let statement = query(WAS_DELETED).bind(project.as_str()).bind(user.as_str()).bind(id.as_str());
        let rows = self.read_rows(statement).await?;
        rows.first().map_or(Ok(false), |row| Columns::new(row).flag())
    }

    async fn feed_heads(&self, feeds: &[(ProjectId, UserId)]) -> StoreResult<Vec<FeedHead>> {
        let list = Value::Array(feeds.iter().map(|(project, user)| json!([project.as_str(), user.as_str()])).collect());
        let rows = self.read_rows(query(HEADS).bind(list.to_string())).await?;
        rows.iter().map(|row| Columns::new(row).feed_head()).collect()
    }

    async fn dirty_feeds(&self, limit: usize) -> StoreResult<Vec<(ProjectId, UserId)>> {
        pages::feeds(&self.read_rows(query(DIRTY_FEEDS).bind(rows::limit(limit))).await?)
    }
}
