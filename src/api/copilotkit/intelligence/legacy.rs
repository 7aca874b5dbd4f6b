//! Runners before 1.69, which run their agent again when they join a run a second time. Such a runner is recognized
//! because it pushes single events although batches are offered. The second join is refused, so that no content is
//! duplicated.

use moka::sync::Cache;
use threadline_core::{Principal, RunId, ThreadId, limits::MAX_LEGACY_RUNS};

use super::acks::{RunName, run_name};

/// Runs of old runners that this node has seen. On a node that has not seen the run, a second RUN_STARTED is refused
/// instead.
pub struct Legacy(Cache<RunName, ()>);

impl Default for Legacy {
    fn default() -> Self {
        Self(Cache::new(MAX_LEGACY_RUNS))
    }
}

impl Legacy {
    /// Records that the run's events arrive one by one.
    pub fn note(&self, owner: &Principal, thread: &ThreadId, run: &RunId) {
        self.0.insert(run_name(owner, thread, run), ());
    }

    /// True if the run was recorded.
    pub fn is(&self, owner: &Principal, thread: &ThreadId, run: &RunId) -> bool {
        self.0.contains_key(&run_name(owner, thread, run))
    }
}
