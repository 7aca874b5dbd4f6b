//! Appends to plain streams, and their deletion.

use threadline_core::{
    Principal,
    limits::PG_RACES,
    streams::{
        AppendDone, Chunk, NewAppend, Producer, ProducerState, Stream, StreamPath, StreamRecord, Written, append,
        counted,
    },
};
use threadline_store::{StreamWrite, StreamWriteKind};

use super::{
    error::StreamError,
    service::{Content, Streams, busy, live, place, tag},
};
use crate::cluster::bus::StreamNews;

/// An append as the request has it.
#[derive(Debug, Clone)]
pub struct AppendRequest<'b> {
    /// Content; empty for a request that only closes the stream.
    pub content: Content<'b>,
    /// Number of the append in the header `Stream-Seq`.
    pub seq: Option<String>,
    /// Producer of the append.
    pub producer: Option<Producer>,
    /// True if the stream is to be closed.
    pub closes: bool,
}

impl Streams {
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
        self.deps.watchers.written(stream.key, StreamNews { tail: 0, ended: true });
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
        let news = StreamNews { tail: record.tail, ended: record.closed };
        let expires_at = record.life.map(|life| life.end(self.deps.clock.now()));
        let kind = StreamWriteKind::Append { former: stream.tag, producer };
        let write = StreamWrite { key: stream.key, tag: tag(), record, expires_at, chunk, added, kind };
        let written = {
            let _turn = self.deps.data.turn().await?;
            self.deps.data.store.write_stream(write).await?
        };
        if written {
            self.deps.data.note(principal, principal.user.as_ref(), added);
            self.deps.watchers.written(stream.key, news);
        }
        Ok(written)
    }
}
