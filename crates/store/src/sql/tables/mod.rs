//! Cold tables, written once for both databases. Their statements number parameters `$1`, `$2`, …, which SQLite takes as
//! well, and a change answers with rows.

use async_trait::async_trait;
use sqlx::{Database, Encode, SqlSafeStr, Type, query::Query};
use threadline_core::AuditEntry;

use super::{columns::Cells, secrets::Secrets};
use crate::StoreResult;

pub(crate) mod agents;
pub(crate) mod annotations;
pub(crate) mod branches;
pub(crate) mod credentials;
pub(crate) mod erasure;
pub(crate) mod export;
pub(crate) mod holds;
pub(crate) mod identity;
pub(crate) mod jobs;
pub(crate) mod secrets;
pub(crate) mod snapshots;
pub(crate) mod streams;
pub(crate) mod tool_claims;
pub(crate) mod trash;
pub(crate) mod usage;
pub(crate) mod verify;

/// A value of a statement.
#[derive(Clone)]
pub(crate) enum Value {
    Int(i64),
    MaybeInt(Option<i64>),
    Text(String),
    MaybeText(Option<String>),
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Self {
        Self::MaybeInt(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        Self::MaybeText(text)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<&[u8; 32]> for Value {
    fn from(digest: &[u8; 32]) -> Self {
        Self::Bytes(digest.to_vec())
    }
}

/// Statements of cold tables that differ between the databases; their parameters are the same.
pub(crate) struct Statements {
    /// Reads the threads of a family: `$1` project, `$2` user, `$3` family, `$4` limit.
    pub(crate) branches: &'static str,
    /// Reads threads that lists leave out: `$1` project, `$2` user, `$3` limit.
    pub(crate) unlisted: &'static str,
    /// Lists one thread of a family, a row for each thread that changed: `$1` project, `$2` user, `$3` family, `$4` key or NULL.
    pub(crate) list_branch: &'static str,
    /// Stores a ticket and removes expired ones: `$1` digest, `$2` bearer, `$3` until, `$4` now, `$5` limit.
    pub(crate) put_ticket: &'static str,
    /// Removes expired tickets, a row for each: `$1` now, `$2` limit.
    pub(crate) sweep_tickets: &'static str,
    /// Stores a snapshot and drops older ones: `$1` key, `$2` seq, `$3` version, `$4` bytes before compression, `$5` body,
    /// `$6` seqs to drop as a JSON array, `$7` CRC-32C of the body.
    pub(crate) put_snapshot: &'static str,
    /// Measures the events after the newest snapshot: `$1` key, `$2` version.
    pub(crate) unprojected: &'static str,
    /// Stores an annotation, and answers with a row if it is new: `$1` now, `$2` key, `$3` id, `$4` kind, `$5` occurred
    /// at, `$6` at, `$7` payload.
    pub(crate) put_annotation: &'static str,
    /// Reads a page of annotations: `$1` key, `$2` after, `$3` limit.
    pub(crate) annotations: &'static str,
    /// Claims a tool call, and answers with the end of the lease if it did: `$1` now, `$2` key, `$3` call, `$4` holder, `$5` lease,
    /// `$6` horizon, `$7` limit of removed claims.
    pub(crate) claim_tool_call: &'static str,
    /// Reads a claim of a tool call: `$1` key, `$2` call.
    pub(crate) tool_claim: &'static str,
    /// Reads key-value entries: `$1` now, `$2` project, `$3` owner, `$4` places as a JSON array, `$5` bytes.
    pub(crate) kv_entries: &'static str,
    /// Reads a page of key-value entries: `$1` now, `$2` project, `$3` owner, `$4` and `$5` place, `$6` end, `$7` limit, `$8` bytes.
    pub(crate) kv_page: &'static str,
    /// Reads namespaces: `$1` now, `$2` project, `$3` owner, `$4` from, `$5` end, `$6` limit.
    pub(crate) kv_namespaces: &'static str,
    /// Reads a page of the key-value entries of all owners: `$1` now, `$2` to `$5` place, `$6` limit, `$7` bytes.
    pub(crate) all_kv: &'static str,
    /// Removes expired key-value entries, a row for each: `$1` now, `$2` limit.
    pub(crate) sweep_kv: &'static str,
    /// Removes a chunk of a user's key-value entries, a row for each: `$1` project, `$2` user, `$3` limit.
    pub(crate) forget_kv: &'static str,
    /// Reads the chunks of a plain stream: `$1` key, `$2` position, `$3` limit, `$4` bytes.
    pub(crate) stream_chunks: &'static str,
    /// Reads what an operation on a list has to know: `$1` key, `$2` list, `$3` key of the operation.
    pub(crate) list_state: &'static str,
    /// Measures items: `$1` key, `$2` list, `$3` upto, `$4` limit.
    pub(crate) measure_items: &'static str,
    /// Reads items after a position: `$1` key, `$2` list, `$3` position, `$4` limit, `$5` bytes.
    pub(crate) items_after: &'static str,
    /// Reads the last items before a position: `$1` key, `$2` list, `$3` position, `$4` limit, `$5` bytes.
    pub(crate) items_before: &'static str,
    /// Reads a page of the threads that have agent data: `$1` after, `$2` limit.
    pub(crate) listed_data: &'static str,
    /// Reads a page of checkpoints of a namespace: `$1` key, `$2` namespace, `$3` least, `$4` below, `$5` limit, `$6` bytes, `$7` data.
    pub(crate) checkpoints_in_ns: &'static str,
    /// Reads a page of checkpoints of a thread: `$1` key, `$2` and `$3` position, `$4` limit, `$5` bytes, `$6` data.
    pub(crate) checkpoints_in_thread: &'static str,
    /// Reads a page of checkpoints of a project: `$1` project, `$2` to `$4` position, `$5` limit, `$6` bytes, `$7` data.
    pub(crate) checkpoints_of_project: &'static str,
    /// Reads a page of checkpoints of a user: `$1` project, `$2` user, `$3` to `$5` position, `$6` limit, `$7` bytes, `$8` data.
    pub(crate) checkpoints_of_user: &'static str,
    /// Reads the blobs of checkpoints: `$1` places as a JSON array, `$2` bytes.
    pub(crate) checkpoint_blobs_of: &'static str,
    /// Reads the writes beside checkpoints: `$1` places as a JSON array, `$2` bytes.
    pub(crate) checkpoint_writes_of: &'static str,
    /// Finds checkpoints of a run: `$1` project, `$2` user, `$3` run, `$4` limit.
    pub(crate) checkpoints_of_run: &'static str,
    /// Reads a range of idle threads: `$1` project, `$2` before, `$3` and `$4` place, `$5` window.
    pub(crate) idle: &'static str,
    /// Counts over a part of a user's threads: `$1` project, `$2` user, `$3` and `$4` position, `$5` limit.
    pub(crate) footprint: &'static str,
    /// Counts the feed entries and the tombstones of a user: `$1` project, `$2` user.
    pub(crate) footprint_rest: &'static str,
    /// Removes a chunk of a feed, a row for each entry: `$1` project, `$2` user, `$3` limit.
    pub(crate) forget_some: &'static str,
    /// Removes the rest of a feed; a row of `false` if concurrent changes prevent it: `$1` project, `$2` user.
    pub(crate) forget: &'static str,
    /// Takes jobs: `$1` now, `$2` kind, `$3` claim, `$4` limit.
    pub(crate) take_jobs: &'static str,
    /// Removes a job: `$1` kind, `$2` ref, `$3` end of the claim, `$4` key, `$5` tail.
    pub(crate) end_job: &'static str,
    /// Makes a job due later: `$1` now, `$2` kind, `$3` ref, `$4` end of the claim, `$5` delay, `$6` tries.
    pub(crate) delay_job: &'static str,
    /// Puts a job, and answers with a row if it did: `$1` now, `$2` kind, `$3` ref, `$4` after, `$5` anew.
    pub(crate) put_job: &'static str,
    /// Reads the time until a job is due: `$1` now, `$2` kind, `$3` ref.
    pub(crate) job_due: &'static str,
    /// Measures the jobs of a kind: `$1` now, `$2` kind, `$3` limit.
    pub(crate) job_levels: &'static str,
    /// Finds the tombstones of a user: `$1` project, `$2` user, `$3` limit.
    pub(crate) tombstones: &'static str,
    /// Puts idle threads in the trash, a row for each: `$1` now, `$2` keys as a JSON array, `$3` project, `$4` before, `$5`
    /// grace.
    pub(crate) trash: &'static str,
    /// Counts idle threads: `$1` project, `$2` before, `$3` bound.
    pub(crate) count_idle: &'static str,
    /// Reads a page of the trash: `$1` project, `$2`, `$3` and `$4` position, `$5` limit.
    pub(crate) trash_page: &'static str,
    /// Finds users who have a thread in the trash under an id, up to two: `$1` project, `$2` thread.
    pub(crate) trashed_users: &'static str,
    /// Restores a thread, and answers in its last row with what has the id: `$1` now, `$2` project, `$3` thread, `$4` user,
    /// and of the entry in the audit `$5` actor, `$6` action, `$7` facts.
    pub(crate) restore: &'static str,
    /// Makes a tombstone of a thread in the trash, and answers with a row if it did: `$1` now, `$2` key, `$3` early.
    pub(crate) discard: &'static str,
    /// Finds the threads of a user in the trash: `$1` project, `$2` user, `$3` limit.
    pub(crate) trash_of: &'static str,
    /// Adds to sums of stored data, and answers with the changed ones: `$1` now, `$2` a JSON array, `$3` age of a new row's count.
    pub(crate) add_usage: &'static str,
    /// Counts a page of a user's threads and their bytes: `$1` project, `$2` user, `$3` after, `$4` limit.
    pub(crate) count_usage: &'static str,
    /// Corrects the sum of a user: `$1` now, `$2` project, `$3` user, `$4` bytes, `$5` threads.
    pub(crate) correct_usage: &'static str,
    /// Corrects the sum of a project: `$1` now, `$2` project, `$3` bytes, `$4` threads.
    pub(crate) correct_project: &'static str,
    /// Finds sums to count: `$1` now, `$2` age, `$3` limit.
    pub(crate) due_usage: &'static str,
    /// Reads a page of the threads of all projects: `$1` after, `$2` limit.
    pub(crate) all_threads: &'static str,
    /// Reads a page of the threads that have annotations: `$1` after, `$2` limit.
    pub(crate) annotated_threads: &'static str,
    /// Reads a page of the users who have a feed: `$1` and `$2` after, `$3` limit.
    pub(crate) all_feeds: &'static str,
    /// Reads a user's complete feed: `$1` project, `$2` user.
    pub(crate) feed_image: &'static str,
    /// Reads a page of the entries of all feeds: `$1` project, `$2` user and `$3` position after which, `$4` limit.
    pub(crate) stored_entries: &'static str,
}

/// A database that runs the statements of cold tables.
#[async_trait]
pub(crate) trait Tables: Send + Sync {
    /// A row of the database.
    type Row: Cells + Send + Sync;

    /// Statements that differ between the databases.
    const STATEMENTS: Statements;

    /// Time of the node's clock, in Unix milliseconds; `None` if the database measures the time.
    fn time(&self) -> Option<i64>;

    /// Secrets of the store.
    fn secrets(&self) -> &Secrets;

    /// A text of any characters, as the database can keep it.
    fn kept(text: &str) -> String;

    /// The rows of a statement that only reads.
    async fn found(&self, text: &'static str, values: Vec<Value>) -> StoreResult<Vec<Self::Row>>;

    /// Damage that the database finds in its files, in words; at most `limit`.
    async fn damaged_files(&self, limit: usize) -> StoreResult<Vec<String>>;

    /// The rows of a statement that is a transaction of its own.
    async fn changed(&self, text: &'static str, values: Vec<Value>) -> StoreResult<Vec<Self::Row>>;

    /// The rows of a statement that is a transaction of its own. If there are any, the entry is in the audit with the same
    /// commit.
    async fn recorded(
        &self,
        text: &'static str,
        values: Vec<Value>,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<Vec<Self::Row>>;

    /// Values of an entry of the audit, as [`identity::RECORD`] takes them.
    fn entry(entry: &AuditEntry) -> Vec<Value> {
        let kept = |text: &str| Self::kept(text).into();
        let AuditEntry { project, at, actor, action, facts } = entry;
        vec![project.as_str().into(), at.0.into(), kept(actor), kept(action), kept(facts)]
    }
}

/// A statement with its values.
pub(crate) fn bound<DB>(text: impl SqlSafeStr, values: Vec<Value>) -> Query<'static, DB, DB::Arguments>
where
    DB: Database,
    i64: for<'q> Encode<'q, DB> + Type<DB>,
    Option<i64>: for<'q> Encode<'q, DB> + Type<DB>,
    String: for<'q> Encode<'q, DB> + Type<DB>,
    Option<String>: for<'q> Encode<'q, DB> + Type<DB>,
    Vec<u8>: for<'q> Encode<'q, DB> + Type<DB>,
{
    values.into_iter().fold(sqlx::query(text), |statement, value| match value {
        Value::Int(number) => statement.bind(number),
        Value::MaybeInt(number) => statement.bind(number),
        Value::Text(text) => statement.bind(text),
        Value::MaybeText(text) => statement.bind(text),
        Value::Bytes(bytes) => statement.bind(bytes),
    })
}
