//! Live reads as server-sent events: `data` has messages, `control` has the offset after them.

use axum::body::Bytes;
use threadline_core::LogSlice;
use threadline_engine::{
    StoreError,
    subscription::{Delivery, EndReason, Subscription},
};
use threadline_http::{
    HttpState, observe,
    sse::{self, EventSource, Farewell},
};

use super::{headers::End, offset::Offset};

/// A live read of one client.
pub struct Live {
    pub subscription: Subscription,
    pub counted: observe::DeliveryMetrics,
    pub http: HttpState,
    /// Cursor that the client has sent.
    pub seen: Option<u64>,
    /// True once the client was told that it is up to date.
    pub up_to_date: bool,
    pub ended: bool,
}

/// Writes messages as the lines of a JSON array.
fn data(slice: &LogSlice) -> Vec<u8> {
    let mut out = Vec::with_capacity(slice.bytes() + slice.count() as usize * 8 + 256);
    out.extend_from_slice(b"event: data\ndata: [\n");
    let mut separator = &b"data: "[..];
    for (_, event, _) in slice.events() {
        out.extend_from_slice(separator);
        out.extend_from_slice(event);
        separator = b",\ndata: ";
    }
    out.extend_from_slice(b"\ndata: ]\n\n");
    out
}

impl Live {
    fn control(&self, closed: bool) -> String {
        let next = Offset { seq: self.subscription.cursor(), epoch: self.subscription.epoch() };
        let end = End { next, up_to_date: self.up_to_date, closed };
        sse::named("control", &end.control(self.http.clock.now(), self.seen))
    }

    /// The frames of a delivery; `None` if nothing is sent for it.
    fn frames(&mut self, delivery: Delivery) -> Option<Bytes> {
        match delivery {
            Delivery::Events(slice) => {
                let mut out = data(&slice);
                self.up_to_date = self.subscription.cursor() >= self.subscription.tail();
                out.extend_from_slice(self.control(false).as_bytes());
                Some(out.into())
            }
            Delivery::CaughtUp(_) if self.up_to_date => None,
            Delivery::CaughtUp(_) => {
                self.up_to_date = true;
                Some(self.control(false).into())
            }
            Delivery::Rebased { .. } => Some(self.control(false).into()),
            Delivery::FellBehind(_) => {
                self.up_to_date = false;
                None
            }
            Delivery::Queue(_) => None,
            Delivery::Ended(EndReason::RunEnded) => {
                (self.ended, self.up_to_date) = (true, true);
                Some(self.control(true).into())
            }
            // The client connects again, and the status of the response says why.
            Delivery::Ended(EndReason::ThreadDeleted | EndReason::LogReplaced(_) | EndReason::LogDamaged { .. }) => {
                self.ended = true;
                None
            }
        }
    }
}

impl EventSource for Live {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        while !self.ended {
            let Some(delivery) = self.subscription.next().await? else { break };
            self.counted.delivers(&delivery);
            if let Some(frames) = self.frames(delivery) {
                return Ok(Some(frames));
            }
        }
        Ok(None)
    }

    fn tail(&self) -> u64 {
        self.subscription.tail()
    }

    /// Cuts the connection: the protocol has no event for a failure.
    fn failed(&mut self, _: StoreError) -> Option<Bytes> {
        None
    }

    /// Sends a comment: the client connects again from its offset.
    fn goodbye(&mut self, _: Farewell) -> Option<Bytes> {
        Some(Bytes::from_static(b": closing\n\n"))
    }
}
