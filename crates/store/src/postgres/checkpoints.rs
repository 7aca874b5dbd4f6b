//! Writes of checkpoints: one statement each.

use async_trait::async_trait;
use serde_json::{Value as Json, json};
use threadline_core::{
    ProjectId, ThreadKey, UserId,
    checkpoints::{Blob, Checkpoint, CheckpointId, CheckpointNs, TaskWrites, WhichCheckpoints},
    kv::KvOwner,
    limits::{LOOSE_BLOBS_KEPT, MAX_THREAD_DATA_BYTES, PG_RACES},
};

use super::{
    PgStore,
    rows::{self, Columns, text_of},
};
use crate::{
    CheckpointDone, DeletedCheckpoints, PutCheckpoint, StoreError, StoreResult,
    checkpoints::{in_order, last_of},
    sql::{
        checkpoints::{CheckpointTables, ids, no_answer, ns, to_stored},
        corrupt,
        tables::{Tables, Value},
    },
};

pub(super) const PUT_BLOBS: &str = text_of(include_str!("../../queries/postgres/put_blobs.sql"));
pub(super) const PUT: &str = text_of(include_str!("../../queries/postgres/put_checkpoint.sql"));
pub(super) const PUT_WRITES: &str = text_of(include_str!("../../queries/postgres/put_task_writes.sql"));
pub(super) const DELETE: &str = text_of(include_str!("../../queries/postgres/delete_checkpoints.sql"));
pub(super) const OLDEST_BLOB: &str = text_of(include_str!("../../queries/postgres/oldest_blob.sql"));
pub(super) const SWEEP_BLOBS: &str = text_of(include_str!("../../queries/postgres/sweep_blobs.sql"));
const CHANGES: &str = "\
    SELECT (SELECT d.changes FROM agent_data d WHERE d.key = h.key) FROM heads h WHERE h.key = $1";

impl PgStore {
    async fn checkpoints_written(&self, text: &'static str, values: Vec<Value>) -> StoreResult<CheckpointDone> {
        let rows = self.changed(text, values).await?;
        let mut columns = Columns::new(rows.first().ok_or_else(no_answer)?);
        let (outcome, added) = (columns.int()?, columns.int()?);
        match outcome {
            0 => Ok(CheckpointDone::Done { added }),
            1 => Ok(CheckpointDone::ThreadGone),
            2 => Ok(CheckpointDone::TooLarge),
            3 => {
                let number = usize::try_from(columns.count()?).unwrap_or(0);
                Ok(CheckpointDone::BlobMissing(number.saturating_sub(1)))
            }
            outcome => Err(corrupt(format_args!("outcome {outcome} of a write"))),
        }
    }
}

#[async_trait]
impl CheckpointTables for PgStore {
    async fn blobs_in(&self, thread: ThreadKey, ns: &CheckpointNs, blobs: &[Blob]) -> StoreResult<CheckpointDone> {
        let (mut places, mut bodies) = (Vec::new(), Vec::new());
        for blob in in_order(blobs) {
            let Blob { at, data } = blob;
            let (channel, version, kind) = (at.channel.as_str(), at.version.as_str(), data.kind.as_str());
            places.push(json!([channel, version, kind, bodies.len() + 1, data.body.len(), blob.size(ns)]));
            bodies.extend_from_slice(&data.body);
        }
        let values = vec![
            self.time().into(),
            thread.0.into(),
            ns.as_str().into(),
            Json::Array(places).to_string().into(),
            bodies.into(),
            MAX_THREAD_DATA_BYTES.into(),
        ];
        self.checkpoints_written(PUT_BLOBS, values).await
    }

