//! The table of key-value entries.

use std::{collections::BTreeMap, time::Duration};

use threadline_core::{
    ThreadKey, Timestamp,
    kv::{KvEntry, KvOwner, KvPlace},
};

/// An entry with the members that readers do not see.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) entry: KvEntry,
    /// Thread with which the entry is deleted.
    pub(super) thread: Option<ThreadKey>,
    /// TTL that a touch refreshes.
    pub(super) life: Option<Duration>,
    /// Time until which a removal is remembered. A removed entry has the tag of the removal, and no value.
    pub(super) removed_until: Option<Timestamp>,
}

/// Entries of all owners.
pub(super) type Entries = BTreeMap<KvOwner, BTreeMap<KvPlace, Kept>>;
