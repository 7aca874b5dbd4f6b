//! The port: one trait per kind of data, and [`Store`] for all of them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use threadline_core::{
    AgentId, AuditEntry, CreatedThread, Epoch, FeedHead, Fence, NewThread, OpenInterrupt, ProjectId, ReadFrom, Run,
    RunId, Seq, Thread, ThreadId, ThreadKey, ThreadPatch, UserId,
};

use crate::{
    annotations::AnnotationStore,
    attempts::AttemptStore,
    branches::BranchStore,
    checkpoints::CheckpointStore,
    credentials::CredentialStore,
    erasure::ErasureStore,
    error::StoreResult,
    identity::IdentityStore,
    items::ItemStore,
    jobs::{JobStore, Packing, Purging},
    kv::KvStore,
    lineage::LineageStore,
    nodes::NodeStore,
    queue::QueueStore,
    records::{ActiveHead, Append, Appended, FeedPage, Head, ListThreads, LogPage, Named, ThreadPage},
    runs::{
        ActiveRuns, Claimed, CloseOutcome, CloseWhen, Closing, HeartbeatRequest, Renewal, Renewed, StartOutcome,
        StartRun, StopOutcome,
    },
    secrets::SecretStore,
    snapshots::SnapshotStore,
    staging::StagingStore,
    status::StatusStore,
    streams::StreamStore,
    tool_claims::ToolClaimStore,
    trash::{HoldStore, TrashStore},
    turns::TurnStore,
    usage::UsageStore,
};

/// Threads and their metadata.
#[async_trait]
pub trait ThreadStore: Send + Sync {
    /// Creates a thread. Nothing is changed if the user has a thread of this id, or if the new one is to claim the id and
    /// another user's thread has claimed it: that thread is the answer.
    async fn create_thread(&self, new: NewThread) -> StoreResult<CreatedThread>;

