//! After a backup was put back: what was handed out since it was made means nothing any more.

use crate::{
    domain::{
        ThreadKey,
        limits::{MAX_PAGE, RENEWAL_CHUNK},
    },
    progress::Progress,
    store::{StoreError, TransferStore},
};

/// Gives every log another epoch, and moves every feed up: readers who hold a cursor into what was lost are told so,
/// instead of being served other events under the same seqs. Answers how many threads there are. May be broken off and
/// given again. No node may be at work.
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
