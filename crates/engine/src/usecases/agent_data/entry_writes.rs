//! Writes of key-value entries: as callers request them, and as the store accepts them.

use std::{sync::Arc, time::Duration};

use threadline_core::{
    Principal, ThreadId, ThreadKey,
    kv::{KvPlace, Tag},
};
use threadline_store::{KvChange, KvPut, KvWrite};

use super::AgentDataDeps;
use crate::{AgentDataError, records::ThreadRef};

/// Write of an entry.
#[derive(Debug, Clone)]
pub struct WriteEntry {
    /// Entry that is written.
    pub place: KvPlace,
    /// Tag that the entry must have before the batch; `Some(None)` if there must be none.
    pub if_tag: Option<Option<Tag>>,
    /// Change of the entry.
    pub change: EntryChange,
}

/// Change of an entry by one write.
#[derive(Debug, Clone)]
pub enum EntryChange {
    /// Stores a value.
    Put(PutEntry),
    /// Removes the entry. With a tag, a repeated removal succeeds.
    Delete(Option<Tag>),
    /// Refreshes the TTL of the entry, with this time, or by default with the time that its value was stored with.
    Touch(Option<Duration>),
}

/// A value to be stored.
#[derive(Debug, Clone)]
pub struct PutEntry {
    /// JSON text on one line.
    pub value: String,
    /// Tag of the write; the server chooses one if there is none.
    pub tag: Option<Tag>,
    /// Time after which the entry expires.
    pub life: Option<Duration>,
    /// Thread with which the entry goes.
    pub thread: Option<ThreadId>,
}

impl AgentDataDeps {
    /// Writes with the keys of the threads that they name, and these threads. `own` is a thread that is known: it is not looked up, and
    /// `None` stands for it.
    pub(super) async fn to_store<'w>(
        &self,
        principal: &Principal,
        own: Option<&ThreadRef>,
        asked: impl ExactSizeIterator<Item = &'w WriteEntry>,
    ) -> Result<(Vec<KvWrite>, Vec<Option<Arc<ThreadRef>>>), AgentDataError> {
        let (mut writes, mut threads) = (Vec::with_capacity(asked.len()), Vec::with_capacity(asked.len()));
        for write in asked {
            let named = write.put().and_then(|put| put.thread.as_ref());
            let own = own.filter(|own| named == Some(&own.id));
            let other = match named.filter(|_| own.is_none()) {
                Some(id) => Some(self.directory.find(principal, id).await?),
                None => None,
            };
            writes.push(write.to_store(own.or(other.as_deref()).map(|thread| thread.key)));
            threads.push(other);
        }
        Ok((writes, threads))
    }
}

impl WriteEntry {
    /// The value that is stored, if there is one.
    pub(super) fn put(&self) -> Option<&PutEntry> {
        match &self.change {
            EntryChange::Put(put) => Some(put),
            EntryChange::Delete(_) | EntryChange::Touch(_) => None,
        }
    }

    fn to_store(&self, thread: Option<ThreadKey>) -> KvWrite {
        let change = match &self.change {
            EntryChange::Put(put) => KvChange::Put(KvPut {
                value: put.value.clone(),
                tag: put.tag.clone().unwrap_or_else(Tag::generate),
                life: put.life,
                thread,
                times: None,
            }),
            EntryChange::Delete(tag) => KvChange::Delete(tag.clone()),
            EntryChange::Touch(life) => KvChange::Touch(*life),
        };
        KvWrite { place: self.place.clone(), if_tag: self.if_tag.clone(), change }
    }
}
