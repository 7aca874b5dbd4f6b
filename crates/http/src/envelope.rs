//! Pages of events in envelopes, as the native API sends them.

use std::io::Write;

use threadline_core::{ReadFrom, ThreadId, json::quoted};
use threadline_engine::EventsPage;

use crate::cursor;

pub use threadline_core::envelope::{BatchHead, ndjson};

/// Header with the epoch of an NDJSON response.
pub const EPOCH_HEADER: &str = "threadline-epoch";
/// Header with the tail at the time of an NDJSON response.
pub const TAIL_HEADER: &str = "threadline-tail";

/// A page as one JSON document. `from` is where it was read from: the next page is read in the same direction.
pub fn page(thread: &ThreadId, page: &EventsPage, from: ReadFrom) -> Vec<u8> {
    let next = match from {
        ReadFrom::After(_) => cursor::after_in_log(page.epoch, page.cursor),
        ReadFrom::Before(_) => cursor::before_in_log(page.epoch, page.cursor),
    };
    let mut out = Vec::with_capacity(page.slice.bytes() + page.slice.count() as usize * 110 + 256);
    let _ = write!(
        out,
        "{{\"threadId\":{},\"epoch\":\"{}\",\"tail\":{},\"nextCursor\":\"{next}\",\"hasMore\":{},\"events\":[",
        quoted(thread.as_str()),
        page.epoch,
        page.tail,
        page.has_more
    );
    let mut first = true;
    for batch in &page.slice.0 {
        let head = BatchHead::new(batch);
        for (seq, event) in batch.events() {
            if !first {
                out.push(b',');
            }
            first = false;
            head.write(&mut out, seq, event);
        }
    }
    out.extend_from_slice(b"]}");
    out
}
