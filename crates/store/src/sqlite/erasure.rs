//! Retention and erasure: idle threads, and the data of users.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{Footprint, ProjectId, ThreadKey, Timestamp, UserId, limits::FORGET_ENTRIES};

use super::{
    SqliteStore,
    rows::{self, Columns, text_of},
};
use crate::{ErasureStore, IdlePage, StoreResult, sql::pages};

pub(super) const IDLE: &str = text_of(include_str!("../../queries/sqlite/idle.sql"));
pub(super) const FOOTPRINT: &str = text_of(include_str!("../../queries/sqlite/footprint.sql"));
pub(super) const REST: &str = text_of(include_str!("../../queries/sqlite/footprint_rest.sql"));
pub(super) const FORGET_SOME: &str = text_of(include_str!("../../queries/sqlite/forget_some.sql"));
pub(super) const FORGET: &str = text_of(include_str!("../../queries/sqlite/forget.sql"));

#[async_trait]
impl ErasureStore for SqliteStore {
    async fn idle_threads(
        &self,
        project: &ProjectId,
        before: Timestamp,
        after: Option<ThreadKey>,
        window: usize,
    ) -> StoreResult<IdlePage> {
        let idle = query(IDLE)
            .bind(project.as_str())
            .bind(before.0)
            .bind(after.map_or(i64::MIN, |key| key.0))
            .bind(rows::limit(window));
        pages::idle_page(&self.read_rows(idle).await?)
    }

    async fn footprint(&self, project: &ProjectId, user: &UserId) -> StoreResult<Footprint> {
        let mut print = Footprint::default();
        let of = |text| query(text).bind(project.as_str()).bind(user.as_str());
        if let Some(row) = self.read_rows(of(FOOTPRINT)).await?.first() {
            pages::count_threads(&mut print, &mut Columns::new(row))?;
        }
        if let Some(row) = self.read_rows(of(REST)).await?.first() {
            let mut columns = Columns::new(row);
            (print.feed_entries, print.tombstones) = (columns.count()?, columns.count()?);
        }
        Ok(print)
    }

    async fn forget_user(&self, project: &ProjectId, user: &UserId) -> StoreResult<()> {
        let of = |text| query(text).bind(project.to_string()).bind(user.to_string());
        while self.change(of(FORGET_SOME).bind(rows::limit(FORGET_ENTRIES))).await? >= FORGET_ENTRIES as u64 {}
        self.change(of(FORGET)).await.map(drop)
    }
}
