//! Levels that are read when the metrics are asked for.

use crate::limits::MemoryKind;

/// Values read on demand, for each output of the metrics.
#[derive(Debug, Default, Clone, Copy)]
pub struct GaugeSnapshot {
    /// Open connections, sockets included.
    pub connections: usize,
    /// Appends that wait for a group commit.
    pub commit_queue: usize,
    /// Threads with followers on this node.
    pub topics: usize,
    /// True if the store responds.
    pub store_up: bool,
    /// Checks of Redis by their names, with their results; `None` if Redis is not configured.
    pub redis: Option<[(&'static str, bool); 3]>,
    /// True while the node is shutting down.
    pub draining: bool,
    /// Bytes of memory held, by kind.
    pub memory: [(&'static str, usize); MemoryKind::ALL.len()],
    /// Free bytes of the file system with the data; `None` if it is not this node's.
    pub storage_free: Option<u64>,
}
