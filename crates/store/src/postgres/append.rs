//! The group commit: many threads' batches, and the ends of runs, in one statement that is its own transaction.
//!
//! The conditions are part of the UPDATE itself: if another transaction had locked a head, Postgres compares them again
//! with the row that it left behind. The log gets rows only for heads that the UPDATE returned.

use std::collections::HashMap;

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    NewEvents, RunId, ThreadKey,
    limits::{ROW_BYTES, STOP_GRACE},
};

use super::{
    PgStore,
    fetch::{Kind, Statement},
    pool,
    rows::{self, Columns, head_columns, now},
};
use crate::{
    Append, Appended, StoreResult,
    sql::{
        append::{End, GroupCommit, GroupFailure, appended},
        columns::Cells,
        corrupt,
    },
};

/// The change of one head: `$source` has the values of the append, `$find` is the condition that finds the head.
macro_rules! move_head {
    ($source:literal, $n:literal, $fence:literal, $producer_seq:literal, $grace:literal, $find:literal, $set:literal, $returning:literal) => {
        concat!(
            "up AS (
               UPDATE heads AS h
               SET tail = h.tail + ",
            $n,
            ", producer_seq = h.producer_seq + ",
            $n,
            ", lease_until = greatest(h.lease_until, c.now + h.lease_ms)",
            $set,
            " FROM ",
            $source,
            " WHERE ",
            $find,
            " AND h.fence = ",
            $fence,
            " AND h.active AND h.producer_seq + 1 = coalesce(",
            $producer_seq,
            ", h.producer_seq + 1) AND (h.stop_at IS NULL OR h.stop_at > c.now - ",
            $grace,
            ") RETURNING h.*, c.now",
            $returning,
            ")"
        )
    };
}

/// One append that ends no run and fits into a row: `$2` key, `$3` fence, `$4` producer_seq or NULL, `$5` events, `$6`
/// [`STOP_GRACE`], `$7` body. The statement waits for a locked head.
pub const ONE: &str = concat!(
    "WITH ",
    now!(),
    ", ",
    move_head!("c", "$5::bigint", "$3::bigint", "$4::bigint", "$6::bigint", "h.key = $2::bigint", "", ""),
    ", put AS (
       INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body)
       SELECT key, tail + 1 - $5, tail, fence, now, octet_length($7::bytea), $7 FROM up
     )
     SELECT h.now, h.run, ",
    head_columns!(),
    " FROM up h"
);

/// The heads of a group, locked one after the other in the order given, which is that of their keys. `$wait` is the
/// clause for heads that another transaction has locked.
macro_rules! locked {
    ($columns:literal, $arrays:literal, $wait:literal) => {
        concat!(
            "locked AS MATERIALIZED (
               SELECT v.* FROM unnest(",
            $arrays,
            ") AS v (",
            $columns,
            ") CROSS JOIN LATERAL (SELECT h.key FROM heads h WHERE h.key = v.key FOR NO KEY UPDATE",
            $wait,
            ") AS h)"
        )
    };
}
pub(super) use locked;

/// Appends that end no run and fit into a row each: `$2` keys, `$3` fences, `$4` producer_seqs or NULL, `$5` events,
/// `$6` [`STOP_GRACE`], `$7` bodies. Locked heads are left out.
pub const GROUP: &str = concat!(
    "WITH ",
    now!(),
    ", ",
    locked!(
        "key, fence, pseq, n, body",
        "$2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $7::bytea[]",
        " SKIP LOCKED"
    ),
    ", ",
    move_head!("locked l CROSS JOIN c", "l.n", "l.fence", "l.pseq", "$6::bigint", "h.key = l.key", "", ", l.n, l.body"),
    ", put AS (
       INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body)
       SELECT key, tail + 1 - n, tail, fence, now, octet_length(body), body FROM up
     )
     SELECT h.now, h.run, ",
    head_columns!(),
    " FROM up h"
);