    /// True if a thread of this id that was created with an idempotency key was deleted. The id is a digest of the key and
    /// the user, so that no two users have the same. Forgotten by
    /// [`ThreadStore::purge`] once [`threadline_core::limits::REQUEST_KEPT`] has passed.
    async fn was_request_deleted(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<bool>;

    /// The thread that a user has under this id; `None` if there is none.
    async fn thread_of(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> StoreResult<Option<Thread>>;

    /// The thread that this id names without a user: the one that has claimed the id, else the only one.
    async fn thread_named(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<Named>;

    /// A page of a user's threads.
    async fn list_threads(&self, list: ListThreads) -> StoreResult<ThreadPage>;

    /// Open interrupts of these threads, oldest first. A thread without any, or that is gone, is left out.
    async fn open_interrupts(&self, keys: &[ThreadKey]) -> StoreResult<Vec<(ThreadKey, Vec<OpenInterrupt>)>>;

    /// Changes a thread if its version is still `version`, and its log has, or had before, the epoch that is named;
    /// `None` if not, or if the thread was deleted.
    async fn edit_thread(
        &self,
        key: ThreadKey,
        version: i64,
        patch: ThreadPatch,
        epoch: Option<Epoch>,
    ) -> StoreResult<Option<Thread>>;

    /// Moves the thread's read marker forward to `seq`, in one statement. Returns the thread as it is now; `None` if it
    /// was deleted, `seq` is beyond its tail, or its log has another epoch than the one that is named. A move of the marker changes the version, so that the feed reports it,
    /// but neither `updated_at` nor the place in lists. A marker that is at `seq` or beyond stays, and nothing is
    /// written.
    async fn mark_read(&self, key: ThreadKey, seq: Seq, epoch: Option<Epoch>) -> StoreResult<Option<Thread>>;

    /// Deletes a thread: from this moment nothing of it can be read or appended, and its id is free. An active run ends
    /// with it. False if the thread was deleted already, or its log neither has nor had before the epoch that is named.
    /// The rows are removed later, by [`ThreadStore::purge`].
    async fn delete_thread(&self, key: ThreadKey, epoch: Option<Epoch>) -> StoreResult<bool>;

    /// Forgets deletions of threads whose creation is not expected to be retried any more, in one short step.
    async fn forget_requests(&self) -> StoreResult<()>;

    /// Removes up to `rows` rows of a deleted thread, or of one whose import was abandoned; at the end also the thread's
    /// jobs. A thread in the trash stays as it is. Concurrent calls for the same thread do not wait for each other.
    async fn purge(&self, key: ThreadKey, rows: usize) -> StoreResult<Purging>;
}

/// Runs and their leases.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Starts a run, or appends a complete one that has ended. A thread without an agent takes that of the run, in the
    /// same commit. Not before turns that are queued, if nothing holds them.
    async fn start(&self, start: StartRun) -> StoreResult<StartOutcome>;

    /// Ends the active run, if no turn is queued: [`crate::QueueStore::advance`] ends a run before queued turns.
    async fn close(&self, key: ThreadKey, closing: Closing, when: CloseWhen) -> StoreResult<CloseOutcome>;

    /// Extends the leases of runs; answers in order, `None` for a run that is not active (any more).
    async fn heartbeat(&self, beats: &[HeartbeatRequest]) -> StoreResult<Vec<Option<ActiveHead>>>;

    /// Requests the stop of a run, if the log has the epoch that is named. With `holds`, turns that are queued rest then. A repeated
    /// request changes nothing.
    async fn request_stop(
        &self,
        key: ThreadKey,
        run: &RunId,
        epoch: Option<Epoch>,
        holds: bool,
    ) -> StoreResult<StopOutcome>;

    /// Releases a run's lock before its last events: the run is `finishing`, and its lease ends
    /// [`threadline_core::limits::RELEASE_GRACE`] from now at the latest, if no append extends it. False if the run is
    /// not active, or the log has another epoch than the one that is named.
    async fn release(&self, key: ThreadKey, fence: Fence, epoch: Option<Epoch>) -> StoreResult<bool>;

    /// Looks at up to `limit` active runs whose time to look has come, and claims those that are due: their lease has
    /// expired, or a stop was requested [`threadline_core::limits::STOP_GRACE`] ago. No other call gets a claimed run
    /// within [`threadline_core::limits::REAP_CLAIM`].
    async fn claim_due(&self, limit: usize) -> StoreResult<Claimed>;

    /// Gives full leases, from now on, to active runs whose leases are wrong because the store's clock was set, and lets
    /// their requested stops begin now. Looks at up to [`threadline_core::limits::RENEW_CHUNK`] runs with keys above
    /// `after`. A repetition within [`threadline_core::limits::CLOCK_STEP`] renews nothing.
    async fn renew_leases(&self, which: Renewal, after: Option<ThreadKey>) -> StoreResult<Renewed>;

    /// Numbers of active runs of a project, and of those in threads of this user. Each number is counted up to its
    /// `bound`. Runs that start or end during the read may or may not be counted, but never in part.
    async fn active_runs(
        &self,
        project: &ProjectId,
        user: Option<&UserId>,
        bound: ActiveRuns,
    ) -> StoreResult<ActiveRuns>;

    /// The record of a run, as of now; `None` if the thread has no such run.
    async fn run(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<Run>>;

    /// Runs of a thread, newest first, with a fence below `before`.
    async fn runs(&self, key: ThreadKey, before: Option<Fence>, limit: usize) -> StoreResult<Vec<Run>>;
}

/// Logs of threads: append, read and seal.
#[async_trait]
pub trait LogStore: Send + Sync {
    /// Appends to many threads in one commit; at most one entry per thread. Answers in order.
    ///
    /// `None`: this entry did not match its head (thread deleted, fence of another run, another epoch than the
    /// append requires, producer_seq not the next one, or a stop of the run requested [`threadline_core::limits::STOP_GRACE`] ago), or would
    /// have ended its run before queued turns ([`crate::QueueStore::advance`] does), and changed nothing. Other entries
    /// are not affected.
    ///
    /// An error means that no entry of the batch is known to be committed. A back-end that has to give up on single
    /// entries of a batch (no disk space for a large one) answers `None` for them as well, and with the error once such
    /// an entry is appended alone: a caller must append an entry that got `None` again, alone, before it calls the
    /// entry stale.
    async fn append(&self, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>>;

    /// Number of group commits that may usefully run at once. Each thread belongs to one of them.
    fn pipelines(&self) -> usize {
        1
    }

    /// Reads a page; `None` if the thread does not exist (any more).
    async fn read(&self, key: ThreadKey, from: ReadFrom, max_events: usize) -> StoreResult<Option<LogPage>>;

    /// Like [`LogStore::read`], for readers: events that are missing next to the cursor are [`crate::StoreError::Damaged`].
    async fn page(&self, key: ThreadKey, from: ReadFrom, max_events: usize) -> StoreResult<Option<LogPage>> {
        self.read(key, from, max_events).await?.map(|page| page.adjoining(from)).transpose()
    }

    /// The heads of these threads, in any order; deleted threads are left out.
    async fn heads(&self, keys: &[ThreadKey]) -> StoreResult<Vec<Head>>;

    /// Seals what is possible of a thread's rows in one step: merges them into compressed segments, and touches log
    /// rows only. True if any row was sealed.
    async fn seal(&self, key: ThreadKey) -> StoreResult<bool>;

    /// Packs what is possible of a thread in one step, if it has had no active run for `idle`: like [`LogStore::seal`], and
    /// the rest as well, however little it is.
    async fn pack(&self, key: ThreadKey, idle: Duration) -> StoreResult<Packing>;
}

/// Feeds of users: positions and pages.
#[async_trait]
pub trait FeedStore: Send + Sync {
    /// Gives the user's changed threads their feed positions; returns the head of the feed. Idempotent. The first entry
    /// gives the feed a random epoch, and at its first change in another generation the feed enters that, as a log does.
    async fn pump_feed(&self, project: &ProjectId, user: &UserId) -> StoreResult<FeedHead>;

    /// A page of a user's feed.
    async fn feed(&self, project: &ProjectId, user: &UserId, after: u64, limit: usize) -> StoreResult<FeedPage>;

    /// True if the newest entry of a thread id that this user's feed has, or will get, is its deletion: a repeated
    /// delete request gets the same answer again.
    async fn was_deleted(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> StoreResult<bool>;

    /// The head of each of these feeds, in order; [`FeedHead::EMPTY`] for a feed without entries.
    async fn feed_heads(&self, feeds: &[(ProjectId, UserId)]) -> StoreResult<Vec<FeedHead>>;

    /// Users with changes that have no feed position yet.
    async fn dirty_feeds(&self, limit: usize) -> StoreResult<Vec<(ProjectId, UserId)>>;
}

/// Agents that were created over the API, as the JSON text of their definition.
#[async_trait]
pub trait AgentStore: Send + Sync {
    /// Creates an agent, or replaces it. The entry is in the audit with the same commit.
    async fn put_agent(
        &self,
        project: &ProjectId,
        id: &AgentId,
        definition: &str,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<()>;

    /// All agents of a project, in order of their ids.
    async fn agents(&self, project: &ProjectId) -> StoreResult<Vec<(AgentId, String)>>;

    /// Deletes an agent. False if it did not exist; otherwise the entry is in the audit with the same commit.
    async fn delete_agent(&self, project: &ProjectId, id: &AgentId, entry: Option<&AuditEntry>) -> StoreResult<bool>;
}

/// All interfaces of a complete back-end.
pub trait Store:
    ThreadStore
    + RunStore
    + TurnStore
    + AttemptStore
    + QueueStore
    + LogStore
    + FeedStore
    + SnapshotStore
    + AnnotationStore
    + ToolClaimStore
    + KvStore
    + ItemStore
    + CheckpointStore
    + StreamStore
    + AgentStore
    + IdentityStore
    + CredentialStore
    + SecretStore
    + ErasureStore
    + NodeStore
    + LineageStore
    + JobStore
    + TrashStore
    + HoldStore
    + UsageStore
    + StatusStore
    + BranchStore
    + StagingStore
{
}
impl<T> Store for T where
    T: ThreadStore
        + RunStore
        + TurnStore
        + AttemptStore
        + QueueStore
        + LogStore
        + FeedStore
        + SnapshotStore
        + AnnotationStore
        + ToolClaimStore
        + KvStore
        + ItemStore
        + CheckpointStore
        + StreamStore
        + AgentStore
        + IdentityStore
        + CredentialStore
        + SecretStore
        + ErasureStore
        + NodeStore
        + LineageStore
        + JobStore
        + TrashStore
        + HoldStore
        + UsageStore
        + StatusStore
        + BranchStore
        + StagingStore
{
}

/// A shared handle of a back-end.
pub type DynStore = Arc<dyn Store>;
