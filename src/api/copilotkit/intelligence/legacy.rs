//! Runners before 1.69, which run their agent again when they join a run a second time. Such a runner is recognized
//! because it pushes single events although batches are offered. The second join is refused, so that no content is
//! duplicated.

use moka::sync::Cache;
use threadline_core::{Principal, ProjectId, RunId, ThreadId, UserId, limits::MAX_LEGACY_RUNS};

/// Runs of old runners that this node has seen. On a node that has not seen the run, a second RUN_STARTED is refused
/// instead.
pub struct Legacy(Cache<(ProjectId, Option<UserId>, ThreadId, RunId), ()>);

impl Default for Legacy {
    fn default() -> Self {
        Self(Cache::new(MAX_LEGACY_RUNS))
    }
}

impl Legacy {
    /// Records that the run's events arrive one by one.
    pub fn note(&self, owner: &Principal, thread: &ThreadId, run: &RunId) {
        self.0.insert((owner.project.clone(), owner.user.clone(), thread.clone(), run.clone()), ());
    }

    /// True if the run was recorded.
    pub fn is(&self, owner: &Principal, thread: &ThreadId, run: &RunId) -> bool {
        self.0.contains_key(&(owner.project.clone(), owner.user.clone(), thread.clone(), run.clone()))
    }
}
