//! Chunks of a message for one client, until its run has ended.

use std::{collections::VecDeque, time::Duration};

use axum::body::Bytes;
use threadline_core::{
    LogSlice, RunId,
    limits::{RUN_END_TIMEOUT, TRANSLATED_BYTES},
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
use tokio::task::yield_now;

use crate::api::{run_agent::AguiClient, superseded::Superseded, waiting_turn::WaitingTurn};

/// Last line of a stream that is complete.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Stream of a message to one client.
pub struct Message {
    pub stream: UiStream,
    /// Runs of the message that a replay has before its last one, oldest first, and the last one. Empty for a stream of one run, whose
    /// subscription ends with it.
    pub replayed: VecDeque<RunId>,
    pub superseded: Superseded,
    /// True for a run that the server drives: its driver alone names attempts.
    pub driven: bool,
    pub source: Source,
    /// Events that were delivered and are not translated yet.
    pub pending: Option<LogSlice>,
    /// Client that requested the run, if this is the stream of that request.
    pub requester: Option<AguiClient>,
    pub counted: observe::DeliveryMetrics,
}

/// Outcome of a translation.
enum Told {
    /// Chunks to write; there may be further events.
    Chunks(Vec<u8>),
    /// Chunks to write, and the end of the message.
    Last(Vec<u8>),
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
    /// Stream of a run that the server drives, for a client that did not request it.
    pub fn new(stream: UiStream, source: Source, counted: observe::DeliveryMetrics) -> Self {
        Self {
            stream,
            replayed: VecDeque::new(),
            superseded: Superseded::default(),
            driven: true,
            source,
            pending: None,
            requester: None,
            counted,
        }
    }

    fn leave(&mut self) {
        if let Some(requester) = &mut self.requester {
            requester.done();
        }
    }

    /// The end of a stream whose run has ended, or cannot be read to its end.
    fn end(&mut self, failure: Option<&str>) -> Bytes {
        (self.source, self.pending) = (Source::Over, None);
        self.leave();
        let mut out = Vec::new();
        if let Some(reason) = failure {
            write(&[Chunk::Error { error_text: reason.to_owned() }], &mut out);
        }
        out.extend_from_slice(DONE);
        out.into()
    }

    /// Chunks of delivered events, or the reason why the stream is cut.
    fn tell(&mut self, slice: &LogSlice) -> Result<Told, StoreError> {
        let (mut out, mut chunks) = (Vec::new(), Vec::new());
        for (seq, event, batch) in slice.events() {
            if self.replayed.front().is_some_and(|run| *run != batch.run) {
                self.replayed.pop_front();
                match self.replayed.front() {
                    Some(next) if *next == batch.run => self.stream.continued(next.as_str(), false),
                    _ => return Ok(Told::Last(out)),
                }
            }
            if self.driven && self.superseded.is_new(event) {
                // Chunks cannot be taken back: the client resumes, and receives the message as it is now.
                return Err(StoreError::Unavailable("another attempt of the run has begun".to_owned()));
            }
            if !self.superseded.has(seq, event) {
                self.stream.observe(event, &mut chunks);
            }
            let ends = |chunk: &Chunk| matches!(chunk, Chunk::Finish { .. } | Chunk::Error { .. });
            let is_last = self.replayed.len() == 1 && chunks.iter().any(ends);
            if self.replayed.len() > 1 {
                // A replay is one stream, which only the last run finishes.
                chunks.retain(|chunk| !ends(chunk));
            }
            write(&chunks, &mut out);
            chunks.clear();
            if is_last {
                return Ok(Told::Last(out));
            }
        }
        Ok(Told::Chunks(out))
    }
}

impl EventSource for Message {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        loop {
            // Events are taken only after the wait: a heartbeat may cancel this.
            if self.pending.is_some() {
                yield_now().await;
            }
            if let Some(slice) = self.pending.take() {
                let (part, rest) = slice.cut(TRANSLATED_BYTES);
                self.pending = rest;
                match self.tell(&part)? {
                    Told::Chunks(out) if out.is_empty() => {}
                    Told::Chunks(out) => return Ok(Some(out.into())),
                    Told::Last(mut out) => {
                        out.extend_from_slice(&self.end(None));
                        return Ok(Some(out.into()));
                    }
                }
                continue;
            }
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
                Some(Delivery::Events(slice)) => self.pending = Some(slice),
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
