//! Reading the log: a page is one statement, whose head and rows are of the same moment.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    ReadFrom, ThreadKey,
    limits::{PG_PIPELINES, RECHECK_CHUNK, SEGMENT_MIN_EVENTS},
};

use super::{
    PgStore,
    rows::{self, Columns, text_of},
};
use crate::{
    Append, Appended, Head, LogPage, LogStore, StoreResult,
    segment::LogRow,
    sql::{
        append::append_all,
        pages::{self, Cap},
        seal,
    },
};

pub(super) const AFTER: &str = text_of(include_str!("../../queries/postgres/page_after.sql"));

pub(super) const BEFORE: &str = text_of(include_str!("../../queries/postgres/page_before.sql"));

pub(super) const HEADS: &str = text_of(include_str!("../../queries/postgres/heads.sql"));

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
        pages::log_rows(&self.read_rows(statement).await?, key, from)
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
