//! Reads of plain streams: pages, and what follows them.

use std::time::Duration;

use threadline_core::{
    Principal, Timestamp,
    limits::{LONG_INPUT_BYTES, STREAM_CHUNKS, STREAM_TOUCH_PART},
    streams::{Chunk, Life, Stream, StreamPath, StreamRecord, part},
};
use tokio::time::{Instant, sleep_until};

use super::{error::StreamError, service::Streams, watchers::Watcher};
use crate::{cluster::bus::StreamNews, limits::in_place};

/// Data after a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPage {
    /// Bytes; of JSON messages, each on a line of its own.
    pub body: Vec<u8>,
    /// Position after the data.
    pub next: u64,
}

impl StreamPage {
    /// Adds the data of chunks up to a position.
    fn take(&mut self, chunks: &[Chunk], until: u64, is_json: bool) {
        for chunk in chunks {
            let to = chunk.last.min(until);
            if self.next < chunk.first || self.next >= to {
                break;
            }
            self.body.extend_from_slice(part(&chunk.body, self.next - chunk.first, to - chunk.first, is_json));
            self.next = to;
        }
    }
}

/// A reader that waits for what is appended to a stream.
pub struct StreamFollower {
    streams: Streams,
    principal: Principal,
    path: StreamPath,
    watcher: Watcher,
    stream: Stream,
}

impl Streams {
    /// Moves the end of a stream's life, because it is read. Returns that end.
    pub async fn touch(&self, stream: &Stream) -> Result<Option<Timestamp>, StreamError> {
        let Some(life @ Life::Idle(seconds)) = stream.record.life else { return Ok(stream.expires_at) };
        let end = life.end(self.deps.clock.now());
        let step = i64::try_from(seconds.saturating_mul(1_000) / STREAM_TOUCH_PART).unwrap_or(i64::MAX);
        if stream.expires_at.is_none_or(|at| at.0.saturating_add(step) > end.0) {
            return Ok(stream.expires_at);
        }
        self.deps.data.store.touch_stream(stream.key, end).await?;
        Ok(Some(end))
    }

    /// Reads the page after a position, in slices of the queue of work: no further append once it has `bytes`.
    pub async fn page(
        &self,
        principal: &Principal,
        stream: &Stream,
        after: u64,
        bytes: usize,
    ) -> Result<StreamPage, StreamError> {
        let is_json = stream.record.content_type.is_json();
        let mut page = StreamPage { body: Vec::new(), next: after };
        if after >= stream.record.tail {
            return Ok(page);
        }
        let mut work = self.deps.data.queue.begin(principal).await?;
        while page.body.len() < bytes
            && let Some(source) = stream.record.source_of(stream.key, page.next)
        {
            work.go_on().await?;
            let left = bytes - page.body.len();
            let store = &self.deps.data.store;
            let chunks = store.stream_chunks(source.stream, page.next, STREAM_CHUNKS, left).await?;
            let before = (page.next, page.body.len());
            // Lines are counted from the beginning of a chunk, which may have millions of them.
            let is_long = is_json && chunks.iter().map(|chunk| chunk.body.len()).sum::<usize>() >= LONG_INPUT_BYTES;
            let mut take = || page.take(&chunks, source.until, is_json);
            if is_long {
                in_place(take)
            } else {
                take()
            }
            work.done(page.body.len() - before.1, chunks.len());
            if page.next == before.0 {
                // The stream was deleted meanwhile.
                break;
            }
        }
        Ok(page)
    }

    /// Begins to follow a stream.
    pub async fn follow(&self, principal: &Principal, path: &StreamPath) -> Result<StreamFollower, StreamError> {
        let key = self.find(principal, path).await?.key;
        let watcher = self.deps.watchers.watch(key);
        // Read again: what was written before the watch began wakes nobody.
        let stream = self.find(principal, path).await?;
        Ok(StreamFollower { streams: self.clone(), principal: principal.clone(), path: path.clone(), watcher, stream })
    }
}

impl StreamFollower {
    /// State of the stream as it was last read.
    pub fn record(&self) -> &StreamRecord {
        &self.stream.record
    }

    /// The stream as it was last read.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Reads the page after a position.
    pub async fn page(&self, after: u64, bytes: usize) -> Result<StreamPage, StreamError> {
        let _turn = self.watcher.turn().await;
        self.streams.page(&self.principal, &self.stream, after, bytes).await
    }

    /// Waits until the stream has data after a position, or is closed; false if the time is over before. Keeps the stream from expiring
    /// meanwhile. Fails if the stream is gone.
    pub async fn wait(&mut self, after: u64, until: Option<Instant>) -> Result<bool, StreamError> {
        loop {
            if self.stream.record.tail > after || self.stream.record.closed {
                return Ok(true);
            }
            let look = self.next_look(until);
            tokio::select! {
                () = self.watcher.passed(after) => {}
                () = sleep_until(look) => {
                    if until.is_some_and(|until| until <= Instant::now()) {
                        return Ok(false);
                    }
                    self.stream.expires_at = self.streams.touch(&self.stream).await?;
                    if !self.watcher.takes_poll() {
                        continue;
                    }
                }
            }
            let key = self.stream.key;
            let stream = self.streams.find(&self.principal, &self.path).await?;
            if stream.key != key {
                return Err(StreamError::Replaced(stream.record.epoch));
            }
            let news = StreamNews { tail: stream.record.tail, ended: stream.record.closed };
            self.streams.deps.watchers.note(key, news);
            self.stream = stream;
        }
    }

    /// Moment at which the row is looked at although nobody wakes this reader.
    fn next_look(&self, until: Option<Instant>) -> Instant {
        // Three looks in the life of a stream, so that a slow one does not lose it.
        let life = match self.stream.record.life {
            Some(Life::Idle(seconds)) => Some(Duration::from_millis(seconds.saturating_mul(1_000) / 3)),
            Some(Life::Until(at)) => {
                let left = at.saturating_sub(self.streams.deps.clock.now().0).max(0);
                Some(Duration::from_millis(left.unsigned_abs()))
            }
            None => None,
        };
        let poll = self.watcher.poll();
        let wait = life.map_or(poll, |life| life.min(poll));
        let look = Instant::now() + wait.max(Duration::from_millis(100));
        until.map_or(look, |until| until.min(look))
    }
}
