//! Quotas of runs: how many are active, against the count in the store, and whether there is room for their events.

use threadline_core::{NewEvents, Principal, RunId, limits::STORAGE_CLOSING_BYTES};
use threadline_store::ActiveRuns;

use crate::{RoomError, limits::Storing, records::ThreadRef, runs::Runs};

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

    /// Refuses a start while the storage of the user or the project is full. A repeated start gets the same answer as before.
    pub(crate) async fn check_storage(
        &self,
        principal: &Principal,
        thread: &ThreadRef,
        run: &RunId,
    ) -> Result<(), RoomError> {
        match self.deps.stored.admit(principal, Storing::Words).await {
            Err(RoomError::Limited(_)) if self.deps.store.run(thread.key, run).await?.is_some() => Ok(()),
            checked => checked,
        }
    }

    /// Refuses an append while the storage is full. An append that ends the run passes if it is small, for a run can always be
    /// closed; and so does one that is stored already.
    pub(crate) async fn check_append(
        &self,
        principal: &Principal,
        thread: &ThreadRef,
        run: &RunId,
        producer_seq: Option<u64>,
        events: &NewEvents,
    ) -> Result<(), RoomError> {
        if events.terminal().is_some() && events.body().len() <= STORAGE_CLOSING_BYTES {
            return Ok(());
        }
        let refused = self.deps.stored.admit(principal, Storing::Words).await;
        let Some(first) = producer_seq.filter(|_| matches!(refused, Err(RoomError::Limited(_)))) else {
            return refused;
        };
        let stored = self.deps.store.run(thread.key, run).await?.map_or(0, |run| run.producer_seq);
        if first - 1 + events.count() as u64 <= stored { Ok(()) } else { refused }
    }
}
