//! Who is asking.

use super::{ProjectId, Thread, UserId};

/// Who is asking. Every method of the service takes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The tenant.
    pub project: ProjectId,
    /// The end user; `None` is the project itself (an API key without a user), which may act on any thread of it.
    pub user: Option<UserId>,
}

impl Principal {
    /// An end user of a project.
    pub fn user(project: ProjectId, user: UserId) -> Self {
        Self { project, user: Some(user) }
    }

    /// Whether this principal may see and change what belongs to `owner` in `project`.
    pub fn may_access(&self, project: &ProjectId, owner: &UserId) -> bool {
        self.project == *project && self.user.as_ref().is_none_or(|user| user == owner)
    }

    /// [`Principal::may_access`] for a thread.
    pub fn may_access_thread(&self, thread: &Thread) -> bool {
        self.may_access(&thread.project, &thread.user)
    }
}
