//! The table of key-value entries.

use std::{collections::BTreeMap, time::Duration};

use threadline_core::{
    ThreadKey, Timestamp,
    kv::{KvEntry, KvOwner, KvPlace},
};

/// An entry with what is not shown of it.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) entry: KvEntry,
    /// Thread with which it goes.
    pub(super) thread: Option<ThreadKey>,
    /// Time after which it expires when it is touched.
    pub(super) life: Option<Duration>,
    /// Of an entry that was removed: the time until which that is remembered. The entry has the tag of the removal, and no value.
    pub(super) removed_until: Option<Timestamp>,
}

/// Entries of all owners.
pub(super) type Entries = BTreeMap<KvOwner, BTreeMap<KvPlace, Kept>>;
