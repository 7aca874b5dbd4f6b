//! Search for idle threads, and erasure of users.

use async_trait::async_trait;
use threadline_core::{
    Footprint, ProjectId, Timestamp, UserId,
    limits::{AGENT_DATA_SWEEP, FOOTPRINT_THREADS, FORGET_ENTRIES, PG_RACES, STREAM_SWEEP},
};

use super::{Tables, Value};
use crate::{
    ErasureStore, IdlePage, IdlePlace, StoreError, StoreResult,
    sql::{columns::Columns, limit, pages, streams},
};

#[async_trait]
impl<S: Tables> ErasureStore for S {
    async fn idle_threads(
        &self,
        project: &ProjectId,
        before: Timestamp,
        after: Option<IdlePlace>,
        window: usize,
    ) -> StoreResult<IdlePage> {
        let (at, key) = after.map_or((i64::MIN, i64::MIN), |after| (after.at.0, after.key.0));
        let values = vec![project.as_str().into(), before.0.into(), at.into(), key.into(), limit(window).into()];
        pages::idle_page(&self.found(S::STATEMENTS.idle, values).await?, window)
    }

    async fn footprint(&self, project: &ProjectId, user: &UserId) -> StoreResult<Footprint> {
        let mut print = Footprint::default();
        let (mut at, mut id) = (i64::MIN, String::new());
        loop {
            let part = [at.into(), id.into(), limit(FOOTPRINT_THREADS).into()];
            let found = self.found(S::STATEMENTS.footprint, of(project, user, part)).await?;
            let Some(row) = found.first() else { break };
            let mut columns = Columns::new(row);
            if pages::count_threads(&mut print, &mut columns)? < FOOTPRINT_THREADS as u64 {
                break;
            }
            (at, id) = (columns.int()?, columns.text()?);
        }
        if let Some(row) = self.found(S::STATEMENTS.footprint_rest, of(project, user, [])).await?.first() {
            let mut columns = Columns::new(row);
            (print.feed_entries, print.tombstones) = (columns.count()?, columns.count()?);
            (print.kv_entries, print.streams) = (columns.count()?, columns.count()?);
        }
        Ok(print)
    }

    async fn forget_user(&self, project: &ProjectId, user: &UserId) -> StoreResult<()> {
        loop {
            let values = of(project, user, [limit(AGENT_DATA_SWEEP).into()]);
            if self.changed(S::STATEMENTS.forget_kv, values).await?.is_empty() {
                break;
            }
        }
        streams::forget(self, project, user, STREAM_SWEEP).await?;
        loop {
            let values = of(project, user, [limit(FORGET_ENTRIES).into()]);
            if self.changed(S::STATEMENTS.forget_some, values).await?.len() < FORGET_ENTRIES {
                break;
            }
        }
        for _ in 0..PG_RACES {
            let forgotten = self.changed(S::STATEMENTS.forget, of(project, user, [])).await?;
            if forgotten.first().map_or(Ok(true), |row| Columns::new(row).flag())? {
                return Ok(());
            }
        }
        Err(StoreError::Unavailable("the feed is changing too fast; try again".to_owned()))
    }
}

fn of(project: &ProjectId, user: &UserId, rest: impl IntoIterator<Item = Value>) -> Vec<Value> {
    [project.as_str().into(), user.as_str().into()].into_iter().chain(rest).collect()
}
