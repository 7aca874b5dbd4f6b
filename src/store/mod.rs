//! The store port: threads, heads, runs, the log, the feed, snapshots, annotations and agents, on one back-end.
//!
//! ```text
//!   heads   one narrow row per thread: the only point of concurrency
//!           key | epoch | tail | fence | active run, its first_seq and producer_seq, lease_until, stop
//!   log     key | first_seq ............ last_seq | run | at | body        seqs 1 ..= tail, no hole
//!           [ sealed segment ][ sealed segment ][row][row][row]
//!                                                            ^ tail
//! ```
//!
//! What every back-end must keep (the contract suite in `tests/contract` runs on each of them):
//!
//! - **One statement.** Append, start, close and delete change a thread's head and its log together or
//!   not at all, and only if the head is as the caller expects (fence, and tail or producer_seq).
//! - **Durable.** A method that answered `Ok` has its effect on disk (the memory store: in memory).
//! - **Not cancellable.** A caller that goes away does not leave anything half done.
//! - **Dense order.** A thread's events are `1..=tail`, and readers see only committed ones.
//! - **One clock.** Leases are judged by the store's clock, whoever asks.
//!
//! Every method can fail with [`StoreError`]: then the effect is unknown, and the caller may try again,
//! because every method may be repeated.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::domain::{
    AgentId, Epoch, FeedEntry, Fence, LogSlice, NewEvents, NewThread, ProjectId, Run, RunId, RunStatus, Seq, Thread,
    ThreadId, ThreadKey, ThreadPatch, Timestamp, UserId,
};

pub mod annotations;
pub mod erasure;
pub mod identity;
pub mod memory;
pub mod postgres;
pub mod private;
pub mod segment;
pub mod snapshots;
mod sql;
pub mod sqlite;
pub mod status;
pub mod transfer;

pub use annotations::AnnotationStore;
pub use erasure::{ErasureStore, IdlePage};
pub use identity::{IdentityStore, StoredProject};
pub use snapshots::{Snapshot, SnapshotStore, Unprojected};
pub use status::{StatusStore, StoreStatus};
pub use transfer::{AnnotatedThread, FeedImage, MovedThread, Published, StagedPart, StagedRow, Staging, TransferStore};

/// The store could not do its work. Nothing is known about the effect; trying again is safe.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached, is full, or refused.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// What is stored contradicts itself. Never shown outside; look at the log.
    #[error("the store holds something impossible: {0}")]
    Corrupt(String),
}

/// Answer of a store method.
pub type StoreResult<T> = Result<T, StoreError>;

/// The head row of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Whose head it is.
    pub key: ThreadKey,
    /// The incarnation of its log.
    pub epoch: Epoch,
    /// Seq of the newest committed event.
    pub tail: Seq,
    /// Fence of the newest run, active or not.
    pub fence: Fence,
    /// The active run.
    pub active: Option<ActiveHead>,
}

/// The part of a head that is there while a run is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveHead {
    /// Until when the run may be silent.
    pub lease_until: Timestamp,
    /// When a stop was asked first.
    pub stop_requested_at: Option<Timestamp>,
    /// Its lock was released: the next start closes it instead of being refused.
    pub finishing: bool,
    /// Its newest producer_seq.
    pub producer_seq: u64,
}

/// An append of one run to its thread.
#[derive(Debug, Clone)]
pub struct Append {
    /// The thread.
    pub key: ThreadKey,
    /// The run's fence.
    pub fence: Fence,
    /// producer_seq of the first event; `None` appends behind whatever the run has.
    pub producer_seq: Option<u64>,
    /// The events. A terminal one ends the run in the same commit.
    pub events: NewEvents,
}

/// A committed append.
#[derive(Debug, Clone)]
pub struct Appended {
    /// Seq of the first event.
    pub first_seq: Seq,
    /// When it was committed.
    pub at: Timestamp,
    /// The id of the run.
    pub run: RunId,
    /// The head after it.
    pub head: Head,
    /// producer_seq of its last event.
    pub producer_seq: u64,
}

