//! Status of the database server.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::Timestamp;

use super::{PgStore, rows::Columns};
use crate::{StatusStore, StoreClock, StoreResult, StoreStatus, sql::corrupt};

/// In recovery every transaction is read-only. The columns are numbers, as in all other statements.
pub(super) const STATUS: &str = "\
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, current_setting('transaction_read_only')::boolean::int::bigint";

#[async_trait]
impl StatusStore for PgStore {
    fn clock(&self) -> &StoreClock {
        &self.inner.known
    }

    async fn status(&self) -> StoreResult<StoreStatus> {
        let rows = self.read_rows(query(STATUS)).await?;
        let row = rows.first().ok_or_else(|| corrupt("no answer to a question about the database"))?;
        let mut columns = Columns::new(row);
        let now = Timestamp(columns.int()?);
        let read_only = columns.int()? != 0;
        Ok(StoreStatus { now: self.now().map_or(now, Timestamp), read_only })
    }

    async fn shut_down(&self) {
        self.close().await;
    }
}
