//! Runners of old (before 1.69) run their agent anew when they join a run again. They are known by pushing single events
//! where batches were offered; their second join is refused, so that nothing is said twice.

use moka::sync::Cache;

use crate::domain::{ProjectId, RunId, ThreadId, limits::MAX_LEGACY_RUNS};

/// Runs of such runners. What other nodes know of them is not known here: there, a second RUN_STARTED is refused.
pub struct Legacy(Cache<(ProjectId, ThreadId, RunId), ()>);

impl Default for Legacy {
    fn default() -> Self {
        Self(Cache::new(MAX_LEGACY_RUNS))
    }
}

impl Legacy {
    /// The run's events come one by one.
    pub fn note(&self, project: &ProjectId, thread: &ThreadId, run: &RunId) {
        self.0.insert((project.clone(), thread.clone(), run.clone()), ());
    }

    /// Whether they did.
    pub fn is(&self, project: &ProjectId, thread: &ThreadId, run: &RunId) -> bool {
        self.0.contains_key(&(project.clone(), thread.clone(), run.clone()))
    }
}
