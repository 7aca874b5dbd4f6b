//! Turns of driven runs. A claim locks turns alone, without waiting; TAKE changes the head first, like every other write.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{DriverFence, NodeId, RunId, ThreadKey, limits::DRIVER_TTL};

use super::{
    PgStore,
    append::Pieces,
    rows::{self, Columns, text_of},
    start::{committed, count, slice},
};
use crate::{ClaimTurns, Committed, StoreResult, TakeTurn, Taken, Turn, TurnStore, sql::turns};

pub(super) const CLAIM: &str = text_of(include_str!("../../queries/postgres/claim_turns.sql"));
pub(super) const TAKE: &str = text_of(include_str!("../../queries/postgres/take_turn.sql"));

#[async_trait]
impl TurnStore for PgStore {
    async fn claim_turns(&self, claim: &ClaimTurns) -> StoreResult<Vec<Turn>> {
        let statement = query(CLAIM)
            .bind(self.now())
            .bind(claim.node.to_string())
            .bind(claim.judges)
            .bind(rows::millis(DRIVER_TTL))
            .bind(claim.own.iter().map(|key| key.0).collect::<Vec<_>>())
            .bind(rows::limit(claim.limit));
        turns::claimed(&self.write(statement).await?, claim.node, &self.inner.secrets)
    }

    async fn turns_of(&self, node: NodeId) -> StoreResult<Vec<(ThreadKey, RunId)>> {
        turns::driven(&self.read_rows(query(turns::OF).bind(node.to_string())).await?)
    }

    async fn take_turn(&self, mut take: TakeTurn) -> StoreResult<Option<Taken>> {
        turns::seal_taken(&self.inner.secrets, &mut take)?;
        let events = take.events.as_ref();
        let mut pieces = Pieces::default();
        if let Some(events) = events {
            pieces.add(take.key, events, 0);
        }
        let statement = query(TAKE)
            .bind(self.now())
            .bind(take.key.0)
            .bind(take.run.as_str())
            .bind(take.fence.run.0)
            .bind(take.fence.driver.0)
            .bind(rows::to_i64(take.tail))
            .bind(count(events))
            .bind(pieces.back)
            .bind(pieces.counts)
            .bind(pieces.bodies)
            .bind(pieces.crcs)
            .bind(take.driver.to_string())
            .bind(rows::to_i64(take.futile))
            .bind(take.input.as_deref());
        let rows = self.write(statement).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut columns = Columns::new(row);
        let called = columns.flag()?;
        let (head, run, at) = committed(columns)?;
        let slice = slice(&head, at, [(None, None), (events, Some(&run.id))])?;
        Ok(Some(Taken { committed: Committed { run, head, slice }, called }))
    }

    async fn mark_called(&self, key: ThreadKey, run: &RunId, driver: DriverFence) -> StoreResult<bool> {
        let mark = query(turns::MARK).bind(key.0).bind(run.as_str()).bind(driver.0);
        Ok(!self.write(mark).await?.is_empty())
    }

    async fn leave_turn(&self, key: ThreadKey, run: &RunId, driver: DriverFence) -> StoreResult<()> {
        self.write(query(turns::LEAVE).bind(key.0).bind(run.as_str()).bind(driver.0)).await.map(drop)
    }
}
