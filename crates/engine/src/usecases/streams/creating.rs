//! Creation of plain streams, and of forks.

use threadline_core::{
    Epoch, Principal, Timestamp,
    limits::{MAX_STREAM_FORK_DEPTH, PG_RACES},
    streams::{
        Chunk, ContentType, Inherited, Life, Origin, Stream, StreamKey, StreamPath, StreamPlace, StreamRecord,
        StreamState, counted,
    },
};
use threadline_store::{StreamWrite, StreamWriteKind};

use super::{
    error::{StreamConflict, StreamError},
    service::{Content, Streams, busy, live, place, tag},
};
use crate::cluster::bus::StreamNews;

/// A stream to be created.
#[derive(Debug, Clone)]
pub struct NewStream<'b> {
    /// Content that the stream begins with, after that of its source; its media type is that of the stream.
    pub content: Content<'b>,
    /// Life; a fork without one has that of its source.
    pub life: Option<Life>,
    /// True if the stream is complete.
    pub closed: bool,
    /// Source, if the stream is a fork.
    pub fork: Option<NewFork>,
}

/// Origin of a fork.
#[derive(Debug, Clone)]
pub struct NewFork {
    /// Path of the source.
    pub path: StreamPath,
    /// Offset in the source; `None` for its end.
    pub at: Option<(u64, Epoch)>,
    /// Bytes or messages behind the offset that the fork has as well.
    pub sub: u64,
}

/// Part of a source that a fork has.
struct Source {
    key: StreamKey,
    epoch: Epoch,
    life: Option<Life>,
    origin: Origin,
    inherited: Vec<Inherited>,
}

impl Streams {
    /// Creates a stream; with false, one that exists already and is as the request wants it.
    pub async fn create(
        &self,
        principal: &Principal,
        path: &StreamPath,
        new: &NewStream<'_>,
    ) -> Result<(Stream, bool), StreamError> {
        self.deps.data.refuse_if_draining()?;
        let place = place(principal, path);
        let _alone = self.deps.lock(&place).lock().await;
        for _ in 0..PG_RACES {
            if let Some((stream, _)) = self.deps.data.store.stream(&place, None).await? {
                let now = self.deps.clock.now();
                if stream.is_live(now) {
                    return if is_same(&stream.record, new) {
                        Ok((stream, false))
                    } else {
                        Err(StreamConflict::Exists.into())
                    };
                }
                if stream.has_forks {
                    return Err(StreamConflict::PathInUse.into());
                }
                let expired = (stream.state == StreamState::Live).then_some(now);
                self.deps.data.store.delete_stream(stream.key, expired).await?;
                self.deps.watchers.written(stream.key, StreamNews { tail: 0, ended: true });
            }
            if let Some(stream) = self.try_create(principal, &place, new).await? {
                return Ok((stream, true));
            }
        }
        Err(busy())
    }

    /// Creates a stream at a place that was free; `None` if it is not, or if the source has changed.
    async fn try_create(
        &self,
        principal: &Principal,
        place: &StreamPlace,
        new: &NewStream<'_>,
    ) -> Result<Option<Stream>, StreamError> {
        self.deps.data.admit(principal).await?;
        let (source, content_type) = match &new.fork {
            None => (None, new.content.kind.cloned().unwrap_or_else(ContentType::binary)),
            Some(fork) => {
                let (source, kind) = self.source(principal, fork, new.content.kind).await?;
                (Some(source), kind)
            }
        };
        let content = Content { kind: Some(&content_type), ..new.content };
        let (body, count) = match content.body {
            [] => (Vec::new(), 0),
            _ => self.encoded(principal, content, true).await??,
        };
        let from = source.as_ref().map_or(0, |source| source.origin.at);
        let chunk = (count > 0).then(|| Chunk { first: from, last: from + count, body });
        let fixed = place.path.as_str().len() + content_type.as_str().len();
        let added = counted(fixed) + chunk.as_ref().map_or(0, Chunk::size);
        let key = source.as_ref().map(|source| source.key);
        let record = StreamRecord {
            epoch: source.as_ref().map_or_else(Epoch::generate, |source| source.epoch),
            content_type,
            life: new.life.or(source.as_ref().and_then(|source| source.life)),
            closed: new.closed,
            closed_by: None,
            tail: from + count,
            last_seq: None,
            origin: source.as_ref().map(|source| source.origin.clone()),
            inherited: source.map(|source| source.inherited).unwrap_or_default(),
        };
        let stream = self.fresh(record, added);
        let write = StreamWrite {
            key: stream.key,
            tag: stream.tag,
            record: stream.record.clone(),
            expires_at: stream.expires_at,
            chunk,
            added,
            kind: StreamWriteKind::Create { place: place.clone(), source: key },
        };
        let _turn = self.deps.data.turn().await?;
        if !self.deps.data.store.write_stream(write).await? {
            return Ok(None);
        }
        self.deps.data.note(principal, principal.user.as_ref(), added);
        Ok(Some(stream))
    }

