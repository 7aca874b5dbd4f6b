//! Snapshots of projections, compressed.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{Seq, ThreadKey};

use super::{
    PgStore,
    rows::{self, text_of},
};
use crate::{Snapshot, SnapshotStore, StoreResult, Unprojected, sql::snapshots};

const PUT: &str = text_of(include_str!("../../queries/postgres/put_snapshot.sql"));
pub(super) const NEWEST: &str = "\
    SELECT seq, raw, body FROM snapshots WHERE key = $1 AND seq <= $2 AND version = $3 ORDER BY seq DESC LIMIT 1";
const SEQS: &str = "SELECT seq, version FROM snapshots WHERE key = $1 ORDER BY seq";
pub(super) const UNPROJECTED: &str = text_of(include_str!("../../queries/postgres/unprojected.sql"));

#[async_trait]
impl SnapshotStore for PgStore {
    async fn put_snapshot(&self, key: ThreadKey, snapshot: Snapshot, dropped: &[Seq]) -> StoreResult<()> {
        let raw = rows::limit(snapshot.body.len());
        let put = query(PUT)
            .bind(key.0)
            .bind(rows::to_i64(snapshot.seq))
            .bind(i64::from(snapshot.version))
            .bind(raw)
            .bind(snapshots::compress(snapshot.body).await?)
            .bind(dropped.iter().map(|seq| rows::to_i64(*seq)).collect::<Vec<_>>());
        self.write(put).await?;
        Ok(())
    }

    async fn snapshot(&self, key: ThreadKey, at: Seq, version: u32) -> StoreResult<Option<Snapshot>> {
        let newest = query(NEWEST).bind(key.0).bind(rows::to_i64(at)).bind(i64::from(version));
        let found = self.read_rows(newest).await?;
        let Some(row) = found.first() else { return Ok(None) };
        snapshots::snapshot(row, version).await.map(Some)
    }

    async fn snapshot_seqs(&self, key: ThreadKey) -> StoreResult<Vec<(Seq, u32)>> {
        snapshots::seqs(&self.read_rows(query(SEQS).bind(key.0)).await?)
    }

    async fn unprojected(&self, key: ThreadKey, version: u32) -> StoreResult<Option<Unprojected>> {
        snapshots::unprojected(&self.read_rows(query(UNPROJECTED).bind(key.0).bind(i64::from(version))).await?)
    }
}
