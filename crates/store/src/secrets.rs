//! Secrets in a store: those of projects, which sign tokens, and the definitions of agents, with their keys. A store with keys
//! seals what it writes; without keys, it stores the texts as they are.
//!
//! The table `secrets` has one row, the root of keyed digests. It is sealed before any other secret, so that it also tells
//! whether a process has the right keys.

use std::{io, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use threadline_core::{AgentId, ProjectId};
pub use threadline_secrets::{DigestKey, Keyring, KeyringError, NoRandomness, Unopened};

use crate::StoreResult;

/// Use that a process makes of the secrets of a store.
#[derive(Debug, Clone)]
pub enum SecretAccess {
    /// Reads and writes them with these keys. Without keys, a data directory has its own ones in a file, and a database keeps
    /// its secrets unsealed; if they are sealed, it does not open.
    Keys(Option<Arc<Keyring>>),
    /// The same, after the keys were lost: a root that no key opens is replaced.
    Renewal(Option<Arc<Keyring>>),
    /// Neither reads nor writes them, and needs no keys.
    None,
}

impl Default for SecretAccess {
    fn default() -> Self {
        Self::Keys(None)
    }
}

/// Reason why a process cannot use the secrets of a store.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// The secrets are sealed, and the process has no keys.
    #[error(
        "the secrets in this store are sealed with the key {0:?}, and there is no key file: name the file with \
         --secret-key-file, or put secret.key back into its data directory.\n\
         If the key is lost: threadline secrets renew"
    )]
    NoKeyFile(String),
    /// The keys of the process do not open the secrets.
    #[error(
        "the secrets in this store cannot be opened: {0}.\n\
         Name the right key file with --secret-key-file. If the key is lost: threadline secrets renew"
    )]
    Unopened(#[from] Unopened),
    /// The file in the data directory cannot be used.
    #[error("cannot use the key file {}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// The file in the data directory has no usable keys.
    #[error("invalid key file {}: {source}", path.display())]
    Keys {
        /// Path of the file.
        path: PathBuf,
        /// Error in the text.
        source: KeyringError,
    },
    /// A key cannot be made.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// A secret that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretName {
    /// Root of keyed digests.
    Root,
    /// Secrets of a project.
    Project(ProjectId),
    /// Definition of an agent.
    Agent(ProjectId, AgentId),
}

/// Form in which a secret is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretForm {
    /// In clear text, as the secret itself.
    Unsealed,
    /// Sealed with the key that seals now.
    Sealed,
    /// Sealed with another key, which this process has.
    OtherKey,
    /// Sealed, and this process cannot open it.
    Unopened,
}

impl SecretForm {
    /// True for a secret that a process with keys seals with the one that seals now.
    pub(crate) fn is_to_be_sealed(self) -> bool {
        matches!(self, Self::Unsealed | Self::OtherKey)
    }
}

/// The secrets as a whole.
#[async_trait]
pub trait SecretStore: Send + Sync {
    /// Key of digests for a purpose. Digests under it stay the same, whatever key seals the root, until a renewal
    /// replaces a root that no key opens.
    fn digest_key(&self, purpose: &str) -> StoreResult<DigestKey>;

    /// Id of the key with which new secrets are sealed; `None` if they are stored as they are.
    fn sealing_key(&self) -> Option<String>;

    /// Every stored secret, and its form.
    async fn secret_forms(&self) -> StoreResult<Vec<(SecretName, SecretForm)>>;

    /// Seals every secret that this process can open with the key that seals now, one after the other. Returns their number;
    /// those that are sealed with it already are not counted. Without keys nothing is done.
    async fn reseal(&self) -> StoreResult<u64>;
}
