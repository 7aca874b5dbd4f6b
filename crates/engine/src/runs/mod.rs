//! Use cases of runs: start, append, heartbeat, end.

pub(crate) mod advance;
mod answers;
pub(crate) mod close;
pub(crate) mod driving;
pub(crate) mod heartbeats;
pub(crate) mod lock_guard;
mod look;
pub(crate) mod ndjson;
mod queue;
pub(crate) mod queued_turn;
mod quota;
pub(crate) mod reaper;
pub(crate) mod run_handle;
pub(crate) mod run_writer;
pub(crate) mod start;
pub(crate) mod submit;
pub(crate) mod takeover;
pub(crate) mod thread_watch;
pub(crate) mod turns;
pub(crate) mod writer;

use std::{sync::Arc, time::Duration};

use threadline_core::{
    NewEvents, Principal, Run, RunId, WriteFence,
    limits::{MAX_LEASE, MIN_LEASE, STREAM_HEARTBEAT},
};
use threadline_store::{DynStore, HeartbeatRequest, StopOutcome};
use tokio::sync::oneshot;

use crate::{
    AppendError, EndRunError, FinishError, HeartbeatError, StopError,
    after_commit::Listeners,
    authority,
    commit::{
        committer::Committer,
        receipt::{AppendReceipt, check_producer_seq},
        requests::{CommitReply, Request},
    },
    directory::{Attempt, Directory},
    lifecycle::Lifecycle,
    limits::{Quota, StoredBytes},
    metrics::Metrics,
    records::{RunAt, ThreadAt, ThreadRef},
    runs::{
        advance::Queues,
        close::{CloseReason, Closer},
        heartbeats::Heartbeats,
        lock_guard::LockGuard,
        turns::Turns,
        writer::Writer,
    },
    subscription::{Hub, ReplacedLog, TopicState},
    upkeep::feed_writer::FeedWriter,
};

/// Append that is queued; [`PendingAppend::receipt`] waits for the receipt.
#[derive(Debug)]
pub struct PendingAppend {
    receipt: oneshot::Receiver<Result<AppendReceipt, AppendError>>,
}

impl PendingAppend {
    /// Waits until the events are durable. Dropping the future does not cancel the append.
    pub async fn receipt(self) -> Result<AppendReceipt, AppendError> {
        self.receipt.await.unwrap_or(Err(AppendError::Draining))
    }
}

/// Use cases of runs.
#[derive(Clone)]
pub struct Runs {
    pub(crate) deps: Arc<RunDeps>,
}

/// Dependencies of [`Runs`], shared by its clones.
pub(crate) struct RunDeps {
    pub store: DynStore,
    pub directory: Directory,
    pub committer: Committer,
    pub heartbeats: Heartbeats,
    pub closer: Closer,
    pub lock_guard: Arc<LockGuard>,
    pub turns: Arc<Turns>,
    pub queues: Arc<Queues>,
    pub feed_writer: Arc<FeedWriter>,
    pub hub: Arc<Hub>,
    pub quota: Quota,
    pub stored: StoredBytes,
    pub metrics: Metrics,
    pub listeners: Listeners,
    pub lifecycle: Lifecycle,
    /// Lease of a run whose producer requests none.
    pub lease: Duration,
}

impl Runs {
    /// Interval of the heartbeats that keep a run with this lease: at most a third of it.
    pub fn beat(&self, lease: Option<Duration>) -> Duration {
        STREAM_HEARTBEAT.min(self.lease(lease) / 3)
    }

    /// Lease of a run whose producer asks for this one; the node's default if it asks for none.
    pub(crate) fn lease(&self, asked: Option<Duration>) -> Duration {
        asked.unwrap_or(self.deps.lease).clamp(MIN_LEASE, MAX_LEASE)
    }

    /// Queues events of a run. Appends are committed in the order of the calls.
    pub async fn submit(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
        run: impl Into<RunAt<'_>>,
        producer_seq: Option<u64>,
        events: NewEvents,
    ) -> Result<PendingAppend, AppendError> {
        let run = run.into();
        self.submit_by(Writer::Producer(run.attempt), principal, thread.into(), run.id, producer_seq, events).await
    }

