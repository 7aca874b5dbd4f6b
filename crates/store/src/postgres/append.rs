//! The group commit: many threads' batches, and the ends of runs, in one statement that is its own transaction.
//!
//! The conditions are part of the UPDATE itself: if another transaction had locked a head, Postgres compares them again
//! with the row that it left behind. The log gets rows only for heads that the UPDATE returned.

use std::collections::HashMap;

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    Epoch, NewEvents, ThreadKey,
    limits::{ROW_BYTES, STOP_GRACE},
};

use super::{
    PgStore,
    fetch::{Kind, Statement},
    pool,
    rows::{self, Columns, text_of},
};
use crate::{
    Append, Appended, StoreResult,
    sql::{
        append::{End, GroupCommit, GroupFailure},
        columns::Cells,
        corrupt, crc,
    },
};

/// One append that ends no run and fits into a row.
pub const ONE: &str = text_of(include_str!("../../queries/postgres/append_one.sql"));
/// Appends that end no run and fit into a row each.
pub const GROUP: &str = text_of(include_str!("../../queries/postgres/append_group.sql"));
pub(super) const WIDE: &str = text_of(include_str!("../../queries/postgres/append_group_with_ends.sql"));
pub(super) const WIDE_ONE: &str = text_of(include_str!("../../queries/postgres/append_one_with_end.sql"));

/// Rows for the log of heads that are moved in the same statement.
#[derive(Default)]
pub(super) struct Pieces {
    pub(super) keys: Vec<i64>,
    pub(super) back: Vec<i64>,
    pub(super) counts: Vec<i64>,
    pub(super) bodies: Vec<Vec<u8>>,
    pub(super) crcs: Vec<i64>,
}

impl Pieces {
    /// Adds the events of a thread's batch; `behind` more follow in the same commit.
    pub(super) fn add(&mut self, key: ThreadKey, events: &NewEvents, behind: usize) {
        let mut back = events.count() as u64 + behind as u64;
        for (count, body) in events.pieces(ROW_BYTES) {
            self.keys.push(key.0);
            self.back.push(rows::to_i64(back));
            self.counts.push(rows::to_i64(count));
            self.crcs.push(crc(&body));
            self.bodies.push(body.to_vec());
            back -= count;
        }
    }
}

/// The body of an append that fits into a row.
fn row(append: &Append) -> Option<&[u8]> {
    Some(&append.events.body()[..]).filter(|body| body.len() <= ROW_BYTES)
}

fn is_narrow(append: &Append) -> bool {
    append.events.terminal().is_none() && append.events.answers().is_none() && row(append).is_some()
}

fn producer_seq(append: &Append) -> Option<i64> {
    append.producer_seq.map(rows::to_i64)
}

/// Epochs that the logs of a group must have.
fn epochs(group: &[&Append]) -> Vec<Option<i64>> {
    group.iter().map(|append| append.epoch.map(Epoch::to_i64)).collect()
}

/// Fences of the drivers of a group's runs.
fn drivers(group: &[&Append]) -> Vec<i64> {
    group.iter().map(|append| append.fence.driver.0).collect()
}

fn count(append: &Append) -> i64 {
    append.events.count() as i64
}

