//! Comparison of the feeds of users with their threads.

use std::collections::BTreeSet;

use threadline_core::{FeedChange, ProjectId, ThreadId, UserId, limits::MAX_PAGE};
use threadline_store::{StoreError, TransferStore};

use super::{Finding, Owners};

/// Verifies that the feed of each user names the user's threads, and no other as present. A feed that still owes
/// positions is left out.
pub(super) async fn verify(store: &dyn TransferStore, owners: &Owners) -> Result<Vec<Finding>, StoreError> {
    let mut findings = Vec::new();
    for ((project, user), threads) in owners {
        let differences = one(store, project, user, threads).await?;
        if differences.is_empty() || is_behind(store, project, user).await? {
            continue;
        }
        // Both lists again, since the first one was made while other threads were read.
        let now = ids(store, project, user).await?;
        findings.extend(one(store, project, user, &now).await?);
    }
    Ok(findings)
}

async fn is_behind(store: &dyn TransferStore, project: &ProjectId, user: &UserId) -> Result<bool, StoreError> {
    let behind = store.dirty_feeds(MAX_PAGE).await?;
    Ok(behind.len() >= MAX_PAGE || behind.iter().any(|(of, owner)| of == project && owner == user))
}

/// Ids of all threads of a user.
async fn ids(store: &dyn TransferStore, project: &ProjectId, user: &UserId) -> Result<BTreeSet<ThreadId>, StoreError> {
    let (mut ids, mut after) = (BTreeSet::new(), None);
    loop {
        let page = store.all_threads(after, MAX_PAGE).await?;
        let Some(last) = page.last() else { return Ok(ids) };
        after = Some(last.thread.key);
        let own = page.into_iter().map(|moved| moved.thread);
        ids.extend(own.filter(|thread| thread.project == *project && thread.user == *user).map(|thread| thread.id));
    }
}

async fn one(
    store: &dyn TransferStore,
    project: &ProjectId,
    user: &UserId,
    threads: &BTreeSet<ThreadId>,
) -> Result<Vec<Finding>, StoreError> {
    let (mut named, mut after, mut findings) = (BTreeSet::new(), 0, Vec::new());
    let mut find = |id: Option<&ThreadId>, detail: String| {
        findings.push(Finding {
            kind: "feed-differs-from-threads",
            thread: id.map(|id| (project.clone(), id.clone())),
            detail,
        });
    };
    loop {
        let page = store.feed(project, user, after, MAX_PAGE).await?;
        let Some(last) = page.entries.last() else { break };
        if last.cursor > page.head.position {
            let (position, head) = (last.cursor, page.head.position);
            find(None, format!("the feed of {user} has position {position} beyond its head {head}"));
        }
        after = last.cursor;
        for entry in page.entries {
            match entry.change {
                FeedChange::Upsert(_) => {
                    named.insert(entry.thread_id);
                }
                FeedChange::Delete if threads.contains(&entry.thread_id) => {
                    find(Some(&entry.thread_id), format!("the feed of {user} says that this thread was deleted"));
                }
                FeedChange::Delete => {}
            }
        }
    }
    for id in threads.symmetric_difference(&named) {
        let what = if threads.contains(id) { "lacks this thread" } else { "has this thread, which does not exist" };
        find(Some(id), format!("the feed of {user} {what}"));
    }
    Ok(findings)
}
