//! Memory of the events that topics keep. They are a cache, so they never wait: they take what is free, and give way.

use super::memory_budget::MemoryBudget;

/// Memory that the rings of a node share. By default there is no bound.
#[derive(Debug, Clone, Default)]
pub struct RingMemory(Option<MemoryBudget>);

impl RingMemory {
    /// Memory of the rings: the free part of this budget.
    pub fn of(budget: &MemoryBudget) -> Self {
        Self(Some(budget.clone()))
    }

    /// Waits until rings must give way.
    pub(crate) async fn pressed(&self) {
        match &self.0 {
            Some(budget) => budget.pressed().await,
            None => std::future::pending().await,
        }
    }
}

/// Bytes of one ring; released when dropped.
#[derive(Debug, Default)]
pub struct RingBytes {
    memory: RingMemory,
    bytes: usize,
}

impl RingBytes {
    /// No bytes yet.
    pub fn of(memory: RingMemory) -> Self {
        Self { memory, bytes: 0 }
    }

    /// Memory that the bytes are taken from.
    pub fn memory(&self) -> RingMemory {
        self.memory.clone()
    }

    /// Number of bytes.
    pub fn get(&self) -> usize {
        self.bytes
    }

    /// Counts more bytes.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        if let Some(budget) = &self.memory.0 {
            budget.add_ring(bytes);
        }
    }

    /// Counts fewer bytes.
    pub fn remove(&mut self, bytes: usize) {
        self.bytes -= bytes;
        if let Some(budget) = &self.memory.0 {
            budget.remove_ring(bytes);
        }
    }

    /// True if other uses need the memory.
    pub fn must_give_way(&self) -> bool {
        self.memory.0.as_ref().is_some_and(MemoryBudget::is_short)
    }
}

impl Drop for RingBytes {
    fn drop(&mut self) {
        self.remove(self.bytes);
    }
}
