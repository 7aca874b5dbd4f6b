//! Leases while the clock of the machine is set. The process judges them by a clock of its own: the wall clock when the store
//! was opened, and the steady time since. At each beat it follows the wall clock, and moves all leases by the difference.

use sqlx::{SqliteConnection, query};
use threadline_core::{
    ThreadKey, Timestamp,
    limits::{CLOCK_ERROR, CLOCK_STEP, CLOCK_STEP_HOLD, RELEASE_GRACE, RENEW_CHUNK, STOP_GRACE},
};

use super::{
    fetch::{self, Work},
    rows::{self, text_of},
};
use crate::{JobKind, Renewal, Renewed, Steady, StoreClock, sql::pages};

const RENEW: &str = text_of(include_str!("../../queries/sqlite/renew_leases.sql"));
const SHIFT: &str = text_of(include_str!("../../queries/sqlite/shift_leases.sql"));
const PUT_JOB: &str = text_of(include_str!("../../queries/sqlite/put_job.sql"));
/// Runs of a page, and its last key, after [`RENEW`] has changed this many heads.
const PAGE: &str = "SELECT ?1, count(*), max(key) FROM \
    (SELECT key FROM turns WHERE place IS NULL AND key > ?2 ORDER BY key LIMIT ?3)";

/// Renews the leases of one page of active runs, inside a transaction.
pub(super) async fn renew_page(
    connection: &mut SqliteConnection,
    which: Renewal,
    after: Option<ThreadKey>,
    now: Timestamp,
) -> Work<Renewed> {
    let after = after.map_or(0, |after| after.0);
    let renew = query(RENEW)
        .bind(now.0)
        .bind(after)
        .bind(rows::limit(RENEW_CHUNK))
        .bind(which == Renewal::All)
        .bind(rows::millis(CLOCK_STEP))
        .bind(rows::millis(RELEASE_GRACE))
        .bind(rows::millis(STOP_GRACE));
    let renewed = fetch::rows(connection, renew).await?.len() as u64;
    let page = query(PAGE).bind(rows::to_i64(renewed)).bind(after).bind(rows::limit(RENEW_CHUNK));
    Ok(pages::renewed(&fetch::rows(connection, page).await?, RENEW_CHUNK)?)
}

/// Renews the leases of all active runs. No producer could send a heartbeat while the file was closed, and the clock of
/// the machine may have been set meanwhile.
pub(super) async fn renew_all(connection: &mut SqliteConnection, now: Timestamp) -> Work<()> {
    let mut after = None;
    loop {
        after = renew_page(connection, Renewal::All, after, now).await?.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Moves the leases if the wall clock was set, and has retention wait, inside the transaction of a beat. Returns the wall time with its reading,
/// with which the clock is anchored after the commit.
pub(super) async fn follow(connection: &mut SqliteConnection, clock: &StoreClock) -> Work<(Timestamp, Steady)> {
    let (reading, wall) = (clock.steady(), clock.wall());
    let ahead = wall.0.saturating_sub(clock.at(reading).0);
    if u128::from(ahead.unsigned_abs()) > CLOCK_ERROR.as_millis() {
        tracing::warn!(ms = ahead, "the clock of this machine was set; leases move with it");
        fetch::run(connection, query(SHIFT).bind(ahead)).await?;
    }
    // In the commit after which the clock is anchored: the engine does not see the step.
    if u128::from(ahead.unsigned_abs()) > CLOCK_STEP.as_millis() {
        let hold = query(PUT_JOB).bind(wall.0).bind(JobKind::ClockStep.name()).bind("");
        fetch::run(connection, hold.bind(rows::millis(CLOCK_STEP_HOLD)).bind(1_i64)).await?;
    }
    Ok((wall, reading))
}
