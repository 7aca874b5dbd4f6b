//! Events of a response for one client, until its run has ended.

use std::time::Duration;

use axum::body::Bytes;
use serde_json::json;
use threadline_core::{
    LogSlice, Principal, RunStatus,
    limits::{RUN_END_TIMEOUT, TRANSLATED_BYTES},
    projection::response::{ResponseEvent, ResponseStream},
};
use threadline_engine::{
    Service, StoreError,
    subscription::{Delivery, EndReason, Subscription},
};
use threadline_http::{
    observe,
    sse::{EventSource, Farewell},
};
use tokio::task::yield_now;

use super::{forgetting::Forget, ids::ResponseId};
use crate::api::{run_agent::AguiClient, superseded::Superseded};

/// Stream of a response to one client.
pub struct Followed {
    pub stream: ResponseStream,
    pub run: RunOfStream,
    pub superseded: Superseded,
    /// True for a run that the server drives: its driver alone names attempts.
    pub driven: bool,
    /// Events of the run; `None` once the stream is complete.
    pub source: Option<Box<Subscription>>,
    /// Events that were delivered and are not translated yet.
    pub pending: Option<LogSlice>,
    /// True once the record of the run was read for the events in `pending`, which do not say whether the run was stopped.
    pub asked: bool,
    /// Client that requested the run, if this is the stream of that request.
    pub requester: Option<AguiClient>,
    /// Thread of a response that is not stored: deleted after the stream.
    pub forget: Option<Forget>,
    pub counted: observe::DeliveryMetrics,
}

/// Run of a stream, whose record says how the run has ended.
pub struct RunOfStream {
    pub service: Service,
    pub principal: Principal,
    pub id: ResponseId,
}

/// True for an event that may end a run.
fn may_finish(event: &[u8]) -> bool {
    memchr::memmem::find(event, b"RUN_FINISHED").is_some()
}

impl RunOfStream {
    /// True if the run was stopped.
    pub async fn was_stopped(&self) -> Result<bool, StoreError> {
        let run = self.service.runs.get(&self.principal, &self.id.thread, &self.id.run).await;
        let run = run.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(run.status == RunStatus::Stopped)
    }
}

fn write(events: &mut Vec<ResponseEvent>, out: &mut Vec<u8>) {
    for event in events.drain(..) {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(event.kind.as_bytes());
        out.extend_from_slice(b"\ndata: ");
        out.extend_from_slice(&event.json);
        out.extend_from_slice(b"\n\n");
    }
}

impl Followed {
    fn leave(&mut self) {
        if let Some(requester) = &mut self.requester {
            requester.done();
        }
        self.forget = None;
    }

    /// Ends a stream whose run cannot be read to its end.
    fn fail(&mut self, code: &str, message: &str) -> Bytes {
        self.source = None;
        self.leave();
        let number = self.stream.count();
        let error =
            json!({ "type": "error", "sequence_number": number, "code": code, "message": message, "param": null });
        format!("event: error\ndata: {error}\n\n").into()
    }

    /// Frames of delivered events, or the reason why the stream is cut.
    fn tell(&mut self, slice: &LogSlice) -> Result<Vec<u8>, StoreError> {
        let (mut out, mut events) = (Vec::new(), Vec::new());
        for (seq, event, batch) in slice.events() {
            if self.driven && self.superseded.is_new(event) {
                // Events cannot be taken back: the client continues after the last number that it has.
                return Err(StoreError::Unavailable("another attempt of the run has begun".to_owned()));
            }
            match self.superseded.fate(seq, event) {
                None => self.stream.observe(event, batch.at, &mut events),
                Some(is_kept) => self.stream.observe_superseded(event, batch.at, is_kept, &mut events),
            }
            write(&mut events, &mut out);
        }
        if self.stream.has_ended() {
            self.source = None;
            self.pending = None;
            self.leave();
        }
        Ok(out)
    }

    /// Takes in a delivery; the last event of the stream if it ends here.
    fn take(&mut self, delivery: Option<Delivery>) -> Option<Bytes> {
        match delivery {
            Some(Delivery::Events(slice)) => (self.pending, self.asked) = (Some(slice), false),
            Some(Delivery::CaughtUp(_) | Delivery::FellBehind(_) | Delivery::Rebased { .. } | Delivery::Queue(_)) => {}
            Some(Delivery::Ended(EndReason::RunEnded)) | None => {
                return Some(self.fail("server_error", "The run has ended without an answer."));
            }
            Some(Delivery::Ended(EndReason::ThreadDeleted)) => {
                return Some(self.fail("conversation_not_found", "The conversation was deleted."));
            }
            Some(Delivery::Ended(EndReason::LogReplaced(_))) => {
                return Some(self.fail("log_replaced", "The store has lost events of the run."));
            }
            Some(Delivery::Ended(EndReason::LogDamaged { .. })) => {
                return Some(self.fail("log_damaged", "Events of the run are damaged in the store."));
            }
        }
        None
    }
}

impl EventSource for Followed {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        loop {
            // Events are taken only after all waits: a heartbeat may cancel these.
            if let Some(slice) = &self.pending {
                yield_now().await;
                let asks = !self.asked && slice.events().any(|(_, event, _)| may_finish(event));
                if asks && self.run.was_stopped().await? {
                    self.stream.note_stop();
                }
                self.asked = true;
            }
            if let Some(slice) = self.pending.take() {
                let (part, rest) = slice.cut(TRANSLATED_BYTES);
                self.pending = rest;
                let out = self.tell(&part)?;
                if !out.is_empty() {
                    return Ok(Some(out.into()));
                }
                continue;
            }
            let Some(subscription) = &mut self.source else { return Ok(None) };
            let delivery = subscription.next().await?;
            if let Some(delivery) = &delivery {
                self.counted.delivers(delivery);
            }
            if let Some(last) = self.take(delivery) {
                return Ok(Some(last));
            }
        }
    }

    fn tail(&self) -> u64 {
        self.source.as_ref().map_or(0, |subscription| subscription.tail())
    }

    /// Sends no last frame: the client continues after the last number that it has.
    fn failed(&mut self, _: StoreError) -> Option<Bytes> {
        self.leave();
        None
    }

    /// The server ends the runs of its agents when it shuts down, and clients must receive how their runs ended.
    fn grace(&self) -> Duration {
        if self.source.is_some() { RUN_END_TIMEOUT } else { Duration::ZERO }
    }

    fn goodbye(&mut self, _: Farewell) -> Option<Bytes> {
        self.leave();
        None
    }
}
