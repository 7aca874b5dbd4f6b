//! Families: threads that are branches of one conversation.

use async_trait::async_trait;
use threadline_core::{Family, ProjectId, Thread, ThreadKey, UserId};

use crate::error::StoreResult;

/// Interface for the branches of conversations.
#[async_trait]
pub trait BranchStore: Send + Sync {
    /// Threads of a family, oldest first, at most `limit`. None of them is deleted or in the trash.
    async fn branches(
        &self,
        project: &ProjectId,
        user: &UserId,
        family: Family,
        limit: usize,
    ) -> StoreResult<Vec<Thread>>;

    /// Threads of a user that lists leave out, at most `limit`, in any order.
    async fn unlisted(&self, project: &ProjectId, user: &UserId, limit: usize) -> StoreResult<Vec<Thread>>;

    /// Lists one thread of a family and no other: the one with this key, or, without a key, the listed one, else the one that was
    /// used last. Nothing changes if no thread of the family has the key. True if any thread changed.
    async fn list_branch(
        &self,
        project: &ProjectId,
        user: &UserId,
        family: Family,
        key: Option<ThreadKey>,
    ) -> StoreResult<bool>;
}