    pub(crate) async fn submit_by(
        &self,
        writer: Writer,
        principal: &Principal,
        at: ThreadAt<'_>,
        run: &RunId,
        producer_seq: Option<u64>,
        events: NewEvents,
    ) -> Result<PendingAppend, AppendError> {
        producer_seq.map_or(Ok(()), check_producer_seq)?;
        if let Writer::Producer(_) = writer {
            authority::may_produce(principal, Some(&events))?;
        }
        let (thread, fence) = self.find(writer, principal, at, run).await?;
        // A run of the server goes on to its end, within its own limits.
        if let Writer::Producer(_) = writer {
            self.check_answers(principal, thread.key, run, &events, false).await?;
            self.check_append(principal, &thread, run, producer_seq, &events).await?;
        }
        let (reply, receipt) = oneshot::channel();
        let reply = CommitReply::one(reply);
        let request = Request { thread, run: run.clone(), fence, epoch: at.epoch, producer_seq, events, reply };
        self.deps.committer.submit(request).await?;
        Ok(PendingAppend { receipt })
    }

    /// Appends events of a run, and returns once they are durable.
    pub async fn append(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
        run: impl Into<RunAt<'_>>,
        producer_seq: Option<u64>,
        events: NewEvents,
    ) -> Result<AppendReceipt, AppendError> {
        self.submit(principal, thread, run, producer_seq, events).await?.receipt().await
    }

    /// Extends the run's lease, and sets the lease's length if given.
    pub async fn heartbeat(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
        run: impl Into<RunAt<'_>>,
        lease: Option<Duration>,
    ) -> Result<Run, HeartbeatError> {
        let run = run.into();
        self.heartbeat_by(Writer::Producer(run.attempt), principal, thread.into(), run.id, lease).await
    }

    pub(crate) async fn heartbeat_by(
        &self,
        writer: Writer,
        principal: &Principal,
        at: ThreadAt<'_>,
        run: &RunId,
        lease: Option<Duration>,
    ) -> Result<Run, HeartbeatError> {
        let lease = lease.map(|lease| lease.clamp(MIN_LEASE, MAX_LEASE));
        let beat = move |thread: Arc<ThreadRef>, fence: WriteFence| async move {
            let beat = HeartbeatRequest { key: thread.key, fence, lease, epoch: at.epoch };
            let alive = self.deps.heartbeats.beat(beat).await?;
            if alive.is_none() && at.epoch.is_some() {
                self.deps.directory.head_at::<HeartbeatError>(thread.key, at.epoch).await?;
            }
            match self.deps.store.run(thread.key, run).await? {
                Some(now) if alive.is_some() => Ok(Attempt::Done(now)),
                Some(now) if writer.is_displaced(&now) || !now.status.is_active() => {
                    Err(HeartbeatError::RunFenced(Box::new(now)))
                }
                _ => Ok(Attempt::ThreadGone),
            }
        };
        self.with_run(writer, principal, at, run, beat).await
    }

    /// Ends the run for its producer: closes open parts, then appends RUN_FINISHED. A run that has ended is returned as
    /// it ended. `producer_seq` is the number of events that the producer knows to be stored, 0 if it does not say: a run
    /// that has fewer does not end.
    pub async fn finish(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
        run: impl Into<RunAt<'_>>,
        producer_seq: u64,
    ) -> Result<Run, FinishError> {
        let (reason, run) = (CloseReason::Finished { producer_seq }, run.into());
        let run = self.end(Writer::Producer(run.attempt), principal, thread.into(), run.id, &reason).await?;
        if run.status.is_active() {
            return Err(FinishError::ProducerSeqGap { expected: run.producer_seq + 1 });
        }
        Ok(run)
    }

