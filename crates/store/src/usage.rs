//! Sums of what users and projects have stored.
//!
//! A row holds the sum of a user: the bytes of events, uncompressed, and the number of threads, of all threads whose rows are
//! there, so also of those in the trash. A further row holds the sum of each project. Nodes add what they commit, from time to
//! time; a purge subtracts what it removes, and an import adds what it stages, with the same commit. A crash loses what a node
//! has not added yet, and what is added again after a failure may count twice: [`UsageStore::count_usage`] corrects a row.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{ProjectId, Usage, UsageOwner, UserId};

use crate::error::StoreResult;

/// Sums of stored data.
#[async_trait]
pub trait UsageStore: Send + Sync {
    /// The sum of a user or a project; `None` if nothing of it was ever added.
    async fn usage(&self, owner: &UsageOwner) -> StoreResult<Option<Usage>>;

    /// Adds to the sums of users, each user once, and to those of their projects. A user who has neither a sum nor a thread,
    /// since they were erased, gets none. Answers with the changed sums, those of the projects included. Unlike all other
    /// methods, a repetition after a failure may count twice. A row that is new is due for its count in
    /// [`threadline_core::limits::USAGE_FIRST_COUNT`]: what another node could not add before is not missing for long.
    async fn add_usage(&self, added: &[(ProjectId, UserId, Usage)]) -> StoreResult<Vec<(UsageOwner, Usage)>>;

    /// Owners whose sum was last counted at least `age` ago, the longest ago first.
    async fn due_usage(&self, age: Duration, limit: usize) -> StoreResult<Vec<UsageOwner>>;

    /// Counts what an owner has stored, corrects the sum, and returns it. What is committed and added meanwhile may count
    /// twice, until the next count. A user who has nothing has no row afterwards.
    async fn count_usage(&self, owner: &UsageOwner) -> StoreResult<Usage>;
}
