//! View of a run that was started, appended or taken up.

use serde::Serialize;
use threadline_core::{Principal, ThreadId};
use threadline_engine::{AttemptedRun, StartedRun};
use utoipa::ToSchema;

use super::RunView;

/// A started or appended run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartedView {
    /// The thread of the run: of a start with `fork`, the fork.
    thread_id: String,
    run: RunView,
    epoch: String,
    /// Follow with this as `after`, together with `epoch`, to see the run from its first event.
    cursor: u64,
    /// The number of the run's present attempt.
    attempt: u64,
    /// True if a process has taken the run up; false in its first attempt, whatever the number of that is.
    taken_up: bool,
    /// The ID that the process of the present attempt has given it; null if it gave none, and once the run has ended.
    #[schema(required)]
    attempt_id: Option<String>,
}

impl StartedView {
    pub fn new(thread: &ThreadId, started: &StartedRun) -> Self {
        let thread_id = thread.to_string();
        let (run, attempt) = (RunView::new(&started.run), started.run.attempt);
        let (epoch, taken_up) = (started.epoch.to_string(), started.run.is_taken_up());
        Self { thread_id, run, epoch, cursor: started.cursor, attempt, taken_up, attempt_id: None }
    }

    /// The view of a run that a producer has started, or taken up.
    pub fn of_attempt(thread: &ThreadId, AttemptedRun { started, attempt, attempt_id }: &AttemptedRun) -> Self {
        let attempt_id = attempt_id.as_ref().map(ToString::to_string);
        Self { attempt: *attempt, attempt_id, ..Self::new(thread, started) }
    }

    /// [`RunView::seen_by`] for the run.
    #[must_use]
    pub fn seen_by(self, principal: &Principal) -> Self {
        Self { run: self.run.seen_by(principal), ..self }
    }
}
