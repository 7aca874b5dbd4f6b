//! Failure of the store, which every layer above hands on.

use crate::{Seq, ThreadKey};

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
    /// A row of a thread's log was changed on the disk, so that its checksum is wrong, or is missing.
    #[error("events {first_seq} to {last_seq} of thread {} are damaged on the disk", key.0)]
    Damaged {
        /// Key of the thread.
        key: ThreadKey,
        /// Seq of the first event that cannot be read.
        first_seq: Seq,
        /// Seq up to which events are known to be unreadable.
        last_seq: Seq,
    },
}
