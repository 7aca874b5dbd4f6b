//! Restored backups: makes cursors and positions from before the restore invalid.

use threadline_core::{
    ThreadKey,
    limits::{MAX_PAGE, RENEWAL_CHUNK},
};
use threadline_store::{StoreError, TransferStore};

use crate::progress::Progress;

/// Gives every log a new epoch, and advances every feed: a reader with a cursor into the lost part receives an error,
/// instead of other events under the same seqs. Returns the number of threads. May be interrupted and repeated. No node
/// may be running.
pub async fn restored(store: &dyn TransferStore, progress: &Progress) -> Result<u64, StoreError> {
    let (total, mut done, mut after) = (store.count_threads().await?, 0, None::<ThreadKey>);
    loop {
        let keys = store.renew_epochs(after, RENEWAL_CHUNK).await?;
        let Some(last) = keys.last() else { break };
        (done, after) = (done + keys.len() as u64, Some(*last));
        progress.bar(done, total, || format!("{done} of {total} threads"));
    }
    let mut after = None;
    loop {
        let feeds = store.all_feeds(after.as_ref(), MAX_PAGE).await?;
        for (project, user) in &feeds {
            store.renew_feed(project, user).await?;
        }
        match feeds.into_iter().next_back() {
            Some(last) => after = Some(last),
            None => return Ok(done),
        }
    }
}
