//! Quota of active runs: the limit of the quota against the count in the store.

use threadline_core::{Principal, RunId};
use threadline_store::ActiveRuns;

use crate::{RoomError, records::ThreadRef, runs::Runs};

impl Runs {
    /// Refuses a start while the user or the project has the most active runs allowed. Concurrent starts may exceed the
    /// limit together: the quota is soft, and the head row guards the hard rules.
    pub(crate) async fn check_quota(
        &self,
        principal: &Principal,
        thread: &ThreadRef,
        run: &RunId,
    ) -> Result<(), RoomError> {
        match self.check_room(principal).await {
            // A repeated start gets the same answer as before.
            Err(RoomError::Limited(_)) if self.deps.store.run(thread.key, run).await?.is_some() => Ok(()),
            checked => checked,
        }
    }

    /// Same check for a start in a thread that does not exist yet, which cannot be a repetition.
    pub async fn check_room(&self, principal: &Principal) -> Result<(), RoomError> {
        let Some(quota) = self.deps.quota.runs(principal) else { return Ok(()) };
        let bound = ActiveRuns { project: quota.project, user: quota.user };
        let active = self.deps.store.active_runs(&principal.project, principal.user.as_ref(), bound).await?;
        Ok(self.deps.quota.start(quota, active.user, active.project)?)
    }
}
