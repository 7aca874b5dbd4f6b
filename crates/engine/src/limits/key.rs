//! Keys under which quotas are counted.

use threadline_core::{ProjectId, UserId};

/// A user of a project, or the project as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    User(ProjectId, UserId),
    Project(ProjectId),
}
