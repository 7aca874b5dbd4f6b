//! Search for idle threads, and erasure of users.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    Footprint, ProjectId, ThreadKey, Timestamp, UserId,
    limits::{FOOTPRINT_THREADS, FORGET_ENTRIES, PG_RACES},
};

use super::{
    PgStore,
    rows::{self, Columns, text_of},
};
use crate::{ErasureStore, IdlePage, StoreError, StoreResult, sql::pages};

pub(super) const IDLE: &str = text_of(include_str!("../../queries/postgres/idle.sql"));
pub(super) const FOOTPRINT: &str = text_of(include_str!("../../queries/postgres/footprint.sql"));
pub(super) const REST: &str = text_of(include_str!("../../queries/postgres/footprint_rest.sql"));
pub(super) const FORGET_SOME: &str = text_of(include_str!("../../queries/postgres/forget_some.sql"));
pub(super) const FORGET: &str = text_of(include_str!("../../queries/postgres/forget.sql"));

#[async_trait]
impl ErasureStore for PgStore {
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
        let (mut at, mut id) = (i64::MIN, String::new());
        loop {
            let part = of(FOOTPRINT).bind(at).bind(&id).bind(rows::limit(FOOTPRINT_THREADS));
            let found = self.read_rows(part).await?;
            let Some(row) = found.first() else { break };
            let mut columns = Columns::new(row);
            if pages::count_threads(&mut print, &mut columns)? < FOOTPRINT_THREADS as u64 {
                break;
            }
            (at, id) = (columns.int()?, columns.text()?);
        }
        if let Some(row) = self.read_rows(of(REST)).await?.first() {
            let mut columns = Columns::new(row);
            (print.feed_entries, print.tombstones) = (columns.count()?, columns.count()?);
        }
        Ok(print)
    }

    async fn forget_user(&self, project: &ProjectId, user: &UserId) -> StoreResult<()> {
        let of = |text| query(text).bind(project.as_str()).bind(user.as_str());
        loop {
            let gone = self.write(of(FORGET_SOME).bind(rows::limit(FORGET_ENTRIES))).await?;
            if gone.first().map_or(Ok(0), |row| Columns::new(row).count())? < FORGET_ENTRIES as u64 {
                break;
            }
        }
        for _ in 0..PG_RACES {
            let forgotten = self.write(of(FORGET)).await?;
            if forgotten.first().map_or(Ok(true), |row| Columns::new(row).flag())? {
                return Ok(());
            }
        }
        Err(StoreError::Unavailable("the feed is changing too fast; try again".to_owned()))
    }
}
