//! Item lists of threads, stored beside the logs.

use async_trait::async_trait;
use threadline_core::{
    Digest, ThreadKey,
    items::{Item, ItemRange, ListAnswer, ListName, ListState, OpKey},
    kv::{KvOwner, Tag},
    limits::{AGENT_DATA_ANSWER_BYTES, MAX_ITEM_LISTS, MAX_LIST_ITEMS, MAX_THREAD_DATA_BYTES},
};

use crate::{
    error::StoreResult,
    kv::{KvWrite, KvWritten},
    transfer::AnnotatedThread,
};

/// An operation on a list.
#[derive(Debug, Clone)]
pub struct ListOp {
    /// Thread of the list.
    pub thread: ThreadKey,
    /// Name of the list.
    pub list: ListName,
    /// Key of the operation, unique in the list for as long as operations are known.
    pub op: OpKey,
    /// Digest of all that the operation says: another operation with the same key is refused.
    pub digest: Digest,
    /// Tag that the list must have; `Some(None)` if there must be no list.
    pub if_tag: Option<Option<Tag>>,
    /// Change of the list.
    pub edit: ListEdit,
    /// Writes of key-value entries that are stored in the same commit.
    pub kv: Option<(KvOwner, Vec<KvWrite>)>,
}

/// Change of a list.
#[derive(Debug, Clone)]
pub enum ListEdit {
    /// Adds items at the end.
    Append(Vec<String>),
    /// Removes up to this number of items from the end.
    Pop(u64),
    /// Removes all items, and adds these.
    Replace(Vec<String>),
    /// Adds the items of another list, up to a position.
    Copy {
        /// Thread of the other list.
        from: ThreadKey,
        /// Name of the other list.
        list: ListName,
        /// Last position that is copied; `None` for all items.
        upto: Option<u64>,
    },
}

/// Outcome of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListDone {
    /// The operation is stored.
    Done {
        /// Answer of the operation.
        answer: ListAnswer,
        /// Bytes that the thread has more than before; 0 for a repetition.
        added: i64,
        /// Bytes that the owner of the key-value entries has more than before.
        added_kv: i64,
    },
    /// Another operation has the key.
    Conflict,
    /// The list does not have the tag that the operation requires.
    Changed,
    /// The writes of key-value entries are refused.
    Kv(KvWritten),
    /// The thread has as many lists as it may have.
    TooManyLists,
    /// The list would have too many items.
    TooManyItems,
    /// The thread would have too much agent data.
    TooLarge,
    /// The items that would be removed are more than an answer may have.
    AnswerTooLarge,
    /// The thread of the list does not exist (any more).
    ThreadGone,
    /// The thread that is copied from does not exist (any more).
    SourceGone,
}

/// A page of a list, with its state; no state if there is no list.
pub type ItemPage = (Option<ListState>, Vec<Item>);

/// Lists of threads, which are deleted with their thread.
#[async_trait]
pub trait ItemStore: Send + Sync {
    /// Items of a part of a list, in order: up to `limit`, and no further one once they have `bytes`; of [`ItemRange::Newest`] and
    /// [`ItemRange::Before`] the last ones. `None` if the thread does not exist (any more).
    async fn items(
        &self,
        thread: ThreadKey,
        list: &ListName,
        range: ItemRange,
        limit: usize,
        bytes: usize,
    ) -> StoreResult<Option<ItemPage>>;

    /// Items that the operation has removed that gave the list this tag, in order, as long as they are known.
    async fn removed_items(&self, thread: ThreadKey, list: &ListName, by: &Tag) -> StoreResult<Vec<Item>>;

    /// Carries out an operation in one commit, or finds that it was carried out before.
    async fn change_list(&self, op: &ListOp) -> StoreResult<ListDone>;

    /// Removes up to `limit` operations, and as many removed items, that are older than
    /// [`threadline_core::limits::ITEM_OPS_KEPT`]; returns the number of rows, and the bytes of each owner.
    async fn sweep_items(&self, limit: usize) -> StoreResult<(usize, Vec<(KvOwner, i64)>)>;

    /// A page of the threads that have agent data, in the order of their keys.
    async fn listed_data(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<AnnotatedThread>>;

    /// The lists of a thread, in the order of their names.
    async fn lists(&self, thread: ThreadKey) -> StoreResult<Vec<(ListName, ListState)>>;

    /// Stores a part of a list that is moved from another store. False, and nothing is stored, if the thread is gone or has another
    /// list of this name.
    async fn put_list(
        &self,
        thread: ThreadKey,
        list: &ListName,
        state: &ListState,
        items: &[Item],
    ) -> StoreResult<bool>;
}

/// Facts of a list that are known before an operation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) state: Option<ListState>,
    /// Digest and answer of the operation, if it was carried out before.
    pub(crate) done: Option<(Vec<u8>, ListAnswer)>,
    /// Lists of the thread.
    pub(crate) lists: u64,
    /// Bytes of the agent data of the thread.
    pub(crate) bytes: i64,
}

