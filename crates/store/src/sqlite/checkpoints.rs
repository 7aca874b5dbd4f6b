//! Writes of checkpoints: transactions with a bounded number of bytes, so that a commit of the log waits for no more.

use async_trait::async_trait;
use serde_json::{Value as Json, json};
use sqlx::{SqliteConnection, query};
use threadline_core::{
    ProjectId, ThreadKey, Timestamp, UserId,
    checkpoints::{Blob, ChannelAt, Checkpoint, CheckpointId, CheckpointNs, TaskWrite, TaskWrites, WhichCheckpoints},
    kv::KvOwner,
    limits::{CHECKPOINT_PART_BYTES, LOOSE_BLOBS_KEPT, MAX_THREAD_DATA_BYTES},
};

use super::{
    SqliteStore,
    fetch::{self, Work},
    rows::{self, Columns, text_of},
};
use crate::{
    CheckpointDone, DeletedCheckpoints, PutCheckpoint, StoreResult,
    checkpoints::{in_order, last_of},
    sql::checkpoints::{CheckpointTables, channels, ids, ns, to_stored},
};

const THREAD: &str = "SELECT project, user FROM threads WHERE key = (SELECT key FROM heads WHERE key = ?1)";
const BYTES: &str = "SELECT bytes FROM agent_data WHERE key = ?1";
const KEEP: &str = "\
    INSERT INTO agent_data (key, bytes) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET bytes = bytes + excluded.bytes";
const BLOB: &str = "SELECT 1 FROM checkpoint_blobs WHERE key = ?1 AND ns = ?2 AND channel = ?3 AND version = ?4";
const PUT_BLOB: &str = "\
    INSERT INTO checkpoint_blobs (key, ns, channel, version, type, body, size) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const LOOSEN: &str = "\
    INSERT OR REPLACE INTO loose_blobs (key, ns, channel, version, at) VALUES (?1, ?2, ?3, ?4, ?5)";
const RENEW: &str = "\
    UPDATE loose_blobs SET at = ?5 WHERE key = ?1 AND ns = ?2 AND channel = ?3 AND version = ?4";
const NAMED: &str = "DELETE FROM loose_blobs WHERE key = ?1 AND ns = ?2 AND channel = ?3 AND version = ?4";
const OLDEST: &str = "SELECT key, ns FROM loose_blobs WHERE at <= ?1 ORDER BY at LIMIT 1";
const OLD: &str = "\
    DELETE FROM loose_blobs WHERE rowid IN (
      SELECT rowid FROM loose_blobs WHERE key = ?1 AND ns = ?2 AND at <= ?3 LIMIT ?4
    ) RETURNING channel, version";
const OWNER: &str = "SELECT project, user FROM threads WHERE key = ?1";
const FORMER: &str = "SELECT size, at, channels FROM checkpoints WHERE key = ?1 AND ns = ?2 AND id = ?3";
const PUT: &str = "\
    INSERT OR REPLACE INTO checkpoints (key, ns, id, project, owner, parent, run, type, body, metadata, channels, size, at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
const HELD: &str = "\
    SELECT size FROM checkpoint_writes WHERE key = ?1 AND ns = ?2 AND id = ?3 AND task = ?4 AND idx = ?5";
const PUT_WRITE: &str = "\
    INSERT OR REPLACE INTO checkpoint_writes (key, ns, id, task, idx, path, channel, type, body, size)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const DOOMED: &str = "\
    SELECT ns, id, channels, size FROM checkpoints WHERE key = ?1 AND (?2 IS NULL OR ns = ?2)
      AND (?3 IS NULL OR id IN (SELECT value FROM json_each(?3))) ORDER BY ns, id LIMIT ?4";
const DROP: &str = "DELETE FROM checkpoints WHERE key = ?1 AND ns = ?2 AND id = ?3";
const DROP_WRITES: &str = "\
    DELETE FROM checkpoint_writes WHERE key = ?1 AND (?2 IS NULL OR ns = ?2)
      AND (?3 IS NULL OR id IN (SELECT value FROM json_each(?3)))
      AND NOT EXISTS (
        SELECT 1 FROM checkpoints k
        WHERE k.key = checkpoint_writes.key AND k.ns = checkpoint_writes.ns AND k.id = checkpoint_writes.id
      ) RETURNING size";
const DROP_BLOBS: &str = text_of(include_str!("../../queries/sqlite/delete_blobs.sql"));

