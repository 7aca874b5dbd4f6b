//! Key-value entries, stored beside the logs: no append waits for more than one write of them.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use threadline_core::{
    ThreadId, ThreadKey, Timestamp, UserId,
    kv::{KvEntry, KvNamespace, KvOwner, KvPlace, Tag},
};

use crate::error::StoreResult;

/// A write of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvWrite {
    /// Entry that is written.
    pub place: KvPlace,
    /// Tag that the entry must have; `Some(None)` if there must be no entry. Compared with what was there before all writes of
    /// the batch.
    pub if_tag: Option<Option<Tag>>,
    /// Change of the entry.
    pub change: KvChange,
}

/// Change of an entry by one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvChange {
    /// Stores a value.
    Put(KvPut),
    /// Removes the entry. With a tag, the removal is remembered for [`threadline_core::limits::ITEM_OPS_KEPT`]: a repetition of the write
    /// meets its condition.
    Delete(Option<Tag>),
    /// Refreshes the TTL of the entry, with this time, or by default with the time that its value was stored with. Nothing else changes.
    Touch(Option<Duration>),
}

/// A value to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvPut {
    /// Value: a JSON text on one line.
    pub value: String,
    /// Tag of this write. An entry that has this tag and this value meets every condition: the write was carried out before.
    pub tag: Tag,
    /// TTL of the entry: a touch refreshes it.
    pub life: Option<Duration>,
    /// Thread with which the entry goes.
    pub thread: Option<ThreadKey>,
    /// Times of an entry that is moved from another store: they are kept.
    pub times: Option<KvTimes>,
}

/// Times of an entry that is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvTimes {
    /// Time at which the entry was stored first.
    pub created_at: Timestamp,
    /// Time of the last write.
    pub updated_at: Timestamp,
    /// Time from which the entry is gone.
    pub expires_at: Option<Timestamp>,
}

/// Outcome of a batch of writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvWritten {
    /// All writes are stored.
    Done {
        /// For each write: true if there was an entry before the batch, or if the write was carried out before.
        existed: Vec<bool>,
        /// Growth of the owner's counted bytes.
        added: i64,
    },
    /// No write is stored: the entry of this one does not have the tag that the write requires.
    Changed(usize),
    /// No write is stored: the thread of this one does not exist (any more).
    ThreadGone(usize),
}

/// An entry with its owner and its thread, for an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedKv {
    /// Owner of the entry.
    pub owner: KvOwner,
    /// The entry, as it is stored.
    pub entry: KvEntry,
    /// Thread with which the entry goes: its user and its id.
    pub thread: Option<(UserId, ThreadId)>,
    /// TTL that a touch refreshes.
    pub life: Option<Duration>,
}

/// Place of an entry among those of all owners.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnedPlace {
    /// Owner of the entry.
    pub owner: KvOwner,
    /// Place among the entries of the owner.
    pub place: KvPlace,
}

/// Entries at the places asked for, in order; `None` if their values are too large together.
pub type KvFound = Option<Vec<Option<KvEntry>>>;

/// Entries of an owner whose namespaces begin with a prefix.
#[derive(Debug, Clone, Copy)]
pub struct KvRange<'a> {
    /// Owner of the entries.
    pub owner: &'a KvOwner,
    /// Namespace with which those of the entries begin.
    pub prefix: &'a KvNamespace,
    /// Most entries, or namespaces, that are read at once.
    pub limit: usize,
}

/// Entries of users and projects. An entry that has expired, or whose thread was deleted or is in the trash, is not there.
#[async_trait]
pub trait KvStore: Send + Sync {
    /// Entries at these places, in order. `None` in place of all of them if their values have more than `bytes`.
    async fn kv_entries(&self, owner: &KvOwner, places: &[KvPlace], bytes: usize) -> StoreResult<KvFound>;

    /// A page of the entries of a range after a place, in the order of their places: no further one once their values have `bytes`.
    async fn kv_page(&self, range: KvRange<'_>, after: Option<&KvPlace>, bytes: usize) -> StoreResult<Vec<KvEntry>>;

    /// A page of the namespaces of a range that have entries, after one of them, in order.
    async fn kv_namespaces(&self, range: KvRange<'_>, after: Option<&KvNamespace>) -> StoreResult<Vec<KvNamespace>>;

    /// Carries out all writes in one commit, or none. Of several writes of one entry only the last one takes effect, and a touch
    /// only if there is no other, but the conditions of all of them must hold. An entry that is already as its last write leaves it meets all
    /// conditions: the batch was carried out before.
    async fn write_kv(&self, owner: &KvOwner, writes: &[KvWrite]) -> StoreResult<KvWritten>;

    /// Removes up to `limit` entries that have expired; returns the owner and the bytes of each.
    async fn sweep_kv(&self, limit: usize) -> StoreResult<Vec<(KvOwner, i64)>>;

    /// A page of the entries of all owners, in order: up to `limit`, and no further one once their values have `bytes`.
    async fn all_kv(&self, after: Option<&OwnedPlace>, limit: usize, bytes: usize) -> StoreResult<Vec<MovedKv>>;
}

/// State of an entry before a write, as conditions see it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Before<'s> {
    /// The entry is there.
    Live {
        /// Tag of the entry.
        tag: &'s str,
        /// Value of the entry.
        value: &'s str,
    },
    /// The entry was removed, by a write that had this tag.
    Removed(&'s str),
}

impl KvPut {
    /// Counted bytes of the entry at a place.
    pub(crate) fn size(&self, place: &KvPlace) -> i64 {
        place.size(&self.tag, self.value.len())
    }
}

impl KvChange {
    /// True if the entry is already as this change leaves it.
    fn has_left(&self, before: Before<'_>) -> bool {
        match (self, before) {
            (Self::Put(put), Before::Live { tag, value }) => put.tag.as_str() == tag && put.value == value,
            (Self::Delete(Some(wanted)), Before::Removed(tag)) => wanted.as_str() == tag,
            (Self::Put(_) | Self::Delete(_) | Self::Touch(_), _) => false,
        }
    }
}

impl KvWrite {
    /// The value that is stored, if there is one.
    pub fn put(&self) -> Option<&KvPut> {
        match &self.change {
            KvChange::Put(put) => Some(put),
            KvChange::Delete(_) | KvChange::Touch(_) => None,
        }
    }

    /// True if there was an entry before the batch, or if the write was carried out before; `None` if the entry does not meet the condition
    /// of the write. `last` is the write of the entry that takes effect.
    pub(crate) fn existed(&self, before: Option<Before<'_>>, last: &Self) -> Option<bool> {
        let repeated = before.is_some_and(|before| last.change.has_left(before));
        let live = match before {
            Some(Before::Live { tag, .. }) => Some(tag),
            Some(Before::Removed(_)) | None => None,
        };
        let fits = self.if_tag.as_ref().is_none_or(|wanted| wanted.as_ref().map(Tag::as_str) == live);
        (fits || repeated).then_some(live.is_some() || repeated)
    }
}

/// For each write, the index of the write of its entry that takes effect: the last one, or the last touch if there are only touches.
pub(crate) fn last_writes(writes: &[KvWrite]) -> Vec<usize> {
    let mut last: HashMap<&KvPlace, usize> = HashMap::with_capacity(writes.len());
    for (number, write) in writes.iter().enumerate() {
        let of_entry = last.entry(&write.place).or_insert(number);
        let is_touch = |write: &KvWrite| matches!(write.change, KvChange::Touch(_));
        if !is_touch(write) || is_touch(&writes[*of_entry]) {
            *of_entry = number;
        }
    }
    writes.iter().map(|write| last[&write.place]).collect()
}
