//! Receipts of appends, and the bounds of a producer_seq.

use threadline_core::{Epoch, Seq, Timestamp, limits::MAX_PRODUCER_SEQ};
use threadline_store::Head;

use crate::InvalidRequestError;

/// Receipt of an append. The same request sent again gets the same seqs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendReceipt {
    /// Incarnation of the log.
    pub epoch: Epoch,
    /// Seq of the append's first event.
    pub first_seq: Seq,
    /// Seq of the append's last event.
    pub last_seq: Seq,
    /// producer_seq of the append's last event.
    pub producer_seq: u64,
    /// True if a stop of the run was requested.
    pub stop_requested: bool,
    /// End of the run's lease without further events or heartbeats; `None` if the run has ended.
    pub lease_until: Option<Timestamp>,
}

impl AppendReceipt {
    /// Receipt of `count` events that were just committed; `head` is the head after them.
    pub(crate) fn committed(head: &Head, first_seq: Seq, count: u64, producer_seq: u64) -> Self {
        let active = head.active.as_ref();
        Self {
            epoch: head.epoch,
            first_seq,
            last_seq: first_seq + count - 1,
            producer_seq,
            stop_requested: active.is_some_and(|active| active.stop_requested_at.is_some()),
            lease_until: active.map(|active| active.lease_until),
        }
    }
}

/// Checks the bounds of a producer_seq.
pub(crate) fn check_producer_seq(producer_seq: u64) -> Result<(), InvalidRequestError> {
    if (1..=MAX_PRODUCER_SEQ).contains(&producer_seq) {
        return Ok(());
    }
    Err(InvalidRequestError::InvalidRequest(format!("producerSeq must be from 1 to {MAX_PRODUCER_SEQ}")))
}
