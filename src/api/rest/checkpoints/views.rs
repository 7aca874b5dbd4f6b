//! Checkpoints as they are on the wire.

use serde::Serialize;
use serde_json::value::RawValue;
use threadline_core::{
    Timestamp,
    checkpoints::{Checkpoint, CheckpointParts, FoundBlob, FoundCheckpoint, FoundWrite, StoredCheckpoint},
};
use threadline_engine::{CheckpointPage, WholeCheckpoint};
use threadline_http::cursor::write_checkpoint;
use utoipa::ToSchema;

use crate::base64_bytes::Bytes64;

/// The value of a channel.
#[derive(Debug, Serialize, ToSchema)]
pub struct BlobView {
    channel: String,
    version: String,
    r#type: String,
    /// The bytes in Base64. Absent with `fields=head`, and where the answer had no room: read it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Byte)]
    data: Option<Bytes64>,
}

impl From<FoundBlob> for BlobView {
    fn from(FoundBlob { at, kind, body }: FoundBlob) -> Self {
        Self { channel: at.channel.into(), version: at.version.into(), r#type: kind.into(), data: body.map(Bytes64) }
    }
}

/// A write of a task beside a checkpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteView {
    task_id: String,
    task_path: String,
    idx: i64,
    channel: String,
    r#type: String,
    /// The bytes in Base64. Absent with `fields=head`, and where the answer had no room: read it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Byte)]
    data: Option<Bytes64>,
}

impl From<FoundWrite> for WriteView {
    fn from(FoundWrite { task, path, idx, channel, kind, body }: FoundWrite) -> Self {
        let (channel, r#type, data) = (channel.into(), kind.into(), body.map(Bytes64));
        Self { task_id: task.into(), task_path: path.into(), idx, channel, r#type, data }
    }
}

/// A checkpoint with its blobs and writes.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointView {
    thread_id: String,
    ns: String,
    id: String,
    #[schema(required)]
    parent_id: Option<String>,
    #[schema(required)]
    run_id: Option<String>,
    r#type: String,
    /// The bytes of the checkpoint itself in Base64; absent with `fields=head`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Byte)]
    data: Option<Bytes64>,
    /// The metadata, byte for byte.
    #[schema(value_type = Object)]
    metadata: Box<RawValue>,
    /// The channels with their versions.
    channels: Vec<[String; 2]>,
    /// The time at which the checkpoint was stored first.
    #[schema(value_type = String, example = "2026-11-21T10:11:15.123Z")]
    created_at: Timestamp,
    /// The values of the channels, in the same order.
    blobs: Vec<BlobView>,
    /// The writes of tasks beside the checkpoint, in the order of `taskPath`, `taskId` and `idx`.
    writes: Vec<WriteView>,
}

impl CheckpointView {
    /// The view of a checkpoint, with or without its own bytes.
    pub(super) fn of(WholeCheckpoint { found, parts }: WholeCheckpoint, with_data: bool) -> Self {
        let FoundCheckpoint { thread_id, stored: StoredCheckpoint { checkpoint, at }, .. } = found;
        let Checkpoint { ns, id, parent, run, data, metadata, channels } = checkpoint;
        let CheckpointParts { blobs, writes } = parts;
        Self {
            thread_id: thread_id.to_string(),
            ns: ns.into(),
            id: id.into(),
            parent_id: parent.map(String::from),
            run_id: run.map(|run| run.to_string()),
            r#type: data.kind.into(),
            data: with_data.then_some(Bytes64(data.body)),
            // The store holds an object that was JSON on arrival.
            metadata: RawValue::from_string(metadata).unwrap_or_default(),
            channels: channels.into_iter().map(|at| [at.channel.into(), at.version.into()]).collect(),
            created_at: at,
            blobs: blobs.into_iter().map(BlobView::from).collect(),
            writes: writes.into_iter().map(WriteView::from).collect(),
        }
    }
}

/// A page of checkpoints.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckpointsView {
    /// Checkpoints, the newest first: in the order of their IDs by bytes.
    checkpoints: Vec<CheckpointView>,
    /// The cursor with which the list goes on; null at its end.
    #[schema(required)]
    cursor: Option<String>,
}

impl CheckpointsView {
    pub(super) fn of(page: CheckpointPage, with_data: bool) -> Self {
        let checkpoints = page.checkpoints.into_iter().map(|whole| CheckpointView::of(whole, with_data)).collect();
        Self { checkpoints, cursor: page.next.as_ref().map(write_checkpoint) }
    }
}

/// The checkpoint that was stored.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoredView {
    pub(super) thread_id: String,
    pub(super) ns: String,
    pub(super) id: String,
}

/// The number of checkpoints that were deleted.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedView {
    pub(super) deleted: usize,
}

/// The number of checkpoints that were copied, or were there.
#[derive(Debug, Serialize, ToSchema)]
pub struct CopiedView {
    pub(super) copied: usize,
}
