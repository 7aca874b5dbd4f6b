//! Item lists of both databases: an operation reads the list, decides, and commits if the list is still as it was.

use async_trait::async_trait;
use serde_json::json;
use threadline_core::{
    Digest, ThreadKey,
    items::{Item, ItemRange, ListName, ListState, OpKey},
    kv::{KvOwner, Tag},
    limits::PG_RACES,
};

use super::{
    annotations,
    columns::{Cells, Columns},
    corrupt, limit as count,
    pages::each,
    tables::{Tables, export},
    to_i64,
};
use crate::{
    AnnotatedThread, ItemStore, KvWrite, KvWritten, StoreError, StoreResult,
    items::{Decided, ItemPage, Known, ListDone, ListEdit, ListOp, Measured, decide, stored, to_stored},
};

const REMOVED: &str = "\
    SELECT pos, body FROM items WHERE key = $1 AND list = $2 AND gone_at IS NOT NULL AND gone_by = $3 ORDER BY pos";
const LISTS: &str = "SELECT list, tag, count, next_pos FROM item_lists WHERE key = $1 ORDER BY list";

/// A change that is to be committed.
pub(crate) struct Change {
    pub(crate) thread: ThreadKey,
    pub(crate) list: ListName,
    /// Tag that the list has; `None` if there is no list.
    pub(crate) former: Option<Tag>,
    pub(crate) decided: Decided,
    pub(crate) op: OpKey,
    pub(crate) digest: Digest,
    pub(crate) answer: String,
    pub(crate) kv: Option<(KvOwner, Vec<KvWrite>)>,
}

/// Outcome of a commit.
pub(crate) enum Committed {
    /// The change is stored; with what it adds to the entries of their owner.
    Done(i64),
    /// The writes of entries are refused.
    Kv(KvWritten),
    /// The list, or the one that is copied from, is not as it was, or the thread is gone.
    Raced,
}

/// A database that changes lists.
#[async_trait]
pub(crate) trait ItemTables: Tables {
    /// Stores a change and its writes of entries in one commit, or nothing.
    async fn commit(&self, change: Change) -> StoreResult<Committed>;

    /// Removes what is over.
    async fn sweep(&self, limit: usize) -> StoreResult<(usize, Vec<(KvOwner, i64)>)>;

    /// Stores a part of a list that is moved; false if there is another one, or no thread.
    async fn put_part(
        &self,
        thread: ThreadKey,
        list: &ListName,
        state: &ListState,
        items: &[Item],
    ) -> StoreResult<bool>;
}

/// Items of a list as statements take them: their positions, places and sizes, and the bodies one behind the other.
pub(crate) fn packed<'i>(list: &ListName, items: impl Iterator<Item = (u64, &'i str)>) -> (String, Vec<u8>) {
    let (mut places, mut bodies) = (Vec::new(), Vec::new());
    for (pos, body) in items {
        places.push(json!([pos, bodies.len() + 1, body.len(), list.item_size(body.len())]));
        bodies.extend_from_slice(body.as_bytes());
    }
    (serde_json::Value::Array(places).to_string(), bodies)
}

fn tag<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<Option<Tag>> {
    columns.maybe_text()?.map(|text| Tag::new(text).map_err(corrupt)).transpose()
}

/// The state of a list, in three columns; `None` if an outer join found none.
fn state<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<Option<ListState>> {
    let (tag, items, next) = (tag(columns)?, columns.maybe_int()?, columns.maybe_int()?);
    let (Some(tag), Some(items), Some(next)) = (tag, items, next) else { return Ok(None) };
    Ok(Some(ListState { tag, count: items.unsigned_abs(), next_pos: next.unsigned_abs() }))
}

fn item<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<Option<Item>> {
    let Some(pos) = columns.maybe_int()? else { return Ok(None) };
    let body = String::from_utf8(columns.bytes()?).map_err(corrupt)?;
    Ok(Some(Item { pos: pos.unsigned_abs(), body }))
}

async fn known<S: Tables>(store: &S, op: &ListOp) -> StoreResult<Option<Known>> {
    let values = vec![op.thread.0.into(), op.list.as_str().into(), op.op.as_str().into()];
    let rows = store.found(S::STATEMENTS.list_state, values).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let mut columns = Columns::new(row);
    let state = state(&mut columns)?;
    let (digest, answer) = (columns.maybe_bytes()?, columns.maybe_text()?);
    let done = digest.zip(answer).map(|(digest, answer)| {
        let answer = stored(&answer).ok_or_else(|| corrupt("the answer of an operation"))?;
        Ok::<_, StoreError>((digest, answer))
    });
    Ok(Some(Known { state, done: done.transpose()?, lists: columns.count()?, bytes: columns.int()? }))
}

