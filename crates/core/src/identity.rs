//! API keys, settings of projects, and the audit log.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    Credential, KeyId, Principal, ProjectId, ProjectLimits, Scope, Scopes, Timestamp,
    limits::{AUDIT_DAYS, TOKEN_SECONDS, TRASH_DAYS},
};

/// SHA-256 of a secret, which is all that is kept of the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

/// API key of a project, without the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Id that names the key, unique within its project.
    pub id: KeyId,
    /// Project that the key belongs to.
    pub project: ProjectId,
    /// Scopes that the key grants.
    pub scopes: Scopes,
    /// Time at which the key was made.
    pub created_at: Timestamp,
    /// Time from which the key is no longer valid; `None` for a key that does not expire.
    pub expires_at: Option<Timestamp>,
    /// Time at which the key was revoked; `None` if it was not.
    pub revoked_at: Option<Timestamp>,
    /// Mode of the server that made the key.
    pub born: Born,
    /// Key with which the key was made; `None` if the operator made it, or in development mode.
    pub made_by: Option<KeyId>,
    /// Last use of the key that a node has noted; `None` if none has.
    pub last_used: Option<KeyUse>,
}

/// Use of a key, as a node notes it from time to time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    /// Time of the use.
    pub at: Timestamp,
    /// Address from which the key was used; `None` if the node does not know it.
    pub from: Option<String>,
}

/// Mode of the server that made a key or token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Born {
    /// A server that authenticates its callers.
    #[default]
    Authenticated,
    /// A server in development mode, where every caller can make keys and tokens: no other server accepts them.
    Development,
}

impl Born {
    /// Name on the wire and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Authenticated => "authenticated",
            Self::Development => "development",
        }
    }

    /// Mode of this name. A mode that only a newer release knows is treated as development, so that it grants nothing
    /// here.
    pub fn named(name: &str) -> Self {
        if name == Self::Authenticated.as_str() { Self::Authenticated } else { Self::Development }
    }
}

impl ApiKey {
    /// True if the key authenticates a caller at `now`: neither revoked nor expired.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|until| now < until)
    }
}

/// Holders of credentials that a sign-out concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CutoffKind {
    /// One user of a project.
    User,
    /// All holders of tokens that one key of a project has made.
    Key,
    /// All users of a project.
    Project,
}

impl CutoffKind {
    /// Every kind, each of them once.
    pub const ALL: &'static [Self] = &[Self::User, Self::Key, Self::Project];

    /// Name of the kind in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Key => "key",
            Self::Project => "project",
        }
    }

    /// Kind of this name; `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }
}

/// Sign-out: tokens of its subject that were issued up to a time are no longer valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cutoff {
    /// Project of the tokens.
    pub project: ProjectId,
    /// Kind of the subject.
    pub kind: CutoffKind,
    /// Keyed digest of the subject's name: the name of an erased user must not be kept.
    pub subject: Digest,
    /// Last time of issue that is refused.
    pub not_before: Timestamp,
    /// Time at which the cutoff was stored last.
    pub at: Timestamp,
    /// Actor, as in an [`AuditEntry`].
    pub actor: String,
}

/// Validation of the events that producers append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventValidation {
    /// Any JSON object with a `type` is an event.
    #[default]
    Off,
    /// Events are as AG-UI 1.0 defines them, in its order.
    AgUi,
}

/// Settings of a project, as the API reads and writes them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProjectSettings {
    /// Issuer outside Threadline that makes tokens for the project's users; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<IssuerSettings>,
    /// Retention of threads that are no longer used.
    pub retention: Retention,
    /// Limits of the project, in place of those of the configuration.
    pub limits: ProjectLimits,
    /// True if Threadline names the project's threads. Absent means as the server does; no thread is named if the
    /// server has naming switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_thread_names: Option<bool>,
    /// Scopes of a user's token that names none; [`Scopes::USER`] if absent.
    #[serde(skip_serializing_if = "Option::is_none", with = "scope_names")]
    pub token_scopes: Option<Scopes>,
    /// Longest life of a user's token, in seconds; absent for [`TOKEN_SECONDS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_token_seconds: Option<u64>,
    /// Origins (`https://agents.example`, `http://10.1.2.3:8000`) to which the scope `agents` alone may point an agent that
    /// was elsewhere before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agent_origins: Vec<String>,
    /// Days for which entries of the audit log are kept; absent for [`AUDIT_DAYS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_days: Option<u32>,
    /// Validation of what producers append; absent for none, unless a request asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<EventValidation>,
}

impl ProjectSettings {
    /// Scopes of a user's token that names none.
    pub fn default_scopes(&self) -> Scopes {
        self.token_scopes.unwrap_or(Scopes::USER)
    }

    /// Longest life of a user's token.
    pub fn longest_token(&self) -> Duration {
        Duration::from_secs(self.max_token_seconds.unwrap_or(TOKEN_SECONDS))
    }

