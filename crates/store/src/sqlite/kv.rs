//! Writes of key-value entries: all of a batch in one transaction.

use async_trait::async_trait;
use sqlx::{SqliteConnection, query};
use threadline_core::{
    ThreadKey, Timestamp,
    kv::{KvOwner, KvPlace},
    limits::ITEM_OPS_KEPT,
};

use super::{
    SqliteStore,
    fetch::{self, Statement, Work},
    rows::{self, Columns, text_of},
};
use crate::{
    KvChange, KvPut, KvTimes, KvWrite, KvWritten, StoreResult,
    kv::{Before, last_writes},
    sql::{
        corrupt,
        kv::{KvTables, stored_owner},
    },
};

const HELD: &str = text_of(include_str!("../../queries/sqlite/kv_held.sql"));
const PUT: &str = text_of(include_str!("../../queries/sqlite/put_kv.sql"));
const DROP: &str = "DELETE FROM kv WHERE project = ?1 AND owner = ?2 AND ns = ?3 AND key = ?4";
/// An expiry in the past hides the entry from all readers.
const REMOVED: &str = "\
    UPDATE kv SET value = x'', tag = ?5, size = ?6, removed_until = ?7, expires_at = 0
    WHERE project = ?1 AND owner = ?2 AND ns = ?3 AND key = ?4";
const TOUCH: &str = "\
    UPDATE kv SET life = coalesce(?5, life), expires_at = ?6 + coalesce(?5, life)
    WHERE project = ?1 AND owner = ?2 AND ns = ?3 AND key = ?4";
const THREAD: &str = "SELECT 1 FROM heads WHERE key = ?1";

/// An entry before the writes of a batch.
struct Held {
    tag: String,
    value: String,
    size: i64,
    created_at: Timestamp,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Live,
    Removed,
    /// The entry has expired, or its thread is gone, and it is not swept yet.
    Over,
}

impl Held {
    fn before(&self) -> Option<Before<'_>> {
        match self.state {
            State::Live => Some(Before::Live { tag: &self.tag, value: &self.value }),
            State::Removed => Some(Before::Removed(&self.tag)),
            State::Over => None,
        }
    }
}

#[async_trait]
impl KvTables for SqliteStore {
    async fn write_entries(&self, owner: &KvOwner, writes: &[KvWrite]) -> StoreResult<KvWritten> {
        let (owner, writes, now) = (owner.clone(), writes.to_vec(), self.inner.clock.now());
        self.transact(move |connection| Box::pin(async move { write(connection, &owner, &writes, now).await })).await
    }
}

/// Carries out all writes inside the transaction that is open, or none.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    owner: &KvOwner,
    writes: &[KvWrite],
    now: Timestamp,
) -> Work<KvWritten> {
    let (mut all, mut existed) = (Vec::with_capacity(writes.len()), Vec::with_capacity(writes.len()));
    let last = last_writes(writes);
    for (index, write) in writes.iter().enumerate() {
        if let Some(thread) = write.put().and_then(|put| put.thread)
            && !exists(connection, thread).await?
        {
            return Ok(KvWritten::ThreadGone(index));
        }
        let found = held(connection, owner, write, now).await?;
        match write.existed(found.as_ref().and_then(Held::before), &writes[last[index]]) {
            Some(there) => existed.push(there),
            None => return Ok(KvWritten::Changed(index)),
        }
        all.push(found.map(|held| Held { value: String::new(), ..held }));
    }
    let mut added = 0;
    for (index, write) in writes.iter().enumerate().filter(|(index, _)| last[*index] == *index) {
        let held = all[index].as_ref();
        let former = held.map_or(0, |held| held.size);
        match &write.change {
            KvChange::Put(value) => {
                added += value.size(&write.place) - former;
                put(connection, owner, write, value, held, now).await?;
            }
            KvChange::Delete(None) if existed[index] => {
                added -= former;
                fetch::run(connection, at_place(DROP, owner, &write.place)).await?;
            }
            KvChange::Delete(Some(tag)) if existed[index] => {
                let size = write.place.size(tag, 0);
                added += size - former;
                let until = now.plus(ITEM_OPS_KEPT);
                let note = at_place(REMOVED, owner, &write.place).bind(tag.as_str()).bind(size).bind(until.0);
                fetch::run(connection, note).await?;
            }
            KvChange::Touch(life) if existed[index] => {
                let touch = at_place(TOUCH, owner, &write.place).bind(life.map(rows::millis)).bind(now.0);
                fetch::run(connection, touch).await?;
            }
            KvChange::Delete(_) | KvChange::Touch(_) => {}
        }
    }
    Ok(KvWritten::Done { existed, added })
}

/// A statement whose first arguments are an owner and a place.
fn at_place<'s>(text: &'static str, owner: &'s KvOwner, place: &'s KvPlace) -> Statement<'s> {
    query(text).bind(owner.project.as_str()).bind(stored_owner(owner)).bind(place.ns.as_str()).bind(place.key.as_str())
}

async fn exists(connection: &mut SqliteConnection, thread: ThreadKey) -> Work<bool> {
    Ok(fetch::row(connection, query(THREAD).bind(thread.0)).await?.is_some())
}

async fn held(
    connection: &mut SqliteConnection,
    owner: &KvOwner,
    write: &KvWrite,
    now: Timestamp,
) -> Work<Option<Held>> {
    let held = query(HELD)
        .bind(now.0)
        .bind(owner.project.as_str())
        .bind(stored_owner(owner))
        .bind(write.place.ns.as_str())
        .bind(write.place.key.as_str());
    let Some(row) = fetch::row(connection, held).await? else { return Ok(None) };
    let mut columns = Columns::new(&row);
    Ok(Some(Held {
        tag: columns.text()?,
        value: String::from_utf8(columns.bytes()?).map_err(corrupt)?,
        size: columns.int()?,
        created_at: columns.time()?,
        state: match (columns.flag()?, columns.flag()?) {
            (true, _) => State::Live,
            (false, true) => State::Removed,
            (false, false) => State::Over,
        },
    }))
}

async fn put(
    connection: &mut SqliteConnection,
    owner: &KvOwner,
    write: &KvWrite,
    put: &KvPut,
    held: Option<&Held>,
    now: Timestamp,
) -> Work<()> {
    let first = held.filter(|held| held.state == State::Live).map_or(now, |held| held.created_at);
    let expires_at = put.life.map(|life| now.plus(life));
    let times = put.times.unwrap_or(KvTimes { created_at: first, updated_at: now, expires_at });
    let put = query(PUT)
        .bind(owner.project.as_str())
        .bind(stored_owner(owner))
        .bind(write.place.ns.as_str())
        .bind(write.place.key.as_str())
        .bind(put.value.as_bytes().to_vec())
        .bind(put.size(&write.place))
        .bind(put.tag.as_str())
        .bind(put.thread.map(|thread| thread.0))
        .bind(times.created_at.0)
        .bind(times.updated_at.0)
        .bind(times.expires_at.map(|at| at.0))
        .bind(put.life.map(rows::millis));
    fetch::run(connection, put).await
}
