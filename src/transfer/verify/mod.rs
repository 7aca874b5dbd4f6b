//! `threadline verify`: looks for contradictions in the data of a store. Reads only.

mod feed;
mod finding;
mod log;
mod streams;
mod tables;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Value, json};
use threadline_core::{ProjectId, ThreadId, ThreadKey, Timestamp, UserId};
use threadline_store::{MovedThread, StoreError, VerifyStore};
use tokio::time::{Instant, sleep_until};

use self::finding::readable;
pub use self::finding::{Finding, FindingKind};
use crate::progress::Progress;

/// Part of a store that is verified, and how fast.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Only threads of this project.
    pub project: Option<ProjectId>,
    /// Only threads that were used at this time or later.
    pub since: Option<Timestamp>,
    /// Bytes of events read per second at most.
    pub rate: Option<u64>,
}

/// Amounts that were verified.
#[derive(Debug, Clone, Copy, Default)]
pub struct Verified {
    /// Threads that were read to their end.
    pub threads: u64,
    /// Events that were read.
    pub events: u64,
    /// Plain streams that were read to their end.
    pub streams: u64,
    /// Bytes of these events and streams.
    pub bytes: u64,
    /// Number of contradictions found.
    pub findings: u64,
}

impl Verified {
    /// The last line of the output.
    pub fn line(&self) -> Value {
        let Self { threads, events, streams, bytes, findings } = self;
        json!({ "verified": { "threads": threads, "events": events, "streams": streams, "bytes": bytes, "findings": findings } })
    }
}

/// Users' threads by their ids, and the project of the users.
type Owners = BTreeMap<(ProjectId, UserId), BTreeSet<ThreadId>>;

/// Reads everything in `scope`, and hands on each contradiction. Data that cannot be read is a finding as well, and does not
/// end the verification. A store that is in use may change between two reads, so a contradiction between two reads counts if
/// a second look finds it again.
pub async fn verify(
    store: &dyn VerifyStore,
    scope: &Scope,
    progress: &Progress,
    mut found: impl FnMut(&Finding),
) -> Result<Verified, StoreError> {
    let mut done = Verified::default();
    let mut report = |findings: &mut Vec<Finding>, done: &mut Verified| {
        done.findings += findings.len() as u64;
        findings.iter().for_each(&mut found);
        findings.clear();
    };
    let mut findings = Vec::new();
    if scope.project.is_none() {
        tables::damage(store, &mut findings).await?;
        report(&mut findings, &mut done);
    }
    let counted = readable(store.count_threads().await, &mut findings, |reason| {
        Finding::of_store(FindingKind::TableUnreadable, format!("the threads cannot be counted: {reason}"))
    })?;
    let total = counted.unwrap_or(0);
    let (begun, mut after, mut owners, mut seen, mut partial) = (Instant::now(), None, Owners::new(), 0, false);
    loop {
        let page = tables::page(store, after, &mut findings).await?;
        report(&mut findings, &mut done);
        partial |= page.partial;
        let Some(last) = page.last else { break };
        after = Some(last);
        for moved in page.threads {
            seen += 1;
            let thread = &moved.thread;
            if scope.project.as_ref().is_some_and(|project| *project != thread.project) {
                continue;
            }
            let shown = owners.entry((thread.project.clone(), thread.user.clone())).or_default();
            // To a feed, a branch that is not listed is a deleted thread.
            if thread.branch.listed {
                shown.insert(thread.id.clone());
            }
            if scope.since.is_some_and(|since| thread.last_run_at.unwrap_or(thread.updated_at) < since) {
                continue;
            }
            report(&mut thread_twice(store, &moved, &mut done).await?, &mut done);
            if let Some(rate) = scope.rate.filter(|rate| *rate > 0) {
                sleep_until(begun + Duration::from_millis(done.bytes.saturating_mul(1_000) / rate)).await;
            }
            progress.bar(seen, total, || format!("{seen} of {total} threads"));
        }
    }
    if scope.project.is_none() {
        tables::rows_without_a_thread(store, &mut findings).await?;
        tables::turns_without_a_thread(store, &mut findings).await?;
        tables::queues_without_a_thread(store, &mut findings).await?;
    }
    tables::queues(store, scope, &mut findings).await?;
    tables::entries_without_a_thread(store, scope.project.as_ref(), &mut findings).await?;
    feed::verify(store, &owners, partial, &mut findings).await?;
    streams::verify(store, scope, &mut done, &mut findings).await?;
    report(&mut findings, &mut done);
    Ok(done)
}

/// Turns that are read of a thread: one more than a thread may have.
const TURNS: usize = 2;

/// Verifies a thread, and again if something was found: what remains of it.
async fn thread_twice(
    store: &dyn VerifyStore,
    moved: &MovedThread,
    done: &mut Verified,
) -> Result<Vec<Finding>, StoreError> {
    let first = thread(store, moved, done).await?;
    if first.is_empty() {
        return Ok(first);
    }
    let again = match store.all_threads(Some(ThreadKey(moved.thread.key.0 - 1)), 1).await {
        Ok(again) => again,
        // The thread was readable a moment ago.
        Err(StoreError::Corrupt(_)) => return Ok(first),
        Err(error) => return Err(error),
    };
    let Some(again) = again.into_iter().find(|again| again.thread.key == moved.thread.key) else {
        return Ok(Vec::new());
    };
    let second = thread(store, &again, &mut Verified::default()).await?;
    Ok(second.into_iter().filter(|finding| first.iter().any(|earlier| earlier.kind == finding.kind)).collect())
}

async fn thread(store: &dyn VerifyStore, moved: &MovedThread, done: &mut Verified) -> Result<Vec<Finding>, StoreError> {
    let thread = &moved.thread;
    let mut look = log::Look::new(moved, store.clock().now());
    look.read(store).await?;
    done.threads += 1;
    done.events += look.events;
    done.bytes += look.bytes;
    let mut findings = look.findings;
    let find = |kind, detail| Finding { kind, thread: Some((thread.project.clone(), thread.id.clone())), detail };
    let turns = readable(store.turns(Some(ThreadKey(thread.key.0 - 1)), TURNS).await, &mut findings, |reason| {
        find(FindingKind::TableUnreadable, format!("turns cannot be read from this thread on: {reason}"))
    })?;
    if let Some(mut turns) = turns {
        turns.retain(|(key, _)| *key == thread.key);
        let active = thread.active_run.as_ref().map(|run| &run.id);
        if turns.len() != usize::from(active.is_some()) || turns.iter().any(|(_, run)| Some(run) != active) {
            let runs: Vec<_> = turns.iter().map(|(_, run)| run.as_str()).collect();
            let active = active.map_or("none", |run| run.as_str());
            let detail = format!("the active run of the head is {active}, but turns has {runs:?}");
            findings.push(find(FindingKind::TurnsDifferFromHead, detail));
        }
    }
    let snapshots = readable(store.snapshot_seqs(thread.key).await, &mut findings, |reason| {
        find(FindingKind::SnapshotDamaged, format!("the snapshots cannot be listed: {reason}"))
    })?;
    for (seq, version) in snapshots.unwrap_or_default() {
        let readable = matches!(store.snapshot(thread.key, seq, version).await, Ok(Some(found)) if found.seq == seq);
        if !readable {
            let detail = format!("the snapshot at event {seq} cannot be read; reads fold the log instead");
            findings.push(find(FindingKind::SnapshotDamaged, detail));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests;