/// Appends of any size that may end their runs. `$7` bodies, NULL for those that are cut, `$8` statuses or NULL, `$9`
/// statuses if a stop was requested, `$10` codes, `$11` messages, `$12` usages; then the rows of bodies that are cut:
/// `$13` keys, `$14` events from the row's first to the batch's end, `$15` events, `$16` bodies. Each of these rows
/// scans all heads of the group: bodies that are cut are large, so a commit has few of them.
macro_rules! wide {
    ($wait:literal, $head:literal, $run:literal, $thread:literal) => {
        concat!(
            "WITH ",
            now!(),
            ", ",
            locked!(
                "key, fence, pseq, n, body, status, stopped, code, message, usage",
                "$2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $7::bytea[], $8::bigint[], $9::bigint[], \
                 $10::text[], $11::text[], $12::text[]",
                $wait
            ),
            ", ",
            move_head!(
                "locked l CROSS JOIN c",
                "l.n",
                "l.fence",
                "l.pseq",
                "$6::bigint",
                $head,
                ", active = l.status IS NULL",
                ", l.n, l.body, l.status, l.stopped, l.code, l.message, l.usage"
            ),
            ", put AS (
               INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body)
               SELECT key, tail + 1 - n, tail, fence, now, octet_length(body), body FROM up WHERE body IS NOT NULL
               UNION ALL
               SELECT up.key, up.tail + 1 - p.back, up.tail - p.back + p.n, up.fence, up.now, octet_length(p.body), p.body
               FROM unnest($13::bigint[], $14::bigint[], $15::bigint[], $16::bytea[]) AS p (key, back, n, body)
               JOIN up ON up.key = p.key
             ), ended AS (
               UPDATE runs AS r
               SET status = CASE WHEN up.stop_at IS NULL THEN up.status ELSE up.stopped END, error_code = up.code,
                   error_message = up.message, usage = up.usage, producer_seq = up.producer_seq, stop_at = up.stop_at,
                   ended_at = up.now
               FROM up WHERE up.status IS NOT NULL AND r.key = up.key AND r.fence = up.fence",
            $run,
            "), touched AS (
               UPDATE threads AS t SET last_run_at = up.now, sort_at = up.now, version = t.version + 1
               FROM up WHERE up.status IS NOT NULL AND t.key = up.key",
            $thread,
            ")
             SELECT h.now, h.run, ",
            head_columns!(),
            " FROM up h"
        )
    };
}
/// A group leaves locked heads out.
pub(super) const WIDE: &str = wide!(" SKIP LOCKED", "h.key = l.key", "", "");
/// A single append waits for a locked head.
pub(super) const WIDE_ONE: &str =
    wide!("", "h.key = ($2::bigint[])[1]", " AND r.key = ($2::bigint[])[1]", " AND t.key = ($2::bigint[])[1]");

/// Rows for the log of heads that are moved in the same statement.
#[derive(Default)]
pub(super) struct Pieces {
    pub(super) keys: Vec<i64>,
    pub(super) back: Vec<i64>,
    pub(super) counts: Vec<i64>,
    pub(super) bodies: Vec<Vec<u8>>,
}

impl Pieces {
    /// Adds the events of a thread's batch; `behind` more follow in the same commit.
    pub(super) fn add(&mut self, key: ThreadKey, events: &NewEvents, behind: usize) {
        let mut back = events.count() as u64 + behind as u64;
        for (count, body) in events.pieces(ROW_BYTES) {
            self.keys.push(key.0);
            self.back.push(rows::to_i64(back));
            self.counts.push(rows::to_i64(count));
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
    append.events.terminal().is_none() && row(append).is_some()
}

fn producer_seq(append: &Append) -> Option<i64> {
    append.producer_seq.map(rows::to_i64)
}

fn count(append: &Append) -> i64 {
    append.events.count() as i64
}

/// Arguments that all appends of a group have.
fn group_arguments<'a>(text: &'static str, group: &[&'a Append], now: Option<i64>) -> Statement<'a> {
    query(text)
        .bind(now)
        .bind(group.iter().map(|append| append.key.0).collect::<Vec<_>>())
        .bind(group.iter().map(|append| append.fence.0).collect::<Vec<_>>())
        .bind(group.iter().map(|append| producer_seq(append)).collect::<Vec<_>>())
        .bind(group.iter().map(|append| count(append)).collect::<Vec<_>>())
        .bind(rows::millis(STOP_GRACE))
        .bind(group.iter().map(|append| row(append)).collect::<Vec<_>>())
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
}

fn statement<'a>(group: &[&'a Append], now: Option<i64>) -> Statement<'a> {
    match group {
        [only] if is_narrow(only) => query(ONE)
            .bind(now)
            .bind(only.key.0)
            .bind(only.fence.0)
            .bind(producer_seq(only))
            .bind(count(only))
            .bind(rows::millis(STOP_GRACE))
            .bind(row(only)),
        many if many.iter().all(|append| is_narrow(append)) => group_arguments(GROUP, many, now),
        many => wide(many, now),
    }
}

/// Answers by key of the thread.
fn answers<R: Cells>(rows: &[R], group: &[&Append]) -> StoreResult<HashMap<ThreadKey, Appended>> {
    let asked: HashMap<ThreadKey, &Append> = group.iter().map(|append| (append.key, *append)).collect();
    let mut answers = HashMap::with_capacity(rows.len());
    for row in rows {
        let mut columns = Columns::new(row);
        let (at, run) = (columns.time()?, columns.id(RunId::new)?);
        let producer_seq = Columns::new(row).skip(7).count()?;
        let (head, _) = columns.head()?.ok_or_else(|| corrupt("an append without a head"))?;
        let append = asked.get(&head.key).ok_or_else(|| corrupt("an append that nobody asked for"))?;
        answers.insert(head.key, appended(append, head, producer_seq, run, at)?);
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
