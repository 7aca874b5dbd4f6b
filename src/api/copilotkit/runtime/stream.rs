//! The events of one run for a stock client, until it has ended.

use std::{collections::VecDeque, time::Duration};

use axum::body::Bytes;
use serde_json::{Value, json};

use super::acceptable;
use crate::{
    api::{
        agui::Requester,
        observe,
        sse::{Farewell, Followed},
    },
    domain::{LogSlice, RunId, ThreadId, json as text, limits::RUN_END_TIMEOUT},
    store::StoreError,
    subscription::{Delivery, EndReason, Subscription},
};

/// Writes an event as SSE.
pub fn write(out: &mut Vec<u8>, event: &[u8]) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(event);
    out.extend_from_slice(b"\n\n");
}

/// Writes an event of ours.
pub fn write_value(out: &mut Vec<u8>, event: &Value) {
    write(out, event.to_string().as_bytes());
}

/// `RUN_STARTED` or `RUN_FINISHED` of a run.
pub fn bound(kind: &str, thread: &ThreadId, run: &RunId) -> Value {
    json!({ "type": kind, "threadId": thread.as_str(), "runId": run.as_str() })
}

/// What is sent of a run: only what the client accepts, and RUN_STARTED before everything else, once.
pub struct Telling {
    thread: ThreadId,
    run: RunId,
    begun: bool,
}

impl Telling {
    /// Of a run; `begun`: its beginning was told before.
    pub fn new(thread: ThreadId, run: RunId, begun: bool) -> Self {
        Self { thread, run, begun }
    }

    /// Writes the next event.
    pub fn tell(&mut self, out: &mut Vec<u8>, event: &[u8]) {
        let Some(event) = acceptable::event(event, self.thread.as_str(), self.run.as_str()) else { return };
        let starts =
            std::str::from_utf8(&event).ok().and_then(|event| text::member(event, "type")) == Some("\"RUN_STARTED\"");
        if starts && self.begun {
            return;
        }
        self.begin(out, starts);
        write(out, &event);
    }

    /// Before an event of the run: one that has none of its own is given a beginning.
    fn begin(&mut self, out: &mut Vec<u8>, starts: bool) {
        if !self.begun && !starts {
            write_value(out, &bound("RUN_STARTED", &self.thread, &self.run));
        }
        self.begun = true;
    }

    fn slice(&mut self, slice: &LogSlice) -> Bytes {
        let mut out = Vec::with_capacity(slice.bytes() + slice.count() as usize * 8);
        for (_, event, _) in slice.events() {
            self.tell(&mut out, event);
        }
        out.into()
    }

    /// The thread is gone, and with it the run's own end.
    fn gone(&mut self) -> Bytes {
        let mut out = Vec::new();
        self.begin(&mut out, false);
        let error = json!({ "type": "RUN_ERROR", "message": "The thread was deleted.", "code": "THREAD_DELETED" });
        write_value(&mut out, &error);
        out.into()
    }
}

/// A run as its client follows it. Clients take a stream that ends cleanly for a run that has ended, so one that has not is
/// cut off.
pub struct Run {
    /// What is said first.
    pub first: VecDeque<Bytes>,
    /// What comes then, if a run is under way.
    pub rest: Option<(Subscription, Telling)>,
    /// Whoever asked for the run, if it was asked for here.
    pub requester: Option<Requester>,
    /// Counts it.
    pub counted: observe::Followed,
}

impl Run {
    fn leave(&mut self) {
        if let Some(requester) = &mut self.requester {
            requester.done();
        }
    }
}

impl Followed for Run {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if let Some(first) = self.first.pop_front() {
            return Ok(Some(first));
        }
        while let Some((subscription, telling)) = &mut self.rest {
            let delivery = subscription.next().await?;
            if let Some(delivery) = &delivery {
                self.counted.delivers(delivery);
            }
            match delivery {
                Some(Delivery::Events(slice)) => {
                    let told = telling.slice(&slice);
                    if !told.is_empty() {
                        return Ok(Some(told));
                    }
                }
                Some(Delivery::CaughtUp(_) | Delivery::FellBehind(_)) => {}
                Some(Delivery::Ended(EndReason::ThreadDeleted)) => {
                    let gone = telling.gone();
                    self.rest = None;
                    self.leave();
                    return Ok(Some(gone));
                }
                Some(Delivery::Ended(EndReason::RunEnded)) | None => self.rest = None,
            }
        }
        self.leave();
        Ok(None)
    }

    fn tail(&self) -> u64 {
        self.rest.as_ref().map_or(0, |(subscription, _)| subscription.tail())
    }

    fn failed(&mut self, _: StoreError) -> Option<Bytes> {
        self.leave();
        None
    }

    /// The server ends the runs of its agents when it shuts down, and clients are to be told how theirs ended.
    fn grace(&self) -> Duration {
        RUN_END_TIMEOUT
    }

    fn goodbye(&mut self, _: Farewell) -> Option<Bytes> {
        self.leave();
        None
    }
}
