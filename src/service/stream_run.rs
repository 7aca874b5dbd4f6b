//! A run as one stream of lines: started, appended, kept alive and finished on behalf of its producer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use memchr::memrchr;
use tokio::time::{self, Instant};

use super::{
    Receipt, ServiceError,
    closing::Why,
    driving::Writer,
    runs::{NewRun, Runs, StartedRun, check_producer_seq},
};
use crate::domain::{
    EventError, EventErrorKind, Fence, NewEvents, Principal, RunId, RunStatus, ThreadId,
    event::BatchBuilder,
    limits::{MAX_EVENT_BYTES, STREAM_IDLE_TIMEOUT, STREAM_PATIENCE, STREAM_RETRY},
};

/// How a streamed run came to its end on this connection.
#[derive(Debug)]
pub struct StreamedRun {
    /// The run as it is now.
    pub run: StartedRun,
    /// The body was not read to its end: the answer may come before it.
    pub early: bool,
}

impl Runs {
    /// Starts a run and appends what comes in, one event a line; blank lines are signs of life. The end of the
    /// stream finishes the run. `producer_seq` is that of the first line, for a producer that goes on where a broken
    /// stream ended; lines stored before are passed over.
    ///
    /// The lease is kept while bytes come: a producer that asked for a lease and is silent for longer loses its run, whether its
    /// connection is open or not. Without one an open connection keeps the run for [`STREAM_IDLE_TIMEOUT`].
    ///
    /// A stop that is asked meanwhile ends the run at once. A stream that breaks (`Err`) leaves the run to its lease:
    /// the producer may come again with the same run id. A bad line ends the run with RUN_ERROR.
    pub async fn stream<E>(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        new: NewRun,
        producer_seq: u64,
        body: impl Stream<Item = Result<Bytes, E>>,
    ) -> Result<StreamedRun, ServiceError> {
        check_producer_seq(producer_seq)?;
        if producer_seq > 1 {
            // What goes on must have begun: a new run would only hold the thread and miss its first events.
            let Some(id) = &new.id else {
                return Err(ServiceError::InvalidRequest(
                    "producerSeq goes with the runId of the run to go on with".into(),
                ));
            };
            self.get(principal, thread, id).await?;
        }
        let lease = new.lease;
        let every = self.beat(&new);
        let mut run = self.start(principal, thread, new).await?;
        let id = run.run.id.clone();
        let mut lines = Lines { buffer: BytesMut::new(), next: producer_seq };
        let feeder = Feeder { runs: self, principal, thread, id: &id, lease, every };
        let early = match feeder.feed(&mut lines, run.run.fence, body).await {
            Ok(End::Body) => {
                feeder.end(&Why::Finished).await?;
                false
            }
            Ok(End::Terminal) => true,
            Ok(End::Stopped) => {
                feeder.end(&Why::Stopped).await?;
                true
            }
            Err(ServiceError::InvalidEvent(error)) => {
                let message = format!("The producer sent an event that cannot be stored: {error}");
                feeder.end(&Why::Failed { code: "invalid-event".into(), message }).await?;
                return Err(error.into());
            }
            Err(error) => return Err(error),
        };
        run.run = self.get(principal, thread, &id).await?;
        Ok(StreamedRun { run, early })
    }
}

enum End {
    /// The body ended without a terminal event.
    Body,
    /// The run's own terminal event came; the body may go on.
    Terminal,
    /// A stop was asked.
    Stopped,
}

struct Feeder<'a> {
    runs: &'a Runs,
    principal: &'a Principal,
    thread: &'a ThreadId,
    id: &'a RunId,
    /// The lease asked for, and the time between heartbeats that keeps it.
    lease: Option<Duration>,
    every: Duration,
}

