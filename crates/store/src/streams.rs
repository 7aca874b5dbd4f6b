//! Plain streams: a row for each, which every write compares, and the appended chunks.
//!
//! A write reads the row, is decided outside the store, and is committed if the row still has the tag that was read. So all stores
//! decide alike, and no write is lost between two nodes.

use async_trait::async_trait;
use threadline_core::{
    Timestamp,
    kv::KvOwner,
    streams::{Chunk, Producer, ProducerState, Stream, StreamKey, StreamPlace, StreamRecord, StreamState},
};

use crate::error::StoreResult;

/// A write of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamWrite {
    /// Stream that is written.
    pub key: StreamKey,
    /// Tag that the row has then; no other write has it.
    pub tag: i64,
    /// Row of the stream then.
    pub record: StreamRecord,
    /// Moment from which the stream is gone, if it expires.
    pub expires_at: Option<Timestamp>,
    /// Content that is added.
    pub chunk: Option<Chunk>,
    /// Bytes that the stream and its counted rows grow by.
    pub added: i64,
    /// Kind of the write.
    pub kind: StreamWriteKind,
}

/// Kind of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamWriteKind {
    /// Creates the stream at a free place; a fork only if its source is not deleted.
    Create {
        /// Place of the stream.
        place: StreamPlace,
        /// Stream that the new one is a fork of.
        source: Option<StreamKey>,
    },
    /// Changes the stream if its row has this tag and was not deleted.
    Append {
        /// Tag that the row has.
        former: i64,
        /// Producer of the append, whose state is stored with it.
        producer: Option<Producer>,
    },
}

/// Progress of the removal of streams.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweptStreams {
    /// Owners of removed streams, and their counted bytes.
    pub removed: Vec<(KvOwner, i64)>,
    /// True if more is to be removed.
    pub more: bool,
}

/// Plain streams of users and projects.
#[async_trait]
pub trait StreamStore: Send + Sync {
    /// The stream at a place, also if it was deleted and its path is still in use, or if it has expired; with the state of one of its
    /// producers.
    async fn stream(
        &self,
        place: &StreamPlace,
        producer: Option<&str>,
    ) -> StoreResult<Option<(Stream, Option<ProducerState>)>>;

    /// Carries out a write in one commit. False, and nothing is changed, if the row is not as the write requires.
    async fn write_stream(&self, write: StreamWrite) -> StoreResult<bool>;

    /// Chunks of a stream that have data after a position, in order: up to `limit`, and no further one once they have `bytes`.
    async fn stream_chunks(&self, key: StreamKey, after: u64, limit: usize, bytes: usize) -> StoreResult<Vec<Chunk>>;

    /// Moves the moment from which a stream is gone forward.
    async fn touch_stream(&self, key: StreamKey, expires_at: Timestamp) -> StoreResult<()>;

    /// Deletes a stream; with a time, only if it has expired then. Its place is free, unless forks of it exist: then once the last one is
    /// gone. False if it was deleted before.
    async fn delete_stream(&self, key: StreamKey, expired: Option<Timestamp>) -> StoreResult<bool>;

    /// Deletes up to `limit` streams that have expired, and removes up to `limit` chunks, producers or rows of streams that are gone.
    async fn sweep_streams(&self, now: Timestamp, limit: usize) -> StoreResult<SweptStreams>;
}

/// Plain stream with its place and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedStream {
    /// Place of the stream.
    pub place: StreamPlace,
    /// Stream that this one is a fork of.
    pub parent: Option<StreamKey>,
    /// Row of the stream.
    pub stream: Stream,
}

/// Part of a stream that is staged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamPart {
    /// Content between two positions.
    Chunk(Chunk),
    /// Last accepted append of a producer.
    Producer(Producer),
}

/// Export and import of plain streams. An import stages a stream, which no client sees before it is published.
#[async_trait]
pub trait StreamTransfer: Send + Sync {
    /// A page of all streams, in the order of their keys: also deleted ones that have forks.
    async fn all_streams(&self, after: Option<StreamKey>, limit: usize) -> StoreResult<Vec<MovedStream>>;

    /// A page of the producers of a stream, in the order of their names.
    async fn stream_producers(&self, key: StreamKey, after: Option<&str>, limit: usize) -> StoreResult<Vec<Producer>>;

    /// Stages a stream without its parts, and discards those that an earlier import has staged. False if the store has a stream with
    /// this key, or still removes one.
    async fn stage_stream(&self, moved: &MovedStream) -> StoreResult<bool>;

    /// Adds a part to a staged stream.
    async fn stage_stream_part(&self, key: StreamKey, part: StreamPart) -> StoreResult<()>;

    /// Publishes a staged stream in this state. False if its place is in use, or if the stream that it is a fork of does not exist.
    async fn publish_stream(&self, key: StreamKey, state: StreamState) -> StoreResult<bool>;

    /// Discards a staged stream with its parts.
    async fn unstage_stream(&self, key: StreamKey) -> StoreResult<()>;
}
