//! Events in envelopes: `{"seq":…,"runId":…,"at":…,"event":…}`, the payload as its own bytes.
//!
//! Written by hand, since a payload is never parsed and written again.

use std::io::Write;

use bytes::Bytes;

use super::{Batch, LogSlice, json::quoted};

/// The part of an envelope that a whole batch shares.
pub struct BatchHead(String);

impl BatchHead {
    /// Of this batch.
    pub fn new(batch: &Batch) -> Self {
        Self(format!("\"runId\":{},\"at\":\"{}\"", quoted(batch.run.as_str()), batch.at))
    }

    /// Writes the envelope of one event.
    pub fn write(&self, out: &mut Vec<u8>, seq: u64, event: &[u8]) {
        // Writing to a vector cannot fail.
        let _ = write!(out, "{{\"seq\":{seq},{},\"event\":", self.0);
        out.extend_from_slice(event);
        out.push(b'}');
    }
}

/// Envelopes, one a line.
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
