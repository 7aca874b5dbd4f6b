//! Use cases of retention: the trash, and the approval of a sweep that waits.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use threadline_core::{AuditEntry, Principal, ProjectId, Thread, ThreadId, TrashPage, TrashPosition, limits::MAX_PAGE};
use threadline_store::{DynStore, JobKind, JobSubject, PutJob, Restoration, RetentionHold, StoreClock, StoreError};

use crate::{ApproveError, RestoreError, lifecycle::Lifecycle, upkeep::feed_writer::FeedWriter};

/// Use cases of the trash of a project.
#[derive(Clone)]
pub struct Trash {
    pub(crate) deps: Arc<TrashDeps>,
}

/// Dependencies of [`Trash`], shared by its clones.
pub(crate) struct TrashDeps {
    pub store: DynStore,
    pub clock: StoreClock,
    pub feed_writer: Arc<FeedWriter>,
    pub lifecycle: Lifecycle,
}

impl Trash {
    /// A page of the trash of the principal's project, what was put there last first. `limit` is clamped to
    /// 1..=[`MAX_PAGE`].
    pub async fn list(
        &self,
        principal: &Principal,
        after: Option<&TrashPosition>,
        limit: usize,
    ) -> Result<TrashPage, StoreError> {
        self.deps.store.trashed(&principal.project, after, limit.clamp(1, MAX_PAGE)).await
    }

    /// Restores the thread of this id, and of the principal's user if it has one, that was put in the trash last. A repeated
    /// call returns the same thread.
    pub async fn restore(&self, principal: &Principal, id: &ThreadId) -> Result<Thread, RestoreError> {
        self.deps.lifecycle.refuse_if_draining()?;
        let (store, project) = (&self.deps.store, &principal.project);
        let facts = json!({ "threadId": id.as_str() });
        let entry = AuditEntry::by(principal, project, self.deps.clock.now(), "thread.restored", &facts);
        let mut outcome = store.restore(project, principal.user.as_ref(), id, &entry).await?;
        // In development mode every caller has a user, and sees to the whole project nevertheless.
        if outcome == Restoration::Absent && principal.user.is_some() && principal.acts_for_project() {
            outcome = store.restore(project, None, id, &entry).await?;
        }
        let thread = match outcome {
            Restoration::Restored(thread) => *thread,
            Restoration::Taken => return Err(RestoreError::ThreadExists),
            Restoration::Ambiguous => return Err(RestoreError::ThreadAmbiguous),
            Restoration::Absent => return Err(RestoreError::ThreadNotFound),
        };
        if let Some(family) = thread.branch.family {
            store.list_branch(project, &thread.user, family, Some(thread.key)).await?;
        }
        self.deps.feed_writer.mark(project, &thread.user);
        Ok(thread)
    }

    /// Approves that retention, which waits for it, puts up to `count` threads of a project in the trash. The
    /// next pass begins at once.
    pub async fn approve(
        &self,
        principal: &Principal,
        project: &ProjectId,
        count: u64,
    ) -> Result<RetentionHold, ApproveError> {
        self.deps.lifecycle.refuse_if_draining()?;
        let store = &self.deps.store;
        let held = store.holds().await?.into_iter().find(|hold| hold.project == *project);
        let held = held.ok_or(ApproveError::RetentionNotHeld)?;
        let facts = json!({ "count": count, "idle": held.idle, "threads": held.threads });
        let entry = AuditEntry::by(principal, project, self.deps.clock.now(), "retention.approved", &facts);
        let hold = store.approve(project, count, &entry).await?.ok_or(ApproveError::RetentionNotHeld)?;
        let subject = JobSubject::Project(project.clone());
        store.put_job(JobKind::Retention, &subject, Duration::ZERO, PutJob::Anew).await?;
        Ok(hold)
    }
}
