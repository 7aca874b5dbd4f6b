//! The loop that writes a run: takes a source's chunks, appends their events in order, and keeps the run alive.
//!
//! One append is under way at a time. Events that arrive meanwhile are gathered for the next one, so batches follow the
//! pace of the store. Beyond [`WRITE_BUFFER_BYTES`] the source is read no further.

use std::{mem, pin::pin, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, future::OptionFuture};
use threadline_core::{
    EventError, Fence, NewEvents, RunStatus,
    event::BatchBuilder,
    limits::{BODY_ROOM_WAIT, QUOTA_RETRY, ROOM_LOOK, SMALL_PIECE_BYTES, WRITE_BUFFER_BYTES, WRITE_RETRY},
};
use tokio::time::{self, Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::{
    AppendError, AppendReceipt, HeartbeatError, limits::BudgetExceeded, runs::run_handle::RunHandle,
    subscription::TopicRef,
};

/// Reads events out of the chunks of a source.
pub trait ReadEvents {
    /// Adds the events that are complete with this chunk. Fails with the first one that is refused; the ones before it
    /// stay in the batch.
    fn chunk(&mut self, chunk: &[u8], batch: &mut BatchBuilder) -> Result<(), EventError>;

    /// Adds an event that only the end of the source completes. Fails like [`ReadEvents::chunk`].
    fn rest(&mut self, batch: &mut BatchBuilder) -> Result<(), EventError>;

    /// Takes memory for what was read so far. Without it the source is read no further, and fails after [`BODY_ROOM_WAIT`].
    fn room(&mut self) -> Result<(), BudgetExceeded> {
        Ok(())
    }
}

/// Policy for writing a run: everything in which producers differ.
#[derive(Debug, Clone)]
pub struct WritePolicy {
    /// Interval of the heartbeats.
    pub heartbeat: Duration,
    /// Lease that a heartbeat requests; the run's own if `None`.
    pub lease: Option<Duration>,
    /// Longest silence of the source, and its consequences; `None` if the source has timeouts of its own.
    pub silence: Option<Silence>,
    /// Time after the first failure of the store at which the writer stops and drops the events.
    pub store_timeout: Duration,
    /// Course of a source that sends events which may be stored already.
    pub resent: Resent,
    /// Cancelled at the shutdown of the node.
    pub leaving: CancellationToken,
}

/// Limits of a source that is a client of this server.
#[derive(Debug, Clone, Copy)]
pub struct Silence {
    /// Silence after which the writer stops reading the source.
    pub timeout: Duration,
    /// Lease of a source that is silent.
    pub lease: SilentLease,
}

/// Lease of a run whose source is silent but connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SilentLease {
    /// The lease is renewed.
    Renewed,
    /// The lease expires, because the producer asked for it by its length.
    Expires,
}

/// Events of a source that may be in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resent {
    /// The source sends each event once: the end of the run ends the writer.
    Never,
    /// The source may send stored events again, also those of a run that has ended: the store decides which are new.
    Possible,
}

/// Reason why a writer stopped. After `SourceEnded`, `Terminal`, `SourceFailed` and `InvalidEvent` every event that was
/// read before is stored. After the others, events that were gathered are dropped, and an append may be under way.
#[derive(Debug)]
pub enum WriteExit<E> {
    /// The source ended without a terminal event.
    SourceEnded,
    /// The run's own terminal event is stored; the source may continue.
    Terminal,
    /// A stop was requested.
    Stopped,
    /// The run has ended without the writer, has another driver, or its thread was deleted.
    Ended,
    /// The source failed, with its error.
    SourceFailed(E),
    /// The source sent an event that cannot be stored. Its index counts from the run's first event.
    InvalidEvent(EventError),
    /// The source was silent for too long.
    Silent,
    /// The node shuts down.
    Leaving,
    /// The store has lost events that it had acknowledged.
    HistoryLost {
        /// producer_seq of the first event that is missing.
        expected: u64,
    },
    /// An append or a heartbeat was refused, or the store failed for too long.
    Refused(AppendError),
}

