//! A log against its head and its runs.

use std::collections::BTreeMap;

use memchr::memmem;
use threadline_core::{
    LastRun, NewEvents, ReadFrom, Run, RunId, RunStatus, Seq, Timestamp,
    limits::{MAX_LOG_AHEAD, MAX_PAGE},
};
use threadline_store::{MovedThread, StoreError, VerifyStore};

use super::finding::{Finding, FindingKind, readable};

/// A run as the log shows it.
struct Seen {
    first_seq: Seq,
    last_seq: Seq,
    /// Number of terminal events.
    ends: u64,
    /// True if the run's last event is a terminal one.
    ended: bool,
}

/// The view of one thread.
pub(super) struct Look<'t> {
    moved: &'t MovedThread,
    runs: BTreeMap<RunId, Seen>,
    current: Option<RunId>,
    /// Latest time that an event can have.
    bound: Timestamp,
    /// Time of the event before.
    at: Option<Timestamp>,
    /// Seqs that could not be read.
    unread: Vec<(Seq, Seq)>,
    pub(super) events: u64,
    pub(super) bytes: u64,
    pub(super) findings: Vec<Finding>,
}

impl<'t> Look<'t> {
    pub(super) fn new(moved: &'t MovedThread, now: Timestamp) -> Self {
        let (runs, unread, findings) = (BTreeMap::new(), Vec::new(), Vec::new());
        let bound = now.plus(MAX_LOG_AHEAD);
        Self { moved, runs, current: None, bound, at: None, unread, events: 0, bytes: 0, findings }
    }

    fn find(&mut self, kind: FindingKind, detail: String) {
        let thread = &self.moved.thread;
        self.findings.push(Finding { kind, thread: Some((thread.project.clone(), thread.id.clone())), detail });
    }

