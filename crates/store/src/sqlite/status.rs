//! Status of the database file.

use async_trait::async_trait;
use sqlx::query;

use super::SqliteStore;
use crate::{Durability, StatusStore, StoreClock, StoreResult, StoreStatus};

/// Reads a page of the file, so that an answer means that reads work.
const STATUS: &str = "SELECT count(*) FROM heads WHERE key = 0";

#[async_trait]
impl StatusStore for SqliteStore {
    fn clock(&self) -> &StoreClock {
        &self.inner.clock
    }

    async fn status(&self) -> StoreResult<StoreStatus> {
        self.read_rows(query(STATUS)).await?;
        Ok(StoreStatus { now: self.inner.clock.now(), read_only: false })
    }

    async fn maintain(&self) -> StoreResult<()> {
        Self::maintain(self).await.map(drop)
    }

    async fn durability(&self) -> StoreResult<Durability> {
        Ok(Durability::Single)
    }

    async fn shut_down(&self) {
        self.close().await;
    }
}
