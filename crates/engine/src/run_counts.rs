//! Counters of runs that begin and end on this node.

use threadline_core::RunStatus;
use threadline_store::{Closing, Committed};

use crate::metrics::Metrics;

/// The end that a start brings to the predecessor of its run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PredecessorEnd {
    status: RunStatus,
    /// True if the predecessor ends without an event.
    silent: bool,
}

impl PredecessorEnd {
    pub(crate) fn of(closing: &Closing) -> Self {
        Self { status: closing.status, silent: closing.events.is_none() }
    }
}

/// Counts a run that has ended with this status.
pub(crate) fn count_ended(metrics: &Metrics, status: RunStatus) {
    let runs = &metrics.runs;
    match status {
        RunStatus::Finished | RunStatus::Stopped => drop(runs.finished.inc()),
        RunStatus::Error => drop(runs.failed.inc()),
        RunStatus::Abandoned => drop(runs.abandoned.inc()),
        RunStatus::Running | RunStatus::Finishing => {}
    }
}

/// Counts a run that has begun, and its predecessor if the same commit ended it.
pub(crate) fn count_started(metrics: &Metrics, committed: &Committed, ends: Option<PredecessorEnd>) {
    let runs = &metrics.runs;
    let closed = committed.slice.0.first().is_some_and(|batch| batch.run != committed.run.id);
    // The predecessor may have ended without this start in the meantime.
    if let Some(PredecessorEnd { status, silent }) = ends
        && (silent || closed)
    {
        count_ended(metrics, status);
        runs.succeeded.inc();
    }
    if committed.run.status.is_active() {
        runs.started.inc();
    } else {
        runs.appended_whole.inc();
        count_ended(metrics, committed.run.status);
    }
}
