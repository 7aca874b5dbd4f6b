//! Import of the feeds of users.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    ProjectId, UserId,
    limits::{FEED_CHUNK, PG_RACES},
};

use super::{
    PgStore,
    rows::{self, text_of},
};
use crate::{ExportStore, FeedImage, StoreError, StoreResult, TransferStore};

pub(super) const FEED: &str = text_of(include_str!("../../queries/postgres/put_feed.sql"));

impl PgStore {
    /// Replaces a feed whose head is `head`, from its first position on, so that a concurrent reader misses nothing.
    /// The feed may have any size: each statement is short. False if another node has given positions meanwhile.
    async fn put_taken(
        &self,
        project: &ProjectId,
        user: &UserId,
        mut head: u64,
        taken: &FeedImage,
    ) -> StoreResult<bool> {
        let mut rest = taken.entries.as_slice();
        loop {
            let (chunk, later) = rest.split_at(rest.len().min(FEED_CHUNK));
            let upto = match chunk.last() {
                Some(last) if !later.is_empty() => last.0,
                _ => taken.head,
            };
            let put = query(FEED)
                .bind(project.to_string())
                .bind(user.to_string())
                .bind(rows::to_i64(head))
                .bind(rows::to_i64(upto))
                .bind(chunk.iter().map(|(pos, _)| rows::to_i64(*pos)).collect::<Vec<_>>())
                .bind(chunk.iter().map(|(_, id)| id.to_string()).collect::<Vec<_>>())
                .bind(taken.epoch.to_i64());
            if self.write(put).await?.is_empty() {
                return Ok(false);
            }
            if later.is_empty() {
                return Ok(true);
            }
            (head, rest) = (upto, later);
        }
    }
}

#[async_trait]
impl TransferStore for PgStore {
    async fn put_feed(&self, project: &ProjectId, user: &UserId, moved: &FeedImage) -> StoreResult<bool> {
        let mut changed = false;
        for _ in 0..PG_RACES {
            let own = self.feed_image(project, user).await?;
            let Some(taken) = own.taking(moved) else { return Ok(changed) };
            if self.put_taken(project, user, own.head, &taken).await? {
                return Ok(true);
            }
            changed = true;
        }
        Err(StoreError::Unavailable("the feed is changing too fast; try again".to_owned()))
    }
}