/// Items that an operation takes: those that are removed from the end, or those that are copied.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    pub(crate) count: u64,
    pub(crate) bytes: i64,
    /// First and last position of these items.
    pub(crate) range: Option<(u64, u64)>,
}

/// Items that are copied.
#[derive(Debug, Clone)]
pub(crate) struct Copied {
    pub(crate) from: ThreadKey,
    pub(crate) list: ListName,
    /// Tag that the other list must still have.
    pub(crate) tag: Tag,
    pub(crate) upto: u64,
}

/// Change of a list that follows from an operation.
#[derive(Debug, Clone)]
pub(crate) struct Decided {
    pub(crate) state: ListState,
    pub(crate) answer: ListAnswer,
    /// Position from which items are removed.
    pub(crate) gone_from: Option<u64>,
    /// First position of the items that are added.
    pub(crate) first_pos: u64,
    pub(crate) put: Vec<String>,
    pub(crate) copied: Option<Copied>,
    pub(crate) added: i64,
}

/// Decides on an operation; `Err` is its outcome if nothing has to be changed.
pub(crate) fn decide(op: &ListOp, known: &Known, measured: Measured, source: Option<Tag>) -> Result<Decided, ListDone> {
    if let Some((digest, answer)) = &known.done {
        let same = digest[..] == op.digest.0[..];
        return Err(if same {
            ListDone::Done { answer: answer.clone(), added: 0, added_kv: 0 }
        } else {
            ListDone::Conflict
        });
    }
    let tag = known.state.as_ref().map(|state| &state.tag);
    if op.if_tag.as_ref().is_some_and(|wanted| wanted.as_ref() != tag) {
        return Err(ListDone::Changed);
    }
    if matches!(op.edit, ListEdit::Pop(_)) && measured.bytes > AGENT_DATA_ANSWER_BYTES as i64 {
        return Err(ListDone::AnswerTooLarge);
    }
    let (held, first_pos) = known.state.as_ref().map_or((0, 1), |state| (state.count, state.next_pos));
    let size = |items: &[String]| items.iter().map(|item| op.list.item_size(item.len())).sum::<i64>();
    let (put, copied, gone_from, count, new, added) = match &op.edit {
        ListEdit::Append(items) => (items.clone(), None, None, held, items.len() as u64, size(items)),
        ListEdit::Replace(items) => (items.clone(), None, Some(0), 0, items.len() as u64, size(items)),
        ListEdit::Pop(_) => (Vec::new(), None, measured.range.map(|range| range.0), held - measured.count, 0, 0),
        ListEdit::Copy { from, list, upto } => {
            let copied =
                source.map(|tag| Copied { from: *from, list: list.clone(), tag, upto: upto.unwrap_or(u64::MAX) });
            // Sizes include the name of the list, which may be longer or shorter than that of the source.
            let growth = op.list.as_str().len() as i64 - list.as_str().len() as i64;
            (Vec::new(), copied, None, held, measured.count, measured.bytes + growth * measured.count as i64)
        }
    };
    let count = count + new;
    let state = ListState { tag: Tag::generate(), count, next_pos: first_pos + new };
    let range = match op.edit {
        ListEdit::Pop(_) => measured.range,
        _ => (new > 0).then(|| (first_pos, first_pos + new - 1)),
    };
    if known.state.is_none() && known.lists >= MAX_ITEM_LISTS as u64 {
        return Err(ListDone::TooManyLists);
    }
    if new > 0 && count > MAX_LIST_ITEMS {
        return Err(ListDone::TooManyItems);
    }
    let answer = ListAnswer { range, count, tag: Some(state.tag.clone()) };
    let added = added + op.list.op_size(&op.op, to_stored(&answer).len());
    // Removals succeed without room. An operation that changes nothing needs room, because it is remembered as well.
    let removes_only = new == 0
        && match op.edit {
            ListEdit::Pop(_) => measured.count > 0,
            ListEdit::Replace(_) => held > 0,
            ListEdit::Append(_) | ListEdit::Copy { .. } => false,
        };
    if !removes_only && known.bytes.saturating_add(added) > MAX_THREAD_DATA_BYTES {
        return Err(ListDone::TooLarge);
    }
    Ok(Decided { state, answer, gone_from, first_pos, put, copied, added })
}

/// Text of an answer that is stored for repetitions.
pub(crate) fn to_stored(answer: &ListAnswer) -> String {
    let (first, last) = answer.range.unwrap_or((0, 0));
    serde_json::json!([first, last, answer.count, answer.tag.as_ref().map(Tag::as_str)]).to_string()
}

/// Reads the stored text of an answer.
pub(crate) fn stored(text: &str) -> Option<ListAnswer> {
    let (first, last, count, tag): (u64, u64, u64, Option<String>) = serde_json::from_str(text).ok()?;
    let tag = tag.map(Tag::new).transpose().ok()?;
    Some(ListAnswer { range: (first > 0).then_some((first, last)), count, tag })
}
