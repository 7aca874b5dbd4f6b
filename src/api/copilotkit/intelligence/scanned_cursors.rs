//! Cursors whose logs were scanned a moment ago. Sockets of one page name the same cursor, and open at the same time.

use std::sync::Arc;

use moka::sync::Cache;
use sha2::{Digest, Sha256};
use threadline_core::{
    Epoch, Seq,
    limits::{QUOTA_IDLE, SCANNED_CURSORS},
};
use tokio::sync::OnceCell;

/// A log, by its epoch and tail, and the digest of an event's id.
type Scan = (Epoch, Seq, [u8; 32]);

/// Results of scans that a node remembers. Cheap to clone.
#[derive(Clone)]
pub struct ScannedCursors(Cache<Scan, Arc<OnceCell<Option<Seq>>>>);

impl Default for ScannedCursors {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(SCANNED_CURSORS).time_to_idle(QUOTA_IDLE).build())
    }
}

impl ScannedCursors {
    /// Position of the event with this id in a log, remembered or found by the scan. Concurrent scans for one cursor
    /// are one; if it fails or is given up, the next caller scans.
    pub async fn find<E>(
        &self,
        epoch: Epoch,
        tail: Seq,
        id: &str,
        scan: impl Future<Output = Result<Option<Seq>, E>>,
    ) -> Result<Option<Seq>, E> {
        let found = self.0.get_with((epoch, tail, Sha256::digest(id).into()), Arc::default);
        found.get_or_try_init(|| scan).await.copied()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::future::join_all;
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn a_cursor_is_scanned_once_until_its_log_grows() {
        let (cursors, epoch, scans) = (ScannedCursors::default(), Epoch::generate(), Cell::new(0));
        let find = async |tail, id: &str, result: Result<Option<Seq>, ()>| {
            let scan = async {
                scans.set(scans.get() + 1);
                yield_now().await;
                result
            };
            cursors.find(epoch, tail, id, scan).await
        };
        // A failure is not remembered.
        assert_eq!(find(9, "unknown", Err(())).await, Err(()));
        let all = join_all((0..28).map(|_| find(9, "unknown", Ok(None)))).await;
        assert!(all.into_iter().all(|found| found == Ok(None)));
        assert_eq!(scans.get(), 2);
        assert_eq!((find(10, "unknown", Ok(None)).await, find(9, "known", Ok(Some(3))).await), (Ok(None), Ok(Some(3))));
        assert_eq!((find(9, "known", Err(())).await, scans.get()), (Ok(Some(3)), 4));
    }
}
