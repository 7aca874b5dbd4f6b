//! Reading the log: a page is one statement, whose head and rows are of the same moment.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    ThreadKey,
    limits::{PG_PIPELINES, RECHECK_CHUNK, SEGMENT_MIN_EVENTS},
};

use super::{
    PgStore,
    rows::{self, Columns, head_columns},
};
use crate::{
    Append, Appended, Head, LogPage, LogStore, ReadFrom, StoreResult,
    segment::LogRow,
    sql::{
        append::append_all,
        pages::{self, Cap},
        seal,
    },
};

/// The head, then the rows of `page`, as [`pages::log_rows`] takes them. The rows are read in order until `$3` bytes
/// are passed, at most `$4` of them; `$5` is the number of events wanted.
macro_rules! page_query {
    ($from:literal, $order:literal) => {
        concat!(
            "SELECT 0::bigint, ",
            head_columns!(),
            ", NULL::bytea FROM heads h WHERE h.key = $1::bigint
             UNION ALL
             SELECT 1, p.first_seq, p.last_seq, p.at, p.fence, r.id, NULL, NULL, NULL, NULL, p.body
             FROM (SELECT w.*, sum(w.raw) OVER (ORDER BY w.first_seq",
            $order,
            " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - w.raw AS before
                   FROM (SELECT l.first_seq, l.last_seq, l.at, l.fence, l.raw, l.body FROM log l
                         WHERE l.key = $1::bigint AND ",
            $from,
            " ORDER BY l.first_seq",
            $order,
            " LIMIT $4::bigint) AS w) AS p
             LEFT JOIN runs r ON r.key = $1::bigint AND r.fence = p.fence
             WHERE p.before < $3::bigint"
        )
    };
}

/// Forwards, from the row that holds the event after `$2`.
pub(super) const AFTER: &str = page_query!(
    "l.first_seq >= (SELECT max(first_seq) FROM log WHERE key = $1 AND first_seq <= $2::bigint + 1)
     AND l.first_seq <= $2 + $5::bigint AND l.last_seq > $2",
    ""
);

/// Backwards, from the row that holds the event before `$2`.
pub(super) const BEFORE: &str = page_query!(
    "l.first_seq < $2::bigint
     AND l.first_seq >= coalesce((SELECT max(first_seq) FROM log WHERE key = $1 AND first_seq <= (
           SELECT least(tail + 1, $2) - $5::bigint FROM heads WHERE key = $1)), 0)",
    " DESC"
);

pub(super) const HEADS: &str = concat!(
    "SELECT ",
    head_columns!(),
    " FROM unnest($1::bigint[]) AS v (key) CROSS JOIN LATERAL (SELECT * FROM heads WHERE heads.key = v.key OFFSET 0) AS h"
);

/// A scan over heads, which are narrow; run once, at start.
const BACKLOG: &str = "\
    SELECT h.key FROM heads h LEFT JOIN sealing s ON s.key = h.key
    WHERE h.tail - coalesce(s.upto, 0) >= $1 LIMIT $2";

impl PgStore {
    /// The head and rows in order; `None` if the thread is gone.
    pub(super) async fn log_rows(
        &self,
        key: ThreadKey,
        from: ReadFrom,
        cap: Cap,
    ) -> StoreResult<Option<(Head, Vec<LogRow>)>> {
        let (text, cursor) = match from {
            ReadFrom::After(after) => (AFTER, after),
            ReadFrom::Before(before) => (BEFORE, before),
        };
        let statement = query(text)
            .bind(key.0)
            .bind(rows::to_i64(cursor))
            .bind(rows::limit(cap.bytes))
            .bind(rows::limit(cap.rows))
            .bind(rows::to_i64(cap.events as u64));
        pages::log_rows(&self.read_rows(statement).await?)
    }
}

#[async_trait]
impl LogStore for PgStore {
    async fn append(&self, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>> {
        append_all(self, batch).await
    }

    fn pipelines(&self) -> usize {
        PG_PIPELINES
    }

    async fn read(&self, key: ThreadKey, from: ReadFrom, max_events: usize) -> StoreResult<Option<LogPage>> {
        let Some((head, rows)) = self.log_rows(key, from, Cap::page(max_events)).await? else { return Ok(None) };
        pages::log_page(head, rows, from, max_events).map(Some)
    }

    async fn heads(&self, keys: &[ThreadKey]) -> StoreResult<Vec<Head>> {
        let mut heads = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(RECHECK_CHUNK) {
            let list: Vec<i64> = chunk.iter().map(|key| key.0).collect();
            for row in &self.read_rows(query(HEADS).bind(list)).await? {
                heads.extend(Columns::new(row).head()?.map(|(head, _)| head));
            }
        }
        Ok(heads)
    }

    async fn seal(&self, key: ThreadKey) -> StoreResult<bool> {
        seal::seal(self, key).await
    }

    async fn seal_backlog(&self, limit: usize) -> StoreResult<Vec<ThreadKey>> {
        let statement = query(BACKLOG).bind(rows::to_i64(SEGMENT_MIN_EVENTS)).bind(rows::limit(limit));
        let rows = self.read_rows(statement).await?;
        rows.iter().map(|row| Columns::new(row).int().map(ThreadKey)).collect()
    }
}
