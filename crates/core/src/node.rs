//! A node: one process that serves over a store.

use std::{fmt, num::ParseIntError};

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Identity of a node, from its start to its end. The text form is 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct NodeId(pub u64);

impl NodeId {
    /// A random id, which no other node has.
    pub fn generate() -> Self {
        // The second half of the UUID is random.
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

/// A node as its last committed heartbeat describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Identity of the process.
    pub id: NodeId,
    /// Name of the machine.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Time of the first heartbeat, by the store's clock.
    pub started_at: Timestamp,
    /// Number of heartbeats, from 1.
    pub beat: u64,
    /// Time of the last heartbeat, by the store's clock.
    pub at: Timestamp,
    /// True if the node is shutting down, or has shut down.
    pub leaving: bool,
    /// Milliseconds by which the store's clock is ahead of the node's; `None` before the second heartbeat.
    pub skew_ms: Option<i64>,
    /// Microseconds that the heartbeat before took; `None` before the second heartbeat.
    pub rtt_us: Option<i64>,
    /// Milliseconds by which the store's clock has moved away from what the node expected, for some seconds after the node
    /// has noticed that the clock was set.
    pub step_ms: Option<i64>,
}
