//! What a store says of itself, without any thread: its clock, and whether it takes writes.

use async_trait::async_trait;

use super::StoreResult;
use crate::domain::Timestamp;

/// A store as it was when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreStatus {
    /// Its clock.
    pub now: Timestamp,
    /// Everything that writes would be refused: a standby of Postgres, or a database set to read only.
    pub read_only: bool,
}

/// Tells how a store is.
#[async_trait]
pub trait StatusStore: Send + Sync {
    /// Asks the database itself. An answer means that reads work.
    async fn status(&self) -> StoreResult<StoreStatus>;
}
