//! Sealing: segments replace rows, in one statement. Other nodes may seal or purge the same thread at once.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{Seq, ThreadKey, limits::PG_SEAL_ROWS};

use super::{
    PgStore,
    rows::{self, Columns},
};
use crate::{
    ReadFrom, StoreResult,
    segment::{LogRow, Segment},
    sql::{pages::Cap, seal::Sealing},
};

/// Locks the rows to be replaced, and continues only if they are exactly those that the segments were made of; rows
/// that another transaction has locked or taken are missing in the count. The lock of the thread's head prevents a
/// deletion meanwhile, and no append waits for it. `$2` first and `$3` last seqs, `$4` times, `$5` raw bytes, `$6`
/// bodies, `$7` rows.
pub(super) const SWAP: &str = "\
    WITH wanted AS MATERIALIZED (
      SELECT * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[])
        AS w (first_seq, last_seq, at, raw, body)
    ), alive AS MATERIALIZED (
      SELECT h.key FROM heads h WHERE h.key = $1::bigint FOR KEY SHARE
    ), taken AS MATERIALIZED (
      SELECT l.key, l.first_seq FROM alive CROSS JOIN wanted w CROSS JOIN LATERAL (
        SELECT log.key, log.first_seq FROM log
        WHERE log.key = alive.key AND log.first_seq BETWEEN w.first_seq AND w.last_seq AND log.fence IS NOT NULL
        ORDER BY log.first_seq FOR UPDATE SKIP LOCKED) AS l
    ), gone AS (
      DELETE FROM log USING taken t
      WHERE log.key = $1 AND log.first_seq = t.first_seq AND (SELECT count(*) FROM taken) = $7::bigint
      RETURNING log.first_seq
    ), put AS (
      INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body)
      SELECT $1::bigint, w.first_seq, w.last_seq, NULL, w.at, w.raw, w.body FROM wanted w
      WHERE (SELECT count(*) FROM gone) = $7
      RETURNING last_seq
    ), decided AS (
      INSERT INTO sealing AS s (key, upto) SELECT $1::bigint, max(last_seq) FROM put HAVING count(*) > 0
      ON CONFLICT (key) DO UPDATE SET upto = greatest(s.upto, excluded.upto)
    )
    SELECT count(*) FROM put";
const DECIDED: &str = "\
    INSERT INTO sealing AS s (key, upto) SELECT h.key, $2::bigint FROM heads h WHERE h.key = $1::bigint FOR KEY SHARE
    ON CONFLICT (key) DO UPDATE SET upto = greatest(s.upto, excluded.upto)";
const UPTO: &str = "SELECT upto FROM sealing WHERE key = $1";

#[async_trait]
impl Sealing for PgStore {
    const ROWS: usize = PG_SEAL_ROWS;

    async fn decided(&self, key: ThreadKey) -> StoreResult<Seq> {
        let rows = self.read_rows(query(UPTO).bind(key.0)).await?;
        rows.first().map_or(Ok(0), |row| Columns::new(row).count())
    }

    async fn rows_after(&self, key: ThreadKey, after: Seq, cap: Cap) -> StoreResult<Option<Vec<LogRow>>> {
        Ok(self.log_rows(key, ReadFrom::After(after), cap).await?.map(|(_, rows)| rows))
    }

    async fn swap(&self, key: ThreadKey, segments: Vec<Segment>) -> StoreResult<bool> {
        let rows: usize = segments.iter().map(|segment| segment.rows).sum();
        let swap = query(SWAP)
            .bind(key.0)
            .bind(segments.iter().map(|segment| rows::to_i64(segment.first_seq)).collect::<Vec<_>>())
            .bind(segments.iter().map(|segment| rows::to_i64(segment.last_seq)).collect::<Vec<_>>())
            .bind(segments.iter().map(|segment| segment.at.0).collect::<Vec<_>>())
            .bind(segments.iter().map(|segment| rows::limit(segment.raw)).collect::<Vec<_>>())
            .bind(segments.into_iter().map(|segment| segment.body).collect::<Vec<_>>())
            .bind(rows::limit(rows));
        let done = self.write(swap).await?;
        Ok(done.first().map_or(Ok(0), |row| Columns::new(row).count())? > 0)
    }

    async fn decide(&self, key: ThreadKey, upto: Seq) -> StoreResult<()> {
        self.write(query(DECIDED).bind(key.0).bind(rows::to_i64(upto))).await?;
        Ok(())
    }
}
