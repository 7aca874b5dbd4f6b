//! Checkpoints of both databases. Writes differ: Postgres takes each in one statement, SQLite in transactions.

use async_trait::async_trait;
use serde_json::{Value as Json, json};
use threadline_core::{
    ProjectId, RunId, ThreadId, ThreadKey, UserId,
    checkpoints::{
        Blob, Channel, ChannelAt, ChannelVersion, Checkpoint, CheckpointId, CheckpointNs, CheckpointParts,
        CheckpointPosition, DataType, FoundBlob, FoundCheckpoint, FoundWrite, StoredCheckpoint, TaskId, TaskPath,
        TaskWrites, TypedData, WhichCheckpoints,
    },
    kv::KvOwner,
};

use super::{
    columns::{Cells, Columns},
    corrupt, limit as count,
    pages::each,
    tables::{Tables, Value},
};
use crate::{
    CheckpointBound, CheckpointDone, CheckpointPlace, CheckpointScope, CheckpointStore, DeletedCheckpoints,
    PutCheckpoint, StoreError, StoreResult,
};

const BLOB: &str = "\
    SELECT b.type, b.body FROM checkpoint_blobs b
    WHERE b.key = $1 AND b.ns = $2 AND b.channel = $3 AND b.version = $4 AND EXISTS (SELECT 1 FROM heads WHERE key = $1)";
const WRITE: &str = "\
    SELECT w.task, w.path, w.idx, w.channel, w.type, w.body FROM checkpoint_writes w
    WHERE w.key = $1 AND w.ns = $2 AND w.id = $3 AND w.task = $4 AND w.idx = $5
      AND EXISTS (SELECT 1 FROM heads WHERE key = $1)";

/// A database that writes checkpoints.
#[async_trait]
pub(crate) trait CheckpointTables: Tables {
    /// Stores blobs; those that are there stay.
    async fn blobs_in(&self, thread: ThreadKey, ns: &CheckpointNs, blobs: &[Blob]) -> StoreResult<CheckpointDone>;

    /// Stores a checkpoint that is whole.
    async fn checkpoint_in(
        &self,
        thread: ThreadKey,
        checkpoint: &Checkpoint,
        put: PutCheckpoint,
    ) -> StoreResult<CheckpointDone>;

    /// Stores writes of a task in one commit.
    async fn writes_in(
        &self,
        thread: ThreadKey,
        ns: &CheckpointNs,
        id: &CheckpointId,
        writes: &TaskWrites,
    ) -> StoreResult<CheckpointDone>;

    /// Removes loose blobs of one namespace.
    async fn sweep_step(&self, limit: usize) -> StoreResult<Option<(KvOwner, i64)>>;

    /// Removes a chunk of checkpoints in one commit.
    async fn delete_step(
        &self,
        thread: ThreadKey,
        which: &WhichCheckpoints,
        limit: usize,
    ) -> StoreResult<Option<DeletedCheckpoints>>;
}

/// Channels as they are stored.
pub(crate) fn to_stored(channels: &[ChannelAt]) -> String {
    let pairs = channels.iter().map(|at| json!([at.channel.as_str(), at.version.as_str()]));
    Json::Array(pairs.collect()).to_string()
}

/// Channels of their stored text.
pub(crate) fn channels(text: &str) -> StoreResult<Vec<ChannelAt>> {
    let pairs: Vec<(String, String)> = serde_json::from_str(text).map_err(corrupt)?;
    pairs.into_iter().map(|(channel, version)| channel_at(channel, version)).collect()
}

/// Ids as statements take them; `None` for all.
pub(crate) fn ids(which: &WhichCheckpoints) -> Option<String> {
    let ids = which.ids.as_ref()?;
    Some(Json::Array(ids.iter().map(|id| json!(id.as_str())).collect()).to_string())
}

/// The namespace as statements take it; `None` for all.
pub(crate) fn ns(which: &WhichCheckpoints) -> Option<String> {
    which.ns.as_ref().map(|ns| ns.as_str().to_owned())
}