#[async_trait]
impl CheckpointTables for SqliteStore {
    async fn blobs_in(&self, key: ThreadKey, ns: &CheckpointNs, blobs: &[Blob]) -> StoreResult<CheckpointDone> {
        let (mut part, mut bytes, mut added) = (Vec::new(), 0, 0);
        let mut left = in_order(blobs).into_iter().peekable();
        loop {
            let next = left.next();
            if let Some(blob) = next {
                bytes += blob.data.body.len();
                part.push(blob.clone());
            }
            let fits = left.peek().is_some_and(|blob| bytes + blob.data.body.len() <= CHECKPOINT_PART_BYTES);
            if fits {
                continue;
            }
            let (ns, stored) = (ns.clone(), std::mem::take(&mut part));
            bytes = 0;
            let now = self.inner.clock.now();
            let done = self.transact(move |connection| {
                Box::pin(async move { put_blobs(connection, key, &ns, &stored, now).await })
            });
            match done.await? {
                CheckpointDone::Done { added: more } => added += more,
                refused => return Ok(refused),
            }
            if left.peek().is_none() {
                return Ok(CheckpointDone::Done { added });
            }
        }
    }

    async fn checkpoint_in(
        &self,
        key: ThreadKey,
        checkpoint: &Checkpoint,
        put: PutCheckpoint,
    ) -> StoreResult<CheckpointDone> {
        let (checkpoint, now) = (checkpoint.clone(), self.inner.clock.now());
        self.transact(move |connection| {
            Box::pin(async move { put_checkpoint(connection, key, &checkpoint, put, now).await })
        })
        .await
    }

    async fn writes_in(
        &self,
        key: ThreadKey,
        ns: &CheckpointNs,
        id: &CheckpointId,
        writes: &TaskWrites,
    ) -> StoreResult<CheckpointDone> {
        let (ns, id, writes) = (ns.clone(), id.clone(), writes.clone());
        self.transact(move |connection| Box::pin(async move { put_writes(connection, key, &ns, &id, &writes).await }))
            .await
    }

    async fn sweep_step(&self, limit: usize) -> StoreResult<Option<(KvOwner, i64)>> {
        let before = self.inner.clock.now().minus(LOOSE_BLOBS_KEPT);
        // A read comes first, so that nothing is committed if there is nothing to remove.
        if self.read_rows(query(OLDEST).bind(before.0)).await?.is_empty() {
            return Ok(None);
        }
        self.transact(move |connection| Box::pin(sweep(connection, before, limit))).await
    }

    async fn delete_step(
        &self,
        key: ThreadKey,
        which: &WhichCheckpoints,
        limit: usize,
    ) -> StoreResult<Option<DeletedCheckpoints>> {
        let which = which.clone();
        self.transact(move |connection| Box::pin(async move { delete(connection, key, &which, limit).await })).await
    }
}

/// Removes loose blobs of the namespace that has the oldest one, unless a checkpoint names them.
async fn sweep(connection: &mut SqliteConnection, before: Timestamp, limit: usize) -> Work<Option<(KvOwner, i64)>> {
    let Some(row) = fetch::row(connection, query(OLDEST).bind(before.0)).await? else { return Ok(None) };
    let mut columns = Columns::new(&row);
    let (key, ns) = (columns.int()?, columns.text()?);
    let old = query(OLD).bind(key).bind(ns.as_str()).bind(before.0).bind(rows::limit(limit));
    let mut places = Vec::new();
    for row in &fetch::rows(connection, old).await? {
        let mut columns = Columns::new(row);
        places.push(json!([ns, columns.text()?, columns.text()?]));
    }
    let drop = query(DROP_BLOBS).bind(key).bind(ns.as_str()).bind(Json::Array(places).to_string());
    let mut bytes = 0;
    for row in &fetch::rows(connection, drop).await? {
        bytes += Columns::new(row).int()?;
    }
    keep(connection, ThreadKey(key), -bytes).await?;
    let Some(row) = fetch::row(connection, query(OWNER).bind(key)).await? else { return Ok(None) };
    let mut columns = Columns::new(&row);
    let (project, user) = (columns.id(ProjectId::new)?, columns.id(UserId::new)?);
    Ok(Some((KvOwner { project, user: Some(user) }, bytes)))
}

