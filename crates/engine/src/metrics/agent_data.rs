//! Metrics of agent data.

use prometheus_client::metrics::{counter::Counter, family::Family};

use super::register::Register;

/// Tables of agent data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentTable {
    /// Key-value entries of users and projects.
    Kv,
    /// Item lists of threads.
    Items,
    /// Checkpoints of threads, with blobs and writes.
    Checkpoints,
}

impl AgentTable {
    /// All tables, in no particular order.
    pub const ALL: [Self; 3] = [Self::Kv, Self::Items, Self::Checkpoints];

    fn name(self) -> &'static str {
        match self {
            Self::Kv => "kv",
            Self::Items => "items",
            Self::Checkpoints => "checkpoints",
        }
    }
}

/// Writes of agent data by this node.
#[derive(Debug)]
pub struct AgentData {
    writes: Family<[(&'static str, &'static str); 1], Counter>,
    bytes: Family<[(&'static str, &'static str); 1], Counter>,
}

impl AgentData {
    pub(super) fn new(all: &mut Register) -> Self {
        let writes: Family<_, Counter> = all.add(
            "agent_data_writes",
            "Requests that have written agent data on this node, by table",
            Family::default(),
        );
        let bytes: Family<_, Counter> = all.add(
            "agent_data_bytes",
            "Bytes of agent data that were written on this node, by table",
            Family::default(),
        );
        for table in AgentTable::ALL {
            drop((writes.get_or_create(&[("table", table.name())]), bytes.get_or_create(&[("table", table.name())])));
        }
        Self { writes, bytes }
    }

    /// Counts a write of this many bytes.
    pub fn wrote(&self, table: AgentTable, bytes: usize) {
        self.writes.get_or_create(&[("table", table.name())]).inc();
        self.bytes.get_or_create(&[("table", table.name())]).inc_by(bytes as u64);
    }
}