    async fn checkpoint_in(
        &self,
        thread: ThreadKey,
        checkpoint: &Checkpoint,
        put: PutCheckpoint,
    ) -> StoreResult<CheckpointDone> {
        let first_at = match put {
            PutCheckpoint::Replace => None,
            PutCheckpoint::Keep(at) => Some(at.0),
        };
        let values = vec![
            self.time().into(),
            thread.0.into(),
            checkpoint.ns.as_str().into(),
            checkpoint.id.as_str().into(),
            checkpoint.parent.as_ref().map(|id| id.as_str().to_owned()).into(),
            checkpoint.run.as_ref().map(|run| run.as_str().to_owned()).into(),
            checkpoint.data.kind.as_str().into(),
            checkpoint.data.body.clone().into(),
            checkpoint.metadata.as_bytes().to_vec().into(),
            to_stored(&checkpoint.channels).into(),
            checkpoint.size().into(),
            MAX_THREAD_DATA_BYTES.into(),
            first_at.into(),
        ];
        self.checkpoints_written(PUT, values).await
    }

    async fn writes_in(
        &self,
        thread: ThreadKey,
        ns: &CheckpointNs,
        id: &CheckpointId,
        writes: &TaskWrites,
    ) -> StoreResult<CheckpointDone> {
        let (mut places, mut bodies) = (Vec::new(), Vec::new());
        for write in last_of(writes) {
            let (channel, kind, body) = (write.channel.as_str(), write.data.kind.as_str(), &write.data.body);
            let size = writes.size(ns, id, write);
            places.push(json!([write.idx, channel, kind, bodies.len() + 1, body.len(), size]));
            bodies.extend_from_slice(body);
        }
        let values = vec![
            self.time().into(),
            thread.0.into(),
            ns.as_str().into(),
            id.as_str().into(),
            writes.task.as_str().into(),
            writes.path.as_str().into(),
            Json::Array(places).to_string().into(),
            bodies.into(),
            MAX_THREAD_DATA_BYTES.into(),
        ];
        self.checkpoints_written(PUT_WRITES, values).await
    }

    async fn sweep_step(&self, limit: usize) -> StoreResult<Option<(KvOwner, i64)>> {
        let age = rows::millis(LOOSE_BLOBS_KEPT);
        for _ in 0..PG_RACES {
            let found = self.found(OLDEST_BLOB, vec![self.time().into(), age.into()]).await?;
            let Some(row) = found.first() else { return Ok(None) };
            let mut columns = Columns::new(row);
            let (key, ns, changes) = (columns.int()?, columns.text()?, columns.int()?);
            let (project, user) = (columns.id(ProjectId::new)?, columns.id(UserId::new)?);
            let values = vec![
                self.time().into(),
                key.into(),
                changes.into(),
                ns.as_str().into(),
                age.into(),
                rows::limit(limit).into(),
            ];
            let rows = self.changed(SWEEP_BLOBS, values).await?;
            let mut columns = Columns::new(rows.first().ok_or_else(no_answer)?);
            let (fits, bytes) = (columns.count()? > 0, columns.int()?);
            if fits {
                return Ok(Some((KvOwner { project, user: Some(user) }, bytes)));
            }
        }
        // A thread that changes again and again is swept later.
        Ok(None)
    }

    async fn delete_step(
        &self,
        thread: ThreadKey,
        which: &WhichCheckpoints,
        limit: usize,
    ) -> StoreResult<Option<DeletedCheckpoints>> {
        for _ in 0..PG_RACES {
            let found = self.found(CHANGES, vec![thread.0.into()]).await?;
            let Some(row) = found.first() else { return Ok(None) };
            // A thread without agent data has nothing to remove.
            let Some(changes) = Columns::new(row).maybe_int()? else { return Ok(Some(DeletedCheckpoints::default())) };
            let values = vec![
                self.time().into(),
                thread.0.into(),
                changes.into(),
                ns(which).into(),
                ids(which).into(),
                rows::limit(limit).into(),
            ];
            let rows = self.changed(DELETE, values).await?;
            let mut columns = Columns::new(rows.first().ok_or_else(no_answer)?);
            let (fits, checkpoints, bytes) = (columns.count()? > 0, columns.count()?, columns.int()?);
            let checkpoints = usize::try_from(checkpoints).unwrap_or(usize::MAX);
            if fits {
                return Ok(Some(DeletedCheckpoints { checkpoints, bytes, more: checkpoints >= limit }));
            }
        }
        Err(StoreError::Unavailable("other clients store checkpoints of the thread all the time".to_owned()))
    }
}
