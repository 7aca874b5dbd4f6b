//! Begin of a run, by a start or from the queue: what the back-ends without one statement for it share.

use std::time::Duration;

use threadline_core::{AgentId, AttemptId, Author, Fence, Run, RunId, RunStatus, Seq, Timestamp};

/// Run that is to begin in a free thread.
pub(crate) struct NewRun {
    pub(crate) id: RunId,
    pub(crate) agent: Option<AgentId>,
    pub(crate) driven: bool,
    pub(crate) attempt_id: Option<AttemptId>,
    /// Number of events that the run begins with.
    pub(crate) events: u64,
    pub(crate) author: Option<Author>,
    pub(crate) asked_by: Option<Author>,
    pub(crate) lease: Duration,
}

impl NewRun {
    /// The run with this fence, without events, in a log that ends at `tail`.
    pub(crate) fn begun(self, fence: Fence, tail: Seq, now: Timestamp) -> Run {
        Run {
            id: self.id,
            fence,
            agent: self.agent,
            driven: self.driven,
            author: self.author,
            asked_by: self.asked_by,
            attempt: if self.driven { 1 } else { fence.first_attempt() },
            status: RunStatus::Running,
            error_code: None,
            error_message: None,
            usage: None,
            first_seq: tail + 1,
            producer_seq: 0,
            started_at: now,
            ended_at: None,
            lease_until: Some(now.plus(self.lease)),
            stop_requested_at: None,
        }
    }
}
