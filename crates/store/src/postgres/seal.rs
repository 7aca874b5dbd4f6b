//! Sealing: segments replace rows, in one statement. Other nodes may seal or purge the same thread at once.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{ReadFrom, Seq, ThreadKey, limits::PG_SEAL_ROWS};

use super::{
    PgStore,
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

pub(super) const SWAP: &str = text_of(include_str!("../../queries/postgres/seal_swap.sql"));
const DECIDED: &str = text_of(include_str!("../../queries/postgres/seal_decided.sql"));
pub(super) const IDLE_SINCE: &str = text_of(include_str!("../../queries/postgres/idle_since.sql"));
const UPTO: &str = "SELECT upto FROM sealing WHERE key = $1";

#[async_trait]
impl Sealing for PgStore {
    const ROWS: usize = PG_SEAL_ROWS;

    async fn decided(&self, key: ThreadKey) -> StoreResult<Seq> {
        let rows = self.read_rows(query(UPTO).bind(key.0)).await?;
        rows.first().map_or(Ok(0), |row| Columns::new(row).count())
    }

    async fn idle_since(&self, key: ThreadKey) -> StoreResult<Option<IdleSince>> {
        let now = self.now();
        IdleSince::of(&self.read_rows(query(IDLE_SINCE).bind(now).bind(key.0)).await?)
    }

    async fn rows_after(&self, key: ThreadKey, after: Seq, cap: Cap) -> StoreResult<Option<Vec<LogRow>>> {
        Ok(self.log_rows(key, ReadFrom::After(after), cap).await?.map(|(_, rows)| rows))
    }

    async fn swap(&self, key: ThreadKey, segments: Vec<Segment>, decided: Option<Seq>) -> StoreResult<bool> {
        let rows: usize = segments.iter().map(|segment| segment.rows).sum();
        let crcs: Vec<_> = segments.iter().map(|segment| crc(&segment.body)).collect();
        let swap = query(SWAP)
            .bind(key.0)
            .bind(segments.iter().map(|segment| rows::to_i64(segment.first_seq)).collect::<Vec<_>>())
            .bind(segments.iter().map(|segment| rows::to_i64(segment.last_seq)).collect::<Vec<_>>())
            .bind(segments.iter().map(|segment| segment.at.0).collect::<Vec<_>>())
            .bind(segments.iter().map(|segment| rows::limit(segment.raw)).collect::<Vec<_>>())
            .bind(segments.into_iter().map(|segment| segment.body).collect::<Vec<_>>())
            .bind(rows::limit(rows))
            .bind(crcs)
            .bind(decided.map(rows::to_i64));
        let done = self.write(swap).await?;
        Ok(done.first().map_or(Ok(0), |row| Columns::new(row).count())? > 0)
    }

    async fn decide(&self, key: ThreadKey, upto: Seq) -> StoreResult<()> {
        self.write(query(DECIDED).bind(key.0).bind(rows::to_i64(upto))).await?;
        Ok(())
    }
}
