//! Begins of runs, by a start or from the queue.

use std::time::Duration;

use sqlx::{SqliteConnection, query};
use threadline_core::{AgentId, Author, Fence, Run, RunId, RunStatus, Timestamp};

use super::{
    fetch::{self, Work},
    rows::{self, text_of},
};
use crate::{ActiveHead, Head};

pub(super) const START: &str = text_of(include_str!("../../queries/sqlite/start.sql"));

/// Run that is to begin in a free thread.
pub(super) struct NewRun {
    pub(super) id: RunId,
    pub(super) agent: Option<AgentId>,
    pub(super) driven: bool,
    pub(super) author: Option<Author>,
    pub(super) asked_by: Option<Author>,
    pub(super) lease: Duration,
}

/// Begins a run without events, inside a transaction that has found the thread free.
pub(super) async fn begin(
    connection: &mut SqliteConnection,
    head: &mut Head,
    new: NewRun,
    now: Timestamp,
) -> Work<Run> {
    let driver = head.generation.driver_fence(new.driven);
    let lease_until = now.plus(new.lease);
    let run = Run {
        id: new.id,
        fence: Fence(head.fence.0.max(head.generation.fence_floor()) + 1),
        agent: new.agent,
        driven: new.driven,
        author: new.author,
        asked_by: new.asked_by,
        attempt: 1,
        status: RunStatus::Running,
        error_code: None,
        error_message: None,
        usage: None,
        first_seq: head.tail + 1,
        producer_seq: 0,
        started_at: now,
        ended_at: None,
        lease_until: Some(lease_until),
        stop_requested_at: None,
    };
    let begin = query(START)
        .bind(head.key.0)
        .bind(run.fence.0)
        .bind(run.id.as_str())
        .bind(run.agent.as_ref().map(|agent| agent.as_str()))
        .bind(rows::to_i64(run.first_seq))
        .bind(now.0)
        .bind(run.driven.then_some(true))
        .bind(rows::millis(new.lease))
        .bind(lease_until.0)
        .bind(run.author.as_ref().map(Author::as_str))
        .bind(run.asked_by.as_ref().map(Author::as_str))
        .bind(driver.0);
    fetch::run(connection, begin).await?;
    (head.fence, head.driver) = (run.fence, driver);
    head.active = Some(ActiveHead { lease_until, stop_requested_at: None, finishing: false, producer_seq: 0 });
    Ok(run)
}
