//! Sealing: rows become segments. Rows are read and compressed outside of a transaction, and swapped in one short
//! commit that touches log rows only.

use std::sync::Arc;

use async_trait::async_trait;
use threadline_core::{Batch, Seq, ThreadKey, limits::SEAL_BYTES};

use super::pages::Cap;
use crate::{
    StoreError, StoreResult,
    segment::{self, LogRow, Segment},
};

/// Operations of a back-end that sealing needs.
#[async_trait]
pub(crate) trait Sealing: Sync {
    /// Largest number of rows that one step replaces.
    const ROWS: usize;

    /// Seq up to which sealing has decided.
    async fn decided(&self, key: ThreadKey) -> StoreResult<Seq>;

    /// Rows after a seq; `None` if the thread is gone.
    async fn rows_after(&self, key: ThreadKey, after: Seq, cap: Cap) -> StoreResult<Option<Vec<LogRow>>>;

    /// Replaces exactly the rows that the segments were made of, and decides up to the end of the segments. False, and
    /// nothing is changed, if any of the rows is gone.
    async fn swap(&self, key: ThreadKey, segments: Vec<Segment>) -> StoreResult<bool>;

    /// Decides that rows up to `upto` stay as they are.
    async fn decide(&self, key: ThreadKey, upto: Seq) -> StoreResult<()>;
}

/// Implements [`crate::LogStore::seal`] over the operations of a back-end.
pub(crate) async fn seal<S: Sealing>(store: &S, key: ThreadKey) -> StoreResult<bool> {
    loop {
        let upto = store.decided(key).await?;
        let cap = Cap { bytes: SEAL_BYTES, rows: S::ROWS, events: usize::MAX };
        let Some(rows) = store.rows_after(key, upto, cap).await? else { return Ok(false) };
        let full = rows.len() >= S::ROWS || rows.iter().map(|row| row.body.len()).sum::<usize>() >= SEAL_BYTES;
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
            return store.swap(key, segments).await;
        }
        // A complete window without a segment: its rows are too large to share one with their neighbours. Only the last
        // row may still get neighbours.
        let passed = match fresh.as_slice() {
            [.., last, _] => last.last_seq,
            [only] => only.last_seq,
            [] => return Ok(false),
        };
        if !full {
            return Ok(false);
        }
        store.decide(key, passed).await?;
    }
}

fn pack(fresh: &[Arc<Batch>]) -> StoreResult<Vec<Segment>> {
    let segments = segment::plan(fresh).into_iter().map(|group| segment::encode(&fresh[group]));
    Ok(segments.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}