/// How the active run is to be ended: by compare-and-set on the head's fence and tail.
#[derive(Debug, Clone)]
pub struct Closing {
    /// The fence that the head must have.
    pub fence: Fence,
    /// The tail that the head must have: nothing came in since the closers were worked out.
    pub tail: Seq,
    /// Closers and the terminal event; `None` for a run that is abandoned.
    pub events: Option<NewEvents>,
    /// The status that the run gets.
    pub status: RunStatus,
    /// `code` of the RUN_ERROR.
    pub error_code: Option<String>,
    /// `message` of the RUN_ERROR.
    pub error_message: Option<String>,
}

/// Start of a run.
#[derive(Debug, Clone)]
pub struct StartRun {
    /// The thread.
    pub key: ThreadKey,
    /// The run's id.
    pub run: RunId,
    /// Its agent.
    pub agent: Option<AgentId>,
    /// Whether the server drives it.
    pub driven: bool,
    /// How long it may be silent.
    pub lease: Duration,
    /// Ends a predecessor whose lease ran out or whose lock was released, in the same statement.
    pub closing: Option<Closing>,
    /// Its first events, appended in the same commit. If they end in a terminal one, the run was appended whole: it
    /// began and ended with this.
    pub events: Option<NewEvents>,
    /// The tail that the head must have, before `closing`: for what was worked out from the events up to there.
    pub at: Option<Seq>,
}

/// What a commit put into the log, for those who follow it.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The run as it is now.
    pub run: Run,
    /// The head after the commit.
    pub head: Head,
    /// The new events, if any.
    pub slice: LogSlice,
}

/// Answer to [`RunStore::start`].
#[derive(Debug, Clone)]
pub enum StartOutcome {
    /// The run began (or, appended whole, is done).
    Started(Committed),
    /// A run of this id is there already: the start was a repetition.
    Exists(Run, Head),
    /// Another run holds the thread.
    Held(Run, Head),
    /// The active run may be closed (lease over, or lock released), and `closing` was absent or did not match.
    Lapsed(Run, Head),
    /// Nobody holds the thread, but its tail is not the one that `at` names: look again.
    Moved(Head),
    /// There is no such thread (any more).
    Gone,
}

/// Answer to [`RunStore::close`].
#[derive(Debug, Clone)]
pub enum CloseOutcome {
    /// The run ended.
    Closed(Box<Committed>),
    /// The head is not as expected (or, with `if_due`, the run is not due): look again.
    Missed,
    /// There is no such thread (any more).
    Gone,
}

/// Answer to [`RunStore::request_stop`].
#[derive(Debug, Clone)]
pub enum StopOutcome {
    /// The run is active and now (or already) asked to stop.
    Asked(Run, Head),
    /// The run has ended.
    Ended(Run),
    /// The thread has no such run.
    NoRun,
    /// There is no such thread (any more).
    Gone,
}

/// A sign of life of a run.
#[derive(Debug, Clone, Copy)]
pub struct Beat {
    /// The thread.
    pub key: ThreadKey,
    /// The run's fence.
    pub fence: Fence,
    /// A new lease length, if it is to change.
    pub lease: Option<Duration>,
}

/// A thread with a run that is due to be closed.
#[derive(Debug, Clone)]
pub struct Due {
    /// The thread.
    pub key: ThreadKey,
    /// Its tenant.
    pub project: ProjectId,
    /// Its owner.
    pub user: UserId,
    /// Its id.
    pub thread: ThreadId,
}

/// Answer to [`RunStore::active_runs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActiveRuns {
    /// Of the whole project.
    pub project: u64,
    /// Of the user; 0 if none was named.
    pub user: u64,
}

/// Order of a thread list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListOrder {
    /// COALESCE(lastRunAt, updatedAt, createdAt), newest first, then id: for people.
    #[default]
    Recent,
    /// createdAt, oldest first, then id: does not shift while it is paged; for scripts.
    Created,
}

/// A request for a page of a thread list.
#[derive(Debug, Clone)]
pub struct ListThreads {
    /// The tenant.
    pub project: ProjectId,
    /// The owner.
    pub user: UserId,
    /// Whether archived ones are shown.
    pub include_archived: bool,
    /// Only those of this agent.
    pub agent: Option<AgentId>,
    /// The order.
    pub order: ListOrder,
    /// Only what comes after this position.
    pub after: Option<ListPosition>,
    /// Most threads.
    pub limit: usize,
}

/// Position in a thread list: the sort time and the id of the last thread seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPosition {
    /// The sort time.
    pub at: Timestamp,
    /// The thread.
    pub id: ThreadId,
}

