//! Changes of item lists: one transaction each.

use std::collections::BTreeMap;

use async_trait::async_trait;
use sqlx::{SqliteConnection, query};
use threadline_core::{
    ProjectId, ThreadKey, Timestamp, UserId,
    items::{Item, ListName, ListState},
    kv::{KvOwner, Tag},
    limits::ITEM_OPS_KEPT,
};

use super::{
    SqliteStore,
    fetch::{self, Work},
    kv,
    rows::{self, Columns, text_of},
};
use crate::{
    KvWritten, StoreResult,
    sql::items::{Change, Committed, ItemTables},
};

const TAG: &str = "SELECT tag FROM item_lists WHERE key = ?1 AND list = ?2";
const THREAD: &str = "SELECT 1 FROM heads WHERE key = ?1";
const PUT_LIST: &str =
    "INSERT OR REPLACE INTO item_lists (key, list, tag, count, next_pos) VALUES (?1, ?2, ?3, ?4, ?5)";
const NOTE: &str = "INSERT INTO item_ops (key, list, op, digest, answer, size, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const REMOVE: &str = "\
    UPDATE items SET gone_at = ?4, gone_by = ?5 WHERE key = ?1 AND list = ?2 AND pos >= ?3 AND gone_at IS NULL";
const PUT_ITEM: &str = "\
    INSERT OR IGNORE INTO items (key, list, pos, size, body) VALUES (?1, ?2, ?3, ?4, ?5)";
const COPY: &str = text_of(include_str!("../../queries/sqlite/copy_items.sql"));
const KEEP: &str = "\
    INSERT INTO agent_data (key, bytes) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET bytes = bytes + excluded.bytes";
const OLD_OPS: &str = "\
    DELETE FROM item_ops WHERE rowid IN (SELECT rowid FROM item_ops WHERE at <= ?1 ORDER BY at LIMIT ?2)
    RETURNING key, size";
const OLD_ITEMS: &str = "\
    DELETE FROM items WHERE rowid IN (SELECT rowid FROM items WHERE gone_at <= ?1 ORDER BY gone_at LIMIT ?2)
    RETURNING key, size";
const OWNER: &str = "SELECT project, user FROM threads WHERE key = ?1";
/// Looks for what is over before the removal, so that nothing is committed if there is nothing.
const ANY_OLD: &str = "\
    SELECT 1 WHERE EXISTS (SELECT 1 FROM item_ops WHERE at <= ?1) OR EXISTS (SELECT 1 FROM items WHERE gone_at <= ?1)";

#[async_trait]
impl ItemTables for SqliteStore {
    async fn commit(&self, change: Change) -> StoreResult<Committed> {
        let now = self.inner.clock.now();
        self.transact(move |connection| Box::pin(commit(connection, change, now))).await
    }

    async fn sweep(&self, limit: usize) -> StoreResult<(usize, Vec<(KvOwner, i64)>)> {
        let before = self.inner.clock.now().minus(ITEM_OPS_KEPT);
        if self.read_rows(query(ANY_OLD).bind(before.0)).await?.is_empty() {
            return Ok((0, Vec::new()));
        }
        self.transact(move |connection| Box::pin(sweep(connection, before, rows::limit(limit)))).await
    }

    async fn put_part(
        &self,
        thread: ThreadKey,
        list: &ListName,
        state: &ListState,
        items: &[Item],
    ) -> StoreResult<bool> {
        let (list, state, items) = (list.clone(), state.clone(), items.to_vec());
        self.transact(move |connection| {
            Box::pin(async move {
                let there = tag(connection, thread, &list).await?;
                if there.as_deref().is_some_and(|tag| tag != state.tag.as_str()) || !exists(connection, thread).await? {
                    return Ok(false);
                }
                put_list(connection, thread, &list, &state).await?;
                let mut bytes = 0;
                for item in &items {
                    if put_item(connection, thread, &list, item.pos, &item.body).await? {
                        bytes += list.item_size(item.body.len());
                    }
                }
                fetch::run(connection, query(KEEP).bind(thread.0).bind(bytes)).await?;
                Ok(true)
            })
        })
        .await
    }
}

async fn exists(connection: &mut SqliteConnection, thread: ThreadKey) -> Work<bool> {
    Ok(fetch::row(connection, query(THREAD).bind(thread.0)).await?.is_some())
}

async fn tag(connection: &mut SqliteConnection, thread: ThreadKey, list: &ListName) -> Work<Option<String>> {
    let row = fetch::row(connection, query(TAG).bind(thread.0).bind(list.as_str())).await?;
    Ok(row.map(|row| Columns::new(&row).text()).transpose()?)
}

