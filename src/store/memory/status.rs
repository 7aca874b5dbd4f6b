//! Memory that is asked how it is.

use async_trait::async_trait;

use super::MemoryStore;
use crate::store::{StatusStore, StoreResult, StoreStatus};

#[async_trait]
impl StatusStore for MemoryStore {
    async fn status(&self) -> StoreResult<StoreStatus> {
        Ok(StoreStatus { now: self.clock.now(), read_only: false })
    }
}
