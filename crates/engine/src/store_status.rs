//! The state of the store and the distance of its clock from this node's.

use threadline_core::Clock;
use threadline_store::{StatusStore, StoreResult, StoreStatus};

/// State of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreState {
    /// The store has committed a write of this node during the last [`threadline_core::limits::READY_BEAT_AGE`].
    Good,
    /// The store has not answered the first write yet.
    Starting,
    /// The store does not respond. Without the store no request can be served.
    Unreachable,
    /// The store responds but refuses writes: a standby, or a read-only database.
    ReadOnly,
    /// The store answers reads but commits no write in time: a full disk, a missing synchronous standby, a lock.
    CommitsNothing,
    /// The history of the store has changed, and is being adopted.
    LineageChanging,
    /// The store's data is damaged.
    Corrupt,
}

impl StoreState {
    /// Stable name of the state: the reason why a node is not ready.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Starting => "starting",
            Self::Unreachable => "store-unreachable",
            Self::ReadOnly => "store-read-only",
            Self::CommitsNothing => "store-does-not-commit",
            Self::LineageChanging => "lineage-changing",
            Self::Corrupt => "store-is-corrupt",
        }
    }
}

/// Status of the store, and the milliseconds by which its clock is ahead of this node's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub status: StoreStatus,
    pub skew_ms: i64,
}

/// Reads the store's status. Its clock is compared with the middle of the round trip on this node's clock.
pub(crate) async fn ask(store: &dyn StatusStore, clock: &Clock) -> StoreResult<Asked> {
    let before = clock.now().0;
    let status = store.status().await?;
    let middle = before + clock.now().0.saturating_sub(before) / 2;
    Ok(Asked { status, skew_ms: status.now.0.saturating_sub(middle) })
}
