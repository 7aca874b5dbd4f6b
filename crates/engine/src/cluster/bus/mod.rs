//! The bus port: messages between nodes, so that followers on one node wake for a commit on another.
//!
//! A hint only wakes: a node that receives one reads the store, and the store decides. So the bus may lose, duplicate,
//! delay and reorder hints, and even deliver wrong ones; the cost is time until the next recheck, never an event.
//!
//! Contract of every back-end (the suite in `tests/contract/bus.rs` runs on each of them):
//!
//! - A message that a node sends on a channel reaches every other node that listens to the channel, unless a part
//!   fails.
//! - A node that may have missed a message, for any reason, receives [`BusMessage::Resync`] once no further message is lost.
//! - Sending never waits, and nothing is kept without bound.

use std::sync::Arc;

use async_trait::async_trait;
use threadline_core::{
    FeedCursor, Fence, Generation, NodeId, ProjectId, QueueState, Seq, ThreadKey, UserId, streams::StreamKey,
};
use tokio::sync::mpsc;

pub mod local;
pub mod redis;

/// Topic that a node can listen to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    /// The log of a thread.
    Thread(ThreadKey),
    /// The feed of a user.
    Feed(ProjectId, UserId),
    /// Writes of a plain stream.
    Stream(StreamKey),
    /// Questions of nodes to all other nodes.
    Questions,
    /// Answers to the questions of one node.
    Answers(NodeId),
}

/// Question to every other node: the followers that the thread has there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The thread whose followers are counted and listed.
    pub thread: ThreadKey,
    /// Node that gets the answers.
    pub asker: NodeId,
    /// Number that the asking node gave to the question.
    pub number: u64,
}

/// Message of a node to the others: mostly a change on a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// Newest known head of a thread.
    Thread(ThreadKey, ThreadNews),
    /// The newest position of a user's feed; [`FeedCursor::START`] if the feed was erased.
    Feed(ProjectId, UserId, FeedCursor),
    /// Newest known end of a plain stream.
    Stream(StreamKey, StreamNews),
    /// Question to all other nodes.
    Question(Question),
    /// Answer to a question. The bus does not read `body`.
    Answer {
        /// Node that sent the question.
        asker: NodeId,
        /// Number that the asking node gave to the question.
        number: u64,
        /// Text without a line break.
        body: String,
    },
}

/// The part of a head that followers wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadNews {
    /// Generation in which the head was last changed.
    pub generation: Generation,
    /// Seq of the newest event.
    pub tail: Seq,
    /// Fence of the newest run.
    pub fence: Fence,
    /// True while that run is active.
    pub active: bool,
    /// True if a stop of that run was requested.
    pub stop_requested: bool,
    /// True if the thread was deleted.
    pub gone: bool,
    /// State of the queue.
    pub queue: QueueState,
}

/// End of a plain stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamNews {
    /// Position after the newest data.
    pub tail: u64,
    /// True if the stream was closed or deleted.
    pub ended: bool,
}

impl Hint {
    /// The channel on which the hint is sent.
    pub fn channel(&self) -> Channel {
        match self {
            Self::Thread(key, _) => Channel::Thread(*key),
            Self::Feed(project, user, _) => Channel::Feed(project.clone(), user.clone()),
            Self::Stream(key, _) => Channel::Stream(*key),
            Self::Question(_) => Channel::Questions,
            Self::Answer { asker, .. } => Channel::Answers(*asker),
        }
    }
}

/// Message that a node receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusMessage {
    /// A change that another node reports; the store decides.
    Hint(Hint),
    /// Hints of this channel arrive from now on; earlier ones may have been missed.
    Listening(Channel),
    /// Hints of any channel may have been missed.
    Resync,
}

/// Handle with which one node sends and selects channels.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Sends a hint to the other nodes without waiting. A hint that cannot be sent is lost.
    fn tell(&self, hint: Hint);

    /// Starts to receive hints of a channel.
    fn listen(&self, channel: Channel);

    /// Stops receiving hints of a channel. Some hints may still arrive.
    fn ignore(&self, channel: &Channel);

    /// True if other nodes may exist, so that waiting for an answer can succeed.
    fn has_others(&self) -> bool;

    /// Sends a message to this node itself. True if it is received in time; `None` if the bus is inside this process.
    async fn echo(&self) -> Option<bool> {
        None
    }
}

/// Shared handle of the bus.
pub type DynBus = Arc<dyn Bus>;

/// Connection of one node to the bus: the sending handle and the received messages. One reader only.
pub struct BusEnd {
    /// Sends hints and selects channels.
    pub bus: DynBus,
    /// Received messages, bounded: a node that does not read gets [`BusMessage::Resync`] later.
    pub heard: mpsc::Receiver<BusMessage>,
}
