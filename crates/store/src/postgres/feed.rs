//! The feed: a compacted change index. A thread's own commit makes it dirty (version > fed_version); here dirty threads
//! get their positions. Several nodes may feed one user at once.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    FeedHead, ProjectId, ThreadId, UserId,
    limits::{FEED_CHUNK, PG_RACES},
};

use super::{
    PgStore,
    rows::{self, Columns, text_of},
};
use crate::{FeedPage, FeedStore, StoreResult, sql::pages};

pub(super) const PUMP: &str = text_of(include_str!("../../queries/postgres/pump.sql"));
const HEAD: &str = "\
    SELECT head, epoch, generation, prior_epoch, prior_head FROM feed_heads WHERE project = $1 AND user_id = $2";
pub(super) const FEED_HEADS: &str = text_of(include_str!("../../queries/postgres/feed_heads.sql"));
pub(super) const STATE: &str = text_of(include_str!("../../queries/postgres/feed_state.sql"));
pub(super) const PAGE: &str = text_of(include_str!("../../queries/postgres/feed.sql"));
pub(super) const WAS_DELETED: &str = text_of(include_str!("../../queries/postgres/was_deleted.sql"));
pub(super) const DIRTY_FEEDS: &str = "\
    SELECT DISTINCT project, user_id FROM threads WHERE version > fed_version ORDER BY project, user_id LIMIT $1";

impl PgStore {
    pub(super) async fn feed_head(&self, project: &ProjectId, user: &UserId) -> StoreResult<FeedHead> {
        let rows = self.read_rows(query(HEAD).bind(project.as_str()).bind(user.as_str())).await?;
        rows.first().map_or(Ok(FeedHead::EMPTY), |row| Columns::new(row).feed_head())
    }
}

#[async_trait]
impl FeedStore for PgStore {
    async fn pump_feed(&self, project: &ProjectId, user: &UserId) -> StoreResult<FeedHead> {
        // Most often there is nothing to do.
        let state = self.read_rows(query(STATE).bind(project.as_str()).bind(user.as_str())).await?;
        let Some(row) = state.first() else { return Ok(FeedHead::EMPTY) };
        let mut columns = Columns::new(row);
        let (mut head, dirty) = (columns.feed_head()?, columns.flag()?);
        let mut missed = if dirty { 0 } else { PG_RACES };
        while missed < PG_RACES {
            let pump = query(PUMP).bind(project.as_str()).bind(user.as_str()).bind(rows::limit(FEED_CHUNK));
            let rows = self.write(pump).await?;
            let Some(row) = rows.first() else { break };
            let mut columns = Columns::new(row);
            head = columns.feed_head()?;
            let (seen, fed) = (columns.count()?, columns.count()?);
            if seen <= fed {
                break;
            }
            // Threads that other transactions have locked are retried a few times. Then these transactions, which end
            // with a change to be fed, are responsible for them, or the sweep is.
            if fed == 0 {
                missed += 1;
            }
        }
        Ok(head)
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
        let projects: Vec<&str> = feeds.iter().map(|(project, _)| project.as_str()).collect();
        let users: Vec<&str> = feeds.iter().map(|(_, user)| user.as_str()).collect();
        let rows = self.read_rows(query(FEED_HEADS).bind(projects).bind(users)).await?;
        rows.iter().map(|row| Columns::new(row).feed_head()).collect()
    }

    async fn dirty_feeds(&self, limit: usize) -> StoreResult<Vec<(ProjectId, UserId)>> {
        pages::feeds(&self.read_rows(query(DIRTY_FEEDS).bind(rows::limit(limit))).await?)
    }
}
