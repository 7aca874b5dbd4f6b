//! Snapshots are stored compressed.

use bytes::Bytes;
use threadline_core::Seq;

use super::{
    columns::{Cells, Columns},
    corrupt,
};
use crate::{Snapshot, StoreError, StoreResult, Unprojected};

/// Fast rather than small: snapshots are written often and read rarely.
const LEVEL: i32 = 1;

/// Runs slow work on a blocking thread, so that other tasks do not wait for it.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> StoreResult<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError::Unavailable(format!("a snapshot: {error}")))?.map_err(corrupt)
}

/// A snapshot's body in its stored form.
pub(crate) async fn compress(body: Bytes) -> StoreResult<Vec<u8>> {
    aside(move || zstd::bulk::compress(&body, LEVEL)).await
}

/// The snapshot of a row `seq, raw, body`.
pub(crate) async fn snapshot<R: Cells>(row: &R, version: u32) -> StoreResult<Snapshot> {
    let mut columns = Columns::new(row);
    let (seq, raw, body) = (columns.count()?, columns.count()?, columns.bytes()?);
    let raw = usize::try_from(raw).map_err(corrupt)?;
    let body = aside(move || zstd::bulk::decompress(&body, raw)).await?;
    Ok(Snapshot { seq, version, body: body.into() })
}

/// Seq and version of snapshots, from rows of `seq, version`.
pub(crate) fn seqs<R: Cells>(rows: &[R]) -> StoreResult<Vec<(Seq, u32)>> {
    let mut seqs = Vec::with_capacity(rows.len());
    for row in rows {
        let mut columns = Columns::new(row);
        seqs.push((columns.count()?, u32::try_from(columns.count()?).map_err(corrupt)?));
    }
    Ok(seqs)
}

/// The one row of unprojected events; `None` if there is no row.
pub(crate) fn unprojected<R: Cells>(rows: &[R]) -> StoreResult<Option<Unprojected>> {
    let Some(row) = rows.first() else { return Ok(None) };
    let mut columns = Columns::new(row);
    Ok(Some(Unprojected {
        since: columns.count()?,
        snapshot_bytes: columns.count()?,
        events: columns.count()?,
        bytes: columns.count()?,
    }))
}
