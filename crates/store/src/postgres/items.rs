//! Changes of item lists: one statement each.

use async_trait::async_trait;
use threadline_core::{
    ProjectId, ThreadKey, UserId,
    items::{Item, ListName, ListState},
    kv::{KvOwner, Tag},
    limits::ITEM_OPS_KEPT,
};

use super::{
    PgStore,
    kv::{asked, written},
    rows::{self, Columns, text_of},
};
use crate::{
    KvWritten, StoreResult,
    sql::{
        corrupt,
        items::{Change, Committed, ItemTables, packed},
        kv::stored_owner,
        tables::Tables,
    },
};

pub(super) const CHANGE: &str = text_of(include_str!("../../queries/postgres/change_list.sql"));
pub(super) const SWEEP: &str = text_of(include_str!("../../queries/postgres/sweep_items.sql"));
const PUT: &str = text_of(include_str!("../../queries/postgres/put_list.sql"));

#[async_trait]
impl ItemTables for PgStore {
    async fn commit(&self, change: Change) -> StoreResult<Committed> {
        self.commit_change(change).await
    }

    async fn sweep(&self, limit: usize) -> StoreResult<(usize, Vec<(KvOwner, i64)>)> {
        let values = vec![self.time().into(), rows::limit(limit).into(), rows::millis(ITEM_OPS_KEPT).into()];
        let (mut removed, mut owners) = (0, Vec::new());
        for row in &self.changed(SWEEP, values).await? {
            let mut columns = Columns::new(row);
            let owner = columns.maybe_id(ProjectId::new)?.zip(columns.maybe_id(UserId::new)?);
            let number = columns.int()?;
            match owner {
                Some((project, user)) => owners.push((KvOwner { project, user: Some(user) }, number)),
                None => removed = usize::try_from(number).unwrap_or(0),
            }
        }
        Ok((removed, owners))
    }

    async fn put_part(
        &self,
        thread: ThreadKey,
        list: &ListName,
        state: &ListState,
        items: &[Item],
    ) -> StoreResult<bool> {
        let (places, bodies) = packed(list, items.iter().map(|item| (item.pos, &*item.body)));
        let values = vec![
            self.time().into(),
            thread.0.into(),
            list.as_str().into(),
            state.tag.as_str().into(),
            rows::to_i64(state.count).into(),
            rows::to_i64(state.next_pos).into(),
            places.into(),
            bodies.into(),
        ];
        Ok(!self.changed(PUT, values).await?.is_empty())
    }
}

impl PgStore {
    async fn commit_change(&self, change: Change) -> StoreResult<Committed> {
        let Change { thread, list, former, decided, op, digest, answer, kv } = change;
        let (project, owner) = kv.as_ref().map_or(("", ""), |(owner, _)| (owner.project.as_str(), stored_owner(owner)));
        let (writes, values) = asked(kv.as_ref().map_or(&[], |(_, writes)| writes));
        let (places, bodies) = packed(&list, (decided.first_pos..).zip(decided.put.iter().map(String::as_str)));
        let copied = decided.copied.as_ref();
        let arguments = vec![
            self.time().into(),
            project.into(),
            owner.into(),
            writes.into(),
            values.into(),
            thread.0.into(),
            list.as_str().into(),
            former.as_ref().map(|tag| tag.as_str().to_owned()).into(),
            decided.state.tag.as_str().into(),
            rows::to_i64(decided.state.count).into(),
            rows::to_i64(decided.state.next_pos).into(),
            op.as_str().into(),
            (&digest.0).into(),
            answer.as_str().into(),
            decided.gone_from.map(rows::to_i64).into(),
            places.into(),
            bodies.into(),
            decided.added.into(),
            copied.map(|copied| copied.from.0).into(),
            copied.map(|copied| copied.list.as_str().to_owned()).into(),
            copied.map(|copied| Tag::as_str(&copied.tag).to_owned()).into(),
            copied.map(|copied| rows::to_i64(copied.upto)).into(),
            rows::to_i64(decided.first_pos).into(),
            list.op_size(&op, answer.len()).into(),
        ];
        let rows = self.changed(CHANGE, arguments).await?;
        let (last, entries) = rows.split_last().ok_or_else(|| corrupt("no answer to a change of a list"))?;
        match written(entries.iter())? {
            KvWritten::Done { added, .. } if Columns::new(last).int()? == -1 => Ok(Committed::Done(added)),
            KvWritten::Done { .. } => Ok(Committed::Raced),
            refused => Ok(Committed::Kv(refused)),
        }
    }
}
