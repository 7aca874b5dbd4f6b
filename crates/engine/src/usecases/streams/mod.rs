//! Plain streams: created, written and read by clients of the Durable Streams protocol.

mod creating;
mod error;
mod reading;
mod watchers;

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use threadline_core::{
    Epoch, Principal, Timestamp,
    kv::KvOwner,
    limits::PG_RACES,
    streams::{
        AppendDone, Chunk, ContentType, NewAppend, Producer, ProducerState, Stream, StreamPath, StreamPlace,
        StreamRecord, Written, append, counted, messages,
    },
};
use threadline_store::{StoreClock, StoreError, StreamWrite, StreamWriteKind};
use tokio::sync::Mutex;

pub use creating::{NewFork, NewStream};
pub use error::{ContentError, StreamConflict, StreamError};
pub use reading::{StreamFollower, StreamPage};

use self::watchers::{Seen, Watchers};
use super::agent_data::AgentDataDeps;
use crate::cluster::bus::DynBus;

/// Locks of streams: a stream has one of them. A write that waits for another one of the same stream on this node does not race with it.
const LOCKS: usize = 256;

/// Use cases of plain streams.
#[derive(Clone)]
pub struct Streams {
    pub(crate) deps: Arc<StreamDeps>,
}

/// Dependencies of [`Streams`], shared by its clones.
pub(crate) struct StreamDeps {
    data: Arc<AgentDataDeps>,
    clock: StoreClock,
    bus: DynBus,
    watchers: Watchers,
    locks: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl StreamDeps {
    pub(crate) fn new(data: Arc<AgentDataDeps>, clock: StoreClock, bus: DynBus) -> Arc<Self> {
        let locks = (0..LOCKS).map(|_| Mutex::default()).collect();
        Arc::new(Self { data, clock, bus, watchers: Watchers::default(), locks, hasher: RandomState::new() })
    }

    fn lock(&self, place: &StreamPlace) -> &Mutex<()> {
        &self.locks[self.hasher.hash_one(place) as usize % LOCKS]
    }
}

/// Content of a request.
#[derive(Debug, Clone, Copy)]
pub struct Content<'b> {
    /// Media type; `None` if the request names none.
    pub kind: Option<&'b ContentType>,
    /// Bytes of the body.
    pub body: &'b [u8],
}

/// An append as the request has it.
#[derive(Debug, Clone)]
pub struct AppendRequest<'b> {
    /// Content; empty for a request that only closes the stream.
    pub content: Content<'b>,
    /// `Stream-Seq`.
    pub seq: Option<String>,
    /// Producer of the append.
    pub producer: Option<Producer>,
    /// True if the stream is to be closed.
    pub closes: bool,
}

/// Bytes as they are stored, and the number of bytes or messages.
type Encoded = (Vec<u8>, u64);

fn place(principal: &Principal, path: &StreamPath) -> StreamPlace {
    let owner = KvOwner { project: principal.project.clone(), user: principal.user.clone() };
    StreamPlace { owner, path: path.clone() }
}

/// Tag of a write, which no other write has.
fn tag() -> i64 {
    Epoch::generate().to_i64()
}

fn busy() -> StreamError {
    StoreError::Unavailable("other clients write the stream all the time".to_owned()).into()
}

impl Streams {
    /// The stream of a path that the principal sees, if it can be used.
    pub async fn find(&self, principal: &Principal, path: &StreamPath) -> Result<Stream, StreamError> {
        let found = self.deps.data.store.stream(&place(principal, path), None).await?;
        live(found.map(|(stream, _)| stream), path, self.deps.clock.now())
    }

