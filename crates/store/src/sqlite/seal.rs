//! Sealing: segments replace rows.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{ReadFrom, Seq, ThreadKey, limits::SEAL_ROWS};

use super::{
    SqliteStore, fetch,
    rows::{self, Columns, text_of},
};
use crate::{
    StoreResult,
    segment::{LogRow, Segment},
    sql::{
        crc,
        pages::Cap,
        seal::{IdleSince, Sealing},
    },
};

const SWAP: &str = text_of(include_str!("../../queries/sqlite/seal_swap.sql"));
const DECIDED: &str = text_of(include_str!("../../queries/sqlite/seal_decided.sql"));
const UPTO: &str = "SELECT upto FROM sealing WHERE key = ?";
pub(super) const IDLE_SINCE: &str = text_of(include_str!("../../queries/sqlite/idle_since.sql"));

#[async_trait]
impl Sealing for SqliteStore {
    const ROWS: usize = SEAL_ROWS;

    async fn decided(&self, key: ThreadKey) -> StoreResult<Seq> {
        let rows = self.read_rows(query(UPTO).bind(key.0)).await?;
        rows.first().map_or(Ok(0), |row| Columns::new(row).count())
    }

    async fn idle_since(&self, key: ThreadKey) -> StoreResult<Option<IdleSince>> {
        let now = self.inner.clock.now().0;
        IdleSince::of(&self.read_rows(query(IDLE_SINCE).bind(now).bind(key.0)).await?)
    }

    async fn rows_after(&self, key: ThreadKey, after: Seq, cap: Cap) -> StoreResult<Option<Vec<LogRow>>> {
        Ok(self.log_rows(key, ReadFrom::After(after), cap).await?.map(|(_, rows)| rows))
    }

    async fn swap(&self, key: ThreadKey, segments: Vec<Segment>, decided: Option<Seq>) -> StoreResult<bool> {
        self.write(move |connection| {
            Box::pin(async move {
                fetch::run(connection, query("BEGIN IMMEDIATE")).await?;
                for segment in segments {
                    let (first, last) = (rows::to_i64(segment.first_seq), rows::to_i64(segment.last_seq));
                    let crc = crc(&segment.body);
                    let swap = query(SWAP)
                        .bind(key.0)
                        .bind(first)
                        .bind(last)
                        .bind(segment.at.0)
                        .bind(rows::limit(segment.raw))
                        .bind(segment.body)
                        .bind(rows::limit(segment.rows))
                        .bind(crc);
                    if fetch::change(connection, swap).await? != segment.rows as u64 + 1 {
                        // Another task removed some of the rows (a purge, another sealing): roll everything back.
                        fetch::run(connection, query("ROLLBACK")).await?;
                        return Ok(false);
                    }
                }
                if let Some(upto) = decided {
                    fetch::run(connection, query(DECIDED).bind(key.0).bind(rows::to_i64(upto))).await?;
                }
                fetch::run(connection, query("COMMIT")).await?;
                Ok(true)
            })
        })
        .await
    }

    async fn decide(&self, key: ThreadKey, upto: Seq) -> StoreResult<()> {
        self.transact(move |connection| {
            Box::pin(async move { fetch::run(connection, query(DECIDED).bind(key.0).bind(rows::to_i64(upto))).await })
        })
        .await
    }
}
