//! Requests on checkpoints, as they are on the wire.

use serde::Deserialize;
use serde_json::value::RawValue;
use threadline_core::{
    RunId, ThreadId,
    checkpoints::{
        Blob, Channel, ChannelAt, ChannelVersion, Checkpoint, CheckpointId, CheckpointNs, DataType, TaskId, TaskPath,
        TaskWrite, TaskWrites, TypedData, WhichCheckpoints,
    },
    limits::{MAX_BLOB_BYTES, MAX_CHECKPOINT_CHANNELS, MAX_CHECKPOINT_METADATA_BYTES, MAX_CHECKPOINT_PAGE},
};
use threadline_http::problem::{Problem, ProblemType};
use utoipa::ToSchema;

use crate::base64_bytes::Bytes64;

/// The value of a channel at a version.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BlobBody {
    /// The channel, 1 to 512 bytes.
    #[schema(value_type = String)]
    channel: Channel,
    /// The version, 1 to 128 bytes.
    #[schema(value_type = String)]
    version: ChannelVersion,
    /// The writer's name for the form of the bytes, up to 64 bytes.
    #[schema(value_type = String)]
    r#type: DataType,
    /// The bytes in Base64, at most 8 MiB.
    #[schema(value_type = String, format = Byte)]
    data: Bytes64,
}

/// A request to store values of channels.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BlobsBody {
    /// Up to 10,000 values.
    #[schema(required)]
    blobs: Option<Vec<BlobBody>>,
}

/// A request to store a checkpoint.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointBody {
    /// The checkpoint that this one follows.
    #[schema(value_type = Option<String>)]
    parent_id: Option<CheckpointId>,
    /// The writer's name for the form of `data`, up to 64 bytes.
    #[schema(required, value_type = String)]
    r#type: Option<DataType>,
    /// The bytes of the checkpoint itself in Base64, at most 8 MiB.
    #[schema(required, value_type = String, format = Byte)]
    data: Option<Bytes64>,
    /// A JSON object by which checkpoints are found, at most 1 MiB. Default `{}`.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Box<RawValue>>,
    /// The run that has made it: its checkpoints can be deleted together.
    #[schema(value_type = Option<String>)]
    run_id: Option<RunId>,
    /// The channels with their versions, up to 10,000. The value of each is in `blobs`, or was stored before.
    #[schema(required, value_type = Vec<Vec<String>>)]
    channels: Option<Vec<(Channel, ChannelVersion)>>,
    /// Values of channels that were not stored before.
    #[serde(default)]
    blobs: Vec<BlobBody>,
}

/// A write of a task.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteBody {
    /// The number of the write. From 0, the first one stays; below 0, the last one.
    idx: i64,
    /// The channel, 1 to 512 bytes.
    #[schema(value_type = String)]
    channel: Channel,
    /// The writer's name for the form of the bytes, up to 64 bytes.
    #[schema(value_type = String)]
    r#type: DataType,
    /// The bytes in Base64, at most 8 MiB.
    #[schema(value_type = String, format = Byte)]
    data: Bytes64,
}

/// A request to store writes of a task beside a checkpoint.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WritesBody {
    /// The task, 1 to 256 bytes.
    #[schema(required, value_type = String)]
    task_id: Option<TaskId>,
    /// The place of the task, up to 1,024 bytes, by which writes are sorted first.
    #[schema(value_type = Option<String>)]
    task_path: Option<TaskPath>,
    /// Up to 10,000 writes.
    #[schema(required)]
    writes: Option<Vec<WriteBody>>,
}

/// A request to delete checkpoints.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteBody {
    /// The namespace; all namespaces by default.
    #[schema(value_type = Option<String>)]
    ns: Option<CheckpointNs>,
    /// Up to 1,000 IDs; by default all checkpoints, with all blobs and writes.
    #[schema(value_type = Option<Vec<String>>)]
    ids: Option<Vec<CheckpointId>>,
}

/// A request to copy the checkpoints of another thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CopyCheckpointsBody {
    /// The other thread, which belongs to the same user.
    #[schema(required, value_type = String)]
    from_thread_id: Option<ThreadId>,
}

const _: () = assert!(
    MAX_CHECKPOINT_CHANNELS == 10_000 && MAX_CHECKPOINT_PAGE == 1_000 && MAX_BLOB_BYTES == 8 * 1_024 * 1_024,
    "the API description says so"
);

