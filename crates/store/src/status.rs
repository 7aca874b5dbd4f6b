//! A store as a whole: its clock, whether it accepts writes, and its end.

use async_trait::async_trait;
use threadline_core::Timestamp;

use crate::error::StoreResult;

/// Status of a store at the moment of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreStatus {
    /// Time of the store's clock.
    pub now: Timestamp,
    /// True if every write would be refused: a standby of Postgres, or a database that is set to read only.
    pub read_only: bool,
}

/// Status and end of a store.
#[async_trait]
pub trait StatusStore: Send + Sync {
    /// Reads from the database itself. An answer means that reads work.
    async fn status(&self) -> StoreResult<StoreStatus>;

    /// Keeps the files of the store small, if that is the program's task. Called every
    /// [`threadline_core::limits::SWEEP_INTERVAL`].
    async fn maintain(&self) -> StoreResult<()> {
        Ok(())
    }

    /// Ends the store cleanly; no call may follow.
    async fn shut_down(&self);
}
