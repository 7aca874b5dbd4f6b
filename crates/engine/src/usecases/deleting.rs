//! Deletion of threads, and of all branches of a conversation.

use threadline_core::{
    Branch, Family, Principal, Thread,
    limits::{DELETE_ROUNDS, READ_BRANCHES},
};
use threadline_store::StoreError;

use super::threads::Threads;
use crate::{
    DeleteThreadError, LookupError,
    records::{ThreadAt, ThreadRef},
};

impl Threads {
    /// Deletes a thread and its log. An active run ends. A user who deletes the thread again gets the same answer.
    /// The epoch that its log had before is accepted too: the thread is the same.
    pub async fn delete(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
    ) -> Result<(), DeleteThreadError> {
        self.deps.lifecycle.refuse_if_draining()?;
        let at = thread.into();
        match self.get(principal, at.id).await {
            Ok(found) => {
                if found.branch.family.is_some() {
                    // A deletion that is refused changes nothing, and so not which branch is listed.
                    self.deps.directory.refuse_other_thread::<DeleteThreadError>(found.key, at.epoch).await?;
                    self.list_another(&found).await?;
                }
                let thread = ThreadRef::from(&found);
                // False if another delete or retention was faster, or if the log has another epoch. What people delete is not
                // kept in the trash.
                if !self.deps.store.delete_thread(thread.key, at.epoch).await?
                    && !self.deps.store.discard(thread.key, true).await?
                {
                    self.deps.directory.refuse_other_thread::<DeleteThreadError>(thread.key, at.epoch).await?;
                }
                self.deps.listeners.deleted(&thread);
                // Another request may have deleted the branch that is listed now.
                if let Some(family) = found.branch.family {
                    self.deps.store.list_branch(&found.project, &found.user, family, None).await?;
                }
                Ok(())
            }
            Err(LookupError::ThreadNotFound) => {
                let Some(user) = &principal.user else { return Err(DeleteThreadError::ThreadNotFound) };
                let again = self.deps.store.was_deleted(&principal.project, user, at.id).await?;
                if again { Ok(()) } else { Err(DeleteThreadError::ThreadNotFound) }
            }
            Err(LookupError::ThreadAmbiguous) => Err(DeleteThreadError::ThreadAmbiguous),
            Err(LookupError::Store(error)) => Err(error.into()),
        }
    }

    /// Deletes all branches of the conversation that a thread belongs to, the thread itself last.
    pub async fn delete_branches(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
    ) -> Result<(), DeleteThreadError> {
        let at = thread.into();
        if let Ok(found) = self.get(principal, at.id).await
            && let Some(family) = found.branch.family
        {
            self.deps.directory.refuse_other_thread::<DeleteThreadError>(found.key, at.epoch).await?;
            self.delete_relatives(&found, family).await?;
            self.delete(principal, at).await?;
            // Branches may have been forked until the last one was deleted; without a branch, no fork can be made.
            return Ok(self.delete_relatives(&found, family).await?);
        }
        self.delete(principal, at).await
    }

    /// Deletes all branches of a conversation except `thread`, also those that are forked meanwhile, in up to [`DELETE_ROUNDS`]
    /// rounds. After them what is left stays, and the error says so.
    async fn delete_relatives(&self, thread: &Thread, family: Family) -> Result<(), StoreError> {
        for _ in 0..DELETE_ROUNDS {
            let branches = self.deps.store.branches(&thread.project, &thread.user, family, READ_BRANCHES).await?;
            let others: Vec<_> = branches.iter().filter(|branch| branch.key != thread.key).collect();
            if others.is_empty() {
                return Ok(());
            }
            for branch in others {
                self.deps.store.delete_thread(branch.key, None).await?;
                self.deps.listeners.deleted(&ThreadRef::from(branch));
            }
        }
        Err(StoreError::Unavailable(
            "branches of the conversation are forked faster than they are deleted, and some are left; delete those as well".into(),
        ))
    }

    /// Lists another branch of the conversation before the listed one is deleted: the one that was used last. After a crash between
    /// the two the thread is still there, and its conversation in the list.
    async fn list_another(&self, thread: &Thread) -> Result<(), StoreError> {
        let (store, Branch { family: Some(family), listed: true, .. }) = (&self.deps.store, &thread.branch) else {
            return Ok(());
        };
        let branches = store.branches(&thread.project, &thread.user, *family, READ_BRANCHES).await?;
        let used = |branch: &Thread| (branch.last_run_at.unwrap_or(branch.updated_at), branch.key);
        let others = branches.into_iter().filter(|branch| branch.key != thread.key);
        if let Some(other) = others.max_by_key(used) {
            store.list_branch(&thread.project, &thread.user, *family, Some(other.key)).await?;
        }
        Ok(())
    }
}
