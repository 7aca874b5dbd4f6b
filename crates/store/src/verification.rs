//! Verification of a store: lists that contain what no client can see, such as rows that belong to no thread.

use async_trait::async_trait;
use threadline_core::{ProjectId, ThreadId, ThreadKey};

use crate::{error::StoreResult, transfer::TransferStore};

/// Tables whose rows belong to threads, by their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyedTable {
    /// Heads of logs; the key of a thread in the trash is negative there.
    Heads,
    /// Records of runs, active or over.
    Runs,
    /// Rows of events, fresh or sealed.
    Log,
}

impl KeyedTable {
    /// Every table, in the order in which they are verified.
    pub const ALL: [Self; 3] = [Self::Heads, Self::Runs, Self::Log];

    /// Name of the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Heads => "heads",
            Self::Runs => "runs",
            Self::Log => "log",
        }
    }
}

/// A thread that exists or is in the trash, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedThread {
    /// The store's number of this incarnation.
    pub key: ThreadKey,
    /// Project and public id; `None` if they are not valid ids.
    pub id: Option<(ProjectId, ThreadId)>,
    /// True if the thread is in the trash.
    pub trashed: bool,
    /// True if the thread has a head.
    pub has_head: bool,
}

/// A queue, as the head of its thread counts it and as its turns are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedQueue {
    /// Key of the head; negative for a thread in the trash.
    pub key: ThreadKey,
    /// Project and public id; `None` if they are not valid ids.
    pub id: Option<(ProjectId, ThreadId)>,
    /// Number of queued turns that the head has.
    pub counted: u64,
    /// Number of queued turns in the table of turns.
    pub stored: u64,
}

/// An entry of a feed, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// Project of the feed.
    pub project: String,
    /// User of the feed.
    pub user: String,
    /// Position in the feed.
    pub pos: i64,
    /// Public id of the thread.
    pub thread: String,
    /// Key of the thread; `None` for a deletion.
    pub key: Option<ThreadKey>,
    /// False if the entry names a key that no thread has, not even a deleted one.
    pub has_thread: bool,
}

/// Interface for verification, in addition to [`TransferStore`]: all of a database, table by table, as of the moment of
/// each call.
#[async_trait]
pub trait VerifyStore: TransferStore {
    /// Damage of its files that the database itself finds, in words; at most `limit`. Postgres has no such check without an
    /// extension, and returns nothing.
    async fn damage(&self, limit: usize) -> StoreResult<Vec<String>>;

    /// A page of the threads that exist or are in the trash, in the order of their keys.
    async fn listed_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<ListedThread>>;

    /// A page of the keys in a table, in their order; each with whether a thread has it, be it a deleted one.
    async fn keys_in(
        &self,
        table: KeyedTable,
        after: Option<ThreadKey>,
        limit: usize,
    ) -> StoreResult<Vec<(ThreadKey, bool)>>;

    /// A page of the queues of all threads, empty ones too, in the order of the keys of their heads.
    async fn counted_queues(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<CountedQueue>>;

    /// A page of the keys under which turns are queued and which no head has, in their order.
    async fn queues_without_head(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<ThreadKey>>;

    /// A page of the entries of all feeds, in order of project, user and position.
    async fn stored_entries(&self, after: Option<&StoredEntry>, limit: usize) -> StoreResult<Vec<StoredEntry>>;
}
