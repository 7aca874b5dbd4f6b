//! Running an agent: what streams back is appended, batched by the pace of the disk, until the run has ended.

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
    service::{DriveRight, Receipt, ServiceError},
    subscription::TopicRef,
};

/// How a run came to its end here.
#[derive(Debug)]
enum End {
    /// The agent's own terminal event is in the log.
    Terminal,
    /// A stop was asked.
    Stopped,
    /// The agent failed.
    Failed(AgentFailure),
    /// The run has ended without us, or its thread is gone.
    Over,
    /// Somebody else has appended to the run: what the agent says next has no place in it.
    Displaced,
    /// The store has taken nothing for too long.
    Refused,
    /// The node is going away.
    Leaving,
}

/// One run of one agent.
pub(super) struct Drive {
    pub right: DriveRight,
    pub fence: Fence,
    /// producer_seq of the next event.
    pub next: u64,
    /// Time between signs of life.
    pub beat: Duration,
    /// How long events may wait for the store.
    pub patience: Duration,
    /// Cancelled when the node stops.
    pub leaving: CancellationToken,
}

/// An append under way; it answers with the batch, in case it has to be sent again.
type InFlight = BoxFuture<'static, (u64, NewEvents, Result<Receipt, ServiceError>)>;

impl Drive {
    /// Runs to the end, and sees to it that the log says how it ended.
    pub async fn run(mut self, stream: EventStream, topic: TopicRef) {
        let end = self.feed(stream, &topic).await;
        tracing::debug!(?end, "an agent's run has ended");
        match end {
            End::Terminal | End::Over => {}
            // A run that was asked to stop is `stopped`, whoever finishes it.
            End::Stopped => self.conclude(None).await,
            End::Failed(failure) => self.conclude(Some((failure.code(), failure.to_string()))).await,
            End::Displaced => {
                let message = "Events that are not the agent's were appended to its run.".to_owned();
                self.conclude(Some(("agent-displaced", message))).await;
            }
            End::Refused => {
                let message = "The agent's events could not be stored.".to_owned();
                self.conclude(Some(("store-unavailable", message))).await;
            }
            End::Leaving => {
                let message = "The server that ran the agent was shut down.".to_owned();
                self.conclude(Some(("server-stopped", message))).await;
            }
        }
    }

    /// Ends the run in the log. Should the store be away, the run's lease runs out and the reaper does it.
    async fn conclude(&self, error: Option<(&str, String)>) {
        for _ in 0..10 {
            let result = match &error {
                None => self.right.finish().await,
                Some((code, message)) => self.right.fail((*code).to_owned(), message.clone()).await,
            };
            match result {
                Err(error @ ServiceError::Store(_)) => {
                    tracing::warn!(%error, "an agent's run cannot be ended yet");
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
        // Since when the store takes nothing.
        let mut refused: Option<Instant> = None;
        // Set once the agent has nothing more to say.
        let mut said: Option<End> = None;
        let mut beat = time::interval_at(Instant::now() + self.beat, self.beat);
        beat.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            {
                let state = changes.borrow_and_update();
                if state.is_over(self.fence) {
                    return End::Over;
                }
                // What is waiting is let go: whoever asked for the stop has heard enough.
                if state.must_stop(self.fence) {
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
            // Beyond this the agent waits: its connection is read no further.
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
                            tracing::warn!(%error, "an agent's events wait");
                            if refused.get_or_insert_with(Instant::now).elapsed() >= self.patience {
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

async fn pending(inflight: &mut Option<InFlight>) -> (u64, NewEvents, Result<Receipt, ServiceError>) {
    match inflight {
        Some(append) => append.await,
        None => std::future::pending().await,
    }
}

/// Adds an event; true if it ends the run. The run has its RUN_STARTED already, with the messages that it was given,
/// and clients refuse a second one.
fn take(batch: &mut BatchBuilder, event: &Bytes) -> Result<bool, AgentFailure> {
    let kind = std::str::from_utf8(event).ok().and_then(|text| json::member(text, "type"));
    // Decoded only where the name is not written plainly.
    let started = kind.is_some_and(|kind| match kind.contains('\\') {
        true => json::string(kind).as_deref() == Some("RUN_STARTED"),
        false => kind == "\"RUN_STARTED\"",
    });
    if !started {
        batch.push_line(event).map_err(|error| AgentFailure::InvalidEvent(error.kind.to_string()))?;
    }
    Ok(batch.is_terminal())
}
