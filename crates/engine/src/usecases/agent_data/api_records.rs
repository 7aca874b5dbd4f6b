//! Records that APIs of other protocols keep beside the logs: key-value entries below a reserved label, which only the server writes.
//!
//! A record of a thread is an entry of the thread's user, bound to the thread. The record goes with the thread into the trash and out
//! of it, and is exported, imported, counted and erased with the user's entries. No fork copies it.

use std::{sync::Arc, time::Duration};

use threadline_core::{
    Principal, ThreadId,
    kv::{KvKey, KvNamespace, KvOwner, KvPlace, Tag},
    limits::AGENT_DATA_ANSWER_BYTES,
};
use threadline_store::{KvChange, KvPut, KvRange, KvWrite, KvWritten, StoreError};

use super::{AgentDataDeps, ROUNDS};
use crate::{AgentDataError, metrics::AgentTable, records::ThreadRef};

/// Use cases of the records that APIs keep.
#[derive(Clone)]
pub struct ApiRecords {
    pub(crate) deps: Arc<AgentDataDeps>,
}

/// Way in which a record is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placing {
    /// A record that is there stays as it is.
    IfAbsent,
    /// The record takes the place of the one that is there.
    Replace,
    /// `Replace` that is allowed even if the user may store nothing more: for the mark of a removal.
    Mark,
}

/// Name of a record within its thread, or within its user.
#[derive(Debug, Clone, Copy)]
pub struct RecordName<'a> {
    /// Label of the API: reserved, see [`KvNamespace::is_reserved`].
    pub api: &'static str,
    /// Kind of the record.
    pub kind: &'static str,
    /// Id of the subject: of a run, or a digest.
    pub id: &'a str,
}

impl RecordName<'_> {
    /// Place of the record; `None` for an id that no entry can have as its key.
    fn place(self, thread: Option<&ThreadId>) -> Option<KvPlace> {
        let labels: Vec<&str> = [self.api, self.kind].into_iter().chain(thread.map(ThreadId::as_str)).collect();
        Some(KvPlace { ns: KvNamespace::new(&labels).ok()?, key: KvKey::new(self.id).ok()? })
    }
}

impl ApiRecords {
    /// Records of a thread, in the order of their names.
    pub async fn read(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        names: &[RecordName<'_>],
    ) -> Result<Vec<Option<String>>, AgentDataError> {
        let thread = self.deps.directory.find(principal, thread).await?;
        self.values(&owner_of(&thread), names, Some(&thread.id)).await
    }

    /// Ids of the records of a kind that a thread has, at most `most`.
    pub async fn ids(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        (api, kind): (&'static str, &'static str),
        most: usize,
    ) -> Result<Vec<String>, AgentDataError> {
        let thread = self.deps.directory.find(principal, thread).await?;
        let Ok(prefix) = KvNamespace::new(&[api, kind, thread.id.as_str()]) else { return Ok(Vec::new()) };
        let owner = owner_of(&thread);
        let range = KvRange { owner: &owner, prefix: &prefix, limit: most };
        let entries = self.deps.store.kv_page(range, None, AGENT_DATA_ANSWER_BYTES).await?;
        Ok(entries.into_iter().map(|entry| entry.place.key.as_str().to_owned()).collect())
    }

    /// Stores a record of a thread, a JSON text on one line.
    pub async fn write(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        name: RecordName<'_>,
        value: String,
        placing: Placing,
    ) -> Result<(), AgentDataError> {
        self.deps.refuse_if_draining()?;
        if placing != Placing::Mark {
            self.deps.admit(principal).await?;
        }
        let place = name.place(Some(thread)).ok_or(AgentDataError::AnswerTooLarge)?;
        for _ in 0..ROUNDS {
            let found = self.deps.directory.find(principal, thread).await?;
            let put = KvPut { thread: Some(found.key), ..put(value.clone(), None) };
            let write = write(place.clone(), put, placing);
            if self.stored(principal, &owner_of(&found), write).await? {
                return Ok(());
            }
            self.deps.directory.forget(&found);
        }
        Err(StoreError::Unavailable("the thread is deleted and created again all the time".to_owned()).into())
    }

    /// Value that is remembered for the principal's user, or for the project; `None` if there is none, or if it has expired.
    pub async fn remembered(
        &self,
        principal: &Principal,
        name: RecordName<'_>,
    ) -> Result<Option<String>, AgentDataError> {
        Ok(self.values(&own(principal), &[name], None).await?.pop().flatten())
    }

    /// Remembers a value for the given time.
    pub async fn remember(
        &self,
        principal: &Principal,
        name: RecordName<'_>,
        value: String,
        life: Duration,
        placing: Placing,
    ) -> Result<(), AgentDataError> {
        self.deps.refuse_if_draining()?;
        self.deps.admit(principal).await?;
        let place = name.place(None).ok_or(AgentDataError::AnswerTooLarge)?;
        let write = write(place, put(value, Some(life)), placing);
        self.stored(principal, &own(principal), write).await.map(drop)
    }

    async fn values(
        &self,
        owner: &KvOwner,
        names: &[RecordName<'_>],
        thread: Option<&ThreadId>,
    ) -> Result<Vec<Option<String>>, AgentDataError> {
        let places: Option<Vec<_>> = names.iter().map(|name| name.place(thread)).collect();
        let places = places.ok_or(AgentDataError::AnswerTooLarge)?;
        let found = self.deps.store.kv_entries(owner, &places, AGENT_DATA_ANSWER_BYTES).await?;
        let entries = found.ok_or(AgentDataError::AnswerTooLarge)?;
        Ok(entries.into_iter().map(|entry| entry.map(|entry| entry.value)).collect())
    }

    /// Carries out a write; false if its thread is gone.
    async fn stored(&self, principal: &Principal, owner: &KvOwner, write: KvWrite) -> Result<bool, AgentDataError> {
        let bytes = write.put().map_or(0, |put| put.value.len());
        let written = {
            let _turn = self.deps.turn().await?;
            self.deps.store.write_kv(owner, &[write]).await?
        };
        let added = match written {
            KvWritten::Done { added, .. } => added,
            // The record is there already.
            KvWritten::Changed(_) => return Ok(true),
            KvWritten::ThreadGone(_) => return Ok(false),
        };
        self.deps.note(principal, owner.user.as_ref(), added);
        self.deps.metrics.agent_data.wrote(AgentTable::Kv, bytes);
        Ok(true)
    }
}

fn owner_of(thread: &ThreadRef) -> KvOwner {
    KvOwner { project: thread.project.clone(), user: Some(thread.user.clone()) }
}

fn own(principal: &Principal) -> KvOwner {
    KvOwner { project: principal.project.clone(), user: principal.user.clone() }
}

fn put(value: String, life: Option<Duration>) -> KvPut {
    KvPut { value, tag: Tag::generate(), life, thread: None, times: None }
}

fn write(place: KvPlace, put: KvPut, placing: Placing) -> KvWrite {
    KvWrite { place, if_tag: (placing == Placing::IfAbsent).then_some(None), change: KvChange::Put(put) }
}