/// Owner of a thread; `None` if the thread is gone.
async fn owner(connection: &mut SqliteConnection, thread: ThreadKey) -> Work<Option<(String, String)>> {
    let row = fetch::row(connection, query(THREAD).bind(thread.0)).await?;
    let owner = row.map(|row| {
        let mut columns = Columns::new(&row);
        Ok::<_, crate::StoreError>((columns.text()?, columns.text()?))
    });
    Ok(owner.transpose()?)
}

async fn number(connection: &mut SqliteConnection, statement: fetch::Statement<'_>) -> Work<Option<i64>> {
    let row = fetch::row(connection, statement).await?;
    Ok(row.map(|row| Columns::new(&row).int()).transpose()?)
}

/// False if a thread has no room for that many bytes more.
async fn has_room(connection: &mut SqliteConnection, thread: ThreadKey, added: i64) -> Work<bool> {
    if added <= 0 {
        return Ok(true);
    }
    let held = number(connection, query(BYTES).bind(thread.0)).await?.unwrap_or(0);
    Ok(held.saturating_add(added) <= MAX_THREAD_DATA_BYTES)
}

async fn keep(connection: &mut SqliteConnection, thread: ThreadKey, added: i64) -> Work<CheckpointDone> {
    fetch::run(connection, query(KEEP).bind(thread.0).bind(added)).await?;
    Ok(CheckpointDone::Done { added })
}

async fn has_blob(
    connection: &mut SqliteConnection,
    thread: ThreadKey,
    ns: &CheckpointNs,
    at: &ChannelAt,
) -> Work<bool> {
    Ok(fetch::row(connection, at_channel(BLOB, thread, ns, at)).await?.is_some())
}

/// A statement whose first arguments are the place of a blob.
fn at_channel<'s>(
    text: &'static str,
    thread: ThreadKey,
    ns: &'s CheckpointNs,
    at: &'s ChannelAt,
) -> fetch::Statement<'s> {
    query(text).bind(thread.0).bind(ns.as_str()).bind(at.channel.as_str()).bind(at.version.as_str())
}

async fn put_blobs(
    connection: &mut SqliteConnection,
    thread: ThreadKey,
    ns: &CheckpointNs,
    blobs: &[Blob],
    now: Timestamp,
) -> Work<CheckpointDone> {
    if owner(connection, thread).await?.is_none() {
        return Ok(CheckpointDone::ThreadGone);
    }
    let mut fresh = Vec::new();
    for blob in blobs {
        if has_blob(connection, thread, ns, &blob.at).await? {
            fetch::run(connection, at_channel(RENEW, thread, ns, &blob.at).bind(now.0)).await?;
        } else {
            fresh.push(blob);
        }
    }
    let added = fresh.iter().map(|blob| blob.size(ns)).sum();
    if !has_room(connection, thread, added).await? {
        return Ok(CheckpointDone::TooLarge);
    }
    for blob in fresh {
        let put = query(PUT_BLOB)
            .bind(thread.0)
            .bind(ns.as_str())
            .bind(blob.at.channel.as_str())
            .bind(blob.at.version.as_str())
            .bind(blob.data.kind.as_str())
            .bind(&*blob.data.body)
            .bind(blob.size(ns));
        fetch::run(connection, put).await?;
        fetch::run(connection, at_channel(LOOSEN, thread, ns, &blob.at).bind(now.0)).await?;
    }
    keep(connection, thread, added).await
}

