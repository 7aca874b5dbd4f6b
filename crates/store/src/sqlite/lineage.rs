//! Lineage of a data directory.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::NodeId;

use super::{SqliteStore, history, rows};
use crate::{GenerationRecord, Lineage, LineageCause, LineageFence, LineageStore, StoreResult, sql::lineage};

const GENERATIONS: &str = "SELECT generation, at, cause FROM lineage ORDER BY generation DESC LIMIT ?1";

impl SqliteStore {
    /// Notes a beat outside of the database file.
    pub(super) async fn witness(&self, node: NodeId, beat: u64) {
        let lineage = self.inner.fence.state().known();
        let file = self.inner.file.clone();
        // A panic of the task is a witness that was not written.
        let _ = tokio::task::spawn_blocking(move || history::note(&file, lineage, node, beat)).await;
    }
}

#[async_trait]
impl LineageStore for SqliteStore {
    fn lineage(&self) -> &LineageFence {
        &self.inner.fence
    }

    async fn adopt(&self, cause: LineageCause) -> StoreResult<Lineage> {
        let (known, now) = (self.inner.fence.generation(), self.inner.clock.now());
        self.write(move |connection| Box::pin(history::adopt(connection, known, cause, now))).await
    }

    async fn generations(&self, limit: usize) -> StoreResult<Vec<GenerationRecord>> {
        lineage::generations(&self.read_rows(query(GENERATIONS).bind(rows::limit(limit))).await?)
    }
}
