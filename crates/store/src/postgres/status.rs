//! Status of the database server.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::Timestamp;

use super::{PgStore, rows::Columns};
use crate::{Durability, StatusStore, StoreClock, StoreResult, StoreStatus, sql::corrupt};

/// In recovery every transaction is read-only. The columns are numbers, as in all other statements.
pub(super) const STATUS: &str = "\
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, current_setting('transaction_read_only')::boolean::int::bigint";

/// Number of standbys and running base backups, and whether commits of this session wait for one. The view shows its rows to
/// everybody, though their columns only to monitoring roles.
const DURABILITY: &str = "\
    SELECT (SELECT count(*) FROM pg_stat_replication),
      (current_setting('synchronous_standby_names') <> ''
        AND current_setting('synchronous_commit') NOT IN ('off', 'local'))::int::bigint";

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

    async fn durability(&self) -> StoreResult<Durability> {
        let rows = self.read_rows(query(DURABILITY)).await?;
        let row = rows.first().ok_or_else(|| corrupt("no answer to a question about the database"))?;
        let mut columns = Columns::new(row);
        let (standbys, waits) = (columns.int()?, columns.int()? != 0);
        Ok(match (standbys, waits) {
            (_, true) => Durability::Synchronous,
            (0, false) => Durability::Single,
            (_, false) => Durability::Asynchronous,
        })
    }

    async fn shut_down(&self) {
        self.close().await;
    }
}
