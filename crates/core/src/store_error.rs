//! Failure of the store, which every layer above hands on.

/// The store could not do its work. The effect is unknown; trying again is safe.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached, is full, or refused.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The history of the store has changed, for this reason, and is not adopted yet.
    #[error("the history of the store has changed ({0}) and is being adopted")]
    Fenced(&'static str),
    /// The stored data contradicts itself. Never shown to clients; the details are in the server's log.
    #[error("the store is corrupt: {0}")]
    Corrupt(String),
}
