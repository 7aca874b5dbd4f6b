//! Problems of a store that fails.

use serde_json::json;
use threadline_engine::StoreError;

use super::{Problem, ProblemType as Type};

impl Problem {
    /// Problem of a failure of the store. What only operators can act on is logged, and not shown.
    pub(super) fn of_store(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(reason) => {
                tracing::warn!(reason, "store unavailable");
                Self::new(Type::StoreUnavailable, "the store failed; see the server's log").retry_after(1_000)
            }
            StoreError::Fenced("standby") => {
                let detail = "the store is a standby: no node serves requests from it until it is promoted";
                Self::new(Type::StoreUnavailable, detail).retry_after(1_000)
            }
            StoreError::Fenced(cause) => {
                let detail =
                    format!("the history of the store has changed ({cause}); this node has not adopted it yet");
                Self::new(Type::LineageChanging, detail).retry_after(1_000)
            }
            StoreError::Corrupt(reason) => {
                tracing::error!(reason, "the store is corrupt");
                Self::new(Type::Internal, "see the server's log")
            }
            StoreError::Damaged { key, first_seq, last_seq } => {
                tracing::error!(key = key.0, first_seq, last_seq, "a row of a log is damaged or missing");
                let detail = format!("events {first_seq} to {last_seq} are damaged on the disk, or missing there");
                Self::new(Type::LogDamaged, detail).with(json!({ "firstSeq": first_seq, "lastSeq": last_seq }))
            }
        }
    }
}
