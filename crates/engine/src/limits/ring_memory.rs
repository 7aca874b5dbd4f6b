//! Memory of the events that topics keep. They are a cache, so they never wait: they take what is free, and give way.
//!
//! Rings belong to the node, not to the projects of their threads. No client's share depends on them, so they take
//! memory from no client, and all are cut when clients need it: a thread that loses its ring is read from the store.

use super::memory_budget::MemoryBudget;

/// Bytes that one ring holds of a budget; released when dropped.
#[derive(Debug, Default)]
pub struct RingBytes {
    memory: MemoryBudget,
    bytes: usize,
}

impl RingBytes {
    /// Handle for a ring that is empty.
    pub fn of(memory: MemoryBudget) -> Self {
        Self { memory, bytes: 0 }
    }

    /// Memory that the bytes are taken from.
    pub fn memory(&self) -> MemoryBudget {
        self.memory.clone()
    }

    /// Bytes of the ring now.
    pub fn get(&self) -> usize {
        self.bytes
    }

    /// Counts an event that the ring takes.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.memory.add_ring(bytes);
    }

    /// Counts an event that the ring drops.
    pub fn remove(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.memory.remove_ring(bytes);
    }

    /// True if other uses need the memory.
    pub fn must_give_way(&self) -> bool {
        self.memory.is_short()
    }
}

impl Drop for RingBytes {
    fn drop(&mut self) {
        self.remove(self.bytes);
    }
}
