//! Chunks of a message for one client, until its run has ended.

use std::time::Duration;

use axum::body::Bytes;
use threadline_core::{
    limits::RUN_END_TIMEOUT,
    projection::ui_message::{Chunk, UiStream},
};
use threadline_engine::{
    StoreError,
    subscription::{Delivery, EndReason, Subscription},
};
use threadline_http::{
    observe,
    sse::{EventSource, Farewell},
};

use super::history::Superseded;
use crate::api::{run_agent::AguiClient, waiting_turn::WaitingTurn};

/// Last line of a stream that is complete.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Stream of a message to one client.
pub struct Message {
    /// Chunks that are sent first.
    pub first: Vec<Chunk>,
    pub stream: UiStream,
    pub superseded: Superseded,
    pub source: Source,
    /// Client that requested the run, if this is the stream of that request.
    pub requester: Option<AguiClient>,
    pub counted: observe::DeliveryMetrics,
}

/// Source of the events of the run.
pub enum Source {
    Run(Box<Subscription>),
    /// The run waits in the queue.
    Waiting(Box<WaitingTurn>),
    /// The stream is complete.
    Over,
}

fn write(chunks: &[Chunk], out: &mut Vec<u8>) {
    for chunk in chunks {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(chunk.to_json().as_bytes());
        out.extend_from_slice(b"\n\n");
    }
}

impl Message {
    fn leave(&mut self) {
        if let Some(requester) = &mut self.requester {
            requester.done();
        }
    }

    /// The end of a stream whose run has ended, or cannot be read to its end.
    fn end(&mut self, failure: Option<&str>) -> Bytes {
        self.source = Source::Over;
        self.leave();
        let mut out = Vec::new();
        if let Some(reason) = failure {
            write(&[Chunk::Error { error_text: reason.to_owned() }], &mut out);
        }
        out.extend_from_slice(DONE);
        out.into()
    }
}

impl EventSource for Message {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if !self.first.is_empty() {
            let mut out = Vec::new();
            write(&std::mem::take(&mut self.first), &mut out);
            return Ok(Some(out.into()));
        }
        loop {
            let subscription = match &mut self.source {
                Source::Run(subscription) => subscription,
                Source::Waiting(turn) => match turn.begun().await? {
                    Some(subscription) => {
                        self.source = Source::Run(Box::new(subscription));
                        continue;
                    }
                    None => return Ok(Some(self.end(Some("The queued turn was cancelled.")))),
                },
                Source::Over => return Ok(None),
            };
            let delivery = subscription.next().await?;
            if let Some(delivery) = &delivery {
                self.counted.delivers(delivery);
            }
            match delivery {
                Some(Delivery::Events(slice)) => {
                    let mut chunks = Vec::new();
                    for (seq, event, _) in slice.events() {
                        if self.superseded.is_new(event) {
                            // Chunks cannot be taken back: the client resumes, and receives the message as it is now.
                            return Err(StoreError::Unavailable("another attempt of the run has begun".to_owned()));
                        }
                        if !self.superseded.has(seq, event) {
                            self.stream.observe(event, &mut chunks);
                        }
                    }
                    if !chunks.is_empty() {
                        let mut out = Vec::with_capacity(slice.bytes());
                        write(&chunks, &mut out);
                        return Ok(Some(out.into()));
                    }
                }
                Some(
                    Delivery::CaughtUp(_) | Delivery::FellBehind(_) | Delivery::Rebased { .. } | Delivery::Queue(_),
                ) => {}
                Some(Delivery::Ended(EndReason::RunEnded)) | None => return Ok(Some(self.end(None))),
                Some(Delivery::Ended(EndReason::ThreadDeleted)) => {
                    return Ok(Some(self.end(Some("The chat was deleted."))));
                }
                Some(Delivery::Ended(EndReason::LogReplaced(_))) => {
                    return Ok(Some(self.end(Some("The store has lost events of the run."))));
                }
                Some(Delivery::Ended(EndReason::LogDamaged { .. })) => {
                    return Ok(Some(self.end(Some("Events of the run are damaged in the store."))));
                }
            }
        }
    }

    fn tail(&self) -> u64 {
        match &self.source {
            Source::Run(subscription) => subscription.tail(),
            Source::Waiting(turn) => turn.changes.tail(),
            Source::Over => 0,
        }
    }

    /// No last frame: the client would take a clean end for the end of the message.
    fn failed(&mut self, _: StoreError) -> Option<Bytes> {
        self.leave();
        None
    }

    /// The server ends the runs of its agents when it shuts down, and clients must receive how their runs ended.
    fn grace(&self) -> Duration {
        if matches!(self.source, Source::Run(_)) { RUN_END_TIMEOUT } else { Duration::ZERO }
    }

    fn goodbye(&mut self, _: Farewell) -> Option<Bytes> {
        self.leave();
        None
    }
}
