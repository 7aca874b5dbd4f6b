//! A planted bug: appends are acknowledged while they are on their way to the disk.

use std::time::Duration;

use super::{
    committer::{Entry, Receipt},
    context::Context,
    submit::Reply,
};
use crate::planted::{Bug, planted};

/// As with a timer that gathers more before the commit.
const GATHERING: Duration = Duration::from_millis(20);

/// Answers what will match its head, as far as one can see; then it goes on without anybody to answer to.
pub(super) async fn acknowledge(context: &Context, mut entries: Vec<Entry>) -> Vec<Entry> {
    if !planted(Bug::AckBeforeCommit) {
        return entries;
    }
    let keys: Vec<_> = entries.iter().filter_map(|entry| Some(entry.requests.first()?.thread.key)).collect();
    let Ok(heads) = context.store.heads(&keys).await else { return entries };
    for entry in &mut entries {
        let Some(first) = entry.requests.first() else { continue };
        let Some(head) = heads.iter().find(|head| head.key == first.thread.key) else { continue };
        let Some(active) = head.active.as_ref().filter(|_| head.fence == first.fence) else { continue };
        if first.producer_seq.is_some_and(|next| next != active.producer_seq + 1) {
            continue;
        }
        let (mut first_seq, mut producer_seq) = (head.tail + 1, active.producer_seq);
        for request in &mut entry.requests {
            let count = request.events.count() as u64;
            producer_seq += count;
            let receipt = Receipt::committed(&request.thread, head, first_seq, count, producer_seq);
            first_seq += count;
            std::mem::replace(&mut request.reply, Reply::none()).send(Ok(receipt));
        }
    }
    tokio::time::sleep(GATHERING).await;
    entries
}
