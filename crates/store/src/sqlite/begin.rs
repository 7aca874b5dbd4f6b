//! Begins of runs, by a start or from the queue.

use sqlx::{SqliteConnection, query};
use threadline_core::{Author, Fence, Run, Timestamp};

use super::{
    fetch::{self, Work},
    rows::{self, text_of},
};
use crate::{ActiveHead, Head, new_run::NewRun};

pub(super) const START: &str = text_of(include_str!("../../queries/sqlite/start.sql"));

/// The turn of a run of a producer. A driver writes its own into the turn.
const PUSHED: &str =
    "UPDATE turns SET attempt_seq = ?1, attempt_id = ?2, attempt = ?5, driver_fence = ?6 WHERE key = ?3 AND run = ?4";

/// Begins a run without events, inside a transaction that has found the thread free.
pub(super) async fn begin(
    connection: &mut SqliteConnection,
    head: &mut Head,
    new: NewRun,
    now: Timestamp,
) -> Work<Run> {
    let fence = Fence(head.fence.0.max(head.generation.fence_floor()) + 1);
    let driver = head.generation.driver_fence(fence, new.driven);
    let (lease, lease_until) = (new.lease, now.plus(new.lease));
    let (opened, attempt_id) = (head.tail + new.events + 1, new.attempt_id.clone());
    let run = new.begun(fence, head.tail, now);
    let begin = query(START)
        .bind(head.key.0)
        .bind(run.fence.0)
        .bind(run.id.as_str())
        .bind(run.agent.as_ref().map(|agent| agent.as_str()))
        .bind(rows::to_i64(run.first_seq))
        .bind(now.0)
        .bind(run.driven.then_some(true))
        .bind(rows::millis(lease))
        .bind(lease_until.0)
        .bind(run.author.as_ref().map(Author::as_str))
        .bind(run.asked_by.as_ref().map(Author::as_str))
        .bind(driver.0)
        .bind(Some(rows::to_i64(run.attempt)).filter(|attempt| *attempt > 1));
    fetch::run(connection, begin).await?;
    if !run.driven {
        let pushed = query(PUSHED)
            .bind(rows::to_i64(opened))
            .bind(attempt_id.as_ref().map(|id| id.as_str()))
            .bind(head.key.0)
            .bind(run.id.as_str())
            .bind(rows::to_i64(run.attempt))
            .bind(driver.0);
        fetch::run(connection, pushed).await?;
    }
    (head.fence, head.driver) = (run.fence, driver);
    head.active = Some(ActiveHead { lease_until, stop_requested_at: None, finishing: false, producer_seq: 0 });
    Ok(run)
}
