//! Import of the feeds of users.

use async_trait::async_trait;
use serde_json::{Value, json};
use sqlx::{SqliteConnection, query};
use threadline_core::{ProjectId, UserId};

use super::{
    SqliteStore,
    fetch::{self, Work},
    rows::{self, text_of},
    tables,
};
use crate::{FeedImage, StoreResult, TransferStore, sql::pages};

const FEED: &str = text_of(include_str!("../../queries/sqlite/put_feed.sql"));

async fn put_feed(connection: &mut SqliteConnection, project: ProjectId, user: UserId, moved: FeedImage) -> Work<bool> {
    let own = query(tables::STATEMENTS.feed_image).bind(project.as_str()).bind(user.as_str());
    let own = pages::feed_image(&fetch::rows(connection, own).await?)?;
    let Some(taken) = own.taking(&moved) else { return Ok(false) };
    let entries = taken.entries.iter().map(|(pos, id)| json!([pos, id.as_str()]));
    let put = query(FEED)
        .bind(project.as_str())
        .bind(user.as_str())
        .bind(Value::Array(entries.collect()).to_string())
        .bind(rows::to_i64(taken.head))
        .bind(taken.epoch.to_i64());
    fetch::run(connection, put).await?;
    Ok(true)
}

#[async_trait]
impl TransferStore for SqliteStore {
    async fn put_feed(&self, project: &ProjectId, user: &UserId, moved: &FeedImage) -> StoreResult<bool> {
        let (project, user, moved) = (project.clone(), user.clone(), moved.clone());
        self.transact(move |connection| Box::pin(put_feed(connection, project, user, moved))).await
    }
}
