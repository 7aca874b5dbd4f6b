//! Who is let in, and a project's own affairs: projects, API keys, socket tickets, the audit.

use async_trait::async_trait;

use super::StoreResult;
use crate::domain::{ApiKey, AuditEntry, Digest, KeyId, ProjectId, Timestamp};

/// A project as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredProject {
    /// Its id.
    pub id: ProjectId,
    /// Counts its changes, from 1.
    pub version: i64,
    /// Its settings, a JSON text.
    pub settings: String,
    /// The secrets of its tokens, the newest first, a JSON text.
    pub secrets: String,
}

/// Who is let in, and what was done in a project's own affairs.
#[async_trait]
pub trait IdentityStore: Send + Sync {
    /// All projects, by id.
    async fn projects(&self) -> StoreResult<Vec<StoredProject>>;

    /// Makes a project (its version is 1 and there is none of this id), or replaces it if the one there has the version
    /// before this one. False if neither is so: nothing is changed. Of all who put one version, on any node, one is told
    /// true.
    async fn put_project(&self, project: &StoredProject) -> StoreResult<bool>;

    /// Keeps an API key under the digest of its text. False, and nothing is changed, if the project has a key of this id
    /// or the digest is taken.
    async fn put_key(&self, key: &ApiKey, digest: &Digest) -> StoreResult<bool>;

    /// The API key of this digest, whether it is valid or not.
    async fn key(&self, digest: &Digest) -> StoreResult<Option<ApiKey>>;

    /// All keys of a project, valid or not, by id.
    async fn keys(&self, project: &ProjectId) -> StoreResult<Vec<ApiKey>>;

    /// Revokes a key; it keeps the time of its first revocation. `None` if the project has no such key.
    async fn revoke_key(&self, project: &ProjectId, id: &KeyId, at: Timestamp) -> StoreResult<Option<ApiKey>>;

    /// Keeps a ticket under the digest of its text, until a time; `bearer` is given to whoever takes it. Some of those whose
    /// time was over at `now` are removed on the way, more than are made.
    async fn put_ticket(&self, digest: &Digest, bearer: &str, until: Timestamp, now: Timestamp) -> StoreResult<()>;

    /// Removes some of the tickets whose time is over at `now`. True if there may be more.
    async fn sweep_tickets(&self, now: Timestamp) -> StoreResult<bool>;

    /// Takes a ticket: of all who try, on any node, one gets it, once. `None` as well if its time is over at `now`.
    async fn take_ticket(&self, digest: &Digest, now: Timestamp) -> StoreResult<Option<String>>;

    /// Writes into the audit.
    async fn record(&self, entry: &AuditEntry) -> StoreResult<()>;

    /// A page of a project's audit, newest first, of entries with a number below `before`. Numbers grow from entry to entry,
    /// with gaps. Where several nodes write, an entry may appear a moment later than one with a greater number: whoever
    /// must have all of them reads from the newest again.
    async fn audit(
        &self,
        project: &ProjectId,
        before: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<(i64, AuditEntry)>>;
}
