//! Writes of checkpoints: transactions with a bounded number of bytes, so that a commit of the log waits for no more.

use async_trait::async_trait;
use serde_json::{Value as Json, json};
use sqlx::{SqliteConnection, query};
use threadline_core::{
    ThreadKey, Timestamp,
    checkpoints::{Blob, ChannelAt, Checkpoint, CheckpointId, CheckpointNs, TaskWrite, TaskWrites, WhichCheckpoints},
    limits::{CHECKPOINT_PART_BYTES, MAX_THREAD_DATA_BYTES},
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
const FORMER: &str = "SELECT size, at FROM checkpoints WHERE key = ?1 AND ns = ?2 AND id = ?3";
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
            let done = self
                .transact(move |connection| Box::pin(async move { put_blobs(connection, key, &ns, &stored).await }));
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
    let blob = query(BLOB).bind(thread.0).bind(ns.as_str()).bind(at.channel.as_str()).bind(at.version.as_str());
    Ok(fetch::row(connection, blob).await?.is_some())
}

async fn put_blobs(
    connection: &mut SqliteConnection,
    thread: ThreadKey,
    ns: &CheckpointNs,
    blobs: &[Blob],
) -> Work<CheckpointDone> {
    if owner(connection, thread).await?.is_none() {
        return Ok(CheckpointDone::ThreadGone);
    }
    let mut fresh = Vec::new();
    for blob in blobs {
        if !has_blob(connection, thread, ns, &blob.at).await? {
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
        Ok::<_, crate::StoreError>((columns.int()?, columns.time()?))
    });
    let (former, at) = match (former.transpose()?, put) {
        (Some(_), PutCheckpoint::Keep(_)) => return Ok(CheckpointDone::Done { added: 0 }),
        (Some((size, at)), PutCheckpoint::Replace) => (size, at),
        (None, PutCheckpoint::Keep(at)) => (0, at),
        (None, PutCheckpoint::Replace) => (0, now),
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
