//! Rings give way to other uses of the memory: they are a cache, and the store has their events.

use std::sync::Arc;

use threadline_core::limits::RING_PAUSE;

use crate::{lifecycle::Lifecycle, limits::MemoryBudget, subscription::Hub};

/// Loop that cuts the rings of all followed threads when the memory is short.
pub(crate) async fn run(hub: Arc<Hub>, memory: MemoryBudget, lifecycle: Lifecycle) {
    loop {
        tokio::select! {
            () = memory.pressed() => {}
            () = lifecycle.stopped() => return,
        }
        hub.give_way();
        tokio::select! {
            () = tokio::time::sleep(RING_PAUSE) => {}
            () = lifecycle.stopped() => return,
        }
    }
}
