//! Attempts at runs of producers. A take-up changes the head first, like every other write.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{DriverFence, RunId, ThreadKey};

use super::{
    PgStore,
    append::Pieces,
    rows::{self, Columns, text_of},
    start::{committed, count, slice},
};
use crate::{AttemptStore, Committed, ProducerTurn, StoreResult, TakeUp, sql::attempts};

pub(super) const TAKE_UP: &str = text_of(include_str!("../../queries/postgres/take_up.sql"));

#[async_trait]
impl AttemptStore for PgStore {
    async fn producer_turn(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<ProducerTurn>> {
        attempts::turn(&self.read_rows(query(attempts::TURN).bind(key.0).bind(run.as_str())).await?)
    }

    async fn take_up(&self, take: TakeUp) -> StoreResult<Option<Committed>> {
        let events = take.events.as_ref();
        let mut pieces = Pieces::default();
        if let Some(events) = events {
            pieces.add(take.key, events, 0);
        }
        let statement = query(TAKE_UP)
            .bind(self.now())
            .bind(take.key.0)
            .bind(take.run.as_str())
            .bind(take.fence.run.0)
            .bind(take.fence.driver.0)
            .bind(rows::to_i64(take.attempt))
            .bind(DriverFence::of_attempt(take.attempt).0)
            .bind(take.attempt_id.as_str())
            .bind(take.generation.0)
            .bind(rows::to_i64(take.tail))
            .bind(take.lease.map(rows::millis))
            .bind(count(events))
            .bind(pieces.back)
            .bind(pieces.counts)
            .bind(pieces.bodies)
            .bind(pieces.crcs)
            .bind(take.displaced.to_text());
        let rows = self.write(statement).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (head, run, at) = committed(Columns::new(row))?;
        let slice = slice(&head, at, [(None, None), (events, Some(&run.id))])?;
        Ok(Some(Committed { run, head, slice }))
    }
}
