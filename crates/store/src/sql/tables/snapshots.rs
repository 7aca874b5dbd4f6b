//! Snapshots of projections, stored compressed.

use async_trait::async_trait;
use bytes::Bytes;
use threadline_core::{Seq, ThreadKey};

use super::Tables;
use crate::{
    Snapshot, SnapshotStore, StoreError, StoreResult, Unprojected, damage,
    sql::{columns::Columns, corrupt, crc, limit, pages::each, to_i64},
};

pub(crate) const NEWEST: &str = "\
    SELECT seq, raw, body, crc FROM snapshots WHERE key = $1 AND seq <= $2 AND version = $3 ORDER BY seq DESC LIMIT 1";
const SEQS: &str = "SELECT seq, version FROM snapshots WHERE key = $1 ORDER BY seq";

#[async_trait]
impl<S: Tables> SnapshotStore for S {
    async fn put_snapshot(&self, key: ThreadKey, snapshot: Snapshot, dropped: &[Seq]) -> StoreResult<()> {
        let dropped = dropped.iter().map(|seq| to_i64(*seq)).collect::<Vec<_>>();
        let raw = limit(snapshot.body.len());
        let body = compress(snapshot.body).await?;
        let crc = crc(&body);
        let values = vec![
            key.0.into(),
            to_i64(snapshot.seq).into(),
            i64::from(snapshot.version).into(),
            raw.into(),
            body.into(),
            serde_json::json!(dropped).to_string().into(),
            crc.into(),
        ];
        self.changed(S::STATEMENTS.put_snapshot, values).await.map(drop)
    }

    async fn snapshot(&self, key: ThreadKey, at: Seq, version: u32) -> StoreResult<Option<Snapshot>> {
        let values = vec![key.0.into(), to_i64(at).into(), i64::from(version).into()];
        let found = self.found(NEWEST, values).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let mut columns = Columns::new(row);
        let (seq, raw, body) = (columns.count()?, columns.count()?, columns.bytes()?);
        // The log has all that a snapshot has.
        if columns.maybe_int()?.is_some_and(|stored| stored != crc(&body)) {
            damage::count(1);
            return Ok(None);
        }
        let body = decompress(body, raw).await?;
        Ok(Some(Snapshot { seq, version, body }))
    }

    async fn snapshot_seqs(&self, key: ThreadKey) -> StoreResult<Vec<(Seq, u32)>> {
        let rows = self.found(SEQS, vec![key.0.into()]).await?;
        each(&rows, |columns| Ok((columns.count()?, u32::try_from(columns.count()?).map_err(corrupt)?)))
    }

    async fn unprojected(&self, key: ThreadKey, version: u32) -> StoreResult<Option<Unprojected>> {
        let rows = self.found(S::STATEMENTS.unprojected, vec![key.0.into(), i64::from(version).into()]).await?;
        let found = each(&rows, |columns| {
            Ok(Unprojected {
                since: columns.count()?,
                snapshot_bytes: columns.count()?,
                events: columns.count()?,
                bytes: columns.count()?,
            })
        })?;
        Ok(found.into_iter().next())
    }
}

/// Fast rather than small: snapshots are written often and read rarely.
const LEVEL: i32 = 1;

/// Runs slow work on a blocking thread, so that other tasks do not wait for it.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> StoreResult<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError::Unavailable(format!("a snapshot: {error}")))?.map_err(corrupt)
}

/// A snapshot's body in its stored form.
async fn compress(body: Bytes) -> StoreResult<Vec<u8>> {
    aside(move || zstd::bulk::compress(&body, LEVEL)).await
}

/// A snapshot's body of `raw` bytes from its stored form.
async fn decompress(body: Vec<u8>, raw: u64) -> StoreResult<Bytes> {
    let raw = usize::try_from(raw).map_err(corrupt)?;
    aside(move || zstd::bulk::decompress(&body, raw)).await.map(Bytes::from)
}
