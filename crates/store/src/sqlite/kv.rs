//! Writes of key-value entries: all of a batch in one transaction.

use async_trait::async_trait;
use sqlx::{SqliteConnection, query};
use threadline_core::{ThreadKey, Timestamp, kv::KvOwner};

use super::{
    SqliteStore,
    fetch::{self, Work},
    rows::{Columns, text_of},
};
use crate::{
    KvPut, KvTimes, KvWrite, KvWritten, StoreResult,
    kv::{Before, last_writes},
    sql::{
        corrupt,
        kv::{KvTables, stored_owner},
    },
};

const HELD: &str = text_of(include_str!("../../queries/sqlite/kv_held.sql"));
const PUT: &str = text_of(include_str!("../../queries/sqlite/put_kv.sql"));
const DROP: &str = "DELETE FROM kv WHERE project = ?1 AND owner = ?2 AND ns = ?3 AND key = ?4";
const THREAD: &str = "SELECT 1 FROM heads WHERE key = ?1";

/// An entry before the writes of a batch.
struct Held {
    tag: String,
    value: String,
    size: i64,
    created_at: Timestamp,
    is_there: bool,
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
    let mut all = Vec::with_capacity(writes.len());
    for (index, write) in writes.iter().enumerate() {
        if let Some(thread) = write.put.as_ref().and_then(|put| put.thread)
            && !exists(connection, thread).await?
        {
            return Ok(KvWritten::ThreadGone(index));
        }
        let found = held(connection, owner, write, now).await?;
        let before = found.as_ref().filter(|held| held.is_there);
        if !write.fits(before.map(|held| Before { tag: &held.tag, value: &held.value })) {
            return Ok(KvWritten::Changed(index));
        }
        all.push(found.map(|held| Held { value: String::new(), ..held }));
    }
    let mut added = 0;
    for ((write, held), _) in writes.iter().zip(&all).zip(last_writes(writes)).filter(|(_, last)| *last) {
        added -= held.as_ref().map_or(0, |held| held.size);
        match &write.put {
            Some(value) => {
                added += value.size(&write.place);
                put(connection, owner, write, value, held.as_ref(), now).await?;
            }
            None => {
                let drop = query(DROP)
                    .bind(owner.project.as_str())
                    .bind(stored_owner(owner))
                    .bind(write.place.ns.as_str())
                    .bind(write.place.key.as_str());
                fetch::run(connection, drop).await?;
            }
        }
    }
    let existed = all.into_iter().map(|held| held.is_some_and(|held| held.is_there)).collect();
    Ok(KvWritten::Done { existed, added })
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
        is_there: columns.flag()?,
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
    let first = held.filter(|held| held.is_there).map_or(now, |held| held.created_at);
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
        .bind(times.expires_at.map(|at| at.0));
    fetch::run(connection, put).await
}
