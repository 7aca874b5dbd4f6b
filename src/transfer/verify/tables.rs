//! The tables of a store as a whole: damage of the files, and rows that belong to no thread.

use std::collections::BTreeSet;

use threadline_core::{
    ProjectId, ThreadId, ThreadKey,
    limits::{MAX_PAGE, VERIFY_DAMAGES},
};
use threadline_store::{KeyedTable, MovedThread, StoreResult, VerifyStore};

use super::{
    Scope,
    finding::{Finding, FindingKind, readable},
};

/// A page of the threads of a store.
pub(super) struct Page {
    pub(super) threads: Vec<MovedThread>,
    /// Last key of the page; `None` if no thread follows, or if they cannot be listed.
    pub(super) last: Option<ThreadKey>,
    /// True if some threads of the page could not be read.
    pub(super) partial: bool,
}

fn unreadable(table: &'static str) -> impl FnOnce(String) -> Finding {
    move |reason| {
        Finding::of_store(FindingKind::TableUnreadable, format!("{table} cannot be read to the end: {reason}"))
    }
}

/// Reads the next page of threads. Threads that cannot be read are findings, and are left out.
pub(super) async fn page(
    store: &dyn VerifyStore,
    after: Option<ThreadKey>,
    findings: &mut Vec<Finding>,
) -> StoreResult<Page> {
    let listed = store.listed_threads(after, MAX_PAGE).await;
    let Some(listed) = readable(listed, findings, unreadable("threads"))? else {
        return Ok(Page { threads: Vec::new(), last: None, partial: true });
    };
    let (before, last) = (findings.len(), listed.last().map(|thread| thread.key));
    for thread in listed.iter().filter(|thread| !thread.has_head) {
        let detail = format!("the thread with key {} has no head", thread.key.0);
        findings.push(Finding { kind: FindingKind::ThreadWithoutHead, thread: thread.id.clone(), detail });
    }
    // One by one, if one of them cannot be read.
    let threads = match readable(store.all_threads(after, MAX_PAGE).await, &mut Vec::new(), unreadable("threads"))? {
        Some(mut threads) => {
            threads.retain(|moved| Some(moved.thread.key) <= last);
            threads
        }
        None => {
            let mut threads = Vec::new();
            for thread in listed.into_iter().filter(|thread| thread.has_head && !thread.trashed) {
                let (key, id) = (thread.key, thread.id);
                let own = readable(store.all_threads(Some(ThreadKey(key.0 - 1)), 1).await, findings, |reason| {
                    let detail = format!("the thread with key {} cannot be read: {reason}", key.0);
                    Finding { kind: FindingKind::ThreadUnreadable, thread: id, detail }
                })?;
                threads.extend(own.into_iter().flatten().filter(|moved| moved.thread.key == key));
            }
            threads
        }
    };
    Ok(Page { threads, last, partial: findings.len() > before })
}

/// Damage that the database finds in its files.
pub(super) async fn damage(store: &dyn VerifyStore, findings: &mut Vec<Finding>) -> StoreResult<()> {
    let damaged = |detail| Finding::of_store(FindingKind::DatabaseDamaged, detail);
    let found = readable(store.damage(VERIFY_DAMAGES).await, findings, damaged)?;
    findings.extend(found.into_iter().flatten().map(damaged));
    Ok(())
}

/// Rows of heads, runs and logs whose thread does not exist.
pub(super) async fn rows_without_a_thread(store: &dyn VerifyStore, findings: &mut Vec<Finding>) -> StoreResult<()> {
    for table in KeyedTable::ALL {
        let mut after = None;
        loop {
            let page = readable(store.keys_in(table, after, MAX_PAGE).await, findings, unreadable(table.name()))?;
            let Some((last, _)) = page.as_ref().and_then(|page| page.last()) else { break };
            after = Some(*last);
            for (key, _) in page.iter().flatten().filter(|(_, has_thread)| !has_thread) {
                let detail = format!("{} has the key {}, which no thread has", table.name(), key.0);
                findings.push(Finding::of_store(FindingKind::RowWithoutThread, detail));
            }
        }
    }
    Ok(())
}

