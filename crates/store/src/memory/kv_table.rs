//! The table of key-value entries.

use std::collections::BTreeMap;

use threadline_core::{
    ThreadKey,
    kv::{KvEntry, KvOwner, KvPlace},
};

/// An entry, and the thread with which it goes.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) entry: KvEntry,
    pub(super) thread: Option<ThreadKey>,
}

/// Entries of all owners.
pub(super) type Entries = BTreeMap<KvOwner, BTreeMap<KvPlace, Kept>>;
