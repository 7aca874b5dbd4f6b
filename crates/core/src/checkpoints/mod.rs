//! Checkpoints of threads: the states of a graph that a framework stores at its steps, and continues from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    RunId, Timestamp,
    agent_data::row_size,
    kv::{InvalidFilter, Wanted, members_of, shown},
    limits::{
        MAX_CHANNEL_BYTES, MAX_CHANNEL_VERSION_BYTES, MAX_CHECKPOINT_ID_BYTES, MAX_CHECKPOINT_NS_BYTES,
        MAX_DATA_TYPE_BYTES, MAX_KV_CONDITIONS, MAX_TASK_PATH_BYTES,
    },
};

mod found;

pub use found::{CheckpointParts, CheckpointPosition, FoundBlob, FoundCheckpoint, FoundWrite, WhichCheckpoints};

/// Reason for which a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} has {least} to {most} bytes and no control characters; {text:?} has {bytes} bytes")]
pub struct InvalidName {
    what: &'static str,
    least: usize,
    most: usize,
    text: String,
    bytes: usize,
}

macro_rules! names {
    ($($(#[$doc:meta])+ $name:ident = $what:literal, $least:literal, $most:expr;)+) => {
        $($(#[$doc])+
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks a text for its length and control characters.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidName> {
                let (text, least, most) = (text.into(), $least, $most);
                if (least..=most).contains(&text.len()) && !text.chars().any(char::is_control) {
                    return Ok(Self(text));
                }
                Err(InvalidName { what: $what, least, most, bytes: text.len(), text: shown(&text) })
            }

            /// Text of the name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        })+
    };
}
names! {
    /// Namespace of checkpoints in a thread: that of a graph, or of a graph inside of another one.
    CheckpointNs = "a namespace of checkpoints", 0, MAX_CHECKPOINT_NS_BYTES;
    /// Id of a checkpoint, unique in its namespace. The order of ids, by bytes, is that of the checkpoints.
    CheckpointId = "the ID of a checkpoint", 1, MAX_CHECKPOINT_ID_BYTES;
    /// Name of a part of the state.
    Channel = "the name of a channel", 1, MAX_CHANNEL_BYTES;
    /// Version of a channel.
    ChannelVersion = "the version of a channel", 1, MAX_CHANNEL_VERSION_BYTES;
    /// Name that a writer gives to the form of its bytes.
    DataType = "a type", 0, MAX_DATA_TYPE_BYTES;
    /// Task whose writes are stored.
    TaskId = "the ID of a task", 1, MAX_CHECKPOINT_ID_BYTES;
    /// Place of a task, by which writes are sorted.
    TaskPath = "the path of a task", 0, MAX_TASK_PATH_BYTES;
}

impl CheckpointId {
    /// Text that is greater than this id, and not greater than any other id after it: no id has a control character.
    pub fn next(&self) -> String {
        format!("{}\u{1}", self.0)
    }

    /// Text that is greater than all ids.
    pub fn end() -> String {
        // Longer than the longest id, in the greatest character.
        "\u{10ffff}".repeat(MAX_CHECKPOINT_ID_BYTES / 4 + 1)
    }
}

/// A channel at a version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelAt {
    /// Channel that has the version.
    pub channel: Channel,
    /// Version of the channel.
    pub version: ChannelVersion,
}

/// Bytes of a writer, with their type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedData {
    /// Type, as the writer names it.
    pub kind: DataType,
    /// Bytes, of which nothing is known.
    pub body: Vec<u8>,
}

/// Value of a channel at a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Channel, with the version that has the value.
    pub at: ChannelAt,
    /// Value, as the writer has made it.
    pub data: TypedData,
}

/// A checkpoint without the values of its channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Namespace of the checkpoint.
    pub ns: CheckpointNs,
    /// Id in the namespace.
    pub id: CheckpointId,
    /// Checkpoint that it follows.
    pub parent: Option<CheckpointId>,
    /// Run that made it.
    pub run: Option<RunId>,
    /// Bytes of the checkpoint itself.
    pub data: TypedData,
    /// JSON object on one line.
    pub metadata: String,
    /// Channels, each with the version that its value has.
    pub channels: Vec<ChannelAt>,
}

/// A value that a task has written, beside a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskWrite {
    /// Number among the writes of the task. The first write of a number from 0 stays; one below 0 is replaced.
    pub idx: i64,
    /// Channel that is written.
    pub channel: Channel,
    /// Value, as the writer has made it.
    pub data: TypedData,
}

/// Writes of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskWrites {
    /// Task that has written.
    pub task: TaskId,
    /// Place of the task.
    pub path: TaskPath,
    /// Writes of the task, in any order.
    pub writes: Vec<TaskWrite>,
}

