//! Sign-outs, the last uses of keys, origins of agents, and the audit for readers that follow it.

use async_trait::async_trait;
use threadline_core::{AgentId, ApiKey, AuditEntry, Cutoff, CutoffKind, KeyId, KeyUse, ProjectId, Timestamp};

use crate::error::StoreResult;

/// Purpose of the keyed digests that name the subjects of cutoffs.
pub const CUTOFF_DIGESTS: &str = "cutoffs";

/// Parts of the digest of a subject: a user's id, a key's id, or nothing for a project.
pub fn cutoff_parts<'a>(project: &'a ProjectId, kind: CutoffKind, subject: &'a str) -> [&'a str; 3] {
    [project.as_str(), kind.as_str(), subject]
}

/// Data about credentials beyond [`IdentityStore`](crate::IdentityStore).
#[async_trait]
pub trait CredentialStore: Send + Sync {
    /// The API key of this id, valid or not. Ids are never given twice.
    async fn key_named(&self, project: &ProjectId, id: &KeyId) -> StoreResult<Option<ApiKey>>;

    /// Notes uses of keys. A use that is older than the noted one changes nothing, and neither does that of an unknown key.
    async fn note_uses(&self, uses: &[(ProjectId, KeyId, KeyUse)]) -> StoreResult<()>;

    /// Stores a cutoff. One that reaches no further than the stored one of its subject changes nothing, and its entry is not in
    /// the audit.
    async fn put_cutoff(&self, cutoff: &Cutoff, entry: Option<&AuditEntry>) -> StoreResult<()>;

    /// All cutoffs that were stored at a time or later, the oldest first.
    async fn cutoffs(&self, since: Timestamp) -> StoreResult<Vec<Cutoff>>;

    /// Removes the cutoffs that were stored before a time.
    async fn forget_cutoffs(&self, before: Timestamp) -> StoreResult<()>;

    /// A page of a project's audit, oldest first, of entries with a number above `after`.
    async fn audit_after(&self, project: &ProjectId, after: i64, limit: usize) -> StoreResult<Vec<(i64, AuditEntry)>>;

    /// Removes those of the oldest `limit` entries of a project's audit that are older than a time. True if there may be more.
    async fn forget_audit(&self, project: &ProjectId, before: Timestamp, limit: usize) -> StoreResult<bool>;

    /// Origin of the last definition that an agent of this name had, also of one that was deleted; `None` if none is known.
    async fn agent_origin(&self, project: &ProjectId, id: &AgentId) -> StoreResult<Option<String>>;

    /// Stores the origin of an agent if the stored one is still `seen`, and the entry in the audit with the same commit.
    /// Otherwise returns false, and nothing is changed.
    async fn put_agent_origin(
        &self,
        project: &ProjectId,
        id: &AgentId,
        origin: &str,
        seen: Option<&str>,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<bool>;
}

/// Writes the line of the log for an entry of the audit that was stored.
pub(crate) fn log_entry(entry: &AuditEntry) {
    let AuditEntry { project, actor, action, facts, .. } = entry;
    tracing::info!(target: "threadline::audit", %project, actor, action, facts, "audit");
}
