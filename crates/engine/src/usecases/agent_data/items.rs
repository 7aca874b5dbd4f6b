//! Item lists: operations that a client may repeat, and pages.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use threadline_core::{
    Digest, Principal, ThreadId,
    items::{Item, ItemRange, ListAnswer, ListName, OpKey},
    kv::{KvOwner, Tag},
    limits::AGENT_DATA_ANSWER_BYTES,
};
use threadline_store::{ItemPage, KvWritten, ListDone, ListEdit, ListOp, StoreError};

use super::{
    AgentDataDeps, ROUNDS,
    entry_writes::{EntryChange, WriteEntry},
};
use crate::{AgentDataError, DataLimit, directory::Attempt, metrics::AgentTable, records::ThreadRef};

/// Use cases of item lists.
#[derive(Clone)]
pub struct ItemLists {
    pub(crate) deps: Arc<AgentDataDeps>,
}

/// Operation on a list.
#[derive(Debug, Clone)]
pub struct ChangeList {
    /// Key by which the repetition of the operation is recognized.
    pub key: OpKey,
    /// Tag that the list must have; `Some(None)` if there must be no list.
    pub if_tag: Option<Option<Tag>>,
    /// Change of the list.
    pub edit: EditList,
    /// Writes of key-value entries in the same commit.
    pub kv: Vec<WriteEntry>,
}

/// Change of a list.
#[derive(Debug, Clone)]
pub enum EditList {
    /// Adds items at the end.
    Append(Vec<String>),
    /// Removes up to this number of items from the end.
    Pop(u64),
    /// Removes all items, and adds these.
    Replace(Vec<String>),
    /// Adds the items of another list of the same user, up to a position.
    Copy {
        /// Thread of the other list.
        from: ThreadId,
        /// Name of the other list.
        list: ListName,
        /// Last position that is copied; `None` for all items.
        upto: Option<u64>,
    },
}

/// A page of a list.
#[derive(Debug, Clone)]
pub struct ListPage {
    /// State of the list and its items.
    pub page: ItemPage,
    /// True if the list has more items in the direction of the page.
    pub has_more: bool,
}

impl ItemLists {
    /// A page of a list. Of a list that does not exist, an empty one.
    pub async fn read(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        list: &ListName,
        range: ItemRange,
        limit: usize,
    ) -> Result<ListPage, AgentDataError> {
        let read = move |thread: Arc<ThreadRef>| async move {
            let (store, bytes) = (&self.deps.store, AGENT_DATA_ANSWER_BYTES);
            Ok::<_, AgentDataError>(store.items(thread.key, list, range, limit + 1, bytes).await?.into())
        };
        let (state, mut items): ItemPage = self.deps.directory.with_thread(principal, thread, read).await?;
        // A page that ends before its limit has reached its bytes, or is the last one.
        let mut has_more = items.len() > limit;
        if has_more {
            match range {
                ItemRange::After(_) => drop(items.pop()),
                ItemRange::Newest | ItemRange::Before(_) => drop(items.remove(0)),
            }
        } else {
            let bytes: i64 = items.iter().map(|item| list.item_size(item.body.len())).sum();
            has_more = bytes >= AGENT_DATA_ANSWER_BYTES as i64;
        }
        Ok(ListPage { page: (state, items), has_more })
    }

    /// Carries out an operation, or finds that it was carried out before: the answer is the same. Items that a pop has removed
    /// come with it.
    pub async fn change(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        list: &ListName,
        change: &ChangeList,
    ) -> Result<(ListAnswer, Vec<Item>), AgentDataError> {
        self.deps.refuse_if_draining()?;
        if change.adds() {
            self.deps.admit(principal).await?;
        }
        let source = match &change.edit {
            EditList::Copy { from, .. } => Some(self.deps.directory.find(principal, from).await?),
            EditList::Append(_) | EditList::Pop(_) | EditList::Replace(_) => None,
        };
        let source = source.as_deref();
        let digest = change.digest(principal);
        let carry_out = move |thread: Arc<ThreadRef>| async move {
            for _ in 0..ROUNDS {
                let (writes, threads) = self.deps.to_store(principal, Some(&thread), change.kv.iter()).await?;
                let owner = KvOwner { project: principal.project.clone(), user: principal.user.clone() };
                let op = ListOp {
                    thread: thread.key,
                    list: list.clone(),
                    op: change.key.clone(),
                    digest,
                    if_tag: change.if_tag.clone(),
                    edit: change.edit.to_store(&thread, source)?,
                    kv: (!writes.is_empty()).then_some((owner, writes)),
                };
                let done = {
                    let _turn = self.deps.turn().await?;
                    self.deps.store.change_list(&op).await?
                };
                match done {
                    // The thread of an entry was deleted, and perhaps created again.
                    ListDone::Kv(KvWritten::ThreadGone(index)) => {
                        let Some(gone) = &threads[index] else { return Ok(Attempt::ThreadGone) };
                        self.deps.directory.forget(gone);
                    }
                    done => return self.outcome(principal, &thread, &op, done, source).await,
                }
            }
            Err(StoreError::Unavailable("the thread of an entry is deleted and created again all the time".to_owned())
                .into())
        };
        self.deps.directory.with_thread(principal, thread, carry_out).await
    }

