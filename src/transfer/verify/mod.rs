//! `threadline verify`: looks for contradictions in the data of a store. Reads only.

mod feed;
mod log;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Value, json};
use threadline_core::{ProjectId, ThreadId, ThreadKey, Timestamp, UserId, limits::MAX_PAGE};
use threadline_store::{MovedThread, StoreError, TransferStore};
use tokio::time::{Instant, sleep_until};

use crate::progress::Progress;

/// A contradiction in the stored data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Kind, which scripts may compare.
    pub kind: &'static str,
    /// Project and thread; `None` for data without a thread.
    pub thread: Option<(ProjectId, ThreadId)>,
    /// Contradiction in words, with the values.
    pub detail: String,
}

impl Finding {
    /// The finding as a line of JSON.
    pub fn line(&self) -> Value {
        let (project, thread) = self.thread.as_ref().map(|(project, id)| (project.as_str(), id.as_str())).unzip();
        json!({ "finding": self.kind, "projectId": project, "threadId": thread, "detail": self.detail })
    }
}

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
    /// Bytes of these events.
    pub bytes: u64,
    /// Number of contradictions found.
    pub findings: u64,
}

impl Verified {
    /// The last line of the output.
    pub fn line(&self) -> Value {
        let Self { threads, events, bytes, findings } = self;
        json!({ "verified": { "threads": threads, "events": events, "bytes": bytes, "findings": findings } })
    }
}

/// Users' threads by their ids, and the project of the users.
type Owners = BTreeMap<(ProjectId, UserId), BTreeSet<ThreadId>>;

/// Reads everything in `scope`, and hands on each contradiction. A store that is in use may change between two reads, so
/// a contradiction counts if a second look finds it again.
pub async fn verify(
    store: &dyn TransferStore,
    scope: &Scope,
    progress: &Progress,
    mut found: impl FnMut(&Finding),
) -> Result<Verified, StoreError> {
    let (total, mut done) = (store.count_threads().await?, Verified::default());
    let (begun, mut after, mut owners) = (Instant::now(), None, Owners::new());
    let mut report = |findings: Vec<Finding>, done: &mut Verified| {
        done.findings += findings.len() as u64;
        findings.iter().for_each(&mut found);
    };
    let mut seen = 0;
    loop {
        let page = store.all_threads(after, MAX_PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.thread.key);
        for moved in page {
            seen += 1;
            let thread = &moved.thread;
            if scope.project.as_ref().is_some_and(|project| *project != thread.project) {
                continue;
            }
            owners.entry((thread.project.clone(), thread.user.clone())).or_default().insert(thread.id.clone());
            if scope.since.is_some_and(|since| thread.last_run_at.unwrap_or(thread.updated_at) < since) {
                continue;
            }
            let findings = thread_twice(store, &moved, &mut done).await?;
            report(findings, &mut done);
            if let Some(rate) = scope.rate.filter(|rate| *rate > 0) {
                sleep_until(begun + Duration::from_millis(done.bytes.saturating_mul(1_000) / rate)).await;
            }
            progress.bar(seen, total, || format!("{seen} of {total} threads"));
        }
    }
    if scope.project.is_none() {
        report(turns_without_a_thread(store).await?, &mut done);
    }
    report(feed::verify(store, &owners).await?, &mut done);
    Ok(done)
}

/// Verifies a thread, and again if something was found: what remains of it.
async fn thread_twice(
    store: &dyn TransferStore,
    moved: &MovedThread,
    done: &mut Verified,
) -> Result<Vec<Finding>, StoreError> {
    let first = thread(store, moved, done).await?;
    if first.is_empty() {
        return Ok(first);
    }
    let again = store.all_threads(Some(ThreadKey(moved.thread.key.0 - 1)), 1).await?;
    let Some(again) = again.into_iter().find(|again| again.thread.key == moved.thread.key) else {
        return Ok(Vec::new());
    };
    let second = thread(store, &again, &mut Verified::default()).await?;
    Ok(second.into_iter().filter(|finding| first.iter().any(|earlier| earlier.kind == finding.kind)).collect())
}

async fn thread(
    store: &dyn TransferStore,
    moved: &MovedThread,
    done: &mut Verified,
) -> Result<Vec<Finding>, StoreError> {
    let thread = &moved.thread;
    let mut look = log::Look::new(moved);
    look.read(store).await?;
    done.threads += 1;
    done.events += look.events;
    done.bytes += look.bytes;
    let mut findings = look.findings;
    let mut turns = store.turns(Some(ThreadKey(thread.key.0 - 1)), MAX_PAGE).await?;
    turns.retain(|(key, _)| *key == thread.key);
    let active = thread.active_run.as_ref().map(|run| &run.id);
    if turns.len() != usize::from(active.is_some()) || turns.iter().any(|(_, run)| Some(run) != active) {
        let runs: Vec<_> = turns.iter().map(|(_, run)| run.as_str()).collect();
        let active = active.map_or("none", |run| run.as_str());
        findings.push(Finding {
            kind: "turns-differ-from-head",
            thread: Some((thread.project.clone(), thread.id.clone())),
            detail: format!("the active run of the head is {active}, but turns has {runs:?}"),
        });
    }
    for (seq, version) in store.snapshot_seqs(thread.key).await? {
        let readable = matches!(store.snapshot(thread.key, seq, version).await, Ok(Some(found)) if found.seq == seq);
        if !readable {
            findings.push(Finding {
                kind: "snapshot-damaged",
                thread: Some((thread.project.clone(), thread.id.clone())),
                detail: format!("the snapshot at event {seq} cannot be read; reads fold the log instead"),
            });
        }
    }
    Ok(findings)
}

/// Active turns whose thread has no head.
async fn turns_without_a_thread(store: &dyn TransferStore) -> Result<Vec<Finding>, StoreError> {
    let (mut findings, mut after) = (Vec::new(), None);
    loop {
        let turns = store.turns(after, MAX_PAGE).await?;
        let Some((last, _)) = turns.last() else { return Ok(findings) };
        after = Some(*last);
        let keys: Vec<_> = turns.iter().map(|(key, _)| *key).collect();
        let heads: BTreeSet<_> = store.heads(&keys).await?.into_iter().map(|head| head.key).collect();
        for (key, run) in turns.iter().filter(|(key, _)| !heads.contains(key)) {
            // A thread that was deleted between the two reads has no turn any more.
            let again = store.turns(Some(ThreadKey(key.0 - 1)), 1).await?;
            if again.iter().any(|(left, _)| left == key) {
                findings.push(Finding {
                    kind: "turn-without-thread",
                    thread: None,
                    detail: format!("turns has run {run} of the thread with key {}, which has no head", key.0),
                });
            }
        }
    }
}
