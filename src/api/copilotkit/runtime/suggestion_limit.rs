//! Limit on concurrent requests for suggestions.

use std::sync::Arc;

use moka::sync::Cache;
use threadline_core::{
    Principal, ProjectId, UserId,
    limits::{LIST_MEMORY, MAX_LISTS, MAX_SUGGESTING},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits for requests for suggestions, [`MAX_SUGGESTING`] per user at a time. Cheap to clone.
#[derive(Clone)]
pub struct SuggestionLimit(Cache<(ProjectId, Option<UserId>), Arc<Semaphore>>);

impl Default for SuggestionLimit {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(MAX_LISTS).time_to_idle(LIST_MEMORY).build())
    }
}

impl SuggestionLimit {
    /// Permit for a request of this principal; `None` at the limit.
    pub fn permit(&self, principal: &Principal) -> Option<OwnedSemaphorePermit> {
        let whose = (principal.project.clone(), principal.user.clone());
        self.0.get_with(whose, || Arc::new(Semaphore::new(MAX_SUGGESTING))).try_acquire_owned().ok()
    }
}
