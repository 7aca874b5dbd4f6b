//! Export and import of checkpoints. A checkpoint, a blob or a write that exists already stays unchanged.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{
    ProjectId, RunId, ThreadId, ThreadKey, Timestamp, UserId,
    checkpoints::{
        Blob, Channel, ChannelAt, ChannelVersion, Checkpoint, CheckpointId, CheckpointNs, DataType, StoredCheckpoint,
        TaskId, TaskPath, TaskWrite, TaskWrites, TypedData,
    },
    limits::CHECKPOINT_PART_BYTES,
};
use threadline_store::{
    CheckpointDone, CheckpointPart, CheckpointWalk, PutCheckpoint, StoreError, StoreResult, TransferStore,
};

use super::{
    annotations::Taken,
    directory::{CHECKPOINTS, Directory, Facts, NewFile},
    error::{Damage, Refusal, TransferError},
    format::raw,
    items::listed,
    manifest::{FileEntry, ThreadName, Threads},
    reading::Lines,
};
use crate::base64_bytes::Bytes64;

/// Line of the file: a thread, and then the parts of its checkpoints. What belongs to a checkpoint comes before it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum CheckpointLine {
    /// Thread of the lines that follow.
    Thread(ThreadOfCheckpoints),
    /// Value of a channel.
    Blob(BlobFacts),
    /// Write of a task.
    Write(WriteFacts),
    /// Checkpoint whose channels have their blobs before.
    Checkpoint(Box<CheckpointFacts>),
}

/// Thread that has checkpoints.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadOfCheckpoints {
    project_id: ProjectId,
    thread_id: ThreadId,
    /// User who owns the thread, if it has not claimed its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_id: Option<UserId>,
}

/// Value of a channel at a version.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobFacts {
    ns: CheckpointNs,
    channel: Channel,
    version: ChannelVersion,
    r#type: DataType,
    data: Bytes64,
}

/// Write of a task beside a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteFacts {
    ns: CheckpointNs,
    id: CheckpointId,
    task_id: TaskId,
    task_path: TaskPath,
    idx: i64,
    channel: Channel,
    r#type: DataType,
    data: Bytes64,
}

/// Checkpoint without the values of its channels.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointFacts {
    ns: CheckpointNs,
    id: CheckpointId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent_id: Option<CheckpointId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    r#type: DataType,
    data: Bytes64,
    metadata: Box<RawValue>,
    channels: Vec<(Channel, ChannelVersion)>,
    at: Timestamp,
}

