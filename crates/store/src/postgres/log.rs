//! Reading the log: a page is one statement, whose head and rows are of the same moment.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    ReadFrom, ThreadKey,
    limits::{PG_PIPELINES, RECHECK_CHUNK},
};

use super::{
    PgStore,
    rows::{self, Columns, text_of},
};
use crate::{
    Append, Appended, Head, LogPage, LogStore, Packing, StoreResult,
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

    async fn pack(&self, key: ThreadKey, idle: Duration) -> StoreResult<Packing> {
        seal::pack(self, key, idle).await
    }
}