async fn put_list(
    connection: &mut SqliteConnection,
    thread: ThreadKey,
    list: &ListName,
    state: &ListState,
) -> Work<()> {
    let put = query(PUT_LIST)
        .bind(thread.0)
        .bind(list.as_str())
        .bind(state.tag.as_str())
        .bind(rows::to_i64(state.count))
        .bind(rows::to_i64(state.next_pos));
    fetch::run(connection, put).await
}

/// Stores an item; false if one is there.
async fn put_item(
    connection: &mut SqliteConnection,
    thread: ThreadKey,
    list: &ListName,
    pos: u64,
    body: &str,
) -> Work<bool> {
    let put = query(PUT_ITEM)
        .bind(thread.0)
        .bind(list.as_str())
        .bind(rows::to_i64(pos))
        .bind(list.item_size(body.len()))
        .bind(body.as_bytes().to_vec());
    Ok(fetch::change(connection, put).await? > 0)
}

async fn commit(connection: &mut SqliteConnection, change: Change, now: Timestamp) -> Work<Committed> {
    let Change { thread, list, former, decided, op, digest, answer, kv: entries } = change;
    let is_there = |found: Option<String>, wanted: Option<&Tag>| found.as_deref() == wanted.map(Tag::as_str);
    if !exists(connection, thread).await? || !is_there(tag(connection, thread, &list).await?, former.as_ref()) {
        return Ok(Committed::Raced);
    }
    if let Some(copied) = &decided.copied
        && !is_there(tag(connection, copied.from, &copied.list).await?, Some(&copied.tag))
    {
        return Ok(Committed::Raced);
    }
    let mut added_kv = 0;
    if let Some((owner, writes)) = &entries {
        match kv::write(connection, owner, writes, now).await? {
            KvWritten::Done { added, .. } => added_kv = added,
            refused => return Ok(Committed::Kv(refused)),
        }
    }
    put_list(connection, thread, &list, &decided.state).await?;
    let size = list.op_size(&op, answer.len());
    let note = query(NOTE)
        .bind(thread.0)
        .bind(list.as_str())
        .bind(op.as_str())
        .bind(digest.0.to_vec())
        .bind(answer)
        .bind(size)
        .bind(now.0);
    fetch::run(connection, note).await?;
    if let Some(from) = decided.gone_from {
        let remove = query(REMOVE)
            .bind(thread.0)
            .bind(list.as_str())
            .bind(rows::to_i64(from))
            .bind(now.0)
            .bind(decided.state.tag.as_str());
        fetch::run(connection, remove).await?;
    }
    for (pos, body) in (decided.first_pos..).zip(&decided.put) {
        put_item(connection, thread, &list, pos, body).await?;
    }
    if let Some(copied) = &decided.copied {
        let copy = query(COPY)
            .bind(thread.0)
            .bind(list.as_str())
            .bind(copied.from.0)
            .bind(copied.list.as_str())
            .bind(rows::to_i64(copied.upto))
            .bind(rows::to_i64(decided.first_pos));
        fetch::run(connection, copy).await?;
    }
    fetch::run(connection, query(KEEP).bind(thread.0).bind(decided.added)).await?;
    Ok(Committed::Done(added_kv))
}

async fn sweep(connection: &mut SqliteConnection, before: Timestamp, limit: i64) -> Work<(usize, Vec<(KvOwner, i64)>)> {
    let forgotten = fetch::rows(connection, query(OLD_OPS).bind(before.0).bind(limit)).await?;
    let gone = fetch::rows(connection, query(OLD_ITEMS).bind(before.0).bind(limit)).await?;
    let mut sums = BTreeMap::new();
    for row in forgotten.iter().chain(&gone) {
        let mut columns = Columns::new(row);
        let (key, size) = (columns.int()?, columns.int()?);
        *sums.entry(key).or_insert(0) += size;
    }
    let mut owners = Vec::new();
    for (key, bytes) in sums {
        fetch::run(connection, query(KEEP).bind(key).bind(-bytes)).await?;
        if let Some(row) = fetch::row(connection, query(OWNER).bind(key)).await? {
            let mut columns = Columns::new(&row);
            let (project, user) = (columns.id(ProjectId::new)?, columns.id(UserId::new)?);
            owners.push((KvOwner { project, user: Some(user) }, bytes));
        }
    }
    Ok((forgotten.len() + gone.len(), owners))
}