fn channel_at(channel: String, version: String) -> StoreResult<ChannelAt> {
    let channel = Channel::new(channel).map_err(corrupt)?;
    Ok(ChannelAt { channel, version: ChannelVersion::new(version).map_err(corrupt)? })
}

fn kind(text: String) -> StoreResult<DataType> {
    DataType::new(text).map_err(corrupt)
}

fn found<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<FoundCheckpoint> {
    let (thread, thread_id) = (ThreadKey(columns.int()?), columns.id(ThreadId::new)?);
    let ns = CheckpointNs::new(columns.text()?).map_err(corrupt)?;
    let id = CheckpointId::new(columns.text()?).map_err(corrupt)?;
    let parent = columns.maybe_text()?.map(|id| CheckpointId::new(id).map_err(corrupt)).transpose()?;
    let run = columns.maybe_id(RunId::new)?;
    let data = TypedData { kind: kind(columns.text()?)?, body: columns.maybe_bytes()?.unwrap_or_default() };
    let metadata = String::from_utf8(columns.bytes()?).map_err(corrupt)?;
    let channels = channels(&columns.text()?)?;
    let checkpoint = Checkpoint { ns, id, parent, run, data, metadata, channels };
    Ok(FoundCheckpoint { thread, thread_id, stored: StoredCheckpoint { checkpoint, at: columns.time()? } })
}

fn write<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<FoundWrite> {
    let task = TaskId::new(columns.text()?).map_err(corrupt)?;
    let path = TaskPath::new(columns.text()?).map_err(corrupt)?;
    let (idx, channel) = (columns.int()?, Channel::new(columns.text()?).map_err(corrupt)?);
    Ok(FoundWrite { task, path, idx, channel, kind: kind(columns.text()?)?, body: columns.maybe_bytes()? })
}

/// Number of the checkpoint to which a row belongs.
fn number<R: Cells>(columns: &mut Columns<'_, R>, all: usize) -> StoreResult<usize> {
    let number = usize::try_from(columns.count()?).unwrap_or(usize::MAX);
    if number < all { Ok(number) } else { Err(corrupt("a part of a checkpoint that was not asked for")) }
}

#[async_trait]
impl<S: CheckpointTables> CheckpointStore for S {
    async fn put_blobs(&self, key: ThreadKey, ns: &CheckpointNs, blobs: &[Blob]) -> StoreResult<CheckpointDone> {
        self.blobs_in(key, ns, blobs).await
    }

    async fn put_checkpoint(
        &self,
        key: ThreadKey,
        checkpoint: &Checkpoint,
        put: PutCheckpoint,
    ) -> StoreResult<CheckpointDone> {
        self.checkpoint_in(key, checkpoint, put).await
    }

    async fn put_writes(
        &self,
        key: ThreadKey,
        ns: &CheckpointNs,
        id: &CheckpointId,
        writes: &TaskWrites,
    ) -> StoreResult<CheckpointDone> {
        self.writes_in(key, ns, id, writes).await
    }

    async fn checkpoints(
        &self,
        among: &CheckpointScope,
        from: &CheckpointPosition,
        bound: CheckpointBound,
    ) -> StoreResult<Vec<FoundCheckpoint>> {
        let (below, ns) = (Value::from(&*from.below), Value::from(&*from.ns));
        let (text, mut values) = match among {
            CheckpointScope::Namespace(thread, ns, least) => {
                let values = vec![thread.0.into(), ns.as_str().into(), least.as_str().into(), below];
                (S::STATEMENTS.checkpoints_in_ns, values)
            }
            CheckpointScope::Thread(thread) => (S::STATEMENTS.checkpoints_in_thread, vec![thread.0.into(), below, ns]),
            CheckpointScope::Project(project, None) => {
                let values = vec![project.as_str().into(), below, from.thread.into(), ns];
                (S::STATEMENTS.checkpoints_of_project, values)
            }
            CheckpointScope::Project(project, Some(user)) => {
                let values = vec![project.as_str().into(), user.as_str().into(), below, from.thread.into(), ns];
                (S::STATEMENTS.checkpoints_of_user, values)
            }
        };
        values.extend([count(bound.limit).into(), count(bound.bytes).into(), i64::from(bound.data).into()]);
        each(&self.found(text, values).await?, found)
    }