/// Arguments that all appends of a group have.
fn group_arguments<'a>(text: &'static str, group: &[&'a Append], now: Option<i64>) -> Statement<'a> {
    query(text)
        .bind(now)
        .bind(group.iter().map(|append| append.key.0).collect::<Vec<_>>())
        .bind(group.iter().map(|append| append.fence.run.0).collect::<Vec<_>>())
        .bind(group.iter().map(|append| producer_seq(append)).collect::<Vec<_>>())
        .bind(group.iter().map(|append| count(append)).collect::<Vec<_>>())
        .bind(rows::millis(STOP_GRACE))
        .bind(group.iter().map(|append| row(append)).collect::<Vec<_>>())
}

/// Checksums of the bodies that fit into a row.
fn row_crcs(group: &[&Append]) -> Vec<Option<i64>> {
    group.iter().map(|append| row(append).map(crc)).collect()
}

fn wide<'a>(group: &[&'a Append], now: Option<i64>) -> Statement<'a> {
    let text = if group.len() == 1 { WIDE_ONE } else { WIDE };
    let (mut ends, mut stopped) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
    let mut pieces = Pieces::default();
    for append in group {
        let terminal = append.events.terminal();
        ends.push(terminal.map(|terminal| End::by(terminal, false)));
        stopped.push(terminal.map(|terminal| End::by(terminal, true).status.to_i64()));
        if row(append).is_none() {
            pieces.add(append.key, &append.events, 0);
        }
    }
    let texts = |of: fn(&End) -> &Option<String>| -> Vec<Option<String>> {
        ends.iter().map(|end| end.as_ref().and_then(|end| of(end).clone()).map(rows::text)).collect()
    };
    group_arguments(text, group, now)
        .bind(ends.iter().map(|end| end.as_ref().map(|end| end.status.to_i64())).collect::<Vec<_>>())
        .bind(stopped)
        .bind(texts(|end| &end.code))
        .bind(texts(|end| &end.message))
        .bind(texts(|end| &end.usage))
        .bind(pieces.keys)
        .bind(pieces.back)
        .bind(pieces.counts)
        .bind(pieces.bodies)
        .bind(row_crcs(group))
        .bind(pieces.crcs)
        .bind(epochs(group))
        .bind(drivers(group))
        .bind(group.iter().map(|append| append.events.answers()).collect::<Vec<_>>())
        .bind(texts(|end| &end.interrupts))
}

fn statement<'a>(group: &[&'a Append], now: Option<i64>) -> Statement<'a> {
    match group {
        [only] if is_narrow(only) => query(ONE)
            .bind(now)
            .bind(only.key.0)
            .bind(only.fence.run.0)
            .bind(producer_seq(only))
            .bind(count(only))
            .bind(rows::millis(STOP_GRACE))
            .bind(row(only))
            .bind(row(only).map(crc))
            .bind(only.epoch.map(Epoch::to_i64))
            .bind(only.fence.driver.0),
        many if many.iter().all(|append| is_narrow(append)) => {
            group_arguments(GROUP, many, now).bind(row_crcs(many)).bind(epochs(many)).bind(drivers(many))
        }
        many => wide(many, now),
    }
}

/// Answers by key of the thread.
fn answers<R: Cells>(rows: &[R], group: &[&Append]) -> StoreResult<HashMap<ThreadKey, Appended>> {
    let asked: HashMap<ThreadKey, &Append> = group.iter().map(|append| (append.key, *append)).collect();
    let mut answers = HashMap::with_capacity(rows.len());
    for row in rows {
        let mut columns = Columns::new(row);
        let key = ThreadKey(columns.int()?);
        let append = asked.get(&key).ok_or_else(|| corrupt("an append that was not requested"))?;
        answers.insert(key, columns.appended(append)?);
    }
    Ok(answers)
}

#[async_trait]
impl GroupCommit for PgStore {
    async fn commit_group(&self, group: Vec<Append>) -> Result<Vec<Option<Appended>>, GroupFailure> {
        let mut sorted: Vec<&Append> = group.iter().collect();
        sorted.sort_unstable_by_key(|append| append.key);
        // Groups wait for no head and have connections of their own, which no statement that waits for a head can
        // occupy.
        let pool = if group.len() > 1 { &self.inner.groups } else { &self.inner.writers };
        let rows = pool::run(pool, statement(&sorted, self.now())).await.map_err(|failure| GroupFailure {
            error: failure.error,
            divisible: match failure.kind {
                Kind::Refused | Kind::Duplicate => true,
                // In a group of one, the obstacle concerns this entry alone.
                Kind::Busy => group.len() == 1,
                Kind::Broken => false,
            },
        })?;
        let mut answers = answers(&rows, &sorted).map_err(|error| GroupFailure { error, divisible: false })?;
        Ok(group.iter().map(|append| answers.remove(&append.key)).collect())
    }
}
