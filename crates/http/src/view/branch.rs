//! View of the origin of a fork.

use serde::Serialize;
use threadline_core::ForkedFrom;
use utoipa::ToSchema;

/// The origin of a fork.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkedFromView {
    /// The thread that was forked. It may have been deleted since.
    thread_id: String,
    /// The epoch of its log at that time.
    epoch: String,
    /// Seq of the last event that both have.
    seq: u64,
}

impl ForkedFromView {
    pub(super) fn new(from: &ForkedFrom) -> Self {
        Self { thread_id: from.thread.to_string(), epoch: from.epoch.to_string(), seq: from.seq }
    }
}
