//! A store as a whole: its clock, whether it accepts writes, and its end.

use async_trait::async_trait;
use threadline_core::Timestamp;

use crate::{clock::StoreClock, error::StoreResult};

/// Status of a store at the moment of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreStatus {
    /// Time of the store's clock.
    pub now: Timestamp,
    /// True if every write would be refused: a standby of Postgres, or a database that is set to read only.
    pub read_only: bool,
}

/// Copies of a commit at the moment at which it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On the disk of the one server, which no other follows.
    Single,
    /// On the disk of a standby as well.
    Synchronous,
    /// On the disk of the server alone, though standbys follow it: a failover to one of them may lose commits.
    Asynchronous,
}

impl Durability {
    /// Every value, for metrics that have one series each.
    pub const ALL: [Self; 3] = [Self::Single, Self::Synchronous, Self::Asynchronous];

    /// Stable name, for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Synchronous => "synchronous",
            Self::Asynchronous => "async-standby",
        }
    }
}

/// Status and end of a store.
#[async_trait]
pub trait StatusStore: Send + Sync {
    /// The store's clock as this process knows it. The process that beats anchors it.
    fn clock(&self) -> &StoreClock;

    /// Reads from the database itself. An answer means that reads work.
    async fn status(&self) -> StoreResult<StoreStatus>;

    /// Copies of each commit, as the server is set up at this moment.
    async fn durability(&self) -> StoreResult<Durability>;

    /// Keeps the files of the store small, if that is the program's task. Called every
    /// [`threadline_core::limits::SWEEP_INTERVAL`].
    async fn maintain(&self) -> StoreResult<()> {
        Ok(())
    }

    /// Ends the store cleanly; no call may follow.
    async fn shut_down(&self);
}
