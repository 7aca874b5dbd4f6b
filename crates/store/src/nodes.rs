//! Nodes that serve over the store, and their beats.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{Generation, Node, NodeId, Timestamp};

use crate::error::StoreResult;

/// Beat that a node commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBeat {
    /// Identity of the process.
    pub node: NodeId,
    /// Name of the machine.
    pub name: String,
    /// Version of the program.
    pub version: &'static str,
    /// True if the node is shutting down.
    pub leaving: bool,
    /// Milliseconds by which the store's clock is ahead of the node's, measured by the beat before.
    pub skew_ms: Option<i64>,
    /// Microseconds that the beat before took.
    pub rtt_us: Option<i64>,
    /// Milliseconds by which the store's clock has moved away from what the node expected, if it was set.
    pub step_ms: Option<i64>,
}

/// Beat that is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// Number of the beat, from 1.
    pub number: u64,
    /// Time of the store's clock.
    pub at: Timestamp,
    /// Generation of the store.
    pub generation: Generation,
}

/// Beats of the nodes that serve over the store.
#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Commits a beat as durably as every other write. On Postgres beats have a connection of their own. The first beat
    /// adds the node. A node that was leaving stays so.
    async fn put_beat(&self, beat: &NewBeat) -> StoreResult<Beat>;

    /// Nodes, those with the newest beats first, and the time of the store's clock at the read.
    async fn nodes(&self, limit: usize) -> StoreResult<(Timestamp, Vec<Node>)>;

    /// Removes the nodes whose last beat is at least this old.
    async fn forget_nodes(&self, age: Duration) -> StoreResult<()>;

    /// Time between two beats of a node.
    fn beat_interval(&self) -> Duration;
}
