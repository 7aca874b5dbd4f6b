//! The bus port: what nodes tell each other, so that followers on one node wake for a commit on another.
//!
//! A hint only wakes: whoever hears one looks at the store, and believes the store. So the bus may lose, double, delay
//! and reorder hints, and even tell wrong ones; that costs time until the next recheck, never an event.
//!
//! What every back-end must keep (the suite in `tests/contract/bus.rs` runs on each of them):
//!
//! - What a node tells about a channel that another node listens to reaches that node, as long as nothing is broken.
//! - A node that may have missed something, for whatever reason, hears [`Heard::Resync`] once it may not any more.
//! - Telling never waits, and nothing is kept without bound.

use std::{fmt, num::ParseIntError, sync::Arc};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::domain::{Fence, ProjectId, Seq, ThreadKey, UserId};

pub mod local;
pub mod redis;

/// What can be listened to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    /// The log of a thread.
    Thread(ThreadKey),
    /// The feed of a user.
    Feed(ProjectId, UserId),
    /// What nodes ask all the others.
    Questions,
    /// What a node is answered.
    Answers(NodeId),
}

/// A node, from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct NodeId(pub u64);

impl NodeId {
    /// One that no other node has.
    pub fn generate() -> Self {
        // The second half is random.
        Self(uuid::Uuid::now_v7().as_u64_pair().1)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<NodeId> for String {
    fn from(node: NodeId) -> Self {
        node.to_string()
    }
}

impl TryFrom<String> for NodeId {
    type Error = ParseIntError;

    fn try_from(text: String) -> Result<Self, ParseIntError> {
        u64::from_str_radix(&text, 16).map(Self)
    }
}

/// Who follows this thread on your node?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The thread.
    pub thread: ThreadKey,
    /// Whom to answer.
    pub asker: NodeId,
    /// The asker's own number for it.
    pub number: u64,
}

/// What a node tells: mostly what may be new on a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// The head of a thread.
    Thread(ThreadKey, ThreadNews),
    /// The newest position of a user's feed.
    Feed(ProjectId, UserId, u64),
    /// Something that is asked.
    Question(Question),
    /// What is said to a question: `body` is the service's.
    Answer {
        /// Who has asked.
        asker: NodeId,
        /// The asker's number of the question.
        number: u64,
        /// One line.
        body: String,
    },
}

/// The part of a head that followers wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadNews {
    /// Seq of the newest event.
    pub tail: Seq,
    /// Fence of the newest run.
    pub fence: Fence,
    /// Whether that run is active.
    pub active: bool,
    /// Whether that run was asked to stop.
    pub stop_requested: bool,
    /// The thread was deleted.
    pub gone: bool,
}

impl Hint {
    /// The channel that it belongs to.
    pub fn channel(&self) -> Channel {
        match self {
            Self::Thread(key, _) => Channel::Thread(*key),
            Self::Feed(project, user, _) => Channel::Feed(project.clone(), user.clone()),
            Self::Question(_) => Channel::Questions,
            Self::Answer { asker, .. } => Channel::Answers(*asker),
        }
    }
}

/// What a node hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Something may be new.
    Hint(Hint),
    /// From now on hints of this channel come; what was told before may have been missed.
    Listening(Channel),
    /// Anything may have been missed on any channel.
    Resync,
}

/// One node's end of the bus.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Tells the other nodes. What cannot be told is lost.
    fn tell(&self, hint: Hint);

    /// Wants to hear of a channel from now on.
    fn listen(&self, channel: Channel);

    /// Does not want to hear of a channel any more. Hints may still come for a while.
    fn ignore(&self, channel: &Channel);

    /// Whether there can be other nodes, so that it makes sense to wait for an answer.
    fn has_others(&self) -> bool;
}

/// A node's end of the bus, as it is handed around.
pub type DynBus = Arc<dyn Bus>;

/// What a node needs of the bus: its end, and what comes out of it. One reader only.
pub struct BusEnd {
    /// To tell and to choose.
    pub bus: DynBus,
    /// What is heard. It is bounded: a node that does not read hears [`Heard::Resync`] later.
    pub heard: mpsc::Receiver<Heard>,
}
