//! Snapshots of projections, compressed.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{Seq, ThreadKey};

use super::{PgStore, rows};
use crate::{Snapshot, SnapshotStore, StoreResult, Unprojected, sql::snapshots};

/// The lock of the head prevents a deletion of the thread meanwhile. `$6` are the seqs to drop, not the snapshot's own.
const PUT: &str = "\
    WITH dropped AS (DELETE FROM snapshots WHERE key = $1::bigint AND seq = ANY ($6::bigint[]) AND seq <> $2::bigint)
    INSERT INTO snapshots (key, seq, version, raw, body)
    SELECT h.key, $2, $3::bigint, $4::bigint, $5::bytea FROM heads h WHERE h.key = $1 FOR KEY SHARE
    ON CONFLICT (key, seq) DO UPDATE SET version = excluded.version, raw = excluded.raw, body = excluded.body";
pub(super) const NEWEST: &str = "\
    SELECT seq, raw, body FROM snapshots WHERE key = $1 AND seq <= $2 AND version = $3 ORDER BY seq DESC LIMIT 1";
const SEQS: &str = "SELECT seq, version FROM snapshots WHERE key = $1 ORDER BY seq";
/// The log's rows are read by key, without their bodies.
pub(super) const UNPROJECTED: &str = "\
    SELECT coalesce(s.seq, 0), coalesce(s.raw, 0), h.tail - coalesce(s.seq, 0),
           (SELECT coalesce(sum(l.raw), 0)::bigint FROM log l
            WHERE l.key = $1 AND l.last_seq > coalesce(s.seq, 0)
              AND l.first_seq >= coalesce((SELECT max(first_seq) FROM log
                                           WHERE key = $1 AND first_seq <= coalesce(s.seq, 0) + 1), 0))
    FROM heads h LEFT JOIN (SELECT key, seq, raw FROM snapshots WHERE key = $1 AND version = $2
                            ORDER BY seq DESC LIMIT 1) s ON s.key = h.key
    WHERE h.key = $1";

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
