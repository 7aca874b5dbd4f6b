//! Feed positions of lists that were read a moment ago.

use moka::sync::Cache;
use threadline_core::{
    FeedCursor, Principal, ProjectId, UserId,
    limits::{LIST_MEMORY, MAX_LISTS},
};

/// Feed positions of users at the time when their lists were read. Cheap to clone.
#[derive(Clone)]
pub struct ListPositions(Cache<(ProjectId, UserId), FeedCursor>);

impl Default for ListPositions {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(MAX_LISTS).time_to_live(LIST_MEMORY).build())
    }
}

impl ListPositions {
    /// Records the position of the user's feed as of which the first page of a list was read.
    pub fn read(&self, principal: &Principal, position: FeedCursor) {
        if let Some(user) = &principal.user {
            // The oldest position is kept: several pages of one user may each be about to request a token.
            self.0.get_with((principal.project.clone(), user.clone()), || position);
        }
    }

    /// The recorded position, if it is not forgotten yet.
    pub fn position(&self, principal: &Principal) -> Option<FeedCursor> {
        self.0.get(&(principal.project.clone(), principal.user.clone()?))
    }
}
