//! Parts that all use cases of plain streams need: the lookup, and the form of the content.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use threadline_core::{
    Epoch, Principal, Timestamp,
    kv::KvOwner,
    streams::{ContentType, Stream, StreamPath, StreamPlace, messages},
};
use threadline_store::{StoreClock, StoreError};
use tokio::sync::Mutex;

use super::{
    error::{ContentError, StreamError},
    watchers::StreamWatchers,
};
use crate::usecases::agent_data::AgentDataDeps;

/// Locks of streams: a stream has one of them. A write that waits for another one of the same stream on this node does not race with it.
const LOCKS: usize = 256;

/// Use cases of plain streams.
#[derive(Clone)]
pub struct Streams {
    pub(crate) deps: Arc<StreamDeps>,
}

/// Dependencies of [`Streams`], shared by its clones.
pub(crate) struct StreamDeps {
    pub(super) data: Arc<AgentDataDeps>,
    pub(super) clock: StoreClock,
    pub(super) watchers: StreamWatchers,
    locks: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl StreamDeps {
    pub(crate) fn new(data: Arc<AgentDataDeps>, clock: StoreClock, watchers: StreamWatchers) -> Arc<Self> {
        let locks = (0..LOCKS).map(|_| Mutex::default()).collect();
        Arc::new(Self { data, clock, watchers, locks, hasher: RandomState::new() })
    }

    pub(super) fn lock(&self, place: &StreamPlace) -> &Mutex<()> {
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

/// Bytes as they are stored, and the number of bytes or messages.
pub(super) type Encoded = (Vec<u8>, u64);

pub(super) fn place(principal: &Principal, path: &StreamPath) -> StreamPlace {
    let owner = KvOwner { project: principal.project.clone(), user: principal.user.clone() };
    StreamPlace { owner, path: path.clone() }
}

/// Tag of a write, which no other write has.
pub(super) fn tag() -> i64 {
    Epoch::generate().to_i64()
}

pub(super) fn busy() -> StreamError {
    StoreError::Unavailable("other clients write the stream all the time".to_owned()).into()
}

impl Streams {
    /// The stream of a path that the principal sees, if it can be used.
    pub async fn find(&self, principal: &Principal, path: &StreamPath) -> Result<Stream, StreamError> {
        let found = self.deps.data.store.stream(&place(principal, path), None).await?;
        live(found.map(|(stream, _)| stream), path, self.deps.clock.now())
    }

    /// Content as the stream stores it. A stream that is created may begin with no message.
    pub(super) async fn encoded(
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
pub(super) fn live(stream: Option<Stream>, path: &StreamPath, now: Timestamp) -> Result<Stream, StreamError> {
    match stream {
        Some(stream) if stream.is_live(now) => Ok(stream),
        Some(stream) if stream.has_forks => Err(StreamError::Gone(path.to_string())),
        Some(_) | None => Err(StreamError::NotFound(path.to_string())),
    }
}