fn missing(what: &str) -> Problem {
    Problem::invalid(format!("{what} is missing"))
}

fn bounded<T>(name: &str, list: &[T], most: usize) -> Result<(), Problem> {
    if list.len() > most {
        return Err(Problem::invalid(format!("{name} has {} members, but at most {most}", list.len())));
    }
    Ok(())
}

fn data(what: &str, kind: DataType, Bytes64(body): Bytes64) -> Result<TypedData, Problem> {
    if body.len() > MAX_BLOB_BYTES {
        let detail = format!("{what} has {} bytes, and at most {MAX_BLOB_BYTES} are stored", body.len());
        return Err(Problem::new(ProblemType::TooLarge, detail));
    }
    Ok(TypedData { kind, body })
}

fn blobs(list: Vec<BlobBody>) -> Result<Vec<Blob>, Problem> {
    bounded("blobs", &list, MAX_CHECKPOINT_CHANNELS)?;
    let blob = |BlobBody { channel, version, r#type, data: body }| {
        let data = data(&format!("the blob of channel {:?}", Channel::as_str(&channel)), r#type, body)?;
        Ok(Blob { at: ChannelAt { channel, version }, data })
    };
    list.into_iter().map(blob).collect()
}

impl BlobsBody {
    pub(super) fn blobs(self) -> Result<Vec<Blob>, Problem> {
        blobs(self.blobs.ok_or_else(|| missing("blobs"))?)
    }
}

/// Metadata on one line: only CR and LF outside of strings are changed.
fn metadata(value: Option<Box<RawValue>>) -> Result<String, Problem> {
    let Some(value) = value else { return Ok("{}".to_owned()) };
    let text = value.get();
    if !text.starts_with('{') {
        return Err(Problem::invalid("metadata is not a JSON object"));
    }
    if text.len() > MAX_CHECKPOINT_METADATA_BYTES {
        let (bytes, most) = (text.len(), MAX_CHECKPOINT_METADATA_BYTES);
        return Err(Problem::new(
            ProblemType::TooLarge,
            format!("metadata has {bytes} bytes, and at most {most} are stored"),
        ));
    }
    Ok(text.replace(['\r', '\n'], " "))
}

impl CheckpointBody {
    /// The checkpoint, and the blobs that come with it.
    pub(super) fn checkpoint(self, ns: CheckpointNs, id: CheckpointId) -> Result<(Checkpoint, Vec<Blob>), Problem> {
        let kind = self.r#type.ok_or_else(|| missing("type"))?;
        let data = data("the checkpoint", kind, self.data.ok_or_else(|| missing("data"))?)?;
        let channels = self.channels.ok_or_else(|| missing("channels"))?;
        bounded("channels", &channels, MAX_CHECKPOINT_CHANNELS)?;
        let channels = channels.into_iter().map(|(channel, version)| ChannelAt { channel, version }).collect();
        let (parent, run, metadata) = (self.parent_id, self.run_id, metadata(self.metadata)?);
        Ok((Checkpoint { ns, id, parent, run, data, metadata, channels }, blobs(self.blobs)?))
    }
}

impl WritesBody {
    pub(super) fn writes(self) -> Result<TaskWrites, Problem> {
        let (task, path) = (self.task_id.ok_or_else(|| missing("taskId"))?, self.task_path);
        let list = self.writes.ok_or_else(|| missing("writes"))?;
        bounded("writes", &list, MAX_CHECKPOINT_CHANNELS)?;
        let write = |WriteBody { idx, channel, r#type, data: body }| {
            Ok::<_, Problem>(TaskWrite { idx, channel, data: data(&format!("write {idx}"), r#type, body)? })
        };
        let writes = list.into_iter().map(write).collect::<Result<_, _>>()?;
        let path = path.map_or_else(|| TaskPath::new(""), Ok).map_err(super::super::agent_data::invalid)?;
        Ok(TaskWrites { task, path, writes })
    }
}

impl DeleteBody {
    pub(super) fn which(self) -> Result<WhichCheckpoints, Problem> {
        bounded("ids", self.ids.as_deref().unwrap_or_default(), MAX_CHECKPOINT_PAGE)?;
        Ok(WhichCheckpoints { ns: self.ns, ids: self.ids })
    }
}

impl CopyCheckpointsBody {
    pub(super) fn source(self) -> Result<ThreadId, Problem> {
        self.from_thread_id.ok_or_else(|| missing("fromThreadId"))
    }
}
