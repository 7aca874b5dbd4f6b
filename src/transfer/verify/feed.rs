//! Comparison of the feeds of users with their threads.

use std::collections::BTreeSet;

use threadline_core::{FeedChange, ProjectId, ThreadId, UserId, limits::MAX_PAGE};
use threadline_store::{StoreError, VerifyStore};

use super::{
    Owners,
    finding::{Finding, FindingKind, readable},
};

/// Verifies that the feed of each user names the user's threads, and no other as present. A feed that still owes
/// positions is left out. If `partial`, `owners` lacks threads that could not be read: a feed may name more of them.
pub(super) async fn verify(
    store: &dyn VerifyStore,
    owners: &Owners,
    partial: bool,
    findings: &mut Vec<Finding>,
) -> Result<(), StoreError> {
    for ((project, user), threads) in owners {
        let look = Look { store, project, user, partial };
        let differences = look.at(threads, findings).await?;
        let Some(differences) = differences.filter(|differences| !differences.is_empty()) else { continue };
        let behind = readable(is_behind(store, project, user).await, findings, |reason| look.unreadable(&reason))?;
        if behind.unwrap_or(true) {
            continue;
        }
        if partial {
            findings.extend(differences);
            continue;
        }
        // Both lists again, since the first one was made while other threads were read.
        let now = readable(ids(store, project, user).await, findings, |reason| look.unreadable(&reason))?;
        let Some(now) = now else { continue };
        let again = look.at(&now, findings).await?;
        findings.extend(again.into_iter().flatten());
    }
    Ok(())
}

async fn is_behind(store: &dyn VerifyStore, project: &ProjectId, user: &UserId) -> Result<bool, StoreError> {
    let behind = store.dirty_feeds(MAX_PAGE).await?;
    Ok(behind.len() >= MAX_PAGE || behind.iter().any(|(of, owner)| of == project && owner == user))
}

/// Ids of all threads of a user that feeds show.
async fn ids(store: &dyn VerifyStore, project: &ProjectId, user: &UserId) -> Result<BTreeSet<ThreadId>, StoreError> {
    let (mut ids, mut after) = (BTreeSet::new(), None);
    loop {
        let page = store.all_threads(after, MAX_PAGE).await?;
        let Some(last) = page.last() else { return Ok(ids) };
        after = Some(last.thread.key);
        let own = page.into_iter().map(|moved| moved.thread);
        let own = own.filter(|thread| thread.project == *project && thread.user == *user && thread.branch.listed);
        ids.extend(own.map(|thread| thread.id));
    }
}

/// A look at the feed of a user.
struct Look<'v> {
    store: &'v dyn VerifyStore,
    project: &'v ProjectId,
    user: &'v UserId,
    partial: bool,
}

impl Look<'_> {
    fn unreadable(&self, reason: &str) -> Finding {
        let detail = format!("the feed of {} in the project {} cannot be read: {reason}", self.user, self.project);
        Finding::of_store(FindingKind::FeedUnreadable, detail)
    }

    /// Differences between the feed and `threads`; `None`, and a finding, if the feed cannot be read.
    async fn at(
        &self,
        threads: &BTreeSet<ThreadId>,
        findings: &mut Vec<Finding>,
    ) -> Result<Option<Vec<Finding>>, StoreError> {
        let Self { store, project, user, partial } = *self;
        let (mut named, mut after, mut differences) = (BTreeSet::new(), 0, Vec::new());
        let mut find = |id: Option<&ThreadId>, detail: String| {
            let thread = id.map(|id| (project.clone(), id.clone()));
            differences.push(Finding { kind: FindingKind::FeedDiffersFromThreads, thread, detail });
        };
        loop {
            let page = store.feed(project, user, after, MAX_PAGE).await;
            let page = readable(page, findings, |reason| self.unreadable(&reason))?;
            let Some(page) = page else { return Ok(None) };
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
                        let detail = format!("the feed of {user} says that this thread was deleted");
                        find(Some(&entry.thread_id), detail);
                    }
                    FeedChange::Delete => {}
                }
            }
        }
        for id in threads.symmetric_difference(&named) {
            if threads.contains(id) {
                find(Some(id), format!("the feed of {user} lacks this thread"));
            } else if !partial {
                find(Some(id), format!("the feed of {user} has this thread, which does not exist"));
            }
        }
        Ok(Some(differences))
    }
}
