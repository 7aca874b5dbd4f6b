//! Sealing: rows become segments. Read and compressed outside, swapped in one short transaction that touches log
//! rows only.

use std::sync::Arc;

use sqlx::query;

use super::{
    SqliteStore, fetch,
    log::Cap,
    rows::{self, Columns},
};
use crate::{
    domain::{
        Batch, Seq, ThreadKey,
        limits::{SEAL_BYTES, SEAL_ROWS, SEGMENT_MIN_EVENTS},
    },
    store::{
        ReadFrom, StoreError, StoreResult,
        segment::{self, Segment},
    },
};

/// A segment takes the place of its rows, in one trip to the database; nothing is put if not just these were taken.
const SWAP: &str = "\
    DELETE FROM log WHERE key = ?1 AND first_seq BETWEEN ?2 AND ?3 AND fence IS NOT NULL;
    INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body)
    SELECT ?1, ?2, ?3, NULL, ?4, ?5, ?6 WHERE changes() = ?7";
const DECIDED: &str = "\
    INSERT INTO sealing (key, upto) SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM heads WHERE key = ?1)
    ON CONFLICT (key) DO UPDATE SET upto = max(upto, excluded.upto)";
const UPTO: &str = "SELECT upto FROM sealing WHERE key = ?";
/// A scan over heads, which are narrow; asked once, at start.
const BACKLOG: &str = "\
    SELECT h.key FROM heads h LEFT JOIN sealing s ON s.key = h.key
    WHERE h.tail - coalesce(s.upto, 0) >= ? LIMIT ?";

impl SqliteStore {
    pub(super) async fn seal_rows(&self, key: ThreadKey) -> StoreResult<bool> {
        loop {
            let upto = self.read_rows(query(UPTO).bind(key.0)).await?;
            let upto = upto.first().map_or(Ok(0), |row| Columns::new(row).count())?;
            let cap = Cap { bytes: SEAL_BYTES, rows: SEAL_ROWS, events: usize::MAX };
            let Some((_, rows)) = self.log_rows(key, ReadFrom::After(upto), cap).await? else { return Ok(false) };
            let full = rows.len() >= SEAL_ROWS || rows.iter().map(|row| row.body.len()).sum::<usize>() >= SEAL_BYTES;
            // Another step may have sealed these in the meantime.
            if rows.iter().any(|row| row.run.is_none()) {
                return Ok(false);
            }
            let mut fresh = Vec::with_capacity(rows.len());
            for row in rows {
                fresh.extend(row.unpack()?);
            }
            let packed = tokio::task::spawn_blocking(move || pack(&fresh).map(|segments| (segments, fresh)));
            let packed = packed.await.map_err(|error| StoreError::Unavailable(format!("sealing: {error}")))?;
            let (segments, fresh) = packed?;
            if !segments.is_empty() {
                return self.swap(key, segments).await;
            }
            // A whole window without a segment: its rows are too large to share one with their neighbours. Only
            // the last one may still find some.
            let passed = match fresh.as_slice() {
                [.., last, _] => last.last_seq,
                [only] => only.last_seq,
                [] => return Ok(false),
            };
            if !full {
                return Ok(false);
            }
            self.decide(key, passed).await?;
        }
    }

    /// Puts segments in the place of exactly the rows they were made of. False, and nothing changed, if any of them is
    /// not there any more.
    pub(super) async fn swap(&self, key: ThreadKey, segments: Vec<Segment>) -> StoreResult<bool> {
        self.write(move |connection| {
            Box::pin(async move {
                fetch::run(connection, query("BEGIN IMMEDIATE")).await?;
                let mut upto = 0;
                for segment in segments {
                    let (first, last) = (rows::to_i64(segment.first_seq), rows::to_i64(segment.last_seq));
                    let swap = query(SWAP)
                        .bind(key.0)
                        .bind(first)
                        .bind(last)
                        .bind(segment.at.0)
                        .bind(rows::limit(segment.raw))
                        .bind(segment.body)
                        .bind(rows::limit(segment.rows));
                    if fetch::change(connection, swap).await? != segment.rows as u64 + 1 {
                        // Someone else took them (a purge, another sealing): give everything back.
                        fetch::run(connection, query("ROLLBACK")).await?;
                        return Ok(false);
                    }
                    upto = last;
                }
                fetch::run(connection, query(DECIDED).bind(key.0).bind(upto)).await?;
                fetch::run(connection, query("COMMIT")).await?;
                Ok(true)
            })
        })
        .await
    }

    async fn decide(&self, key: ThreadKey, upto: Seq) -> StoreResult<()> {
        self.transact(move |connection| {
            Box::pin(async move { fetch::run(connection, query(DECIDED).bind(key.0).bind(rows::to_i64(upto))).await })
        })
        .await
    }

    pub(super) async fn unsealed(&self, limit: usize) -> StoreResult<Vec<ThreadKey>> {
        let statement = query(BACKLOG).bind(rows::to_i64(SEGMENT_MIN_EVENTS)).bind(rows::limit(limit));
        let rows = self.read_rows(statement).await?;
        Ok(rows.iter().map(|row| Columns::new(row).int().map(ThreadKey)).collect::<Result<_, _>>()?)
    }
}

fn pack(fresh: &[Arc<Batch>]) -> StoreResult<Vec<Segment>> {
    let segments = segment::plan(fresh).into_iter().map(|group| segment::encode(&fresh[group]));
    Ok(segments.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}
