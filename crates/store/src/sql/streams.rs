//! Plain streams of both databases. Writes differ: Postgres takes one in one statement, SQLite in one transaction.

use async_trait::async_trait;
use threadline_core::{
    ProjectId, Timestamp, UserId,
    kv::KvOwner,
    streams::{Chunk, ProducerState, Stream, StreamKey, StreamPlace, StreamRecord, StreamState},
};

use super::{
    columns::{Cells, Columns},
    corrupt,
    kv::stored_owner,
    limit as count,
    pages::each,
    tables::Tables,
    to_i64,
};
use crate::{StoreResult, StreamStore, StreamWrite, SweptStreams};

const FIND: &str = "\
    SELECT s.key, s.tag, s.state, s.expires_at, s.size, s.record,
      CASE WHEN EXISTS (SELECT 1 FROM streams f WHERE f.parent = s.key AND f.state < 2) THEN 1 ELSE 0 END,
      p.epoch, p.seq
    FROM streams s
    LEFT JOIN stream_producers p ON p.stream = s.key AND p.producer = $4
    WHERE s.project = $1 AND s.owner = $2 AND s.path = $3 AND s.state < 2";
const TOUCH: &str = "\
    UPDATE streams SET expires_at = $2 WHERE key = $1 AND state = 0 AND expires_at < $2 RETURNING key";
const DELETE: &str = "\
    UPDATE streams SET state = 1, tag = tag + 1
    WHERE key = $1 AND state = 0 AND (CAST($2 AS bigint) IS NULL OR expires_at <= $2) RETURNING key";
/// Gives up a deleted stream that has no fork. A deleted stream gets no further fork.
const GIVE_UP: &str = "\
    UPDATE streams SET state = 2
    WHERE key = $1 AND state = 1
      AND NOT EXISTS (SELECT 1 FROM streams f WHERE f.parent = streams.key AND f.state < 2)
    RETURNING parent";
const EXPIRED: &str = "\
    SELECT key FROM streams WHERE state = 0 AND expires_at <= $1 ORDER BY expires_at LIMIT $2";
/// Deleted streams whose last fork is gone: a node has ended between the two steps of a deletion.
const LEFT: &str = "\
    SELECT s.key FROM streams s
    WHERE s.state = 1 AND NOT EXISTS (SELECT 1 FROM streams f WHERE f.parent = s.key AND f.state < 2)
    ORDER BY s.key LIMIT $1";
const GONE: &str = "SELECT key FROM streams WHERE state = 2 ORDER BY key LIMIT $1";
const GONE_OF: &str = "SELECT key FROM streams WHERE project = $1 AND owner = $2 AND state = 2 ORDER BY key LIMIT $3";
const FORGET: &str = "\
    UPDATE streams SET state = 2, tag = tag + 1 WHERE project = $1 AND owner = $2 AND state <> 2 RETURNING key";
const DROP_CHUNKS: &str = "\
    DELETE FROM stream_chunks
    WHERE stream = $1 AND last IN (SELECT last FROM stream_chunks WHERE stream = $1 ORDER BY last LIMIT $2)
    RETURNING last";
const DROP_PRODUCERS: &str = "\
    DELETE FROM stream_producers
    WHERE stream = $1
      AND producer IN (SELECT producer FROM stream_producers WHERE stream = $1 ORDER BY producer LIMIT $2)
    RETURNING seq";
const DROP: &str = "DELETE FROM streams WHERE key = $1 AND state = 2 RETURNING project, owner, size";

/// A database that writes streams.
#[async_trait]
pub(crate) trait StreamTables: Tables {
    /// Carries out a write in one commit; false if the row is not as it requires.
    async fn write_row(&self, write: StreamWrite) -> StoreResult<bool>;
}

/// Record as it is stored.
pub(crate) fn stored(record: &StreamRecord) -> StoreResult<Vec<u8>> {
    serde_json::to_vec(record).map_err(corrupt)
}

/// State of a row that has not been given up.
pub(crate) fn state<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<StreamState> {
    match columns.int()? {
        0 => Ok(StreamState::Live),
        1 => Ok(StreamState::Deleted),
        state => Err(corrupt(format_args!("state {state} of a stream"))),
    }
}

/// Owner of a row.
pub(crate) fn owner<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<KvOwner> {
    let (project, user) = (columns.id(ProjectId::new)?, columns.text()?);
    let user = if user.is_empty() { None } else { Some(UserId::new(user).map_err(corrupt)?) };
    Ok(KvOwner { project, user })
}

fn found<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<(Stream, Option<ProducerState>)> {
    let (key, tag) = (StreamKey(columns.int()?), columns.int()?);
    let state = state(columns)?;
    let (expires_at, size) = (columns.maybe_time()?, columns.int()?);
    let record = serde_json::from_slice(&columns.bytes()?).map_err(corrupt)?;
    let has_forks = columns.int()? == 1;
    let producer = columns.maybe_int()?.zip(columns.maybe_int()?);
    let producer = producer.map(|(epoch, seq)| ProducerState { epoch: epoch.unsigned_abs(), seq: seq.unsigned_abs() });
    Ok((Stream { key, tag, state, expires_at, has_forks, size, record }, producer))
}

