//! Item lists in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use threadline_core::{
    ThreadKey, Timestamp,
    items::{Item, ItemRange, ListAnswer, ListName, ListState, OpKey},
    kv::{KvOwner, Tag},
    limits::ITEM_OPS_KEPT,
};

use super::{
    MemoryStore, Row,
    item_table::{Kept, List, Lists},
};
use crate::{
    AnnotatedThread, ItemStore, KvWritten, StoreResult,
    items::{Decided, ItemPage, Known, ListDone, ListEdit, ListOp, Measured, decide, to_stored},
};

impl Row {
    /// Counted bytes of the items, with removed ones that are still stored, and of remembered operations.
    pub(super) fn item_bytes(&self) -> i64 {
        let size = |(name, list): (&ListName, &List)| {
            let items: i64 = list.items.values().map(|kept| name.item_size(kept.body.len())).sum();
            items + list.ops.iter().map(|(op, (_, answer, _))| op_size(name, op, answer)).sum::<i64>()
        };
        self.lists.iter().map(size).sum()
    }

    fn live(&self, list: &ListName) -> impl DoubleEndedIterator<Item = (u64, &str)> {
        let items = self.lists.get(list).map(|list| &list.items).into_iter().flatten();
        items.filter(|(_, kept)| kept.gone.is_none()).map(|(pos, kept)| (*pos, &*kept.body))
    }

    /// The last `most` items up to a position.
    fn measure(&self, list: &ListName, upto: u64, most: u64) -> Measured {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let taken: Vec<_> = self.live(list).rev().filter(|(pos, _)| *pos <= upto).take(most).collect();
        let range = taken.last().zip(taken.first()).map(|(first, last)| (first.0, last.0));
        Measured {
            count: taken.len() as u64,
            bytes: taken.iter().map(|(_, body)| list.item_size(body.len())).sum(),
            range,
        }
    }

    fn known(&self, op: &ListOp) -> Known {
        let list = self.lists.get(&op.list);
        Known {
            state: list.map(|list| list.state.clone()),
            done: list
                .and_then(|list| list.ops.get(&op.op))
                .map(|(digest, answer, _)| (digest.clone(), answer.clone())),
            lists: self.lists.len() as u64,
            bytes: self.data_bytes(),
        }
    }

    fn apply(&mut self, op: &ListOp, decided: Decided, copied: Vec<String>, now: Timestamp) {
        let fresh = || List { state: decided.state.clone(), items: BTreeMap::new(), ops: BTreeMap::new() };
        let list = self.lists.entry(op.list.clone()).or_insert_with(fresh);
        if let Some(from) = decided.gone_from {
            let live = list.items.range_mut(from..).map(|(_, kept)| kept).filter(|kept| kept.gone.is_none());
            live.for_each(|kept| kept.gone = Some((now, decided.state.tag.clone())));
        }
        let items = (decided.first_pos..).zip(decided.put.into_iter().chain(copied));
        list.items.extend(items.map(|(pos, body)| (pos, Kept { body, gone: None })));
        list.ops.insert(op.op.clone(), (op.digest.0.to_vec(), decided.answer, now));
        list.state = decided.state;
    }
}

fn op_size(list: &ListName, op: &OpKey, answer: &ListAnswer) -> i64 {
    list.op_size(op, to_stored(answer).len())
}

/// Removes up to `limit` operations and items that are over from lists; returns the number of rows and the bytes.
fn sweep(lists: &mut Lists, before: Timestamp, limit: usize) -> (usize, i64) {
    let (mut removed, mut bytes) = (0, 0);
    for (name, list) in lists {
        let ops: Vec<OpKey> =
            list.ops.iter().filter(|(_, (_, _, at))| *at <= before).map(|(op, _)| op.clone()).take(limit).collect();
        let forgotten =
            ops.iter().filter_map(|op| list.ops.remove(op).map(|(_, answer, _)| op_size(name, op, &answer)));
        bytes += forgotten.sum::<i64>();
        let over = |kept: &Kept| kept.gone.as_ref().is_some_and(|(at, _)| *at <= before);
        let items: Vec<u64> =
            list.items.iter().filter(|(_, kept)| over(kept)).map(|(pos, _)| *pos).take(limit).collect();
        removed += ops.len() + items.len();
        let gone = items.iter().filter_map(|pos| list.items.remove(pos)).map(|kept| name.item_size(kept.body.len()));
        bytes += gone.sum::<i64>();
    }
    (removed, bytes)
}