impl Feeder<'_> {
    async fn end(&self, why: &Why) -> Result<(), ServiceError> {
        self.runs.end(Writer::Producer, self.principal, self.thread, self.id, why).await.map(drop)
    }

    async fn feed<E>(
        &self,
        lines: &mut Lines,
        fence: Fence,
        body: impl Stream<Item = Result<Bytes, E>>,
    ) -> Result<End, ServiceError> {
        let (found, _) = self.runs.find(Writer::Producer, self.principal, self.thread, self.id).await?;
        let topic = self.runs.context.hub.join(found.key);
        let mut changes = topic.watch();
        let mut body = std::pin::pin!(body);
        let mut beat = time::interval_at(Instant::now() + self.every, self.every);
        let patience = STREAM_IDLE_TIMEOUT.max(self.lease.unwrap_or_default());
        let mut idle = std::pin::pin!(time::sleep(patience));
        // Bytes have come since the last heartbeat.
        let mut heard = true;
        // In the middle of a stream nothing can be refused: who sends too much is read more slowly.
        let mut paused = None;
        loop {
            if changes.borrow_and_update().must_stop(fence) {
                return Ok(End::Stopped);
            }
            tokio::select! {
                () = time::sleep_until(paused.unwrap_or_else(Instant::now)), if paused.is_some() => {
                    paused = None;
                    idle.as_mut().reset(Instant::now() + patience);
                }
                chunk = body.next(), if paused.is_none() => {
                    if let Some(Ok(chunk)) = &chunk {
                        paused = self.runs.context.quota.pace(self.principal, 0, chunk.len());
                    }
                    heard = true;
                    idle.as_mut().reset(Instant::now() + patience);
                    let (taken, last) = match chunk {
                        Some(Ok(chunk)) => (lines.take_in(&chunk), false),
                        Some(Err(_)) => return Err(broken("broke off")),
                        None => (lines.finish(), true),
                    };
                    if let Some(end) = self.append(taken).await? {
                        return Ok(end);
                    }
                    if last {
                        return Ok(End::Body);
                    }
                }
                _ = beat.tick() => {
                    // Whoever is not read at the moment cannot be heard.
                    let lives = heard || paused.is_some() || self.lease.is_none();
                    match if lives { self.keep().await } else { self.look().await } {
                        // The lease goes on for as long as it has: there is time to try again.
                        Err(ServiceError::Store(error)) => {
                            tracing::debug!(%error, thread = %self.thread, run = %self.id, project = %self.principal.project, "a streamed run's heartbeat is tried again");
                            beat.reset_after(STREAM_RETRY);
                        }
                        done => {
                            done?;
                            heard = false;
                        }
                    }
                }
                _ = changes.changed() => {}
                () = idle.as_mut(), if paused.is_none() => return Err(broken("fell silent")),
                () = self.runs.context.draining.cancelled() => return Err(ServiceError::Draining),
            }
        }
    }

    /// Renews the lease.
    async fn keep(&self) -> Result<(), ServiceError> {
        self.runs.heartbeat(self.principal, self.thread, self.id, self.lease).await.map(drop)
    }

    /// Looks whether the run of a silent producer is still there.
    async fn look(&self) -> Result<(), ServiceError> {
        let run = self.runs.get(self.principal, self.thread, self.id).await?;
        if run.status.is_active() { Ok(()) } else { Err(ServiceError::RunFenced(Box::new(run))) }
    }

    /// A store that is away for a moment breaks no stream off: the numbers make it harmless to try again.
    async fn store(&self, producer_seq: u64, events: &NewEvents) -> Result<Receipt, ServiceError> {
        let deadline = Instant::now() + STREAM_PATIENCE;
        loop {
            let answer =
                self.runs.append(self.principal, self.thread, self.id, Some(producer_seq), events.clone()).await;
            match answer {
                Err(ServiceError::Store(error)) if Instant::now() + STREAM_RETRY < deadline => {
                    tracing::debug!(%error, thread = %self.thread, run = %self.id, project = %self.principal.project, "a streamed run's events are handed in again");
                }
                answer => return answer,
            }
            tokio::select! {
                () = time::sleep(STREAM_RETRY) => {}
                () = self.runs.context.draining.cancelled() => return Err(ServiceError::Draining),
            }
        }
    }

    /// Stores the good lines, then says what was wrong with the next one.
    async fn append(&self, taken: Taken) -> Result<Option<End>, ServiceError> {
        let mut end = None;
        if let Some((producer_seq, events)) = taken.events {
            let terminal = events.terminal().is_some();
            let receipt = match self.store(producer_seq, &events).await {
                // What the producer went on to say, not knowing of the stop: it learns of it now.
                Err(ServiceError::RunFenced(run)) if run.status == RunStatus::Stopped => {
                    return Ok(Some(End::Stopped));
                }
                receipt => receipt?,
            };
            end = match (terminal, receipt.stop_requested) {
                (true, _) => Some(End::Terminal),
                (false, true) => Some(End::Stopped),
                (false, false) => None,
            };
        }
        match (taken.error, &end) {
            // What follows the terminal event is not read, whether it comes in the same chunk or later.
            (_, Some(End::Terminal)) | (None, _) => Ok(end),
            (Some(error), _) => Err(error.into()),
        }
    }
}

