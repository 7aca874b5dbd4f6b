//! Plain streams of exports and imports. A staged stream has state 3, so no client sees it.

use async_trait::async_trait;
use threadline_core::streams::{Chunk, Producer, Stream, StreamKey, StreamPath, StreamPlace, StreamState};

use super::Tables;
use crate::{
    MovedStream, StoreResult, StreamPart, StreamTransfer,
    sql::{
        columns::{Cells, Columns},
        corrupt,
        kv::stored_owner,
        limit as count,
        pages::each,
        streams::{owner, state, stored},
        to_i64,
    },
};

const ALL: &str = "\
    SELECT key, project, owner, path, tag, state, parent, expires_at, size, record FROM streams
    WHERE key > $1 AND state < 2 ORDER BY key LIMIT $2";
const PRODUCERS: &str = "\
    SELECT producer, epoch, seq FROM stream_producers WHERE stream = $1 AND producer > $2 ORDER BY producer LIMIT $3";
const STAGE: &str = "\
    INSERT INTO streams (key, project, owner, path, tag, state, parent, expires_at, size, record)
    VALUES ($1, $2, $3, $4, $5, 3, $6, $7, $8, $9)
    ON CONFLICT (key) DO UPDATE SET project = excluded.project, owner = excluded.owner, path = excluded.path,
      tag = excluded.tag, parent = excluded.parent, expires_at = excluded.expires_at, size = excluded.size,
      record = excluded.record
    WHERE streams.state = 3 RETURNING key";
const CLEAR_CHUNKS: &str = "DELETE FROM stream_chunks WHERE stream = $1 RETURNING last";
const CLEAR_PRODUCERS: &str = "DELETE FROM stream_producers WHERE stream = $1 RETURNING seq";
const ADD: &str = "\
    INSERT INTO stream_chunks (stream, first, last, size, body) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT DO NOTHING RETURNING last";
const NOTE: &str = "\
    INSERT INTO stream_producers (stream, producer, epoch, seq) VALUES ($1, $2, $3, $4)
    ON CONFLICT DO NOTHING RETURNING seq";
const PUBLISH: &str = "\
    UPDATE streams SET state = $2
    WHERE key = $1 AND state = 3
      AND (parent IS NULL OR EXISTS (SELECT 1 FROM streams p WHERE p.key = streams.parent AND p.state < 2))
      AND NOT EXISTS (
        SELECT 1 FROM streams o
        WHERE o.project = streams.project AND o.owner = streams.owner AND o.path = streams.path AND o.state < 2)
    RETURNING key";
const UNSTAGE: &str = "DELETE FROM streams WHERE key = $1 AND state = 3 RETURNING key";

fn moved<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<MovedStream> {
    let key = StreamKey(columns.int()?);
    let owner = owner(columns)?;
    let path = StreamPath::new(&columns.text()?).map_err(corrupt)?;
    let tag = columns.int()?;
    let state = state(columns)?;
    let parent = columns.maybe_int()?.map(StreamKey);
    let (expires_at, size) = (columns.maybe_time()?, columns.int()?);
    let record = serde_json::from_slice(&columns.bytes()?).map_err(corrupt)?;
    let stream = Stream { key, tag, state, expires_at, has_forks: false, size, record };
    Ok(MovedStream { place: StreamPlace { owner, path }, parent, stream })
}

/// Removes the parts of a staged stream.
async fn clear<S: Tables>(store: &S, key: StreamKey) -> StoreResult<()> {
    for text in [CLEAR_CHUNKS, CLEAR_PRODUCERS] {
        store.changed(text, vec![key.0.into()]).await?;
    }
    Ok(())
}

#[async_trait]
impl<S: Tables> StreamTransfer for S {
    async fn all_streams(&self, after: Option<StreamKey>, limit: usize) -> StoreResult<Vec<MovedStream>> {
        let values = vec![after.map_or(i64::MIN, |key| key.0).into(), count(limit).into()];
        each(&self.found(ALL, values).await?, moved)
    }

    async fn stream_producers(&self, key: StreamKey, after: Option<&str>, limit: usize) -> StoreResult<Vec<Producer>> {
        // No producer has an empty name.
        let values = vec![key.0.into(), after.unwrap_or_default().into(), count(limit).into()];
        each(&self.found(PRODUCERS, values).await?, |columns| {
            Ok(Producer { id: columns.text()?, epoch: columns.count()?, seq: columns.count()? })
        })
    }

    async fn stage_stream(&self, moved: &MovedStream) -> StoreResult<bool> {
        let MovedStream { place: StreamPlace { owner, path }, parent, stream } = moved;
        let key = stream.key.0;
        let mut values = vec![key.into()];
        values.extend([owner.project.as_str(), stored_owner(owner), path.as_str()].map(Into::into));
        values.extend([stream.tag.into(), parent.map(|parent| parent.0).into()]);
        values.extend([stream.expires_at.map(|at| at.0).into(), stream.size.into(), stored(&stream.record)?.into()]);
        if self.changed(STAGE, values).await?.is_empty() {
            return Ok(false);
        }
        clear(self, stream.key).await?;
        Ok(true)
    }

    async fn stage_stream_part(&self, key: StreamKey, part: StreamPart) -> StoreResult<()> {
        let (text, values) = match part {
            StreamPart::Chunk(Chunk { first, last, body }) => {
                let (first, last, size) = (to_i64(first), to_i64(last), count(body.len()));
                (ADD, vec![key.0.into(), first.into(), last.into(), size.into(), body.into()])
            }
            StreamPart::Producer(Producer { id, epoch, seq }) => {
                (NOTE, vec![key.0.into(), id.into(), to_i64(epoch).into(), to_i64(seq).into()])
            }
        };
        self.changed(text, values).await.map(drop)
    }

    async fn publish_stream(&self, key: StreamKey, state: StreamState) -> StoreResult<bool> {
        let state: i64 = match state {
            StreamState::Live => 0,
            StreamState::Deleted => 1,
        };
        Ok(!self.changed(PUBLISH, vec![key.0.into(), state.into()]).await?.is_empty())
    }

    async fn unstage_stream(&self, key: StreamKey) -> StoreResult<()> {
        if !self.changed(UNSTAGE, vec![key.0.into()]).await?.is_empty() {
            clear(self, key).await?;
        }
        Ok(())
    }
}
