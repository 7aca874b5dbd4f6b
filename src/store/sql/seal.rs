//! Sealing: rows become segments. Read and compressed outside, swapped in one short commit that touches log rows only.

use std::sync::Arc;

use async_trait::async_trait;

use super::pages::Cap;
use crate::{
    domain::{Batch, Seq, ThreadKey, limits::SEAL_BYTES},
    store::{
        StoreError, StoreResult,
        segment::{self, LogRow, Segment},
    },
};

/// What a back-end has to do for it.
#[async_trait]
pub(in crate::store) trait Sealing: Sync {
    /// Rows that one step replaces at most.
    const ROWS: usize;

    /// Up to where sealing has decided.
    async fn decided(&self, key: ThreadKey) -> StoreResult<Seq>;

    /// Rows after a seq; `None` if the thread is gone.
    async fn rows_after(&self, key: ThreadKey, after: Seq, cap: Cap) -> StoreResult<Option<Vec<LogRow>>>;

    /// Puts segments in the place of exactly the rows they were made of, and decides up to their end. False, and
    /// nothing changed, if any of the rows is not there any more.
    async fn swap(&self, key: ThreadKey, segments: Vec<Segment>) -> StoreResult<bool>;

    /// Rows up to here stay as they are.
    async fn decide(&self, key: ThreadKey, upto: Seq) -> StoreResult<()>;
}

/// [`crate::store::LogStore::seal`].
pub(in crate::store) async fn seal<S: Sealing>(store: &S, key: ThreadKey) -> StoreResult<bool> {
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
        store.decide(key, passed).await?;
    }
}

fn pack(fresh: &[Arc<Batch>]) -> StoreResult<Vec<Segment>> {
    let segments = segment::plan(fresh).into_iter().map(|group| segment::encode(&fresh[group]));
    Ok(segments.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}
