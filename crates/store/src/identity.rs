//! Authentication and administration of projects: settings, API keys, socket tickets, the audit.

use std::fmt;

use async_trait::async_trait;
use threadline_core::{ApiKey, AuditEntry, Digest, KeyId, ProjectId, Timestamp};

use crate::error::StoreResult;

/// A project as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredProject {
    /// Id of the project.
    pub id: ProjectId,
    /// Counts the project's changes, from 1.
    pub version: i64,
    /// Settings of the project, a JSON text.
    pub settings: String,
    /// Secrets of the project's tokens, the newest first, a JSON text; `None` if this process cannot open them. A project
    /// without them is not stored.
    pub secrets: Option<String>,
    /// True if the secrets are sealed in the store, which decides this itself when it stores a project.
    pub sealed: bool,
}

impl fmt::Debug for StoredProject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, version, settings, sealed, .. } = self;
        write!(f, "StoredProject({id}, version {version}, {settings}, sealed: {sealed})")
    }
}

/// Credentials of clients, and the audit of a project's administration. An entry that a change is given is stored in the same
/// commit, and only if something is changed: a repetition after a lost answer neither misses the entry nor doubles it.
#[async_trait]
pub trait IdentityStore: Send + Sync {
    /// All projects, by id.
    async fn projects(&self) -> StoreResult<Vec<StoredProject>>;

    /// Creates a project (its version is 1 and the id is free), or replaces it if the stored one has the version before
    /// this one. Otherwise returns false, and nothing is changed. Of all callers that store one version, on any node,
    /// exactly one receives true.
    async fn put_project(&self, project: &StoredProject, entry: Option<&AuditEntry>) -> StoreResult<bool>;

    /// Stores an API key under the digest of its text. False, and nothing is changed, if the project has a key of this
    /// id or the digest is taken.
    async fn put_key(&self, key: &ApiKey, digest: &Digest, entry: Option<&AuditEntry>) -> StoreResult<bool>;

    /// The API key of this digest, valid or not.
    async fn key(&self, digest: &Digest) -> StoreResult<Option<ApiKey>>;

    /// All keys of a project, valid or not, by id.
    async fn keys(&self, project: &ProjectId) -> StoreResult<Vec<ApiKey>>;

    /// Revokes a key; it keeps the time of its first revocation. `None` if the project has no such key.
    async fn revoke_key(
        &self,
        project: &ProjectId,
        id: &KeyId,
        at: Timestamp,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<Option<ApiKey>>;

    /// Stores a ticket under the digest of its text, until a time; `bearer` is returned to the caller that takes it.
    /// Each call also removes some of the tickets that have expired at `now`, more than it adds.
    async fn put_ticket(&self, digest: &Digest, bearer: &str, until: Timestamp, now: Timestamp) -> StoreResult<()>;

    /// Removes some of the tickets that have expired at `now`. True if there may be more.
    async fn sweep_tickets(&self, now: Timestamp) -> StoreResult<bool>;

    /// Takes a ticket: of all callers that try, on any node, exactly one gets it, once. `None` also if it has expired
    /// at `now`.
    async fn take_ticket(&self, digest: &Digest, now: Timestamp) -> StoreResult<Option<String>>;

    /// Appends an entry to the audit.
    async fn record(&self, entry: &AuditEntry) -> StoreResult<()>;

    /// A page of a project's audit, newest first, of entries with a number below `before`. Numbers grow from entry to
    /// entry, with gaps. If several nodes write, an entry may appear a moment later than one with a greater number: a
    /// reader that must have all of them reads from the newest again.
    async fn audit(
        &self,
        project: &ProjectId,
        before: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<(i64, AuditEntry)>>;
}