impl CheckpointLine {
    fn of(part: CheckpointPart) -> StoreResult<Vec<Self>> {
        Ok(match part {
            CheckpointPart::Blobs(ns, blobs) => {
                let line = |Blob { at, data }| {
                    let (ns, r#type, data) = (ns.clone(), data.kind, Bytes64(data.body));
                    Self::Blob(BlobFacts { ns, channel: at.channel, version: at.version, r#type, data })
                };
                blobs.into_iter().map(line).collect()
            }
            CheckpointPart::Writes(ns, id, TaskWrites { task, path, writes }) => {
                let line = |TaskWrite { idx, channel, data }| {
                    let (ns, id, task_id, task_path) = (ns.clone(), id.clone(), task.clone(), path.clone());
                    let (r#type, data) = (data.kind, Bytes64(data.body));
                    Self::Write(WriteFacts { ns, id, task_id, task_path, idx, channel, r#type, data })
                };
                writes.into_iter().map(line).collect()
            }
            CheckpointPart::Checkpoint(StoredCheckpoint { checkpoint, at }) => {
                let Checkpoint { ns, id, parent, run, data, metadata, channels } = checkpoint;
                let facts = CheckpointFacts {
                    ns,
                    id,
                    parent_id: parent,
                    run_id: run,
                    r#type: data.kind,
                    data: Bytes64(data.body),
                    metadata: raw(metadata)?,
                    channels: channels.into_iter().map(|at| (at.channel, at.version)).collect(),
                    at,
                };
                vec![Self::Checkpoint(Box::new(facts))]
            }
        })
    }

    /// The part of the line; `Err` is its thread.
    fn part(self) -> Result<CheckpointPart, ThreadName> {
        Ok(match self {
            Self::Thread(thread) => return Err((thread.project_id, thread.thread_id, thread.user_id)),
            Self::Blob(BlobFacts { ns, channel, version, r#type, data }) => {
                let data = TypedData { kind: r#type, body: data.0 };
                CheckpointPart::Blobs(ns, vec![Blob { at: ChannelAt { channel, version }, data }])
            }
            Self::Write(WriteFacts { ns, id, task_id, task_path, idx, channel, r#type, data }) => {
                let data = TypedData { kind: r#type, body: data.0 };
                let writes = vec![TaskWrite { idx, channel, data }];
                CheckpointPart::Writes(ns, id, TaskWrites { task: task_id, path: task_path, writes })
            }
            Self::Checkpoint(facts) => {
                let channels = facts.channels.into_iter().map(|(channel, version)| ChannelAt { channel, version });
                let checkpoint = Checkpoint {
                    ns: facts.ns,
                    id: facts.id,
                    parent: facts.parent_id,
                    run: facts.run_id,
                    data: TypedData { kind: facts.r#type, body: facts.data.0 },
                    metadata: facts.metadata.get().to_owned(),
                    channels: channels.collect(),
                };
                CheckpointPart::Checkpoint(StoredCheckpoint { checkpoint, at: facts.at })
            }
        })
    }
}

/// Writes the checkpoints of the exported threads. Returns `None`, and leaves no file, if there are none.
pub async fn write(
    store: &dyn TransferStore,
    directory: &Directory,
    exported: &Threads,
) -> Result<Option<FileEntry>, TransferError> {
    let found = listed(store, exported).await?;
    let (mut file, mut count) = (None, 0);
    for (name, key) in found {
        let (mut walk, mut named) = (CheckpointWalk::new(store, key), false);
        while let Some(part) = walk.next().await? {
            let file = match &mut file {
                Some(file) => file,
                none => none.insert(NewFile::begin(directory, CHECKPOINTS)?),
            };
            if !named {
                let (project_id, thread_id, user_id) = name.clone();
                file.line(&CheckpointLine::Thread(ThreadOfCheckpoints { project_id, thread_id, user_id }))?;
                named = true;
            }
            count += u64::from(matches!(part, CheckpointPart::Checkpoint(_)));
            for line in CheckpointLine::of(part)? {
                file.line(&line)?;
            }
        }
    }
    let Some(file) = file else {
        directory.remove(CHECKPOINTS)?;
        return Ok(None);
    };
    let Facts { bytes, sha256 } = file.finish()?;
    Ok(Some(FileEntry { count, bytes, sha256 }))
}

/// Reader of the file, which knows the thread and its blobs.
#[derive(Default)]
struct Reading {
    thread: Option<ThreadName>,
    blobs: HashSet<(CheckpointNs, ChannelAt)>,
}

impl Reading {
    /// Reads the next part of a sound file. `None` at its end.
    fn next(&mut self, lines: &mut Lines<'_>) -> Result<Option<CheckpointPart>, Damage> {
        while lines.advance()? {
            let part = match lines.parse::<CheckpointLine>()?.part() {
                Ok(part) => part,
                Err(thread) => {
                    (self.thread, self.blobs) = (Some(thread), HashSet::new());
                    continue;
                }
            };
            if self.thread.is_none() {
                return Err(lines.damage("a part of a checkpoint without a thread"));
            }
            match &part {
                CheckpointPart::Blobs(ns, blobs) => {
                    self.blobs.extend(blobs.iter().map(|blob| (ns.clone(), blob.at.clone())));
                }
                CheckpointPart::Writes(..) => {}
                CheckpointPart::Checkpoint(StoredCheckpoint { checkpoint, .. }) => {
                    let has = |at: &ChannelAt| self.blobs.contains(&(checkpoint.ns.clone(), at.clone()));
                    if !checkpoint.metadata.starts_with('{') || !checkpoint.channels.iter().all(has) {
                        return Err(lines.damage("not a whole checkpoint"));
                    }
                }
            }
            return Ok(Some(part));
        }
        Ok(None)
    }
}

/// Blobs that are stored together.
#[derive(Default)]
struct Batch {
    place: Option<(ThreadKey, CheckpointNs)>,
    blobs: Vec<Blob>,
    bytes: usize,
}

impl Batch {
    async fn store(&mut self, store: &dyn TransferStore) -> StoreResult<CheckpointDone> {
        let Self { place, blobs, .. } = std::mem::take(self);
        match place {
            Some((key, ns)) => store.put_blobs(key, &ns, &blobs).await,
            None => Ok(CheckpointDone::Done { added: 0 }),
        }
    }
}

/// Stores the checkpoints of these threads, after the complete file has been validated. Returns those of threads that have no room for them.
pub async fn put(
    directory: &Directory,
    file: &FileEntry,
    store: &dyn TransferStore,
    taken: &Taken,
) -> Result<Vec<Refusal>, TransferError> {
    let open = || Lines::open(directory, CHECKPOINTS, file.facts()).map_err(TransferError::Damaged);
    let (mut lines, mut reading) = (open()?, Reading::default());
    while reading.next(&mut lines).map_err(TransferError::Damaged)?.is_some() {}
    let (mut lines, mut reading) = (open()?, Reading::default());
    let (mut batch, mut full, mut refused) = (Batch::default(), None, Vec::new());
    while let Some(part) = reading.next(&mut lines).map_err(TransferError::Damaged)? {
        let Some(thread) = &reading.thread else { continue };
        let Some(key) = taken.get(thread).copied().filter(|key| full != Some(*key)) else { continue };
        let mut dones = Vec::new();
        match part {
            CheckpointPart::Blobs(ns, blobs) => {
                let place = Some((key, ns));
                if batch.place != place || batch.bytes >= CHECKPOINT_PART_BYTES {
                    dones.push(batch.store(store).await?);
                    batch.place = place;
                }
                batch.bytes += blobs.iter().map(|blob| blob.data.body.len()).sum::<usize>();
                batch.blobs.extend(blobs);
            }
            CheckpointPart::Writes(ns, id, writes) => dones.push(store.put_writes(key, &ns, &id, &writes).await?),
            CheckpointPart::Checkpoint(StoredCheckpoint { checkpoint, at }) => {
                dones.push(batch.store(store).await?);
                dones.push(store.put_checkpoint(key, &checkpoint, PutCheckpoint::Keep(at)).await?);
            }
        }
        for done in dones {
            match done {
                CheckpointDone::Done { .. } | CheckpointDone::ThreadGone => {}
                CheckpointDone::TooLarge => {
                    let (_, id, _) = thread;
                    full = Some(key);
                    refused.push(Refusal {
                        what: format!("checkpoints of thread {id}"),
                        why: "the thread has other agent data, and no room for these: delete some of it, and import again"
                            .to_owned(),
                    });
                    break;
                }
                CheckpointDone::BlobMissing(_) => {
                    return Err(StoreError::Unavailable("a blob was deleted during the import".to_owned()).into());
                }
            }
        }
    }
    Ok(refused)
}