async fn put_checkpoint(
    connection: &mut SqliteConnection,
    thread: ThreadKey,
    checkpoint: &Checkpoint,
    put: PutCheckpoint,
    now: Timestamp,
) -> Work<CheckpointDone> {
    let Checkpoint { ns, id, parent, run, data, metadata, channels } = checkpoint;
    let Some((project, user)) = owner(connection, thread).await? else { return Ok(CheckpointDone::ThreadGone) };
    for (index, at) in channels.iter().enumerate() {
        if !has_blob(connection, thread, ns, at).await? {
            return Ok(CheckpointDone::BlobMissing(index));
        }
    }
    let former = query(FORMER).bind(thread.0).bind(ns.as_str()).bind(id.as_str());
    let former = fetch::row(connection, former).await?.map(|row| {
        let mut columns = Columns::new(&row);
        Ok::<_, crate::StoreError>((columns.int()?, columns.time()?, self::channels(&columns.text()?)?))
    });
    let (former, at, dropped) = match (former.transpose()?, put) {
        (Some(_), PutCheckpoint::Keep(_)) => return Ok(CheckpointDone::Done { added: 0 }),
        (Some((size, at, dropped)), PutCheckpoint::Replace) => (size, at, dropped),
        (None, PutCheckpoint::Keep(at)) => (0, at, Vec::new()),
        (None, PutCheckpoint::Replace) => (0, now, Vec::new()),
    };
    let added = checkpoint.size() - former;
    if !has_room(connection, thread, added).await? {
        return Ok(CheckpointDone::TooLarge);
    }
    let put = query(PUT)
        .bind(thread.0)
        .bind(ns.as_str())
        .bind(id.as_str())
        .bind(project)
        .bind(user)
        .bind(parent.as_ref().map(CheckpointId::as_str))
        .bind(run.as_ref().map(|run| run.as_str()))
        .bind(data.kind.as_str())
        .bind(&*data.body)
        .bind(metadata.as_bytes())
        .bind(to_stored(channels))
        .bind(checkpoint.size())
        .bind(at.0);
    fetch::run(connection, put).await?;
    for at in channels {
        fetch::run(connection, at_channel(NAMED, thread, ns, at)).await?;
    }
    for at in dropped.iter().filter(|at| !channels.contains(at)) {
        fetch::run(connection, at_channel(LOOSEN, thread, ns, at).bind(now.0)).await?;
    }
    keep(connection, thread, added).await
}

async fn put_writes(
    connection: &mut SqliteConnection,
    thread: ThreadKey,
    ns: &CheckpointNs,
    id: &CheckpointId,
    writes: &TaskWrites,
) -> Work<CheckpointDone> {
    if owner(connection, thread).await?.is_none() {
        return Ok(CheckpointDone::ThreadGone);
    }
    let (mut new, mut added): (Vec<&TaskWrite>, _) = (Vec::new(), 0);
    for write in last_of(writes) {
        let held =
            query(HELD).bind(thread.0).bind(ns.as_str()).bind(id.as_str()).bind(writes.task.as_str()).bind(write.idx);
        let former = number(connection, held).await?;
        if former.is_none() || write.idx < 0 {
            added += writes.size(ns, id, write) - former.unwrap_or(0);
            new.push(write);
        }
    }
    if !has_room(connection, thread, added).await? {
        return Ok(CheckpointDone::TooLarge);
    }
    for write in new {
        let put = query(PUT_WRITE)
            .bind(thread.0)
            .bind(ns.as_str())
            .bind(id.as_str())
            .bind(writes.task.as_str())
            .bind(write.idx)
            .bind(writes.path.as_str())
            .bind(write.channel.as_str())
            .bind(write.data.kind.as_str())
            .bind(&*write.data.body)
            .bind(writes.size(ns, id, write));
        fetch::run(connection, put).await?;
    }
    keep(connection, thread, added).await
}

async fn delete(
    connection: &mut SqliteConnection,
    thread: ThreadKey,
    which: &WhichCheckpoints,
    limit: usize,
) -> Work<Option<DeletedCheckpoints>> {
    if owner(connection, thread).await?.is_none() {
        return Ok(None);
    }
    let (ns, ids) = (ns(which), ids(which));
    let doomed = query(DOOMED).bind(thread.0).bind(ns.clone()).bind(ids.clone()).bind(rows::limit(limit));
    let doomed = fetch::rows(connection, doomed).await?;
    let (mut dropped, mut bytes) = (Vec::new(), 0);
    for row in &doomed {
        let mut columns = Columns::new(row);
        let (ns, id) = (columns.text()?, columns.text()?);
        for ChannelAt { channel, version } in channels(&columns.text()?)? {
            dropped.push(json!([ns, channel.as_str(), version.as_str()]));
        }
        bytes += columns.int()?;
        fetch::run(connection, query(DROP).bind(thread.0).bind(ns).bind(id)).await?;
    }
    let dropped = ids.as_ref().map(|_| Json::Array(dropped).to_string());
    let writes = query(DROP_WRITES).bind(thread.0).bind(ns.clone()).bind(ids);
    let blobs = query(DROP_BLOBS).bind(thread.0).bind(ns).bind(dropped);
    for statement in [writes, blobs] {
        for row in &fetch::rows(connection, statement).await? {
            bytes += Columns::new(row).int()?;
        }
    }
    if bytes > 0 {
        keep(connection, thread, -bytes).await?;
    }
    Ok(Some(DeletedCheckpoints { checkpoints: doomed.len(), bytes, more: doomed.len() >= limit }))
}
