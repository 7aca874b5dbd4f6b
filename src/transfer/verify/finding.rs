//! Contradictions, and what cannot be read: their kinds are a closed set.

use serde_json::{Value, json};
use threadline_core::{ProjectId, ThreadId};
use threadline_store::{StoreError, StoreResult};

/// Kind of a contradiction, or of data that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// The database finds damage in its own files.
    DatabaseDamaged,
    /// A table as a whole cannot be read to its end.
    TableUnreadable,
    /// The row of a thread, its head or its active run cannot be decoded.
    ThreadUnreadable,
    /// A thread has no head.
    ThreadWithoutHead,
    /// A row belongs to a thread that does not exist.
    RowWithoutThread,
    /// Events are not as they were written.
    Checksum,
    /// Events between two others, or at the end, are missing.
    LogGap,
    /// Events cannot be unpacked.
    LogUnreadable,
    /// The times of a log go back, or are far ahead of the clock.
    LogTimes,
    /// The tail of a head is not the last event.
    HeadDiffersFromLog,
    /// The record of a run names other events than the log.
    RunDiffersFromLog,
    /// Events name a run that has no record.
    RunWithoutRecord,
    /// Events of other runs are between those of a run.
    RunNotContiguous,
    /// A run is over without a terminal event.
    RunWithoutEnd,
    /// A run is active with a terminal event.
    RunNotOver,
    /// A run has events after its terminal event.
    RunContinuesAfterItsEnd,
    /// The row of a thread has another state of its newest run than the record of that run.
    LastRunDiffersFromRecord,
    /// The records of a thread's runs cannot be decoded.
    RunUnreadable,
    /// The table `turns` does not have exactly the active run of a head.
    TurnsDifferFromHead,
    /// An active or a queued turn belongs to a thread without a head.
    TurnWithoutThread,
    /// The queue of a head has another number of turns than the table `turns`.
    QueueDiffersFromHead,
    /// A feed does not name exactly the threads of its user.
    FeedDiffersFromThreads,
    /// An entry of a feed names a thread that has never been removed and does not exist.
    FeedEntryWithoutThread,
    /// A feed cannot be read.
    FeedUnreadable,
    /// A snapshot cannot be read.
    SnapshotDamaged,
    /// The content of a plain stream has a gap, or ends before its tail.
    StreamIncomplete,
    /// A plain stream is a fork of one that does not exist, or does not have all that the fork reads.
    StreamWithoutSource,
}

impl FindingKind {
    /// Name of the kind, which scripts may compare.
    pub fn name(self) -> &'static str {
        match self {
            Self::DatabaseDamaged => "database-damaged",
            Self::TableUnreadable => "table-unreadable",
            Self::ThreadUnreadable => "thread-unreadable",
            Self::ThreadWithoutHead => "thread-without-head",
            Self::RowWithoutThread => "row-without-thread",
            Self::Checksum => "checksum",
            Self::LogGap => "log-gap",
            Self::LogUnreadable => "log-unreadable",
            Self::LogTimes => "log-times",
            Self::HeadDiffersFromLog => "head-differs-from-log",
            Self::RunDiffersFromLog => "run-differs-from-log",
            Self::RunWithoutRecord => "run-without-record",
            Self::RunNotContiguous => "run-not-contiguous",
            Self::RunWithoutEnd => "run-without-end",
            Self::RunNotOver => "run-not-over",
            Self::RunContinuesAfterItsEnd => "run-continues-after-its-end",
            Self::LastRunDiffersFromRecord => "last-run-differs-from-record",
            Self::RunUnreadable => "run-unreadable",
            Self::TurnsDifferFromHead => "turns-differ-from-head",
            Self::TurnWithoutThread => "turn-without-thread",
            Self::QueueDiffersFromHead => "queue-differs-from-head",
            Self::FeedDiffersFromThreads => "feed-differs-from-threads",
            Self::FeedEntryWithoutThread => "feed-entry-without-thread",
            Self::FeedUnreadable => "feed-unreadable",
            Self::SnapshotDamaged => "snapshot-damaged",
            Self::StreamIncomplete => "stream-incomplete",
            Self::StreamWithoutSource => "stream-without-source",
        }
    }
}

/// A contradiction in the stored data, or data that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Kind of the contradiction.
    pub kind: FindingKind,
    /// Project and thread; `None` for data without a thread.
    pub thread: Option<(ProjectId, ThreadId)>,
    /// Contradiction in words, with the values.
    pub detail: String,
}

impl Finding {
    /// A finding that concerns no thread.
    pub(super) fn of_store(kind: FindingKind, detail: String) -> Self {
        Self { kind, thread: None, detail }
    }

    /// The finding as a line of JSON.
    pub fn line(&self) -> Value {
        let (project, thread) = self.thread.as_ref().map(|(project, id)| (project.as_str(), id.as_str())).unzip();
        json!({ "finding": self.kind.name(), "projectId": project, "threadId": thread, "detail": self.detail })
    }
}

/// The result of a read. Data that cannot be read is a finding, which `unreadable` makes of the reason, and `None`: the
/// verification goes on. A store that does not answer is an error.
pub(super) fn readable<T>(
    read: StoreResult<T>,
    findings: &mut Vec<Finding>,
    unreadable: impl FnOnce(String) -> Finding,
) -> StoreResult<Option<T>> {
    let reason = match read {
        Ok(read) => return Ok(Some(read)),
        Err(StoreError::Corrupt(reason)) => reason,
        Err(error @ StoreError::Damaged { .. }) => error.to_string(),
        Err(error) => return Err(error),
    };
    findings.push(unreadable(reason));
    Ok(None)
}
