//! Plain streams in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use threadline_core::{
    ProjectId, Timestamp, UserId,
    kv::KvOwner,
    streams::{Chunk, Producer, ProducerState, Stream, StreamKey, StreamPlace, StreamState},
};

use super::{
    MemoryStore, State,
    stream_table::{Kept, delete, has_forks},
};
use crate::{
    MovedStream, StoreResult, StreamPart, StreamStore, StreamTransfer, StreamWrite, StreamWriteKind, SweptStreams,
};

impl State {
    fn streams_of<'s>(&'s self, owner: &'s KvOwner) -> impl Iterator<Item = &'s Kept> {
        self.streams.values().filter(move |kept| kept.place.owner == *owner)
    }

    /// Counted bytes of the streams of an owner, with those that are to be removed.
    pub(super) fn stream_bytes(&self, project: &ProjectId, user: Option<&UserId>) -> i64 {
        let owner = KvOwner { project: project.clone(), user: user.cloned() };
        self.streams_of(&owner).map(|kept| kept.stream.size).sum()
    }

    /// Number of the streams of a user, with those that are to be removed.
    pub(super) fn stream_count(&self, project: &ProjectId, user: &UserId) -> u64 {
        let owner = KvOwner { project: project.clone(), user: Some(user.clone()) };
        self.streams_of(&owner).count() as u64
    }

    /// Removes the streams of a user.
    pub(super) fn forget_streams(&mut self, project: &ProjectId, user: &UserId) {
        let owner = KvOwner { project: project.clone(), user: Some(user.clone()) };
        self.streams.retain(|_, kept| kept.place.owner != owner);
        self.staged_streams.retain(|_, kept| kept.place.owner != owner);
    }

    fn create(&mut self, place: &StreamPlace, source: Option<StreamKey>, stream: Stream) -> bool {
        let taken = self.streams.values().any(|kept| kept.place == *place && !kept.gone);
        let is_live =
            |key| self.streams.get(&key).is_some_and(|kept| kept.stream.state == StreamState::Live && !kept.gone);
        if taken || !source.is_none_or(is_live) {
            return false;
        }
        let (chunks, producers) = (BTreeMap::new(), BTreeMap::new());
        let kept = Kept { place: place.clone(), gone: false, parent: source, stream, chunks, producers };
        self.streams.insert(kept.stream.key, kept);
        true
    }
}

#[async_trait]
impl StreamStore for MemoryStore {
    async fn stream(
        &self,
        place: &StreamPlace,
        producer: Option<&str>,
    ) -> StoreResult<Option<(Stream, Option<ProducerState>)>> {
        let state = self.state();
        let found = state.streams.values().find(|kept| kept.place == *place && !kept.gone);
        Ok(found.map(|kept| {
            let stream = Stream { has_forks: has_forks(&state.streams, kept.stream.key), ..kept.stream.clone() };
            (stream, producer.and_then(|id| kept.producers.get(id)).copied())
        }))
    }

    async fn write_stream(&self, write: StreamWrite) -> StoreResult<bool> {
        let StreamWrite { key, tag, record, expires_at, chunk, added, kind } = write;
        let state = &mut *self.state();
        let producer = match kind {
            StreamWriteKind::Create { place, source } => {
                let live = StreamState::Live;
                let stream = Stream { key, tag, state: live, expires_at, has_forks: false, size: added, record };
                if !state.create(&place, source, stream) {
                    return Ok(false);
                }
                None
            }
            StreamWriteKind::Append { former, producer } => {
                let Some(kept) = state.streams.get_mut(&key).filter(|kept| !kept.gone) else { return Ok(false) };
                let stream = &mut kept.stream;
                if stream.tag != former || stream.state != StreamState::Live {
                    return Ok(false);
                }
                (stream.tag, stream.record, stream.expires_at) = (tag, record, expires_at);
                stream.size += added;
                producer
            }
        };
        if let Some(kept) = state.streams.get_mut(&key) {
            kept.chunks.extend(chunk.map(|chunk| (chunk.last, chunk)));
            let noted = producer.map(|by| (by.id, ProducerState { epoch: by.epoch, seq: by.seq }));
            kept.producers.extend(noted);
        }
        Ok(true)
    }

    async fn stream_chunks(&self, key: StreamKey, after: u64, limit: usize, bytes: usize) -> StoreResult<Vec<Chunk>> {
        let state = self.state();
        let Some(kept) = state.streams.get(&key) else { return Ok(Vec::new()) };
        let mut held = 0;
        let mut page = Vec::new();
        for chunk in kept.chunks.range(after + 1..).map(|(_, chunk)| chunk).take(limit) {
            if held >= bytes {
                break;
            }
            held += chunk.body.len();
            page.push(chunk.clone());
        }
        Ok(page)
    }