    /// Appends to a stream, and may close it.
    pub async fn append(
        &self,
        principal: &Principal,
        path: &StreamPath,
        request: &AppendRequest<'_>,
    ) -> Result<Written, StreamError> {
        self.deps.data.refuse_if_draining()?;
        let place = place(principal, path);
        // An append that was stored before is answered whatever its content is now.
        let encoded = match request.content.body {
            [] => Ok((Vec::new(), 0)),
            _ => self.encoded(principal, request.content, false).await?,
        };
        let new = NewAppend {
            content_type: request.content.kind.cloned(),
            count: encoded.as_ref().map_or(1, |(_, count)| *count),
            seq: request.seq.clone(),
            producer: request.producer.clone(),
            closes: request.closes,
        };
        let _alone = self.deps.lock(&place).lock().await;
        for _ in 0..PG_RACES {
            let producer = new.producer.as_ref().map(|producer| producer.id.as_str());
            let found = self.deps.data.store.stream(&place, producer).await?;
            let known = found.as_ref().and_then(|(_, producer)| *producer);
            let stream = live(found.map(|(stream, _)| stream), path, self.deps.clock.now())?;
            let record = match append(&stream.record, known, &new) {
                Ok(AppendDone::Accepted(record)) => *record,
                Ok(AppendDone::Repeated) => {
                    return Ok(Written { is_new: false, record: stream.record, producer: known });
                }
                Err(refusal) => return Err(StreamError::Refused(refusal, Box::new(stream.record))),
            };
            let (body, count) = encoded.as_ref().map_err(|error| error.clone())?;
            if *count > 0 {
                self.deps.data.admit(principal).await?;
            }
            let chunk =
                (*count > 0).then(|| Chunk { first: stream.record.tail, last: record.tail, body: body.clone() });
            if self.write(principal, &stream, known, record.clone(), chunk, new.producer.clone()).await? {
                let producer = new.producer.map(|by| ProducerState { epoch: by.epoch, seq: by.seq });
                return Ok(Written { is_new: true, record, producer });
            }
        }
        Err(busy())
    }

    /// Deletes a stream. One that has forks keeps its path until the last of them is gone.
    pub async fn delete(&self, principal: &Principal, path: &StreamPath) -> Result<(), StreamError> {
        self.deps.data.refuse_if_draining()?;
        let stream = self.find(principal, path).await?;
        let deleted = {
            let _turn = self.deps.data.turn().await?;
            self.deps.data.store.delete_stream(stream.key, None).await?
        };
        self.deps.watchers.note(stream.key, Seen { tail: 0, ended: true });
        // Another request has deleted it meanwhile.
        if deleted { Ok(()) } else { Err(StreamError::NotFound(path.to_string())) }
    }

    async fn write(
        &self,
        principal: &Principal,
        stream: &Stream,
        known: Option<ProducerState>,
        record: StreamRecord,
        chunk: Option<Chunk>,
        producer: Option<Producer>,
    ) -> Result<bool, StreamError> {
        let named = producer.as_ref().filter(|_| known.is_none()).map_or(0, |producer| counted(producer.id.len()));
        let added = chunk.as_ref().map_or(0, Chunk::size) + named;
        let news = Seen { tail: record.tail, ended: record.closed };
        let expires_at = record.life.map(|life| life.end(self.deps.clock.now()));
        let kind = StreamWriteKind::Append { former: stream.tag, producer };
        let write = StreamWrite { key: stream.key, tag: tag(), record, expires_at, chunk, added, kind };
        let written = {
            let _turn = self.deps.data.turn().await?;
            self.deps.data.store.write_stream(write).await?
        };
        if written {
            self.deps.data.note(principal, principal.user.as_ref(), added);
            self.deps.watchers.note(stream.key, news);
        }
        Ok(written)
    }

    /// Content as the stream stores it. A stream that is created may begin with no message.
    async fn encoded(
        &self,
        principal: &Principal,
        content: Content<'_>,
        may_be_empty: bool,
    ) -> Result<Result<Encoded, ContentError>, StreamError> {
        let body = content.body;
        if !content.kind.is_some_and(ContentType::is_json) {
            return Ok(Ok((body.to_vec(), body.len() as u64)));
        }
        let parsed = self.deps.data.queue.process(principal, body.len(), || messages(body)).await?;
        Ok(match parsed {
            Ok((_, 0)) if !may_be_empty => Err(ContentError::NoMessages),
            Ok(encoded) => Ok(encoded),
            Err(error) => Err(error.into()),
        })
    }
}

/// The stream, if it can be used now.
fn live(stream: Option<Stream>, path: &StreamPath, now: Timestamp) -> Result<Stream, StreamError> {
    match stream {
        Some(stream) if stream.is_live(now) => Ok(stream),
        Some(stream) if stream.has_forks => Err(StreamError::Gone(path.to_string())),
        Some(_) | None => Err(StreamError::NotFound(path.to_string())),
    }
}
