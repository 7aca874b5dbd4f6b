//! The table of item lists.

use std::collections::BTreeMap;

use threadline_core::{
    Timestamp,
    items::{ListAnswer, ListName, ListState, OpKey},
    kv::Tag,
};

/// An item of a list.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) body: String,
    /// Time at which the item was removed, and tag that the operation has given to the list.
    pub(super) gone: Option<(Timestamp, Tag)>,
}

/// A list of a thread.
#[derive(Debug, Clone)]
pub(super) struct List {
    pub(super) state: ListState,
    pub(super) items: BTreeMap<u64, Kept>,
    /// Operations, each with its digest, its answer and its time.
    pub(super) ops: BTreeMap<OpKey, (Vec<u8>, ListAnswer, Timestamp)>,
}

/// Lists of a thread.
pub(super) type Lists = BTreeMap<ListName, List>;