    fn fresh(&self, record: StreamRecord, size: i64) -> Stream {
        let now: Timestamp = self.deps.clock.now();
        let expires_at = record.life.map(|life| life.end(now));
        let key = StreamKey::generate();
        Stream { key, tag: tag(), state: StreamState::Live, expires_at, has_forks: false, size, record }
    }

    /// Part of the source that a fork has, and the media type.
    async fn source(
        &self,
        principal: &Principal,
        fork: &NewFork,
        kind: Option<&ContentType>,
    ) -> Result<(Source, ContentType), StreamError> {
        let found = self.deps.data.store.stream(&place(principal, &fork.path), None).await?;
        let found = live(found.map(|(stream, _)| stream), &fork.path, self.deps.clock.now());
        let stream = found.map_err(|error| match error {
            StreamError::Gone(_) => StreamConflict::SourceGone.into(),
            error => error,
        })?;
        let record = &stream.record;
        if kind.is_some_and(|kind| !kind.matches(&record.content_type)) {
            return Err(StreamConflict::SourceType.into());
        }
        let at = match fork.at {
            None => record.tail,
            Some((at, epoch)) if epoch == record.epoch || at == 0 => at,
            Some(_) => return Err(not_there("Stream-Fork-Offset is no offset of the source")),
        };
        if at > record.tail {
            return Err(not_there("Stream-Fork-Offset is beyond the end of the source"));
        }
        let end = self.within(&stream, at, fork.sub).await?;
        let inherited = record.inherited_by(stream.key, end);
        if inherited.len() >= MAX_STREAM_FORK_DEPTH {
            return Err(StreamConflict::TooDeep.into());
        }
        let origin = Origin { path: fork.path.to_string(), at: end, sub: fork.sub };
        let source = Source { key: stream.key, epoch: record.epoch, life: record.life, origin, inherited };
        Ok((source, stream.record.content_type))
    }

    /// Position behind the offset by a part of the append that follows it.
    async fn within(&self, stream: &Stream, at: u64, sub: u64) -> Result<u64, StreamError> {
        if sub == 0 {
            return Ok(at);
        }
        let refused = || not_there("Stream-Fork-Sub-Offset passes the end of the append at Stream-Fork-Offset");
        let part = stream.record.source_of(stream.key, at).ok_or_else(refused)?;
        let chunks = self.deps.data.store.stream_chunks(part.stream, at, 1, 1).await?;
        let last = chunks.first().map(|chunk| chunk.last.min(part.until)).ok_or_else(refused)?;
        at.checked_add(sub).filter(|end| *end <= last).ok_or_else(refused)
    }
}

fn not_there(what: &str) -> StreamError {
    StreamError::ForkOffset(what.to_owned())
}

/// True if the stream that exists is as a request wants it.
fn is_same(record: &StreamRecord, new: &NewStream<'_>) -> bool {
    let (same_type, same_life, same_origin) = match (&new.fork, &record.origin) {
        // A fork without a type or a life has those of its source.
        (Some(fork), Some(origin)) => {
            let at = fork.at.is_none_or(|(at, epoch)| {
                at.checked_add(fork.sub) == Some(origin.at) && (epoch == record.epoch || at == 0)
            });
            let origin = origin.path == fork.path.as_str() && origin.sub == fork.sub && at;
            let same_type = new.content.kind.is_none_or(|kind| kind.matches(&record.content_type));
            (same_type, new.life.is_none() || new.life == record.life, origin)
        }
        (None, None) => {
            let kind = new.content.kind.cloned().unwrap_or_else(ContentType::binary);
            (kind.matches(&record.content_type), new.life == record.life, true)
        }
        (Some(_), None) | (None, Some(_)) => (false, false, false),
    };
    same_type && same_life && same_origin && new.closed == record.closed
}