impl ListPosition {
    /// Where a thread stands in a list.
    pub fn of(thread: &Thread, order: ListOrder) -> Self {
        let at = match order {
            ListOrder::Recent => thread.last_run_at.unwrap_or(thread.updated_at),
            ListOrder::Created => thread.created_at,
        };
        Self { at, id: thread.id.clone() }
    }
}

/// A page of a thread list.
#[derive(Debug, Clone)]
pub struct ThreadPage {
    /// The threads.
    pub threads: Vec<Thread>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<ListPosition>,
    /// The user's feed position, read before the page: list + feed after it is complete.
    pub feed_cursor: u64,
}

/// Which part of a log is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// Events with seq above this, oldest first.
    After(Seq),
    /// The newest events with seq below this, still given oldest first.
    Before(Seq),
}

/// A piece of a log, read in one statement.
#[derive(Debug, Clone)]
pub struct LogPage {
    /// The head at that moment.
    pub head: Head,
    /// The events: contiguous, at most `max_events`, and about [`crate::domain::limits::PAGE_BYTES`].
    /// Empty only if there is none.
    pub slice: LogSlice,
}

/// A page of a feed.
#[derive(Debug, Clone)]
pub struct FeedPage {
    /// The newest change of each thread that changed after the cursor, in order.
    pub entries: Vec<FeedEntry>,
    /// The newest position of this feed, whether reached by the page or not.
    pub head: u64,
}

/// Threads.
#[async_trait]
pub trait ThreadStore: Send + Sync {
    /// Makes a thread; `(thread, true)`. If the id is taken: `(the thread there, false)`, nothing is changed.
    async fn create_thread(&self, new: NewThread) -> StoreResult<(Thread, bool)>;

    /// The thread of this id.
    async fn thread(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<Option<Thread>>;

    /// A page of a user's threads.
    async fn list_threads(&self, list: ListThreads) -> StoreResult<ThreadPage>;

    /// Changes a thread if its version is still `version`; `None` if it is not, or the thread is gone.
    async fn edit_thread(&self, key: ThreadKey, version: i64, patch: ThreadPatch) -> StoreResult<Option<Thread>>;

    /// Moves the thread's read marker forward to `seq`, in one statement. The thread as it is now; `None` if it is gone, or
    /// `seq` is beyond its tail. What moves the marker changes the version, so that the feed tells of it, but neither
    /// `updated_at` nor the place in lists; a marker that is as far already is left alone, and nothing is written.
    async fn mark_read(&self, key: ThreadKey, seq: Seq) -> StoreResult<Option<Thread>>;

    /// Deletes a thread: from this moment nothing of it can be read or appended, and its id is free.
    /// An active run is over. False if it was gone already. The rows go later, by [`ThreadStore::purge`].
    async fn delete_thread(&self, key: ThreadKey) -> StoreResult<bool>;

    /// Removes up to `rows` log rows of deleted threads, and what else is left of those that have none; of threads
    /// whose import was given up as well.
    /// True if there may be more to do.
    async fn purge(&self, rows: usize) -> StoreResult<bool>;
}

/// Runs and their lease.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Starts a run, or appends a finished one whole. A thread without an agent takes that of the run, in the same commit.
    async fn start(&self, start: StartRun) -> StoreResult<StartOutcome>;

    /// Ends the active run. With `if_due` only if its lease is over or its stop is overdue at this moment.
    async fn close(&self, key: ThreadKey, closing: Closing, if_due: bool) -> StoreResult<CloseOutcome>;

    /// Extends the leases of runs; answers in order, `None` for a run that is not active (any more).
    async fn heartbeat(&self, beats: &[Beat]) -> StoreResult<Vec<Option<ActiveHead>>>;

    /// Asks a run to stop. Repeating it changes nothing.
    async fn request_stop(&self, key: ThreadKey, run: &RunId) -> StoreResult<StopOutcome>;

    /// Gives a run's lock back before its last events: it is `finishing`, and its lease ends
    /// [`crate::domain::limits::RELEASE_GRACE`] from now at the latest, if no append extends it. False if it is not active.
    async fn release(&self, key: ThreadKey, fence: Fence) -> StoreResult<bool>;

    /// Threads whose active run is due: lease over, or a stop asked [`crate::domain::limits::STOP_GRACE`] ago.
    async fn due(&self, limit: usize) -> StoreResult<Vec<Due>>;