    /// Time for which entries of the audit log are kept.
    pub fn audit_age(&self) -> Duration {
        Duration::from_secs(24 * 3_600) * self.audit_days.unwrap_or(AUDIT_DAYS)
    }
}

/// Scopes in JSON: an array of names.
mod scope_names {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use super::Scopes;

    pub(super) fn parsed<E: Error>(names: &str) -> Result<Scopes, E> {
        Scopes::parse(names).map_err(|name| E::custom(format_args!("{name:?} is not a scope")))
    }

    pub(super) fn serialize<S: Serializer>(scopes: &Option<Scopes>, serializer: S) -> Result<S::Ok, S::Error> {
        let names: Option<Vec<_>> = scopes.map(|scopes| scopes.iter().map(super::Scope::as_str).collect());
        names.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Scopes>, D::Error> {
        Option::<Vec<String>>::deserialize(deserializer)?.map(|names| parsed(&names.join(" "))).transpose()
    }
}

/// Scopes by the words of an issuer, in JSON: an object whose values are names, separated by spaces.
mod mapped_scopes {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Scopes, scope_names::parsed};

    pub(super) type Mapped = BTreeMap<String, Scopes>;

    pub(super) fn serialize<S: Serializer>(mapped: &Option<Mapped>, serializer: S) -> Result<S::Ok, S::Error> {
        let names: Option<BTreeMap<_, _>> =
            mapped.as_ref().map(|mapped| mapped.iter().map(|(word, scopes)| (word, scopes.to_string())).collect());
        names.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Mapped>, D::Error> {
        let named = Option::<BTreeMap<String, String>>::deserialize(deserializer)?;
        let named = named.map(|named| named.into_iter().map(|(word, names)| Ok((word, parsed(&names)?))).collect());
        named.transpose()
    }
}

/// Issuer of users' tokens with public keys (RS256 or ES256), such as an OpenID provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IssuerSettings {
    /// `iss` claim that the issuer's tokens carry.
    pub issuer: String,
    /// `aud` claim that the issuer's tokens carry.
    pub audience: String,
    /// Address of the issuer's public keys (a JWK Set, RFC 7517).
    pub jwks_url: String,
    /// Scopes that each word in the claim `scope` (or `scp`) grants. Absent: the words say nothing, and each token has the
    /// scopes of a token that names none.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "mapped_scopes")]
    pub scopes: Option<BTreeMap<String, Scopes>>,
}

/// Retention of unused threads. A thread is unused while no run of it begins or ends and no client edits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Retention {
    /// Days without use after which a thread is archived; absent for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_after_days: Option<u32>,
    /// Days without use after which a thread is put in the trash; absent for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_after_days: Option<u32>,
    /// Days for which a thread stays in the trash, from which it can be restored; absent for [`TRASH_DAYS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_days: Option<u32>,
}

impl Retention {
    /// Time for which a thread stays in the trash.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(24 * 3_600) * self.grace_days.unwrap_or(TRASH_DAYS)
    }
}

/// Project that exists without any set-up.
pub const DEFAULT_PROJECT: &str = "default";

/// Entry of the audit log: an administrative action in a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Project in which the action was taken.
    pub project: ProjectId,
    /// Time of the action.
    pub at: Timestamp,
    /// Actor: `operator`, `development`, `key:<id>`, `user`, `retention`, `clock`, `store` or `node`.
    pub actor: String,
    /// Action by its stable name, such as `key.revoked`.
    pub action: String,
    /// Facts about the action: a JSON object, as text.
    pub facts: String,
}

impl AuditEntry {
    /// Entry for an action that a principal has taken in a project.
    pub fn by(
        principal: &Principal,
        project: &ProjectId,
        at: Timestamp,
        action: &str,
        facts: &serde_json::Value,
    ) -> Self {
        let actor = match &principal.credential {
            // A page with lent access acts for its user.
            Credential::Lent { .. } => "user".to_owned(),
            credential => credential.label(),
        };
        Self { project: project.clone(), at, actor, action: action.to_owned(), facts: facts.to_string() }
    }
}

/// Amount of data that is stored for a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Footprint {
    /// Number of the user's threads.
    pub threads: u64,
    /// Number of runs in the user's threads.
    pub runs: u64,
    /// Number of events in the user's threads.
    pub events: u64,
    /// Number of snapshots of messages and state in the user's threads.
    pub snapshots: u64,
    /// Number of annotations in the user's threads.
    pub annotations: u64,
    /// Number of entries in the user's feed.
    pub feed_entries: u64,
    /// Number of deleted threads of which some data is left.
    pub tombstones: u64,
    /// Number of the user's key-value entries.
    pub kv_entries: u64,
    /// Number of the user's plain streams, with those that are to be removed.
    pub streams: u64,
}
