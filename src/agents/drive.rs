//! Driver of an agent's run: appends the agent's events, in batches that follow the pace of the store, until the run
//! has ended.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture};
use tokio::time::{self, Instant};
use tokio_util::sync::CancellationToken;

use super::source::{AgentFailure, EventStream};
use crate::{
    domain::{
        Fence, NewEvents,
        event::BatchBuilder,
        json,
        limits::{AGENT_BUFFER_BYTES, AGENT_RETRY},
    },
    service::{AppendReceipt, DriveRight, ServiceError},
    subscription::TopicRef,
};

/// Reason why the driver stopped.
#[derive(Debug)]
enum End {
    /// The agent's own terminal event is in the log.
    Terminal,
    /// A client has requested a stop.
    Stopped,
    /// Failure of the agent.
    Failed(AgentFailure),
    /// The run has ended without the driver, or its thread was deleted.
    Over,
    /// Another producer has appended to the run, so that the agent's next events do not fit.
    Displaced,
    /// The store has accepted no append until the timeout.
    Refused,
    /// Shutdown of the node.
    Leaving,
}

/// One run of one agent.
pub(super) struct Drive {
    pub right: DriveRight,
    pub fence: Fence,
    /// producer_seq of the next event.
    pub next: u64,
    /// Interval between two heartbeats.
    pub beat: Duration,
    /// Timeout for events that wait for the store.
    pub store_timeout: Duration,
    /// Cancelled at the shutdown of the node.
    pub leaving: CancellationToken,
}

/// An append under way. The future returns the batch with the result, because the batch may have to be sent again.
type InFlight = BoxFuture<'static, (u64, NewEvents, Result<AppendReceipt, ServiceError>)>;

impl Drive {
    /// Drives the run to its end, and records in the log how it ended.
    pub async fn run(mut self, stream: EventStream, topic: TopicRef) {
        let end = self.feed(stream, &topic).await;
        tracing::debug!(?end, "an agent's run has ended");
        match end {
            End::Terminal | End::Over => {}
            // A run with a requested stop ends as `stopped`, no matter which node or client ends it.
            End::Stopped => self.conclude(None).await,
            End::Failed(failure) => self.conclude(Some((failure.code(), failure.to_string()))).await,
            End::Displaced => {
                let message = "Events of another producer were appended to the agent's run.".to_owned();
                self.conclude(Some(("agent-displaced", message))).await;
            }
            End::Refused => {
                let message = "The server could not store the agent's events.".to_owned();
                self.conclude(Some(("store-unavailable", message))).await;
            }
            End::Leaving => {
                let message = "The server that ran the agent shut down.".to_owned();
                self.conclude(Some(("server-stopped", message))).await;
            }
        }
    }

    /// Ends the run in the log. If the store is unavailable, the run's lease expires and the reaper ends it.
    async fn conclude(&self, error: Option<(&str, String)>) {
        for _ in 0..10 {
            let result = match &error {
                None => self.right.finish().await,
                Some((code, message)) => self.right.fail((*code).to_owned(), message.clone()).await,
            };
            match result {
                Err(error @ ServiceError::Store(_)) => {
                    tracing::warn!(%error, "cannot end an agent's run; retrying");
                    time::sleep(AGENT_RETRY).await;
                }
                _ => return,
            }
        }
    }

    async fn feed(&mut self, mut stream: EventStream, topic: &TopicRef) -> End {
        let mut changes = topic.watch();
        let mut batch = BatchBuilder::default();
        let mut inflight: Option<InFlight> = None;
        // Start of the current failure of the store.
        let mut refused: Option<Instant> = None;
        // Set once the agent has sent its last event.
        let mut said: Option<End> = None;
        let mut beat = time::interval_at(Instant::now() + self.beat, self.beat);
        beat.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            {
                let state = changes.borrow_and_update();
                if state.has_ended(self.fence) {
                    return End::Over;
                }
                // Buffered events are dropped: the client that requested the stop has received enough.
                if state.stop_requested(self.fence) {
                    return End::Stopped;
                }
            }
            if inflight.is_none() && !batch.is_empty() {
                match std::mem::take(&mut batch).finish() {
                    Ok(events) => inflight = Some(self.append(events)),
                    Err(error) => return End::Failed(AgentFailure::InvalidEvent(error.to_string())),
                }
            }
            if inflight.is_none()
                && let Some(end) = said.take()
            {
                return end;
            }
            // Backpressure: with a full buffer the agent's connection is not read.
            let room = said.is_none() && batch.len() < AGENT_BUFFER_BYTES;
            tokio::select! {
                event = stream.next(), if room => match event {
                    Some(Ok(event)) => match take(&mut batch, &event) {
                        Ok(terminal) => said = terminal.then_some(End::Terminal),
                        Err(failure) => said = Some(End::Failed(failure)),
                    },
                    Some(Err(failure)) => said = Some(End::Failed(failure)),
                    None => said = Some(End::Failed(AgentFailure::Incomplete)),
                },
                (first, events, result) = pending(&mut inflight) => {
                    inflight = None;
                    match result {
                        Ok(receipt) => {
                            refused = None;
                            self.next = receipt.producer_seq + 1;
                            if receipt.lease_until.is_none() {
                                return End::Terminal;
                            }
                        }
                        // The effect is unknown; the same numbers with the same bytes may be sent again.
                        Err(ServiceError::Store(error)) => {
                            tracing::warn!(%error, "cannot append an agent's events; retrying");
                            if refused.get_or_insert_with(Instant::now).elapsed() >= self.store_timeout {
                                return End::Refused;
                            }
                            time::sleep(AGENT_RETRY).await;
                            self.next = first;
                            inflight = Some(self.append(events));
                        }
                        Err(ServiceError::ProducerSeqConflict { .. } | ServiceError::ProducerSeqGap { .. }) => {
                            return End::Displaced;
                        }
                        Err(_) => return End::Over,
                    }
                }
                _ = beat.tick() => {
                    match self.right.heartbeat(None).await {
                        Ok(_) => {}
                        Err(ServiceError::Store(_)) => beat.reset_after(AGENT_RETRY),
                        Err(_) => return End::Over,
                    }
                }
                changed = changes.changed() => if changed.is_err() {
                    return End::Over;
                },
                () = self.leaving.cancelled() => return End::Leaving,
            }
        }
    }

    fn append(&self, events: NewEvents) -> InFlight {
        let (right, first) = (self.right.clone(), self.next);
        Box::pin(async move {
            let result = right.append(first, events.clone()).await;
            (first, events, result)
        })
    }
}

async fn pending(inflight: &mut Option<InFlight>) -> (u64, NewEvents, Result<AppendReceipt, ServiceError>) {
    match inflight {
        Some(append) => append.await,
        None => std::future::pending().await,
    }
}

/// Adds an event to the batch; true if it ends the run. RUN_STARTED is skipped: the run already has one, with the
/// messages that the agent received, and clients refuse a second one.
fn take(batch: &mut BatchBuilder, event: &Bytes) -> Result<bool, AgentFailure> {
    let kind = std::str::from_utf8(event).ok().and_then(|text| json::member(text, "type"));
    // Decoded only if the name contains escapes.
    let started = kind.is_some_and(|kind| match kind.contains('\\') {
        true => json::string(kind).as_deref() == Some("RUN_STARTED"),
        false => kind == "\"RUN_STARTED\"",
    });
    if !started {
        batch.push_line(event).map_err(|error| AgentFailure::InvalidEvent(error.kind.to_string()))?;
    }
    Ok(batch.is_terminal())
}