    async fn touch_stream(&self, key: StreamKey, expires_at: Timestamp) -> StoreResult<()> {
        if let Some(kept) = self.state().streams.get_mut(&key).filter(|kept| kept.stream.state == StreamState::Live) {
            kept.stream.expires_at = kept.stream.expires_at.map(|at| at.max(expires_at));
        }
        Ok(())
    }

    async fn delete_stream(&self, key: StreamKey, expired: Option<Timestamp>) -> StoreResult<bool> {
        Ok(delete(&mut self.state().streams, key, expired))
    }

    async fn sweep_streams(&self, now: Timestamp, limit: usize) -> StoreResult<SweptStreams> {
        let streams = &mut self.state().streams;
        let is_over =
            |kept: &Kept| kept.stream.state == StreamState::Live && kept.stream.expires_at.is_some_and(|at| at <= now);
        let expired = streams.iter().filter(|(_, kept)| is_over(kept)).map(|(key, _)| *key).take(limit);
        let expired: Vec<_> = expired.collect();
        for key in &expired {
            delete(streams, *key, Some(now));
        }
        let gone: Vec<_> = streams.iter().filter(|(_, kept)| kept.gone).map(|(key, _)| *key).take(limit).collect();
        let removed = gone.iter().filter_map(|key| streams.remove(key));
        let removed = removed.map(|kept| (kept.place.owner, kept.stream.size)).collect();
        Ok(SweptStreams { removed, more: expired.len() == limit || gone.len() == limit })
    }
}

#[async_trait]
impl StreamTransfer for MemoryStore {
    async fn all_streams(&self, after: Option<StreamKey>, limit: usize) -> StoreResult<Vec<MovedStream>> {
        let state = self.state();
        let later = state.streams.iter().filter(|(key, kept)| !kept.gone && after.is_none_or(|after| **key > after));
        let moved = later.take(limit).map(|(_, kept)| MovedStream {
            place: kept.place.clone(),
            parent: kept.parent,
            stream: kept.stream.clone(),
        });
        Ok(moved.collect())
    }

    async fn stream_producers(&self, key: StreamKey, after: Option<&str>, limit: usize) -> StoreResult<Vec<Producer>> {
        let state = self.state();
        let producers = state.streams.get(&key).into_iter().flat_map(|kept| &kept.producers);
        let later = producers.filter(|(id, _)| after.is_none_or(|after| id.as_str() > after)).take(limit);
        Ok(later.map(|(id, by)| Producer { id: id.clone(), epoch: by.epoch, seq: by.seq }).collect())
    }

    async fn stage_stream(&self, moved: &MovedStream) -> StoreResult<bool> {
        let state = &mut *self.state();
        let MovedStream { place, parent, stream } = moved.clone();
        if state.streams.contains_key(&stream.key) {
            return Ok(false);
        }
        let (chunks, producers) = (BTreeMap::new(), BTreeMap::new());
        let kept = Kept { place, gone: false, parent, stream, chunks, producers };
        state.staged_streams.insert(kept.stream.key, kept);
        Ok(true)
    }

    async fn stage_stream_part(&self, key: StreamKey, part: StreamPart) -> StoreResult<()> {
        if let Some(kept) = self.state().staged_streams.get_mut(&key) {
            match part {
                StreamPart::Chunk(chunk) => drop(kept.chunks.insert(chunk.last, chunk)),
                StreamPart::Producer(by) => {
                    kept.producers.insert(by.id, ProducerState { epoch: by.epoch, seq: by.seq });
                }
            }
        }
        Ok(())
    }

    async fn publish_stream(&self, key: StreamKey, state: StreamState) -> StoreResult<bool> {
        let all = &mut *self.state();
        let Some(staged) = all.staged_streams.get(&key) else { return Ok(false) };
        let is_taken = all.streams.values().any(|kept| kept.place == staged.place && !kept.gone);
        let is_there = |parent| all.streams.get(&parent).is_some_and(|kept| !kept.gone);
        if is_taken || !staged.parent.is_none_or(is_there) {
            return Ok(false);
        }
        if let Some(mut kept) = all.staged_streams.remove(&key) {
            kept.stream.state = state;
            all.streams.insert(key, kept);
        }
        Ok(true)
    }

    async fn unstage_stream(&self, key: StreamKey) -> StoreResult<()> {
        self.state().staged_streams.remove(&key);
        Ok(())
    }
}
