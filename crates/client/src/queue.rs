//! JSON documents of a queue: turns that wait in a thread for the active run to end.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Reason why the queue of a thread rests until it is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// A run was stopped while others were queued.
    Stop,
    /// A run failed while others were queued.
    Error,
    /// A person holds the queue.
    Hand,
    /// A reason that this client does not know.
    #[serde(other)]
    Unknown,
}

impl Hold {
    /// Name of the reason on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Error => "error",
            Self::Hand => "hand",
            Self::Unknown => "unknown",
        }
    }
}

/// Queue of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// Id of the thread.
    pub thread_id: String,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// Number that grows with every change of the queue.
    pub version: u64,
    /// Reason why the queue rests; `None` if it moves. It also rests while interrupts of the thread are open.
    pub held: Option<Hold>,
    /// Turns, the next one first.
    pub items: Vec<QueuedTurn>,
}

/// Turn that waits in a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedTurn {
    /// Id of the run that it becomes.
    pub run_id: String,
    /// Id of the agent that is asked.
    pub agent_id: String,
    /// Caller that asked, such as `user:ann`.
    pub asked_by: Option<String>,
    /// Time at which it was asked.
    pub at: String,
    /// Messages that the caller has sent, each with an id.
    pub messages: Vec<Value>,
}

/// Place of a turn in a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacedTurn {
    /// Id of the run that the turn becomes.
    pub run_id: String,
    /// Place from 1, the next one.
    pub place: usize,
    /// Version of the queue.
    pub version: u64,
}

/// State of a queue, as followers of its thread are told of it. [`Client::queue`](crate::Client::queue) reads the turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct QueueState {
    /// Number that grows with every change of the queue.
    pub version: u64,
    /// Number of queued turns.
    pub queued: u64,
    /// Reason why the queue rests; `None` if it moves.
    pub held: Option<Hold>,
}