/// Writer of one run.
pub struct RunWriter {
    run: RunHandle,
    topic: TopicRef,
    fence: Fence,
    /// producer_seq of the first event that is not handed to the store.
    next: u64,
    /// producer_seq of the first event that the store has not acknowledged.
    unacknowledged: u64,
    policy: WritePolicy,
}

impl RunWriter {
    pub(crate) fn new(run: RunHandle, topic: TopicRef, fence: Fence, next: u64, policy: WritePolicy) -> Self {
        Self { run, topic, fence, next, unacknowledged: next, policy }
    }

    /// Writes the source's events until the source or the run ends. Does not end the run.
    pub async fn drive<E>(
        mut self,
        source: impl Stream<Item = Result<Bytes, E>>,
        reader: &mut impl ReadEvents,
    ) -> WriteExit<E> {
        let mut source = pin!(source);
        let mut changes = self.topic.watch();
        let mut batch = BatchBuilder::default();
        let mut append = pin!(OptionFuture::from(None));
        let mut appending = false;
        // Exit that waits until everything read is stored.
        let mut last: Option<WriteExit<E>> = None;
        let mut beat = time::interval_at(Instant::now() + self.policy.heartbeat, self.policy.heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let patience = self.policy.silence.map(|silence| silence.timeout);
        let mut silence = pin!(time::sleep(patience.unwrap_or_default()));
        // True if the source has sent something since the last heartbeat.
        let mut heard = true;
        let mut paused: Option<Instant> = None;
        let mut waits_for_room: Option<Instant> = None;
        loop {
            {
                let state = changes.borrow_and_update();
                // Events that are gathered are dropped: the client that requested the stop has received enough.
                if state.stop_requested(self.fence) {
                    return WriteExit::Stopped;
                }
                let fence = self.run.writer.fences(self.fence);
                if self.policy.resent == Resent::Never && (state.has_ended(self.fence) || state.is_displaced(fence)) {
                    return WriteExit::Ended;
                }
            }
            if last.is_none() && paused.is_none() {
                let room = reader.room();
                let now = Instant::now();
                let since = room.is_err().then(|| *waits_for_room.get_or_insert(now));
                (waits_for_room, paused) = (since, since.map(|_| now + ROOM_LOOK));
                if let (Err(full), Some(since)) = (room, since)
                    && now - since >= BODY_ROOM_WAIT
                {
                    let limited = self.run.runs.deps.quota.refuse(full.limit, full.value as u64, QUOTA_RETRY);
                    last = Some(WriteExit::Refused(limited.into()));
                }
            }
            if !appending {
                if let Ok(events) = mem::take(&mut batch).finish() {
                    let first = self.next;
                    self.next += events.count() as u64;
                    append.set(Some(store(&self.run, first, events, self.policy.store_timeout)).into());
                    appending = true;
                } else if let Some(exit) = last.take() {
                    return exit;
                }
            }
            let reading = last.is_none() && paused.is_none() && batch.len() < WRITE_BUFFER_BYTES;
            tokio::select! {
                () = time::sleep_until(paused.unwrap_or_else(Instant::now)), if paused.is_some() => {
                    paused = None;
                    silence.as_mut().reset(Instant::now() + patience.unwrap_or_default());
                }
                chunk = source.next(), if reading => {
                    heard = true;
                    silence.as_mut().reset(Instant::now() + patience.unwrap_or_default());
                    if let Some(Ok(chunk)) = &chunk {
                        paused = self.pace(chunk.len().max(SMALL_PIECE_BYTES));
                    }
                    last = self.take(chunk, reader, &mut batch);
                }
                Some((terminal, result)) = append.as_mut(), if appending => {
                    append.set(None.into());
                    appending = false;
                    silence.as_mut().reset(Instant::now() + patience.unwrap_or_default());
                    if let Ok(receipt) = &result {
                        self.unacknowledged = receipt.producer_seq + 1;
                    }
                    if let Some(exit) = self.stored(terminal, result) {
                        return exit;
                    }
                }
                _ = beat.tick() => {
                    // A source that is not being read cannot show activity.
                    let alive = heard || !reading || self.policy.renews_in_silence();
                    let result = if alive { self.run.heartbeat(self.policy.lease).await } else { self.run.active().await };
                    match result {
                        Ok(_) => heard = false,
                        // The lease still runs, so there is time to retry.
                        Err(HeartbeatError::Store(error)) => {
                            tracing::debug!(%error, thread = %self.run.thread, run = %self.run.run, project = %self.run.principal.project, "cannot renew the lease of a run; retrying");
                            beat.reset_after(WRITE_RETRY);
                        }
                        Err(error) => return WriteExit::Refused(error.into()),
                    }
                }
                changed = changes.changed() => if changed.is_err() {
                    return WriteExit::Ended;
                },
                () = silence.as_mut(), if reading && patience.is_some() => return WriteExit::Silent,
                () = self.policy.leaving.cancelled() => return WriteExit::Leaving,
            }
        }
    }

    /// Charges a client's input. A stream cannot be refused midway: a client that sends too much is read more slowly.
    fn pace(&self, bytes: usize) -> Option<Instant> {
        self.policy.silence.and_then(|_| self.run.runs.deps.quota.pace(&self.run.principal, 0, bytes))
    }

    /// Adds the chunk's events to the batch. Returns the exit that follows once they are stored.
    fn take<E>(
        &self,
        chunk: Option<Result<Bytes, E>>,
        reader: &mut impl ReadEvents,
        batch: &mut BatchBuilder,
    ) -> Option<WriteExit<E>> {
        let (read, end) = match chunk {
            Some(Ok(chunk)) => (reader.chunk(&chunk, batch), None),
            Some(Err(error)) => return Some(WriteExit::SourceFailed(error)),
            None => (reader.rest(batch), Some(WriteExit::SourceEnded)),
        };
        match read {
            // Events after the terminal one are not read, in the same chunk or a later one.
            _ if batch.is_terminal() => Some(WriteExit::Terminal),
            Ok(()) => end,
            Err(EventError { index, kind }) => {
                Some(WriteExit::InvalidEvent(EventError { index: index + self.next as usize - 1, kind }))
            }
        }
    }

    /// Exit that follows from the result of an append.
    fn stored<E>(&self, terminal: bool, result: Result<AppendReceipt, AppendError>) -> Option<WriteExit<E>> {
        match result {
            Ok(_) if terminal => Some(WriteExit::Terminal),
            Ok(receipt) if receipt.stop_requested => Some(WriteExit::Stopped),
            Ok(receipt) if receipt.lease_until.is_none() && self.policy.resent == Resent::Never => {
                Some(WriteExit::Ended)
            }
            Ok(_) => None,
            Err(AppendError::ProducerSeqGap { expected }) if expected < self.unacknowledged => {
                Some(WriteExit::HistoryLost { expected })
            }
            // Events that the producer sent before it knew of the stop.
            Err(AppendError::RunFenced(run)) if run.status == RunStatus::Stopped => Some(WriteExit::Stopped),
            Err(error) => Some(WriteExit::Refused(error)),
        }
    }
}

impl WritePolicy {
    fn renews_in_silence(&self) -> bool {
        self.silence.is_none_or(|silence| silence.lease == SilentLease::Renewed)
    }
}

/// Appends a batch; true if it ends the run. Retries while the store fails, until the timeout: the effect of a failed
/// append is unknown, and the same numbers with the same bytes may be sent again.
async fn store(
    run: &RunHandle,
    first: u64,
    events: NewEvents,
    timeout: Duration,
) -> (bool, Result<AppendReceipt, AppendError>) {
    let mut failing: Option<Instant> = None;
    let terminal = events.terminal().is_some();
    loop {
        let error = match run.append(first, events.clone()).await {
            Err(AppendError::Store(error)) => error,
            result => return (terminal, result),
        };
        if failing.get_or_insert_with(Instant::now).elapsed() + WRITE_RETRY > timeout {
            return (terminal, Err(error.into()));
        }
        tracing::debug!(%error, thread = %run.thread, run = %run.run, project = %run.principal.project, "cannot append the events of a run; retrying");
        time::sleep(WRITE_RETRY).await;
    }
}
