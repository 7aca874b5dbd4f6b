//! Attempts at runs of producers.

use async_trait::async_trait;
use sqlx::{SqliteConnection, query};
use threadline_core::{DriverFence, LogSlice, RunId, ThreadKey, Timestamp};

use super::{
    SqliteStore,
    append::{self, Entry},
    corrupt,
    fetch::{self, Work},
    rows::{self, text_of},
    runs::{ACTIVE, look},
};
use crate::{AttemptStore, Committed, ProducerTurn, StoreResult, TakeUp, sql::attempts};

pub(super) const TAKE_UP: &str = text_of(include_str!("../../queries/sqlite/take_up.sql"));

async fn take_up(connection: &mut SqliteConnection, take: TakeUp, now: Timestamp) -> Work<Option<Committed>> {
    let found = look(connection, query(ACTIVE).bind(take.key.0)).await?;
    let Some((head, Some(run), newest)) = found else { return Ok(None) };
    let as_expected = head.write_fence() == take.fence
        && head.tail == take.tail
        && head.generation == take.generation
        && run.id == take.run
        && !run.driven;
    let Some(active) = head.active.filter(|active| as_expected && active.stop_requested_at.is_none()) else {
        return Ok(None);
    };
    let at = now.in_log_after(newest);
    let events = take.events.as_ref();
    let count = events.map_or(0, |events| events.count() as u64);
    let slice = events.map(|events| LogSlice::of(events, head.tail + 1, &run.id, at)).unwrap_or_default();
    let (tail, producer_seq) = (head.tail + count, active.producer_seq + count);
    let begin = query(TAKE_UP)
        .bind(take.key.0)
        .bind(run.id.as_str())
        .bind(run.fence.0)
        .bind(rows::to_i64(take.attempt))
        .bind(DriverFence::of_attempt(take.attempt).0)
        .bind(take.attempt_id.as_str())
        .bind(now.0)
        .bind(rows::to_i64(tail))
        .bind(rows::to_i64(producer_seq))
        .bind(if events.is_some() { Some(at.0) } else { newest.map(|newest| newest.0) })
        .bind(take.lease.map(rows::millis))
        .bind(take.displaced.to_text());
    fetch::run(connection, begin).await?;
    if events.is_some() {
        let fence = head.fence;
        let entry = Entry { key: take.key, fence, tail, producer_seq, stop_requested_at: None, at, events, end: None };
        append::write(connection, entry, now).await?;
    }
    // The statement alone knows the length of the lease, which it has extended.
    let after = look(connection, query(ACTIVE).bind(take.key.0)).await?;
    let Some((head, Some(run), _)) = after else { return Err(corrupt("a run that was taken up is gone").into()) };
    Ok(Some(Committed { run, head, slice }))
}

#[async_trait]
impl AttemptStore for SqliteStore {
    async fn producer_turn(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<ProducerTurn>> {
        attempts::turn(&self.read_rows(query(attempts::TURN).bind(key.0).bind(run.as_str())).await?)
    }

    async fn take_up(&self, take: TakeUp) -> StoreResult<Option<Committed>> {
        let clock = self.inner.clock.clone();
        self.transact(move |connection| Box::pin(async move { take_up(connection, take, clock.now()).await })).await
    }
}
