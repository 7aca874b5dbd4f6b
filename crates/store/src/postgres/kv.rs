//! Writes of key-value entries: one statement for all of a batch.

use async_trait::async_trait;
use serde_json::{Value as Json, json};
use threadline_core::kv::{KvOwner, Tag};

use super::{
    PgStore,
    rows::{self, Columns, text_of},
};
use crate::{
    KvWrite, KvWritten, StoreResult,
    kv::last_writes,
    sql::{
        corrupt,
        kv::{KvTables, stored_owner},
        tables::Tables,
    },
};

pub(super) const PUT: &str = text_of(include_str!("../../queries/postgres/put_kv.sql"));

/// Writes as the statement takes them: a list, and the values one behind the other.
pub(super) fn asked(writes: &[KvWrite]) -> (String, Vec<u8>) {
    let (mut list, mut values) = (Vec::with_capacity(writes.len()), Vec::new());
    for ((index, write), last) in writes.iter().enumerate().zip(last_writes(writes)) {
        let (ns, key) = (write.place.ns.as_str(), write.place.key.as_str());
        let condition = write.if_tag.as_ref().map(|tag| tag.as_ref().map_or("", Tag::as_str));
        let put = write.put.as_ref();
        let (start, length) = (values.len() + 1, put.map_or(0, |put| put.value.len()));
        values.extend_from_slice(put.map_or(b"", |put| put.value.as_bytes()));
        let life = put.and_then(|put| put.life).map(rows::millis);
        let times = put.and_then(|put| put.times);
        list.push(json!([
            index,
            ns,
            key,
            put.map(|put| put.tag.as_str()),
            start,
            length,
            life,
            put.and_then(|put| put.thread).map(|thread| thread.0),
            times.map(|times| times.created_at.0),
            times.map(|times| times.updated_at.0),
            times.and_then(|times| times.expires_at).map(|at| at.0),
            condition,
            i64::from(last),
            put.map_or(0, |put| put.size(&write.place))
        ]));
    }
    (Json::Array(list).to_string(), values)
}

/// Outcome by the rows of the statement, one for each write.
pub(super) fn written<'r, R: crate::sql::columns::Cells + 'r>(
    rows: impl Iterator<Item = &'r R>,
) -> StoreResult<KvWritten> {
    let (mut existed, mut added) = (Vec::new(), 0);
    for (index, row) in rows.enumerate() {
        let mut columns = Columns::new(row);
        match columns.int()? {
            state @ (0 | 1) => existed.push(state == 1),
            2 => return Ok(KvWritten::Changed(index)),
            3 => return Ok(KvWritten::ThreadGone(index)),
            state => return Err(corrupt(format_args!("state {state} of a write"))),
        }
        added += columns.int()?;
    }
    Ok(KvWritten::Done { existed, added })
}

#[async_trait]
impl KvTables for PgStore {
    async fn write_entries(&self, owner: &KvOwner, writes: &[KvWrite]) -> StoreResult<KvWritten> {
        let (list, values) = asked(writes);
        let arguments = vec![
            self.time().into(),
            owner.project.as_str().into(),
            stored_owner(owner).into(),
            list.into(),
            values.into(),
        ];
        written(self.changed(PUT, arguments).await?.iter())
    }
}
