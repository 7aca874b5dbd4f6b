//! Memory for large pages. Most pages are small and need no permit, but an event may have megabytes, and readers may be
//! stuck.

use std::sync::Arc;

use threadline_core::{
    LogSlice,
    limits::{LARGE_PAGE_BYTES, LARGE_PAGES_BYTES},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that one permit stands for.
const UNIT: usize = 1_024;

/// Memory budget that the large pages of all readers of a node share.
#[derive(Debug, Clone)]
pub struct LargePages(Arc<Semaphore>);

/// Permits for one page; released when dropped.
pub type LargePagePermit = OwnedSemaphorePermit;

impl Default for LargePages {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LARGE_PAGES_BYTES / UNIT)))
    }
}

impl LargePages {
    /// Permits that a page needs; `None` if the page is small.
    pub fn needed(slice: &LogSlice) -> Option<u32> {
        let bytes = slice.bytes();
        (bytes > LARGE_PAGE_BYTES).then(|| u32::try_from(bytes.min(LARGE_PAGES_BYTES) / UNIT).unwrap_or(u32::MAX))
    }

    /// Takes permits if enough are free now.
    pub fn take(&self, needed: u32) -> Option<LargePagePermit> {
        self.0.clone().try_acquire_many_owned(needed).ok()
    }

    /// Waits for permits, in order of arrival. The caller must not hold a page meanwhile. `None` does not occur: the
    /// semaphore is never closed.
    pub async fn wait(&self, needed: u32) -> Option<LargePagePermit> {
        self.0.clone().acquire_many_owned(needed).await.ok()
    }
}
