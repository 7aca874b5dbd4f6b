//! The state of the store and the distance of its clock from this node's.

use threadline_core::Clock;
use threadline_store::{StatusStore, StoreResult, StoreStatus};

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
