//! The state of the store and the distance of its clock from this node's.

use threadline_core::Clock;
use threadline_store::{StatusStore, StoreResult};

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

/// Clock of the store, compared with the middle of a round trip on this node's clocks, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ComparedClock {
    /// Excess over this node's clock.
    pub skew_ms: i64,
    /// Excess over what this node expects of it: a step that no beat has noticed yet.
    pub step_ms: i64,
}

/// Reads the store's clock and compares it.
pub(crate) async fn compare_clock(store: &dyn StatusStore, machine: &Clock) -> StoreResult<ComparedClock> {
    let (wall, asked) = (machine.now().0, store.clock().steady());
    let now = store.status().await?.now;
    let middle = wall + machine.now().0.saturating_sub(wall) / 2;
    let expected = store.clock().at(asked.middle(store.clock().steady()));
    Ok(ComparedClock { skew_ms: now.0.saturating_sub(middle), step_ms: now.0.saturating_sub(expected.0) })
}