/// Entries of feeds that name a thread which does not exist, although it was never deleted.
pub(super) async fn entries_without_a_thread(
    store: &dyn VerifyStore,
    project: Option<&ProjectId>,
    findings: &mut Vec<Finding>,
) -> StoreResult<()> {
    let mut after = None;
    loop {
        let page = store.stored_entries(after.as_ref(), MAX_PAGE).await;
        let Some(mut page) = readable(page, findings, unreadable("feed_entries"))? else { return Ok(()) };
        let Some(last) = page.last().cloned() else { return Ok(()) };
        after = Some(last);
        page.retain(|entry| !entry.has_thread && project.is_none_or(|project| entry.project == project.as_str()));
        for entry in page {
            let key = entry.key.map_or(0, |key| key.0);
            let detail =
                format!("position {} in the feed of {} has the key {key}, which no thread has", entry.pos, entry.user);
            let id = (ProjectId::new(&entry.project), ThreadId::new(&entry.thread));
            let thread = if let (Ok(project), Ok(id)) = id { Some((project, id)) } else { None };
            findings.push(Finding { kind: FindingKind::FeedEntryWithoutThread, thread, detail });
        }
    }
}

/// Active turns whose thread has no head.
pub(super) async fn turns_without_a_thread(store: &dyn VerifyStore, findings: &mut Vec<Finding>) -> StoreResult<()> {
    let mut after = None;
    loop {
        let turns = readable(store.turns(after, MAX_PAGE).await, findings, unreadable("turns"))?.unwrap_or_default();
        let Some((last, _)) = turns.last() else { return Ok(()) };
        after = Some(*last);
        let keys: Vec<_> = turns.iter().map(|(key, _)| *key).collect();
        let Some(heads) = readable(store.heads(&keys).await, findings, unreadable("heads"))? else { continue };
        let heads: BTreeSet<_> = heads.into_iter().map(|head| head.key).collect();
        for (key, run) in turns.iter().filter(|(key, _)| !heads.contains(key)) {
            // A thread that was deleted between the two reads has no turn any more.
            let again = store.turns(Some(ThreadKey(key.0 - 1)), 1).await;
            let again = readable(again, findings, unreadable("turns"))?;
            if again.iter().flatten().any(|(left, _)| left == key) {
                let detail = format!("turns has run {run} of the thread with key {}, which has no head", key.0);
                findings.push(Finding::of_store(FindingKind::TurnWithoutThread, detail));
            }
        }
    }
}

/// Queues whose head counts other turns than are stored. Both are read in one statement, so no change comes between.
pub(super) async fn queues(store: &dyn VerifyStore, scope: &Scope, findings: &mut Vec<Finding>) -> StoreResult<()> {
    let (mut after, project) = (None, scope.project.as_ref());
    loop {
        let page = readable(store.counted_queues(after, MAX_PAGE).await, findings, unreadable("turns"))?;
        let Some(last) = page.as_ref().and_then(|page| page.last()).map(|queue| queue.key) else { return Ok(()) };
        after = Some(last);
        for queue in page.into_iter().flatten().filter(|queue| queue.counted != queue.stored) {
            if project.is_some_and(|project| queue.id.as_ref().is_none_or(|(of, _)| of != project)) {
                continue;
            }
            let detail =
                format!("the head counts {} queued turns, but turns has {} of them", queue.counted, queue.stored);
            findings.push(Finding { kind: FindingKind::QueueDiffersFromHead, thread: queue.id, detail });
        }
    }
}

/// Queued turns whose thread has no head.
pub(super) async fn queues_without_a_thread(store: &dyn VerifyStore, findings: &mut Vec<Finding>) -> StoreResult<()> {
    let mut after = None;
    loop {
        let page = readable(store.queues_without_head(after, MAX_PAGE).await, findings, unreadable("turns"))?;
        let Some(last) = page.as_ref().and_then(|page| page.last().copied()) else { return Ok(()) };
        after = Some(last);
        for key in page.into_iter().flatten() {
            let detail = format!("turns are queued in the thread with key {}, which has no head", key.0);
            findings.push(Finding::of_store(FindingKind::TurnWithoutThread, detail));
        }
    }
}
