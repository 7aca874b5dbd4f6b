//! Writes of key-value entries: one statement for all of a batch.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value as Json, json};
use threadline_core::{
    kv::{KvOwner, Tag},
    limits::ITEM_OPS_KEPT,
};

use super::{
    PgStore,
    rows::{self, Columns, text_of},
};
use crate::{
    KvChange, KvWrite, KvWritten, StoreResult,
    kv::last_writes,
    sql::{
        corrupt,
        kv::{KvTables, stored_owner},
        tables::Tables,
    },
};

pub(super) const PUT: &str = text_of(include_str!("../../queries/postgres/put_kv.sql"));

/// A write as the statement takes it.
struct Asked<'w> {
    kind: &'static str,
    tag: Option<&'w Tag>,
    /// Place of the value among all values, from 1, and its length.
    value: Option<(usize, usize)>,
    size: i64,
    life: Option<Duration>,
}

impl<'w> Asked<'w> {
    fn of(write: &'w KvWrite, values: &mut Vec<u8>) -> Self {
        match &write.change {
            KvChange::Put(put) => {
                let value = Some((values.len() + 1, put.value.len()));
                values.extend_from_slice(put.value.as_bytes());
                Self { kind: "put", tag: Some(&put.tag), value, size: put.size(&write.place), life: put.life }
            }
            KvChange::Delete(tag) => {
                let size = tag.as_ref().map_or(0, |tag| write.place.size(tag, 0));
                Self { kind: "delete", tag: tag.as_ref(), value: None, size, life: Some(ITEM_OPS_KEPT) }
            }
            KvChange::Touch(life) => Self { kind: "touch", tag: None, value: None, size: 0, life: *life },
        }
    }
}

/// Writes as the statement takes them: a list, and the values one behind the other.
pub(super) fn asked(writes: &[KvWrite]) -> (String, Vec<u8>) {
    let mut values = Vec::new();
    let all: Vec<_> = writes.iter().map(|write| Asked::of(write, &mut values)).collect();
    let lines = writes.iter().zip(last_writes(writes)).enumerate().map(|(index, (write, last))| {
        let (one, other) = (&all[index], &all[last]);
        let condition = write.if_tag.as_ref().map(|tag| tag.as_ref().map_or("", Tag::as_str));
        let times = write.put().and_then(|put| put.times);
        json!([
            index,
            write.place.ns.as_str(),
            write.place.key.as_str(),
            one.kind,
            one.tag.map(Tag::as_str),
            one.value.map_or(1, |value| value.0),
            one.value.map_or(0, |value| value.1),
            one.size,
            one.life.map(rows::millis),
            write.put().and_then(|put| put.thread).map(|thread| thread.0),
            times.map(|times| times.created_at.0),
            times.map(|times| times.updated_at.0),
            times.and_then(|times| times.expires_at).map(|at| at.0),
            condition,
            i64::from(last == index),
            other.tag.map(Tag::as_str),
            other.value.map(|value| value.0),
            other.value.map(|value| value.1),
        ])
    });
    (Json::Array(lines.collect()).to_string(), values)
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
