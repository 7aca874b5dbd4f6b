//! Events in envelopes: `{"seq":…,"runId":…,"at":…,"event":…}`, the payload byte for byte.
//!
//! Envelopes are written by hand, because a payload is never parsed and written again.

use std::io::Write;

use bytes::Bytes;

use super::{Batch, LogSlice, json::quoted};

/// Part of an envelope that all events of a batch share: `runId` and `at`.
pub struct BatchHead(String);

impl BatchHead {
    /// Makes the shared part for the events of this batch.
    pub fn new(batch: &Batch) -> Self {
        Self(format!("\"runId\":{},\"at\":\"{}\"", quoted(batch.run.as_str()), batch.at))
    }

    /// Appends the envelope of one event to `out`. The event's bytes are copied as they are.
    pub fn write(&self, out: &mut Vec<u8>, seq: u64, event: &[u8]) {
        // Writing to a vector cannot fail.
        let _ = write!(out, "{{\"seq\":{seq},{},\"event\":", self.0);
        out.extend_from_slice(event);
        out.push(b'}');
    }
}

/// Envelopes of all events of a slice as NDJSON; every line ends with a newline.
pub fn ndjson(slice: &LogSlice) -> Bytes {
    let mut out = Vec::with_capacity(slice.bytes() + slice.count() as usize * 110);
    for batch in &slice.0 {
        let head = BatchHead::new(batch);
        for (seq, event) in batch.events() {
            head.write(&mut out, seq, event);
            out.push(b'\n');
        }
    }
    out.into()
}