    /// How many runs of a project are active, and how many of those in threads of this user. As of a moment: runs that
    /// start or end meanwhile are counted or not, each as a whole.
    async fn active_runs(&self, project: &ProjectId, user: Option<&UserId>) -> StoreResult<ActiveRuns>;

    /// The record of a run, as of now.
    async fn run(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<Run>>;

    /// Runs of a thread, newest first, with a fence below `before`.
    async fn runs(&self, key: ThreadKey, before: Option<Fence>, limit: usize) -> StoreResult<Vec<Run>>;
}

/// The log.
#[async_trait]
pub trait LogStore: Send + Sync {
    /// Appends to many threads in one commit; at most one entry per thread. Answers in order.
    ///
    /// `None`: this entry did not match its head (thread gone, fence foreign, producer_seq not the next one, or the
    /// run was asked to stop [`crate::domain::limits::STOP_GRACE`] ago) and changed nothing. It has no bearing on the
    /// others.
    ///
    /// An error means that nothing of the batch is known to be in. A back-end that has to give up on single entries
    /// of a batch (no room for a large one) answers `None` for them as well, and with the error once such an entry
    /// is asked alone: an entry that got `None` is to be asked again by itself before it is called stale.
    async fn append(&self, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>>;

    /// How many group commits may usefully be under way at once. Each thread belongs to one of them.
    fn pipelines(&self) -> usize {
        1
    }

    /// Reads a page; `None` if there is no such thread (any more).
    async fn read(&self, key: ThreadKey, from: ReadFrom, max_events: usize) -> StoreResult<Option<LogPage>>;

    /// The heads of these threads; those that are gone are left out. Any order.
    async fn heads(&self, keys: &[ThreadKey]) -> StoreResult<Vec<Head>>;

    /// Seals what it can of a thread's rows in one step: merges them into compressed segments, touching log
    /// rows only. True if it sealed anything.
    async fn seal(&self, key: ThreadKey) -> StoreResult<bool>;

    /// Threads with enough unsealed events for a segment. Asked once, at start.
    async fn seal_backlog(&self, limit: usize) -> StoreResult<Vec<ThreadKey>>;
}

/// The feed.
#[async_trait]
pub trait FeedStore: Send + Sync {
    /// Gives the user's changed threads their feed positions; answers the newest position. Idempotent.
    async fn pump_feed(&self, project: &ProjectId, user: &UserId) -> StoreResult<u64>;

    /// A page of a user's feed.
    async fn feed(&self, project: &ProjectId, user: &UserId, after: u64, limit: usize) -> StoreResult<FeedPage>;

    /// Whether the newest that this user's feed has, or is to get, of a thread id is its deletion: so that a delete sent
    /// again gets its answer again.
    async fn was_deleted(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> StoreResult<bool>;

    /// The newest position of each of these feeds, in order; 0 of one that has none.
    async fn feed_heads(&self, feeds: &[(ProjectId, UserId)]) -> StoreResult<Vec<u64>>;

    /// Users with changes that have no feed position yet.
    async fn dirty_feeds(&self, limit: usize) -> StoreResult<Vec<(ProjectId, UserId)>>;
}

/// Agents that were made over the API, as the JSON text of their definition.
#[async_trait]
pub trait AgentStore: Send + Sync {
    /// Makes an agent, or replaces it.
    async fn put_agent(&self, project: &ProjectId, id: &AgentId, definition: &str) -> StoreResult<()>;

    /// All of a project, in order of their ids.
    async fn agents(&self, project: &ProjectId) -> StoreResult<Vec<(AgentId, String)>>;

    /// Forgets an agent. False if there was none.
    async fn delete_agent(&self, project: &ProjectId, id: &AgentId) -> StoreResult<bool>;
}

/// A whole back-end.
pub trait Store:
    ThreadStore
    + RunStore
    + LogStore
    + FeedStore
    + SnapshotStore
    + AnnotationStore
    + AgentStore
    + IdentityStore
    + ErasureStore
    + StatusStore
{
}
impl<T> Store for T where
    T: ThreadStore
        + RunStore
        + LogStore
        + FeedStore
        + SnapshotStore
        + AnnotationStore
        + AgentStore
        + IdentityStore
        + ErasureStore
        + StatusStore
{
}

/// A back-end as it is handed around.
pub type DynStore = Arc<dyn Store>;