    async fn outcome(
        &self,
        principal: &Principal,
        thread: &ThreadRef,
        op: &ListOp,
        done: ListDone,
        source: Option<&ThreadRef>,
    ) -> Result<Attempt<(ListAnswer, Vec<Item>)>, AgentDataError> {
        let limit = |limit| Err(AgentDataError::DataFull(limit));
        match done {
            ListDone::Done { answer, added, added_kv } => {
                self.deps.note(principal, Some(&thread.user), added);
                self.deps.note(principal, principal.user.as_ref(), added_kv);
                self.deps.metrics.agent_data.wrote(AgentTable::Items, usize::try_from(added).unwrap_or(0));
                let removed = match (&op.edit, &answer.tag, answer.range) {
                    (ListEdit::Pop(_), Some(tag), Some(_)) => {
                        self.deps.store.removed_items(thread.key, &op.list, tag).await?
                    }
                    _ => Vec::new(),
                };
                Ok(Attempt::Done((answer, removed)))
            }
            ListDone::ThreadGone => Ok(Attempt::ThreadGone),
            ListDone::SourceGone => {
                source.iter().for_each(|source| self.deps.directory.forget(source));
                Err(AgentDataError::ThreadNotFound)
            }
            ListDone::Conflict => Err(AgentDataError::ItemsConflict),
            ListDone::Changed => Err(AgentDataError::ItemsChanged),
            ListDone::Kv(KvWritten::Changed(index)) => Err(AgentDataError::KvChanged { index }),
            ListDone::Kv(KvWritten::ThreadGone(_) | KvWritten::Done { .. }) => Err(AgentDataError::ThreadNotFound),
            ListDone::AnswerTooLarge => Err(AgentDataError::AnswerTooLarge),
            ListDone::TooManyLists => limit(DataLimit::Lists),
            ListDone::TooManyItems => limit(DataLimit::Items),
            ListDone::TooLarge => limit(DataLimit::ThreadBytes),
        }
    }
}

impl EditList {
    fn to_store(&self, thread: &ThreadRef, source: Option<&ThreadRef>) -> Result<ListEdit, AgentDataError> {
        Ok(match (self, source) {
            (Self::Append(items), _) => ListEdit::Append(items.clone()),
            (Self::Replace(items), _) => ListEdit::Replace(items.clone()),
            (Self::Pop(count), _) => ListEdit::Pop(*count),
            // Data that the agent of one user keeps is not copied to another user.
            (Self::Copy { list, upto, .. }, Some(source)) if source.user == thread.user => {
                ListEdit::Copy { from: source.key, list: list.clone(), upto: *upto }
            }
            (Self::Copy { .. }, _) => return Err(AgentDataError::ThreadNotFound),
        })
    }
}

impl ChangeList {
    /// True if the operation may add data: what removes data alone is possible without room.
    fn adds(&self) -> bool {
        let adds_items = match &self.edit {
            EditList::Append(_) | EditList::Copy { .. } => true,
            EditList::Replace(items) => !items.is_empty(),
            EditList::Pop(_) => false,
        };
        adds_items || self.kv.iter().any(|write| write.put().is_some())
    }

    /// Digest of the content of the operation, and of the owner of its entries.
    fn digest(&self, principal: &Principal) -> Digest {
        let mut digest = Sha256::new();
        let mut part = |text: &str| {
            digest.update((text.len() as u64).to_be_bytes());
            digest.update(text);
        };
        part(&format!("{:?}", principal.user));
        part(&format!("{:?}", self.if_tag));
        match &self.edit {
            EditList::Append(items) => {
                part("append");
                items.iter().for_each(|item| part(item));
            }
            EditList::Replace(items) => {
                part("replace");
                items.iter().for_each(|item| part(item));
            }
            EditList::Pop(count) => part(&format!("pop {count}")),
            EditList::Copy { from, list, upto } => {
                part("copy");
                part(from.as_str());
                part(list.as_str());
                part(&format!("{upto:?}"));
            }
        }
        for write in &self.kv {
            part("kv");
            part(write.place.ns.as_str());
            part(write.place.key.as_str());
            part(&format!("{:?}", write.if_tag));
            match &write.change {
                EntryChange::Put(put) => {
                    part(&put.value);
                    part(&format!("put {:?} {:?} {:?}", put.tag, put.life, put.thread));
                }
                EntryChange::Delete(tag) => part(&format!("delete {tag:?}")),
                EntryChange::Touch(life) => part(&format!("touch {life:?}")),
            }
        }
        Digest(digest.finalize().into())
    }
}
