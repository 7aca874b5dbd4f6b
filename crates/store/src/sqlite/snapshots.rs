//! Snapshots of projections, compressed.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{Seq, ThreadKey};

use super::{
    SqliteStore, fetch,
    rows::{self, text_of},
};
use crate::{Snapshot, SnapshotStore, StoreResult, Unprojected, sql::snapshots};

const PUT: &str = text_of(include_str!("../../queries/sqlite/put_snapshot.sql"));
pub(super) const NEWEST: &str = "\
    SELECT seq, raw, body FROM snapshots WHERE key = ?1 AND seq <= ?2 AND version = ?3 ORDER BY seq DESC LIMIT 1";
const SEQS: &str = "SELECT seq, version FROM snapshots WHERE key = ? ORDER BY seq";
pub(super) const UNPROJECTED: &str = text_of(include_str!("../../queries/sqlite/unprojected.sql"));

#[async_trait]
impl SnapshotStore for SqliteStore {
    async fn put_snapshot(&self, key: ThreadKey, snapshot: Snapshot, dropped: &[Seq]) -> StoreResult<()> {
        let raw = rows::limit(snapshot.body.len());
        let body = snapshots::compress(snapshot.body).await?;
        let dropped = serde_json::json!(dropped.iter().map(|seq| rows::to_i64(*seq)).collect::<Vec<_>>()).to_string();
        self.transact(move |connection| {
            Box::pin(async move {
                let put = query(PUT)
                    .bind(key.0)
                    .bind(rows::to_i64(snapshot.seq))
                    .bind(snapshot.version)
                    .bind(raw)
                    .bind(body)
                    .bind(dropped);
                fetch::run(connection, put).await
            })
        })
        .await
    }

    async fn snapshot(&self, key: ThreadKey, at: Seq, version: u32) -> StoreResult<Option<Snapshot>> {
        let found = self.read_rows(query(NEWEST).bind(key.0).bind(rows::to_i64(at)).bind(version)).await?;
        let Some(row) = found.first() else { return Ok(None) };
        snapshots::snapshot(row, version).await.map(Some)
    }

    async fn snapshot_seqs(&self, key: ThreadKey) -> StoreResult<Vec<(Seq, u32)>> {
        snapshots::seqs(&self.read_rows(query(SEQS).bind(key.0)).await?)
    }

    async fn unprojected(&self, key: ThreadKey, version: u32) -> StoreResult<Option<Unprojected>> {
        snapshots::unprojected(&self.read_rows(query(UNPROJECTED).bind(key.0).bind(version)).await?)
    }
}