fn broken(how: &str) -> ServiceError {
    ServiceError::InvalidRequest(format!(
        "the body {how}; send the same runId again before its lease runs out to go on with the run"
    ))
}

/// Cuts a stream of bytes into lines.
struct Lines {
    /// The beginning of a line whose end has not come.
    buffer: BytesMut,
    /// producer_seq of the next event.
    next: u64,
}

/// Whole lines: the good ones up to the first bad one.
#[derive(Default)]
struct Taken {
    events: Option<(u64, NewEvents)>,
    error: Option<EventError>,
}

impl Lines {
    /// The lines that are complete with this chunk.
    fn take_in(&mut self, chunk: &[u8]) -> Taken {
        let Some(end) = memrchr(b'\n', chunk) else {
            self.buffer.extend_from_slice(chunk);
            if self.buffer.len() > MAX_EVENT_BYTES {
                return Taken { events: None, error: Some(self.error(EventErrorKind::EventTooLarge)) };
            }
            return Taken::default();
        };
        self.buffer.extend_from_slice(&chunk[..end]);
        let whole = self.buffer.split();
        self.buffer.extend_from_slice(&chunk[end + 1..]);
        self.read(&whole)
    }

    /// What is left when the stream ends.
    fn finish(&mut self) -> Taken {
        let whole = self.buffer.split();
        self.read(&whole)
    }

    fn read(&mut self, lines: &[u8]) -> Taken {
        let first = self.next;
        let mut batch = BatchBuilder::default();
        let mut error = None;
        for line in lines.split(|byte| *byte == b'\n') {
            if let Err(bad) = batch.push_line(line) {
                error = Some(EventError { index: bad.index + first as usize - 1, ..bad });
                break;
            }
        }
        self.next += batch.count() as u64;
        // Only blank lines make no batch.
        let events = batch.finish().ok().map(|events| (first, events));
        Taken { events, error }
    }

    fn error(&self, kind: EventErrorKind) -> EventError {
        EventError { index: self.next as usize - 1, kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_chunks_are() {
        let text = b"{\"type\":\"A\"}\n\n{\"type\":\"B\"}\r\n{\"type\":\"C\"}";
        for cut in 0..text.len() {
            let mut lines = Lines { buffer: BytesMut::new(), next: 1 };
            let mut bodies = Vec::new();
            for taken in [lines.take_in(&text[..cut]), lines.take_in(&text[cut..]), lines.finish()] {
                assert_eq!(taken.error, None);
                if let Some((seq, events)) = taken.events {
                    assert_eq!(seq as usize, bodies.len() + 1);
                    bodies.extend(events.body().split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
                }
            }
            assert_eq!(bodies, [&b"{\"type\":\"A\"}"[..], b"{\"type\":\"B\"}", b"{\"type\":\"C\"}"], "cut at {cut}");
        }
    }

    #[test]
    fn the_good_lines_before_a_bad_one_are_kept() {
        let mut lines = Lines { buffer: BytesMut::new(), next: 5 };
        let taken = lines.take_in(b"{\"type\":\"A\"}\nnonsense\n{\"type\":\"C\"}\n");
        assert_eq!(taken.events.map(|(seq, events)| (seq, events.count())), Some((5, 1)));
        assert_eq!(taken.error.map(|error| error.index), Some(5));
    }
}