fn key<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<StreamKey> {
    Ok(StreamKey(columns.int()?))
}

/// Gives up a deleted stream if it has no fork, and then the streams that it was a fork of.
async fn give_up<S: Tables>(store: &S, key: StreamKey) -> StoreResult<()> {
    let mut next = Some(key.0);
    while let Some(key) = next {
        let rows = store.changed(GIVE_UP, vec![key.into()]).await?;
        next = rows.first().map(|row| Columns::new(row).maybe_int()).transpose()?.flatten();
    }
    Ok(())
}

/// Removes up to `left` rows of a stream that is gone; its owner and bytes, once all are removed.
async fn remove<S: Tables>(store: &S, key: StreamKey, left: &mut usize) -> StoreResult<Option<(KvOwner, i64)>> {
    for text in [DROP_CHUNKS, DROP_PRODUCERS] {
        while *left > 0 {
            let removed = store.changed(text, vec![key.0.into(), count(*left).into()]).await?.len();
            *left = left.saturating_sub(removed);
            if removed == 0 {
                break;
            }
        }
    }
    if *left == 0 {
        return Ok(None);
    }
    *left -= 1;
    let rows = store.changed(DROP, vec![key.0.into()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let mut columns = Columns::new(row);
    Ok(Some((owner(&mut columns)?, columns.int()?)))
}

/// Removes the streams of a user who is erased.
pub(crate) async fn forget<S: Tables>(store: &S, project: &ProjectId, user: &UserId, limit: usize) -> StoreResult<()> {
    let owner = [project.as_str(), user.as_str()];
    store.changed(FORGET, owner.map(Into::into).to_vec()).await?;
    loop {
        let mut values = owner.map(Into::into).to_vec();
        values.push(count(limit).into());
        let gone = each(&store.found(GONE_OF, values).await?, key)?;
        if gone.is_empty() {
            return Ok(());
        }
        for key in gone {
            let mut left = 0;
            // Another node may remove the same rows.
            while left == 0 {
                left = limit;
                remove(store, key, &mut left).await?;
            }
        }
    }
}

#[async_trait]
impl<S: StreamTables> StreamStore for S {
    async fn stream(
        &self,
        place: &StreamPlace,
        producer: Option<&str>,
    ) -> StoreResult<Option<(Stream, Option<ProducerState>)>> {
        let StreamPlace { owner, path } = place;
        // No producer has an empty name.
        let names = [owner.project.as_str(), stored_owner(owner), path.as_str(), producer.unwrap_or_default()];
        let rows = self.found(FIND, names.map(Into::into).to_vec()).await?;
        rows.first().map(|row| found(&mut Columns::new(row))).transpose()
    }

    async fn write_stream(&self, write: StreamWrite) -> StoreResult<bool> {
        self.write_row(write).await
    }

    async fn stream_chunks(&self, key: StreamKey, after: u64, limit: usize, bytes: usize) -> StoreResult<Vec<Chunk>> {
        let values = vec![key.0.into(), to_i64(after).into(), count(limit).into(), count(bytes).into()];
        each(&self.found(S::STATEMENTS.stream_chunks, values).await?, |columns| {
            Ok(Chunk { first: columns.count()?, last: columns.count()?, body: columns.bytes()? })
        })
    }

    async fn touch_stream(&self, key: StreamKey, expires_at: Timestamp) -> StoreResult<()> {
        self.changed(TOUCH, vec![key.0.into(), expires_at.0.into()]).await.map(drop)
    }

    async fn delete_stream(&self, key: StreamKey, expired: Option<Timestamp>) -> StoreResult<bool> {
        let deleted = self.changed(DELETE, vec![key.0.into(), expired.map(|at| at.0).into()]).await?;
        // Also after a node that has ended between the two steps.
        give_up(self, key).await?;
        Ok(!deleted.is_empty())
    }

    async fn sweep_streams(&self, now: Timestamp, limit: usize) -> StoreResult<SweptStreams> {
        let expired = each(&self.found(EXPIRED, vec![now.0.into(), count(limit).into()]).await?, key)?;
        for key in &expired {
            self.delete_stream(*key, Some(now)).await?;
        }
        for key in each(&self.found(LEFT, vec![count(limit).into()]).await?, key)? {
            give_up(self, key).await?;
        }
        let gone = each(&self.found(GONE, vec![count(limit).into()]).await?, key)?;
        let (mut left, mut removed) = (limit, Vec::new());
        for key in &gone {
            removed.extend(remove(self, *key, &mut left).await?);
            if left == 0 {
                break;
            }
        }
        Ok(SweptStreams { removed, more: left == 0 || expired.len() == limit || gone.len() == limit })
    }
}
