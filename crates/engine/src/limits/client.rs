//! Client to which memory and work are charged.

use threadline_core::{Principal, ProjectId, UserId};

/// An untrusted client of a project, or all keys of the project together: without a user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Client {
    pub(super) project: ProjectId,
    pub(super) user: Option<UserId>,
}

impl Client {
    /// Client that a principal belongs to.
    pub fn of(principal: &Principal) -> Self {
        let user = principal.user.clone().filter(|_| principal.is_untrusted());
        Self { project: principal.project.clone(), user }
    }

    /// Keys of a project: also the work that the node does for a project by itself.
    pub fn keys(project: &ProjectId) -> Self {
        Self { project: project.clone(), user: None }
    }

    pub(super) fn is_untrusted(&self) -> bool {
        self.user.is_some()
    }
}