    async fn checkpoint_parts(&self, found: &[FoundCheckpoint], bytes: usize) -> StoreResult<Vec<CheckpointParts>> {
        let place = |found: &FoundCheckpoint| {
            let Checkpoint { ns, id, .. } = &found.stored.checkpoint;
            json!([found.thread.0, ns.as_str(), id.as_str()])
        };
        let places = Json::Array(found.iter().map(place).collect()).to_string();
        let mut all = vec![CheckpointParts::default(); found.len()];
        let mut left = Some(bytes);
        let values = vec![places.as_str().into(), count(bytes).into()];
        for row in &self.found(S::STATEMENTS.checkpoint_writes_of, values).await? {
            let mut columns = Columns::new(row);
            let number = number(&mut columns, all.len())?;
            let write = write(&mut columns)?;
            let size = write.size_beside(&found[number].stored.checkpoint);
            left = left.zip(size).and_then(|(left, size)| left.checked_sub(size));
            all[number].writes.push(write);
        }
        let values = vec![places.into(), count(left.unwrap_or(0)).into()];
        for row in &self.found(S::STATEMENTS.checkpoint_blobs_of, values).await? {
            let mut columns = Columns::new(row);
            let number = number(&mut columns, all.len())?;
            let at = channel_at(columns.text()?, columns.text()?)?;
            // A blob that is gone, with its checkpoint.
            let Some(text) = columns.maybe_text()? else { continue };
            all[number].blobs.push(FoundBlob { at, kind: kind(text)?, body: columns.maybe_bytes()? });
        }
        Ok(all)
    }

    async fn blob(&self, key: ThreadKey, ns: &CheckpointNs, at: &ChannelAt) -> StoreResult<Option<TypedData>> {
        let values = vec![key.0.into(), ns.as_str().into(), at.channel.as_str().into(), at.version.as_str().into()];
        let found = each(&self.found(BLOB, values).await?, |columns: &mut Columns<'_, S::Row>| {
            Ok(TypedData { kind: kind(columns.text()?)?, body: columns.bytes()? })
        });
        Ok(found?.pop())
    }

    async fn task_write(
        &self,
        key: ThreadKey,
        ns: &CheckpointNs,
        id: &CheckpointId,
        task: &TaskId,
        idx: i64,
    ) -> StoreResult<Option<FoundWrite>> {
        let values = vec![key.0.into(), ns.as_str().into(), id.as_str().into(), task.as_str().into(), idx.into()];
        Ok(each(&self.found(WRITE, values).await?, write)?.pop())
    }

    async fn delete_checkpoints(
        &self,
        key: ThreadKey,
        which: &WhichCheckpoints,
        limit: usize,
    ) -> StoreResult<Option<DeletedCheckpoints>> {
        self.delete_step(key, which, limit).await
    }

    async fn sweep_blobs(&self, limit: usize) -> StoreResult<Option<(KvOwner, i64)>> {
        self.sweep_step(limit).await
    }

    async fn checkpoints_of_run(
        &self,
        project: &ProjectId,
        user: Option<&UserId>,
        run: &RunId,
        most: usize,
    ) -> StoreResult<Vec<CheckpointPlace>> {
        let owner = user.map(|user| user.as_str().to_owned());
        let values = vec![project.as_str().into(), owner.into(), run.as_str().into(), count(most).into()];
        each(&self.found(S::STATEMENTS.checkpoints_of_run, values).await?, |columns| {
            let (thread, user) = (ThreadKey(columns.int()?), columns.id(UserId::new)?);
            let ns = CheckpointNs::new(columns.text()?).map_err(corrupt)?;
            let id = CheckpointId::new(columns.text()?).map_err(corrupt)?;
            Ok(CheckpointPlace { thread, user, ns, id })
        })
    }
}

/// Error of an answer that cannot be.
pub(crate) fn no_answer() -> StoreError {
    corrupt("no answer to a write of checkpoints")
}
