//! Room for large pages: most are small and need none, but an event may have megabytes, and readers may be stuck.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::{
    LogSlice,
    limits::{LARGE_PAGE_BYTES, LARGE_PAGES_BYTES},
};

/// Permits are handed out in units of this many bytes.
const UNIT: usize = 1_024;

/// The room that large pages of all readers of a node share.
#[derive(Debug, Clone)]
pub struct LargePages(Arc<Semaphore>);

/// Room for one page; given back when it is dropped.
pub type Room = OwnedSemaphorePermit;

impl Default for LargePages {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LARGE_PAGES_BYTES / UNIT)))
    }
}

impl LargePages {
    /// How much room a page needs; `None` if it is small.
    pub fn needed(slice: &LogSlice) -> Option<u32> {
        let bytes = slice.bytes();
        (bytes > LARGE_PAGE_BYTES).then(|| u32::try_from(bytes.min(LARGE_PAGES_BYTES) / UNIT).unwrap_or(u32::MAX))
    }

    /// Room, if there is some right now.
    pub fn take(&self, needed: u32) -> Option<Room> {
        self.0.clone().try_acquire_many_owned(needed).ok()
    }

    /// Waits for room, first come first served. Hold no page meanwhile. `None` never comes: the room is never closed.
    pub async fn wait(&self, needed: u32) -> Option<Room> {
        self.0.clone().acquire_many_owned(needed).await.ok()
    }
}
