//! Status of the memory store.

use async_trait::async_trait;

use super::MemoryStore;
use crate::{Durability, StatusStore, StoreClock, StoreResult, StoreStatus};

#[async_trait]
impl StatusStore for MemoryStore {
    fn clock(&self) -> &StoreClock {
        &self.known
    }

    async fn status(&self) -> StoreResult<StoreStatus> {
        Ok(StoreStatus { now: self.clock.now(), read_only: false })
    }

    async fn durability(&self) -> StoreResult<Durability> {
        Ok(Durability::Single)
    }

    async fn shut_down(&self) {}
}