    /// Fails the run for its producer: closes open parts, then appends RUN_ERROR. A run that has ended is returned as
    /// it ended.
    pub async fn fail(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
        run: impl Into<RunAt<'_>>,
        code: Option<String>,
        message: Option<String>,
    ) -> Result<Run, EndRunError> {
        let (reason, run) = (CloseReason::failed(code, message), run.into());
        self.end(Writer::Producer(run.attempt), principal, thread.into(), run.id, &reason).await
    }

    pub(crate) async fn end(
        &self,
        writer: Writer,
        principal: &Principal,
        at: ThreadAt<'_>,
        run: &RunId,
        reason: &CloseReason,
    ) -> Result<Run, EndRunError> {
        let close = move |thread: Arc<ThreadRef>, fence: WriteFence| async move {
            let closed = self.deps.closer.close(&thread, run, fence, at.epoch, reason).await?;
            if closed.is_none() && at.epoch.is_some() {
                self.deps.directory.head_at::<EndRunError>(thread.key, at.epoch).await?;
            }
            match closed {
                Some(run) if writer.is_displaced(&run) => Err(EndRunError::RunFenced(Box::new(run))),
                closed => Ok(closed.into()),
            }
        };
        self.with_run(writer, principal, at, run, close).await
    }

    /// Requests a stop of the run; its producer has [`threadline_core::limits::STOP_GRACE`] to end it. Turns that are queued
    /// rest then.
    pub async fn stop(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
        run: &RunId,
    ) -> Result<Run, StopError> {
        self.request_stop(principal, thread.into(), run, true).await
    }

    /// [`Runs::stop`] of this run alone: queued turns go on.
    pub async fn stop_one(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
        run: &RunId,
    ) -> Result<Run, StopError> {
        self.request_stop(principal, thread.into(), run, false).await
    }

    /// [`Runs::stop`], after which queued turns rest only if it `holds` them.
    pub(crate) async fn request_stop(
        &self,
        principal: &Principal,
        at: ThreadAt<'_>,
        run: &RunId,
        holds: bool,
    ) -> Result<Run, StopError> {
        let request = move |thread: Arc<ThreadRef>| async move {
            match self.deps.store.request_stop(thread.key, run, at.epoch, holds).await? {
                StopOutcome::Asked(run, head) => {
                    self.deps.listeners.topic_changed(thread.key, &TopicState::committed(&head));
                    self.deps.feed_writer.mark(&thread.project, &thread.user);
                    Ok(Attempt::Done(run))
                }
                StopOutcome::Ended(run) => Ok(Attempt::Done(run)),
                StopOutcome::NoRun => Err(StopError::RunNotFound),
                StopOutcome::OtherEpoch(head) => {
                    ReplacedLog::refuse(at.epoch, &head).map_err(StopError::LogReplaced)?;
                    Ok(Attempt::ThreadGone)
                }
                StopOutcome::Gone => Ok(Attempt::ThreadGone),
            }
        };
        self.deps.directory.with_thread(principal, at.id, request).await
    }

    /// Releases the run's lock before its last events: the run may append until its terminal event or the next start. Only for
    /// the first attempt at a run.
    pub async fn release(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
        run: &RunId,
    ) -> Result<Run, EndRunError> {
        let (at, first) = (thread.into(), Writer::FIRST);
        let release = move |thread: Arc<ThreadRef>, fence: WriteFence| async move {
            let released = self.deps.store.release(thread.key, fence.run, at.epoch).await?;
            if !released && at.epoch.is_some() {
                self.deps.directory.head_at::<EndRunError>(thread.key, at.epoch).await?;
            }
            match self.deps.store.run(thread.key, run).await? {
                Some(now) if released || !now.status.is_active() => {
                    self.deps.feed_writer.mark(&thread.project, &thread.user);
                    Ok(Attempt::Done(now))
                }
                Some(now) if first.is_displaced(&now) => Err(EndRunError::RunFenced(Box::new(now))),
                _ => Ok(Attempt::ThreadGone),
            }
        };
        self.with_run(first, principal, at, run, release).await
    }
}
