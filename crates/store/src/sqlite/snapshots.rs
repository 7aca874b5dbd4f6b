//! Snapshots of projections, compressed.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{Seq, ThreadKey};

use super::{SqliteStore, fetch, rows};
use crate::{Snapshot, SnapshotStore, StoreResult, Unprojected, sql::snapshots};

const PUT: &str = "\
    DELETE FROM snapshots WHERE key = ?1 AND (seq = ?2 OR seq IN (SELECT value FROM json_each(?6)));
    INSERT INTO snapshots (key, seq, version, raw, body)
    SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM heads WHERE key = ?1)";
pub(super) const NEWEST: &str = "\
    SELECT seq, raw, body FROM snapshots WHERE key = ?1 AND seq <= ?2 AND version = ?3 ORDER BY seq DESC LIMIT 1";
const SEQS: &str = "SELECT seq, version FROM snapshots WHERE key = ? ORDER BY seq";
/// The statement walks over the log's rows by key, without their bodies.
pub(super) const UNPROJECTED: &str = "\
    SELECT coalesce(s.seq, 0), coalesce(s.raw, 0), h.tail - coalesce(s.seq, 0),
           (SELECT coalesce(sum(l.raw), 0) FROM log l
            WHERE l.key = ?1 AND l.last_seq > coalesce(s.seq, 0)
              AND l.first_seq >= coalesce((SELECT max(first_seq) FROM log
                                           WHERE key = ?1 AND first_seq <= coalesce(s.seq, 0) + 1), 0))
    FROM heads h LEFT JOIN (SELECT key, seq, raw FROM snapshots WHERE key = ?1 AND version = ?2
                            ORDER BY seq DESC LIMIT 1) s ON s.key = h.key
    WHERE h.key = ?1";

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
