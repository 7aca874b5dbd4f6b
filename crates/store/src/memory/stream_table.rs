//! The table of plain streams.

use std::collections::BTreeMap;

use threadline_core::{
    Timestamp,
    streams::{Chunk, ProducerState, Stream, StreamKey, StreamPlace, StreamState},
};

/// A stream with its chunks and its producers.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) place: StreamPlace,
    /// True once the place is free: the rest is to be removed.
    pub(super) gone: bool,
    pub(super) parent: Option<StreamKey>,
    pub(super) stream: Stream,
    /// Chunks by the positions after them.
    pub(super) chunks: BTreeMap<u64, Chunk>,
    pub(super) producers: BTreeMap<String, ProducerState>,
}

/// Streams of all owners.
pub(super) type Streams = BTreeMap<StreamKey, Kept>;

pub(super) fn has_forks(streams: &Streams, key: StreamKey) -> bool {
    streams.values().any(|other| other.parent == Some(key) && !other.gone)
}

/// Gives up a deleted stream if it has no fork, and then the streams that it was a fork of.
fn give_up(streams: &mut Streams, key: StreamKey) {
    let mut next = Some(key);
    while let Some(key) = next.take() {
        let forked = has_forks(streams, key);
        if let Some(kept) = streams.get_mut(&key)
            && kept.stream.state == StreamState::Deleted
            && !forked
        {
            kept.gone = true;
            next = kept.parent;
        }
    }
}

pub(super) fn delete(streams: &mut Streams, key: StreamKey, expired: Option<Timestamp>) -> bool {
    let is_over = |stream: &Stream| expired.is_none_or(|now| stream.expires_at.is_some_and(|at| at <= now));
    let live = streams.get_mut(&key).filter(|kept| kept.stream.state == StreamState::Live && !kept.gone);
    let Some(kept) = live.filter(|kept| is_over(&kept.stream)) else { return false };
    kept.stream.state = StreamState::Deleted;
    kept.stream.tag = kept.stream.tag.wrapping_add(1);
    give_up(streams, key);
    true
}