    /// Reads the whole log, then compares the runs.
    pub(super) async fn read(&mut self, store: &dyn VerifyStore) -> Result<(), StoreError> {
        let key = self.moved.thread.key;
        let (mut after, mut step) = (0, MAX_PAGE);
        loop {
            match store.read(key, ReadFrom::After(after), step).await {
                Ok(Some(page)) => {
                    let Some(last) = page.slice.last_seq() else {
                        self.ends_at(store, after).await?;
                        break;
                    };
                    if page.slice.first_seq() != Some(after + 1) {
                        let first = page.slice.first_seq().unwrap_or(last);
                        self.find(FindingKind::LogGap, format!("event {} follows event {after}", first));
                        self.unread.push((after + 1, first - 1));
                        self.current = None;
                    }
                    for (seq, event, batch) in page.slice.events() {
                        self.take(seq, event, &batch.run);
                        self.compare_time(seq, batch.at);
                    }
                    if last > page.head.tail {
                        let tail = page.head.tail;
                        self.find(
                            FindingKind::HeadDiffersFromLog,
                            format!("the head ends at {tail}, the log at {last}"),
                        );
                    }
                    after = last;
                }
                // Deleted meanwhile.
                Ok(None) => return Ok(()),
                Err(StoreError::Damaged { first_seq, last_seq, .. }) => {
                    self.find(
                        FindingKind::Checksum,
                        format!("events {first_seq} to {last_seq} are not as they were written"),
                    );
                    self.unread.push((first_seq, last_seq));
                    self.current = None;
                    after = last_seq;
                }
                // Event by event up to the one that cannot be read.
                Err(StoreError::Corrupt(_)) if step > 1 => step = 1,
                Err(StoreError::Corrupt(reason)) => {
                    self.find(FindingKind::LogUnreadable, format!("after event {after}: {reason}"));
                    self.unread.push((after + 1, Seq::MAX));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.compare(store).await
    }

    /// Compares the head with a log of which nothing follows after `after`.
    async fn ends_at(&mut self, store: &dyn VerifyStore, after: Seq) -> Result<(), StoreError> {
        let tail = self.moved.thread.tail;
        let newest = match store.read(self.moved.thread.key, ReadFrom::Before(Seq::MAX), 1).await {
            Ok(page) => page.and_then(|page| page.slice.last_seq()).unwrap_or(after),
            Err(StoreError::Damaged { last_seq, .. }) => last_seq,
            Err(StoreError::Corrupt(_)) => after,
            Err(error) => return Err(error),
        };
        if newest > after {
            self.find(FindingKind::LogGap, format!("nothing follows event {after}, although the log ends at {newest}"));
            self.unread.push((after + 1, newest));
        } else if after < tail {
            self.find(FindingKind::HeadDiffersFromLog, format!("the head ends at {tail}, the log at {after}"));
            self.unread.push((after + 1, tail));
        }
        Ok(())
    }

    fn take(&mut self, seq: Seq, event: &[u8], run: &RunId) {
        self.events += 1;
        self.bytes += event.len() as u64;
        let ends = is_terminal(event);
        match self.runs.get_mut(run) {
            Some(seen) => {
                let split = seen.last_seq + 1 != seq && self.current.is_some();
                (seen.last_seq, seen.ended) = (seq, ends);
                seen.ends += u64::from(ends);
                if split {
                    self.find(
                        FindingKind::RunNotContiguous,
                        format!("run {run} continues at event {seq} after another run"),
                    );
                }
            }
            None => {
                let seen = Seen { first_seq: seq, last_seq: seq, ends: ends.into(), ended: ends };
                self.runs.insert(run.clone(), seen);
            }
        }
        if self.current.as_ref() != Some(run) {
            self.current = Some(run.clone());
        }
    }

    /// Compares the time of an event with that of the event before, and with the present. One finding per log is enough.
    fn compare_time(&mut self, seq: Seq, at: Timestamp) {
        let before = self.at.replace(at);
        let back = before.filter(|before| at < *before);
        if (back.is_none() && at <= self.bound) || self.findings.iter().any(|found| found.kind == FindingKind::LogTimes)
        {
            return;
        }
        let detail = match back {
            Some(before) => format!("event {seq} is of {at}, the event before it of {before}"),
            None => format!("event {seq} is of {at}, more than an hour ahead of the clock"),
        };
        self.find(FindingKind::LogTimes, detail);
    }

    /// Compares the records of the runs with the log. Runs of which a part could not be read are left out.
    async fn compare(&mut self, store: &dyn VerifyStore) -> Result<(), StoreError> {
        let (mut before, mut newest) = (None, None);
        loop {
            let thread = (self.moved.thread.project.clone(), self.moved.thread.id.clone());
            let page = store.runs(self.moved.thread.key, before, MAX_PAGE).await;
            let runs = readable(page, &mut self.findings, |reason| {
                let detail = format!("the records of the runs cannot be read: {reason}");
                Finding { kind: FindingKind::RunUnreadable, thread: Some(thread), detail }
            })?;
            // The records that are missing may be those of the runs that are left.
            let Some(runs) = runs else { return Ok(()) };
            let Some(last) = runs.last() else { break };
            before = Some(last.fence);
            for run in runs {
                if run.fence == self.moved.fence {
                    newest = Some(LastRun::from(&run));
                }
                let seen = self.runs.remove(&run.id);
                self.compare_run(&run, seen);
            }
        }
        let thread = &self.moved.thread;
        // The record of an active run may have changed since the thread was read.
        if thread.active_run.is_none() && thread.last_run != newest {
            let detail = format!("the row of the thread has {:?}, the record {newest:?}", thread.last_run);
            self.find(FindingKind::LastRunDiffersFromRecord, detail);
        }
        for (run, seen) in std::mem::take(&mut self.runs) {
            let Seen { first_seq, last_seq, .. } = seen;
            self.find(
                FindingKind::RunWithoutRecord,
                format!("events {first_seq} to {last_seq} name run {run}, which has no record"),
            );
        }
        Ok(())
    }

    fn compare_run(&mut self, run: &Run, seen: Option<Seen>) {
        let last = (run.first_seq + run.producer_seq).saturating_sub(1);
        // An active run may have grown since its events were read.
        let grown = run.status.is_active() || run.first_seq + run.producer_seq > self.moved.thread.tail + 1;
        if self.unread.iter().any(|(from, to)| *from <= last && run.first_seq <= *to) {
            return;
        }
        let Some(seen) = seen else {
            if run.producer_seq > 0 && !grown {
                self.find(
                    FindingKind::RunDiffersFromLog,
                    format!("the record of run {} has {} events, the log none", run.id, run.producer_seq),
                );
            }
            return;
        };
        let (first, count) = (seen.first_seq, seen.last_seq + 1 - seen.first_seq);
        if first != run.first_seq || (count != run.producer_seq && !grown) {
            let (recorded, events) = (run.first_seq, run.producer_seq);
            let id = &run.id;
            let detail =
                format!("the record of run {id} has {events} events from {recorded}, the log {count} from {first}");
            self.find(FindingKind::RunDiffersFromLog, detail);
        }
        let over = !run.status.is_active() && run.status != RunStatus::Abandoned;
        if seen.ends > 1 || (seen.ends == 1 && !seen.ended) {
            self.find(
                FindingKind::RunContinuesAfterItsEnd,
                format!("run {} has events after its terminal event", run.id),
            );
        } else if over && seen.ends == 0 {
            self.find(
                FindingKind::RunWithoutEnd,
                format!("run {} is over, but its last event is not a terminal one", run.id),
            );
        } else if run.status.is_active() && seen.ended {
            self.find(FindingKind::RunNotOver, format!("run {} is active, although it has its terminal event", run.id));
        }
    }
}

/// True for RUN_FINISHED and RUN_ERROR.
fn is_terminal(event: &[u8]) -> bool {
    let named = memmem::find(event, b"RUN_FINISHED").is_some() || memmem::find(event, b"RUN_ERROR").is_some();
    named && NewEvents::from_ndjson(event).is_ok_and(|events| events.terminal().is_some())
}
