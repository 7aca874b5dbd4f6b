//! A run as one stream of lines: started, appended, kept alive and finished on behalf of its producer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use memchr::memrchr;
use threadline_core::{
    EventError, EventErrorKind, Fence, NewEvents, Principal, RunId, RunStatus, ThreadId,
    event::BatchBuilder,
    limits::{MAX_EVENT_BYTES, STREAM_IDLE_TIMEOUT, STREAM_RETRY, STREAM_STORE_TIMEOUT},
    lines,
};
use tokio::time::{self, Instant};

use crate::{
    AppendReceipt, ServiceError,
    commit::receipt::check_producer_seq,
    runs::{
        Runs,
        close::CloseReason,
        start::{StartRequest, StartedRun},
        writer::Writer,
    },
};

/// Result of a streamed run on this connection.
#[derive(Debug)]
pub struct StreamedRun {
    /// The run after the stream.
    pub run: StartedRun,
    /// True if the body was not read to its end: the answer may precede the end of the body.
    pub early: bool,
}

impl Runs {
    /// Starts a run and appends its events, one a line; blank lines are heartbeats. The end of the stream finishes the
    /// run. `producer_seq` belongs to the first line, for a producer that continues after a broken stream; lines that
    /// are already stored are skipped.
    ///
    /// The lease is renewed while bytes arrive: a producer that requested a lease and sends nothing for longer loses
    /// its run, even if its connection is open. Without a requested lease an open connection keeps the run for
    /// [`STREAM_IDLE_TIMEOUT`].
    ///
    /// A stop requested meanwhile ends the run at once. A broken stream (`Err`) leaves the run to its lease: the
    /// producer may reconnect with the same run id. An invalid line ends the run with RUN_ERROR.
    pub async fn stream<E>(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        start: StartRequest,
        producer_seq: u64,
        body: impl Stream<Item = Result<Bytes, E>>,
    ) -> Result<StreamedRun, ServiceError> {
        check_producer_seq(producer_seq)?;
        if producer_seq > 1 {
            // Only an existing run can continue: a new one would hold the thread and lack its first events.
            let Some(id) = &start.run else {
                return Err(ServiceError::InvalidRequest(
                    "producerSeq requires the runId of the run to continue".into(),
                ));
            };
            self.get(principal, thread, id).await?;
        }
        let lease = start.lease;
        let every = self.beat(lease);
        let mut run = self.start(principal, thread, start).await?;
        let id = run.run.id.clone();
        let mut lines = Lines { buffer: BytesMut::new(), next: producer_seq };
        let feeder = Feeder { runs: self, principal, thread, id: &id, lease, every };
        let early = match feeder.feed(&mut lines, run.run.fence, body).await {
            Ok(End::Body) => {
                feeder.end(&CloseReason::Finished).await?;
                false
            }
            Ok(End::Terminal) => true,
            Ok(End::Stopped) => {
                feeder.end(&CloseReason::Stopped).await?;
                true
            }
            Err(ServiceError::InvalidEvent(error)) => {
                let message = format!("The producer sent an invalid event: {error}");
                feeder.end(&CloseReason::Failed { code: "invalid-event".into(), message }).await?;
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
    /// The run's own terminal event arrived; the body may continue.
    Terminal,
    /// A stop was requested.
    Stopped,
}

struct Feeder<'a> {
    runs: &'a Runs,
    principal: &'a Principal,
    thread: &'a ThreadId,
    id: &'a RunId,
    /// Requested lease, and the interval of heartbeats that keeps it.
    lease: Option<Duration>,
    every: Duration,
}

impl Feeder<'_> {
    async fn end(&self, reason: &CloseReason) -> Result<(), ServiceError> {
        self.runs.end(Writer::Producer, self.principal, self.thread, self.id, reason).await.map(drop)
    }

    async fn feed<E>(
        &self,
        lines: &mut Lines,
        fence: Fence,
        body: impl Stream<Item = Result<Bytes, E>>,
    ) -> Result<End, ServiceError> {
        let (found, _) = self.runs.find(Writer::Producer, self.principal, self.thread, self.id).await?;
        let topic = self.runs.deps.hub.join(found.key);
        let mut changes = topic.watch();
        let mut body = std::pin::pin!(body);
        let mut beat = time::interval_at(Instant::now() + self.every, self.every);
        let patience = STREAM_IDLE_TIMEOUT.max(self.lease.unwrap_or_default());
        let mut idle = std::pin::pin!(time::sleep(patience));
        // True if bytes arrived since the last heartbeat.
        let mut heard = true;
        // A stream cannot be refused midway: a client that sends too much is read more slowly.
        let mut paused = None;
        loop {
            if changes.borrow_and_update().stop_requested(fence) {
                return Ok(End::Stopped);
            }
            tokio::select! {
                () = time::sleep_until(paused.unwrap_or_else(Instant::now)), if paused.is_some() => {
                    paused = None;
                    idle.as_mut().reset(Instant::now() + patience);
                }
                chunk = body.next(), if paused.is_none() => {
                    if let Some(Ok(chunk)) = &chunk {
                        paused = self.runs.deps.quota.pace(self.principal, 0, chunk.len());
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
                    // A client whose body is not being read cannot show activity.
                    let lives = heard || paused.is_some() || self.lease.is_none();
                    match if lives { self.keep().await } else { self.look().await } {
                        // The lease still runs, so there is time to retry.
                        Err(ServiceError::Store(error)) => {
                            tracing::debug!(%error, thread = %self.thread, run = %self.id, project = %self.principal.project, "cannot renew the lease of a streamed run; retrying");
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
                () = self.runs.deps.lifecycle.draining.cancelled() => return Err(ServiceError::Draining),
            }
        }
    }

    /// Renews the run's lease, with the length that was requested.
    async fn keep(&self) -> Result<(), ServiceError> {
        self.runs.heartbeat(self.principal, self.thread, self.id, self.lease).await.map(drop)
    }

    /// Checks that the run of an inactive producer still exists and is active.
    async fn look(&self) -> Result<(), ServiceError> {
        let run = self.runs.get(self.principal, self.thread, self.id).await?;
        if run.status.is_active() { Ok(()) } else { Err(ServiceError::RunFenced(Box::new(run))) }
    }

    /// Appends with retries: a short failure of the store does not break the stream, and the producer_seq makes a retry
    /// harmless.
    async fn store(&self, producer_seq: u64, events: &NewEvents) -> Result<AppendReceipt, ServiceError> {
        let deadline = Instant::now() + STREAM_STORE_TIMEOUT;
        loop {
            let answer =
                self.runs.append(self.principal, self.thread, self.id, Some(producer_seq), events.clone()).await;
            match answer {
                Err(ServiceError::Store(error)) if Instant::now() + STREAM_RETRY < deadline => {
                    tracing::debug!(%error, thread = %self.thread, run = %self.id, project = %self.principal.project, "cannot append the events of a streamed run; retrying");
                }
                answer => return answer,
            }
            tokio::select! {
                () = time::sleep(STREAM_RETRY) => {}
                () = self.runs.deps.lifecycle.draining.cancelled() => return Err(ServiceError::Draining),
            }
        }
    }

    /// Stores the valid lines, then returns the error of the next one.
    async fn append(&self, taken: Taken) -> Result<Option<End>, ServiceError> {
        let mut end = None;
        if let Some((producer_seq, events)) = taken.events {
            let terminal = events.terminal().is_some();
            let receipt = match self.store(producer_seq, &events).await {
                // Events that the producer sent before it knew of the stop: the answer reports the stop.
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
            // Lines after the terminal event are not read, in the same chunk or a later one.
            (_, Some(End::Terminal)) | (None, _) => Ok(end),
            (Some(error), _) => Err(error.into()),
        }
    }
}

fn broken(how: &str) -> ServiceError {
    ServiceError::InvalidRequest(format!(
        "the body {how}; send the same runId again before its lease expires to continue the run"
    ))
}

/// Splits a stream of bytes into lines.
struct Lines {
    /// Start of a line whose end has not arrived.
    buffer: BytesMut,
    /// producer_seq of the next event.
    next: u64,
}

/// Complete lines: the valid ones up to the first invalid one.
#[derive(Default)]
struct Taken {
    events: Option<(u64, NewEvents)>,
    error: Option<EventError>,
}

impl Lines {
    /// Lines completed by this chunk.
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

    /// Rest of the buffer at the end of the stream.
    fn finish(&mut self) -> Taken {
        let whole = self.buffer.split();
        self.read(&whole)
    }

    fn read(&mut self, text: &[u8]) -> Taken {
        let first = self.next;
        let mut batch = BatchBuilder::default();
        let mut error = None;
        for line in lines(text) {
            if let Err(bad) = batch.push_line(line) {
                error = Some(EventError { index: bad.index + first as usize - 1, ..bad });
                break;
            }
        }
        self.next += batch.count() as u64;
        // A batch without events results only from blank lines.
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
