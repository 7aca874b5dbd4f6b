//! API keys, projects' settings, and the audit.

use serde::{Deserialize, Serialize};

use super::{Credential, KeyId, Principal, ProjectId, ProjectLimits, Scopes, Timestamp};

/// SHA-256 of a secret: what is kept of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

/// An API key, without the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// By which it is spoken of, unique within its project.
    pub id: KeyId,
    /// Its project.
    pub project: ProjectId,
    /// What it may do.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ceases to be valid.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether it lets anybody in.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|until| now < until)
    }
}

/// A project's settings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProjectSettings {
    /// Tokens that somebody else makes for the project's users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<IssuerSettings>,
    /// What happens to threads that nobody uses.
    pub retention: Retention,
    /// Limits of its own, in place of those of the configuration.
    pub limits: ProjectLimits,
    /// Whether its threads are named by us; as the server does if left out, and never where that is switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_thread_names: Option<bool>,
}

/// An issuer of users' tokens with public keys (RS256 or ES256), such as an OpenID provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IssuerSettings {
    /// `iss` of its tokens.
    pub issuer: String,
    /// `aud` of its tokens.
    pub audience: String,
    /// Where its keys are (a JWK Set, RFC 7517).
    pub jwks_url: String,
}

/// What happens to threads that nobody uses: no run began or ended, and nobody edited them, for so many days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Retention {
    /// After which they are archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_after_days: Option<u32>,
    /// After which they are deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_after_days: Option<u32>,
}

/// Something done in a project's own affairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Where.
    pub project: ProjectId,
    /// When.
    pub at: Timestamp,
    /// Who: `operator`, `development`, `key:<id>`, `retention`.
    pub actor: String,
    /// What: a stable name such as `key.revoked`.
    pub action: String,
    /// The facts, a JSON object.
    pub facts: String,
}

impl AuditEntry {
    /// What a principal did in a project.
    pub fn by(
        principal: &Principal,
        project: &ProjectId,
        at: Timestamp,
        action: &str,
        facts: &serde_json::Value,
    ) -> Self {
        let actor = match &principal.credential {
            // A page acts for its user.
            Credential::Lent { .. } => "user".to_owned(),
            credential => credential.label(),
        };
        Self { project: project.clone(), at, actor, action: action.to_owned(), facts: facts.to_string() }
    }
}

/// What there is of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Footprint {
    /// Threads.
    pub threads: u64,
    /// Their runs.
    pub runs: u64,
    /// Their events.
    pub events: u64,
    /// Their snapshots of messages and state.
    pub snapshots: u64,
    /// Their annotations.
    pub annotations: u64,
    /// Entries of the user's feed.
    pub feed_entries: u64,
    /// Deleted threads of which something is left.
    pub tombstones: u64,
}
