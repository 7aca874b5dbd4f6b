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
        let Some(quota) = self.context.quota.runs(principal) else { return Ok(()) };
        let active = self.context.store.active_runs(&principal.project, principal.user.as_ref()).await?;
        let Err(limited) = self.context.quota.start(quota, active.user, active.project) else { return Ok(()) };
        // A start that is repeated gets the answer it got.
        if self.context.store.run(thread.key, run).await?.is_some() {
            return Ok(());
        }
        Err(limited.into())
    }
}