/// A checkpoint as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// The checkpoint. Its bytes are empty if they were left out.
    pub checkpoint: Checkpoint,
    /// Time at which it was stored first.
    pub at: Timestamp,
}

/// Members that the metadata of a checkpoint must have, equal as JSON.
#[derive(Debug, Clone, Default)]
pub struct MetadataFilter(Vec<(String, Wanted)>);

impl MetadataFilter {
    /// Filter that requires these members.
    pub fn new(members: BTreeMap<String, Box<RawValue>>) -> Result<Self, InvalidFilter> {
        if members.len() > MAX_KV_CONDITIONS {
            return Err(InvalidFilter::TooMany(members.len()));
        }
        Ok(Self(members.into_iter().map(|(name, wanted)| (name, wanted.into())).collect()))
    }

    /// True if the filter has no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if metadata has all members.
    pub fn takes(&self, metadata: &str) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let members = members_of(metadata, &self.0);
        self.0.iter().zip(members).all(|((_, wanted), member)| member.is_some_and(|member| wanted.equals(member)))
    }
}

impl TypedData {
    fn size(&self) -> usize {
        self.kind.0.len() + self.body.len()
    }
}

impl Blob {
    /// Bytes that the blob counts as stored data, with its names.
    pub fn size(&self, ns: &CheckpointNs) -> i64 {
        row_size(&[ns.0.len(), self.at.channel.0.len(), self.at.version.0.len(), self.data.size()])
    }
}

impl Checkpoint {
    /// Bytes that the checkpoint counts as stored data, with its names and without the values of its channels.
    pub fn size(&self) -> i64 {
        let channels = self.channels.iter().map(|at| at.channel.0.len() + at.version.0.len()).sum();
        let names =
            self.parent.as_ref().map_or(0, |id| id.0.len()) + self.run.as_ref().map_or(0, |id| id.as_str().len());
        row_size(&[self.ns.0.len(), self.id.0.len(), names, channels, self.metadata.len(), self.data.size()])
    }
}

impl TaskWrites {
    /// Bytes that one of the writes counts as stored data, with its names.
    pub fn size(&self, ns: &CheckpointNs, id: &CheckpointId, write: &TaskWrite) -> i64 {
        let names = ns.0.len() + id.0.len() + self.task.0.len() + self.path.0.len();
        row_size(&[names, write.channel.0.len(), write.data.size()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_compared_as_json() {
        let read = |text: &str| MetadataFilter::new(serde_json::from_str(text).expect("an object"));
        let filter = |text: &str| read(text).expect("a filter");
        let metadata = "{\"step\":1.0,\"source\":\"loop\",\"parents\":{\"a\":1,\"b\":2},\"none\":null}";
        for taken in ["{}", "{\"step\":1}", "{\"parents\":{\"b\":2,\"a\":1},\"source\":\"loop\"}", "{\"none\":null}"] {
            assert!(filter(taken).takes(metadata), "{taken}");
        }
        for other in ["{\"step\":2}", "{\"absent\":null}", "{\"step\":{\"$gt\":0}}", "{\"parents\":{\"a\":1}}"] {
            assert!(!filter(other).takes(metadata), "{other}");
        }
        let many = |count| format!("{{{}}}", (0..count).map(|n| format!("\"m{n}\":1")).collect::<Vec<_>>().join(","));
        assert!(read(&many(MAX_KV_CONDITIONS)).is_ok());
        let refused = read(&many(MAX_KV_CONDITIONS + 1)).err();
        assert_eq!(refused, Some(InvalidFilter::TooMany(MAX_KV_CONDITIONS + 1)));
    }

    #[test]
    fn names_are_checked_at_the_edge() {
        assert!(CheckpointNs::new("").is_ok() && CheckpointNs::new("a|b:c").is_ok() && DataType::new("").is_ok());
        let longest = "é".repeat(MAX_CHECKPOINT_ID_BYTES / 2);
        assert!(CheckpointId::new(longest.clone()).is_ok());
        for bad in [String::new(), format!("{longest}x"), "a\u{1f}b".to_owned()] {
            let error = CheckpointId::new(bad.clone()).expect_err("refused");
            assert_eq!((error.bytes, error.most), (bad.len(), MAX_CHECKPOINT_ID_BYTES), "{error}");
        }
        let id = |text: &str| CheckpointId::new(text).expect("an id");
        let greatest = id(&"\u{10ffff}".repeat(MAX_CHECKPOINT_ID_BYTES / 4));
        assert!(greatest.as_str() < &*CheckpointId::end());
        let (one, next) = (id("a"), id("a b"));
        assert!(one.as_str() < &*one.next() && *one.next() < *next.as_str());
    }
}
