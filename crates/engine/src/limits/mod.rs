//! Quotas of users and projects: one place that keeps the usage and counts the refusals.
//!
//! An API key is trusted: only the limits of its project apply to it. A client with an end user's token is untrusted,
//! and the limits of a user apply to it as well. In development mode no client is authenticated, and only limits that
//! were set explicitly apply. Each node counts for itself: N nodes allow up to N times as much. Only runs are counted
//! by the store, for all nodes.

mod bucket;
mod fair_queue;
mod key;
mod memory_budget;
mod quota;
mod ring_memory;

pub use fair_queue::{FairQueue, QueuedWork, SlicePermit, WorkOwner};
pub use memory_budget::{BudgetExceeded, BudgetOwner, BudgetPermit, MemoryBudget, MemoryKind};
pub use quota::{Limited, ProjectLookup, Quota, RunQuota, StreamPermit};
pub use ring_memory::{RingBytes, RingMemory};