#[async_trait]
impl ItemStore for MemoryStore {
    async fn items(
        &self,
        thread: ThreadKey,
        list: &ListName,
        range: ItemRange,
        limit: usize,
        bytes: usize,
    ) -> StoreResult<Option<ItemPage>> {
        let state = self.state();
        let Some(row) = state.threads.get(&thread) else { return Ok(None) };
        let mut held = 0;
        let mut room = |item: &(u64, &str)| {
            let fits = held < bytes;
            held += usize::try_from(list.item_size(item.1.len())).unwrap_or(usize::MAX);
            fits
        };
        let item = |(pos, body): (u64, &str)| Item { pos, body: body.to_owned() };
        let items = match range {
            ItemRange::After(after) => {
                row.live(list).filter(|(pos, _)| *pos > after).take(limit).take_while(&mut room).map(item).collect()
            }
            ItemRange::Newest | ItemRange::Before(_) => {
                let before = if let ItemRange::Before(before) = range { before } else { u64::MAX };
                let last = row.live(list).rev().filter(|(pos, _)| *pos < before).take(limit).take_while(&mut room);
                let mut items: Vec<_> = last.map(item).collect();
                items.reverse();
                items
            }
        };
        Ok(Some((row.lists.get(list).map(|list| list.state.clone()), items)))
    }

    async fn removed_items(&self, thread: ThreadKey, list: &ListName, by: &Tag) -> StoreResult<Vec<Item>> {
        let state = self.state();
        let items = state.threads.get(&thread).and_then(|row| row.lists.get(list)).map(|list| &list.items);
        let removed = items
            .into_iter()
            .flatten()
            .filter(|(_, kept)| kept.gone.as_ref().is_some_and(|(_, tag)| tag == by))
            .map(|(pos, kept)| Item { pos: *pos, body: kept.body.clone() });
        Ok(removed.collect())
    }

    async fn change_list(&self, op: &ListOp) -> StoreResult<ListDone> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let Some(row) = state.threads.get(&op.thread) else { return Ok(ListDone::ThreadGone) };
        let (mut tag, mut bodies) = (None, Vec::new());
        let measured = match &op.edit {
            ListEdit::Append(_) | ListEdit::Replace(_) => Measured::default(),
            ListEdit::Pop(most) => row.measure(&op.list, u64::MAX, *most),
            ListEdit::Copy { from, list, upto } => {
                let Some(source) = state.threads.get(from) else { return Ok(ListDone::SourceGone) };
                let upto = upto.unwrap_or(u64::MAX);
                tag = source.lists.get(list).map(|list| list.state.tag.clone());
                bodies.extend(source.live(list).filter(|(pos, _)| *pos <= upto).map(|(_, body)| body.to_owned()));
                source.measure(list, upto, u64::MAX)
            }
        };
        let decided = match decide(op, &row.known(op), measured, tag) {
            Ok(decided) => decided,
            Err(done) => return Ok(done),
        };
        let mut added_kv = 0;
        if let Some((owner, writes)) = &op.kv {
            match state.write_kv(owner, writes, now) {
                KvWritten::Done { added, .. } => added_kv = added,
                refused => return Ok(ListDone::Kv(refused)),
            }
        }
        let (answer, added) = (decided.answer.clone(), decided.added);
        if let Some(row) = state.threads.get_mut(&op.thread) {
            row.apply(op, decided, bodies, now);
        }
        Ok(ListDone::Done { answer, added, added_kv })
    }

    async fn sweep_items(&self, limit: usize) -> StoreResult<(usize, Vec<(KvOwner, i64)>)> {
        let before = self.clock.now().minus(ITEM_OPS_KEPT);
        let state = &mut *self.state();
        let (mut removed, mut owners) = (0, Vec::new());
        for row in state.threads.values_mut().chain(state.trash.values_mut()) {
            let (rows, bytes) = sweep(&mut row.lists, before, limit);
            removed += rows;
            if bytes > 0 {
                let (project, user) = (row.thread.project.clone(), Some(row.thread.user.clone()));
                owners.push((KvOwner { project, user }, bytes));
            }
        }
        Ok((removed, owners))
    }

    async fn listed_data(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<AnnotatedThread>> {
        let state = self.state();
        let rows = state
            .threads
            .values()
            .filter(|row| Some(row.thread.key) > after && !(row.lists.is_empty() && row.checkpoints.is_empty()));
        Ok(rows.map(Row::named_thread).take(limit).collect())
    }

    async fn lists(&self, thread: ThreadKey) -> StoreResult<Vec<(ListName, ListState)>> {
        let state = self.state();
        let lists = state.threads.get(&thread).map(|row| &row.lists);
        Ok(lists.into_iter().flatten().map(|(name, list)| (name.clone(), list.state.clone())).collect())
    }

    async fn put_list(
        &self,
        thread: ThreadKey,
        list: &ListName,
        moved: &ListState,
        items: &[Item],
    ) -> StoreResult<bool> {
        let state = &mut *self.state();
        let Some(row) = state.threads.get_mut(&thread) else { return Ok(false) };
        let fresh = || List { state: moved.clone(), items: BTreeMap::new(), ops: BTreeMap::new() };
        let list = row.lists.entry(list.clone()).or_insert_with(fresh);
        if list.state.tag != moved.tag {
            return Ok(false);
        }
        for item in items {
            list.items.entry(item.pos).or_insert_with(|| Kept { body: item.body.clone(), gone: None });
        }
        Ok(true)
    }
}
