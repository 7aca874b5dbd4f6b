//! Turns of driven runs.

use async_trait::async_trait;
use serde_json::json;
use sqlx::{SqliteConnection, query};
use threadline_core::{DriverFence, LogSlice, NodeId, Run, RunId, ThreadKey, Timestamp};

use super::{
    SqliteStore,
    append::{self, Entry},
    fetch::{self, Work},
    rows::{self, Columns, text_of},
    runs::{ACTIVE, look},
};
use crate::{ClaimTurns, Committed, Head, NewTurn, StoreResult, TakeTurn, Taken, Turn, TurnStore, sql::turns};

const CLAIM: &str = text_of(include_str!("../../queries/sqlite/claim_turns.sql"));
pub(super) const TAKE: &str = text_of(include_str!("../../queries/sqlite/take_turn.sql"));
const WAITING: &str = "\
    SELECT key FROM turns WHERE driven = TRUE AND check_at IS NOT NULL AND (driver IS NULL OR driver <> ?1) LIMIT 1";

/// The turn of a run that has just begun. What a start writes besides is the same for every run.
const DRIVE: &str = "\
    UPDATE turns SET driven = 1, driver = ?1, driver_fence = ?2, attempt_seq = ?3, input = ?4 WHERE key = ?5 AND run = ?6";

pub(super) async fn drive(connection: &mut SqliteConnection, head: &Head, run: &Run, turn: NewTurn) -> Work<()> {
    let drive = query(DRIVE)
        .bind(turn.driver.to_string())
        .bind(head.driver.0)
        .bind(rows::to_i64(head.tail + 1))
        .bind(turn.input)
        .bind(head.key.0)
        .bind(run.id.as_str());
    fetch::run(connection, drive).await
}

async fn take(connection: &mut SqliteConnection, take: TakeTurn, now: Timestamp) -> Work<Option<Taken>> {
    let found = look(connection, query(ACTIVE).bind(take.key.0)).await?;
    let Some((mut head, Some(mut run), newest)) = found else { return Ok(None) };
    let Some(active) = head.active.as_mut().filter(|active| active.stop_requested_at.is_none()) else {
        return Ok(None);
    };
    let events = take.events.as_ref();
    let count = events.map_or(0, |events| events.count() as u64);
    active.producer_seq += count;
    run.producer_seq = active.producer_seq;
    if head.write_fence() != take.fence || head.tail != take.tail || run.id != take.run {
        return Ok(None);
    }
    let at = now.in_log_after(newest);
    let slice = events.map(|events| LogSlice::of(events, head.tail + 1, &run.id, at)).unwrap_or_default();
    head.tail += count;
    head.driver = DriverFence(head.driver.0.max(head.generation.fence_floor()) + 1);
    let begin = query(TAKE)
        .bind(take.key.0)
        .bind(run.id.as_str())
        .bind(run.fence.0)
        .bind(now.0)
        .bind(rows::to_i64(head.tail))
        .bind(rows::to_i64(run.producer_seq))
        .bind(if events.is_some() { Some(at.0) } else { newest.map(|newest| newest.0) })
        .bind(head.driver.0)
        .bind(take.driver.to_string())
        .bind(rows::to_i64(take.futile))
        .bind(take.input);
    let rows = fetch::rows(connection, begin).await?;
    let called = rows.first().map_or(Ok(false), |row| Columns::new(row).flag())?;
    if events.is_some() {
        let entry = Entry {
            key: take.key,
            fence: head.fence,
            tail: head.tail,
            producer_seq: run.producer_seq,
            stop_requested_at: None,
            at,
            events,
            end: None,
        };
        append::write(connection, entry, now).await?;
    }
    // The statement alone knows the length of the lease, which it has extended.
    if let Some((after, Some(extended), _)) = look(connection, query(ACTIVE).bind(take.key.0)).await? {
        (head, run) = (after, extended);
    }
    Ok(Some(Taken { committed: Committed { run, head, slice }, called }))
}

#[async_trait]
impl TurnStore for SqliteStore {
    async fn claim_turns(&self, claim: &ClaimTurns) -> StoreResult<Vec<Turn>> {
        let node = claim.node.to_string();
        // Read first, so that nothing is committed if there is nothing to do.
        let waiting = query(WAITING).bind(&node);
        if claim.own.is_empty() && self.read_rows(waiting).await?.is_empty() {
            return Ok(Vec::new());
        }
        let own = json!(claim.own.iter().map(|key| key.0).collect::<Vec<_>>()).to_string();
        let limit = rows::limit(claim.limit);
        let rows = self
            .transact(move |connection| {
                let claim = query(CLAIM).bind(node).bind(own).bind(limit);
                Box::pin(async move { fetch::rows(connection, claim).await })
            })
            .await?;
        turns::claimed(&rows, claim.node, &self.inner.secrets)
    }

    async fn turns_of(&self, node: NodeId) -> StoreResult<Vec<(ThreadKey, RunId)>> {
        turns::driven(&self.read_rows(query(turns::OF).bind(node.to_string())).await?)
    }

    async fn take_turn(&self, mut turn: TakeTurn) -> StoreResult<Option<Taken>> {
        turns::seal_taken(&self.inner.secrets, &mut turn)?;
        let clock = self.inner.clock.clone();
        self.transact(move |connection| Box::pin(async move { take(connection, turn, clock.now()).await })).await
    }

    async fn mark_called(&self, key: ThreadKey, run: &RunId, driver: DriverFence) -> StoreResult<bool> {
        let run = run.to_string();
        self.transact(move |connection| {
            let mark = query(turns::MARK).bind(key.0).bind(run).bind(driver.0);
            Box::pin(async move { Ok(!fetch::rows(connection, mark).await?.is_empty()) })
        })
        .await
    }

    async fn leave_turn(&self, key: ThreadKey, run: &RunId, driver: DriverFence) -> StoreResult<()> {
        let run = run.to_string();
        self.transact(move |connection| {
            let leave = query(turns::LEAVE).bind(key.0).bind(run).bind(driver.0);
            Box::pin(async move { fetch::run(connection, leave).await })
        })
        .await
    }
}
