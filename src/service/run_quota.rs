//! How many runs may be under way: what the quota allows, against what the store counts.

use super::{ServiceError, directory::ThreadRef, runs::Runs};
use crate::domain::{Principal, RunId};

impl Runs {
    /// Refuses a start while the user or the project has as many runs under way as it may. Starts at the same moment may
    /// pass it together: it is a quota, and what must hold is held by the head row.
    pub(super) async fn check_quota(
        &self,
        principal: &Principal,
        thread: &ThreadRef,
        run: &RunId,
    ) -> Result<(), ServiceError> {
        match self.check_room(principal).await {
            // A start that is repeated gets the answer it got.
            Err(ServiceError::Limited(_)) if self.context.store.run(thread.key, run).await?.is_some() => Ok(()),
            checked => checked,
        }
    }

    /// The same for a start in a thread that is yet to be made: there is nothing that could be repeated.
    pub async fn check_room(&self, principal: &Principal) -> Result<(), ServiceError> {
        let Some(quota) = self.context.quota.runs(principal) else { return Ok(()) };
        let active = self.context.store.active_runs(&principal.project, principal.user.as_ref()).await?;
        Ok(self.context.quota.start(quota, active.user, active.project)?)
    }
}