/// The last `most` items of a list up to a position.
async fn measure<S: Tables>(
    store: &S,
    thread: ThreadKey,
    list: &ListName,
    upto: Option<u64>,
    most: u64,
) -> StoreResult<Measured> {
    let upto = to_i64(upto.unwrap_or(u64::MAX));
    let values = vec![thread.0.into(), list.as_str().into(), upto.into(), to_i64(most).into()];
    let rows = store.found(S::STATEMENTS.measure_items, values).await?;
    let row = rows.first().ok_or_else(|| corrupt("no answer to a question about items"))?;
    let mut columns = Columns::new(row);
    let (count, bytes) = (columns.count()?, columns.int()?);
    let range = columns.maybe_int()?.zip(columns.maybe_int()?);
    Ok(Measured { count, bytes, range: range.map(|(first, last)| (first.unsigned_abs(), last.unsigned_abs())) })
}

/// State of the list that an operation copies from; `None` if its thread is gone.
async fn source<S: Tables>(store: &S, thread: ThreadKey, list: &ListName) -> StoreResult<Option<Option<ListState>>> {
    let values = vec![thread.0.into(), list.as_str().into(), "".into()];
    let rows = store.found(S::STATEMENTS.list_state, values).await?;
    rows.first().map(|row| state(&mut Columns::new(row))).transpose()
}

#[async_trait]
impl<S: ItemTables> ItemStore for S {
    async fn items(
        &self,
        thread: ThreadKey,
        list: &ListName,
        range: ItemRange,
        limit: usize,
        bytes: usize,
    ) -> StoreResult<Option<ItemPage>> {
        let (text, pos) = match range {
            ItemRange::Newest => (S::STATEMENTS.items_before, u64::MAX),
            ItemRange::Before(pos) => (S::STATEMENTS.items_before, pos),
            ItemRange::After(pos) => (S::STATEMENTS.items_after, pos),
        };
        let values =
            vec![thread.0.into(), list.as_str().into(), to_i64(pos).into(), count(limit).into(), count(bytes).into()];
        let rows = self.found(text, values).await?;
        let (mut found, mut items) = (None, Vec::with_capacity(rows.len()));
        for row in &rows {
            let mut columns = Columns::new(row);
            found = state(&mut columns)?;
            items.extend(item(&mut columns)?);
        }
        Ok((!rows.is_empty()).then_some((found, items)))
    }

    async fn removed_items(&self, thread: ThreadKey, list: &ListName, by: &Tag) -> StoreResult<Vec<Item>> {
        let values = vec![thread.0.into(), list.as_str().into(), by.as_str().into()];
        each(&self.found(REMOVED, values).await?, |columns| item(columns)?.ok_or_else(|| corrupt("an item")))
    }

    async fn change_list(&self, op: &ListOp) -> StoreResult<ListDone> {
        for _ in 0..PG_RACES {
            let Some(known) = known(self, op).await? else { return Ok(ListDone::ThreadGone) };
            let mut copied = None;
            let measured = match &op.edit {
                ListEdit::Append(_) | ListEdit::Replace(_) => Measured::default(),
                ListEdit::Pop(most) => measure(self, op.thread, &op.list, None, *most).await?,
                ListEdit::Copy { from, list, upto } => {
                    let Some(state) = source(self, *from, list).await? else { return Ok(ListDone::SourceGone) };
                    copied = state.map(|state| state.tag);
                    measure(self, *from, list, *upto, u64::MAX).await?
                }
            };
            let decided = match decide(op, &known, measured, copied) {
                Ok(decided) => decided,
                Err(done) => return Ok(done),
            };
            let answer = decided.answer.clone();
            let change = Change {
                thread: op.thread,
                list: op.list.clone(),
                former: known.state.map(|state| state.tag),
                op: op.op.clone(),
                digest: op.digest,
                answer: to_stored(&answer),
                kv: op.kv.clone(),
                decided,
            };
            let added = change.decided.added;
            match self.commit(change).await? {
                Committed::Done(added_kv) => return Ok(ListDone::Done { answer, added, added_kv }),
                Committed::Kv(refused) => return Ok(ListDone::Kv(refused)),
                Committed::Raced => {}
            }
        }
        Err(StoreError::Unavailable("other clients change the list all the time".to_owned()))
    }

    async fn sweep_items(&self, limit: usize) -> StoreResult<(usize, Vec<(KvOwner, i64)>)> {
        self.sweep(limit).await
    }

    async fn listed_data(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<AnnotatedThread>> {
        annotations::threads(&self.found(S::STATEMENTS.listed_data, export::page(after, limit)).await?)
    }

    async fn lists(&self, thread: ThreadKey) -> StoreResult<Vec<(ListName, ListState)>> {
        each(&self.found(LISTS, vec![thread.0.into()]).await?, |columns: &mut Columns<'_, S::Row>| {
            let name = ListName::new(columns.text()?).map_err(corrupt)?;
            Ok((name, state(columns)?.ok_or_else(|| corrupt("a list"))?))
        })
    }

    async fn put_list(
        &self,
        thread: ThreadKey,
        list: &ListName,
        state: &ListState,
        items: &[Item],
    ) -> StoreResult<bool> {
        self.put_part(thread, list, state, items).await
    }
}
