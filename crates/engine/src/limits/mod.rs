//! Ledger of a node's resources: what its clients use of memory, of the queue of work, and of their quotas. No other
//! module makes an untrusted client wait for another one.

mod bucket;
mod client;
mod connections;
mod fair_queue;
pub(crate) mod free_space;
mod key;
mod memory_budget;
mod quota;
mod ring_memory;
pub(crate) mod stored_bytes;

pub use client::Client;
pub use connections::{ConnectionMark, ConnectionPlace, ConnectionRefused, Connections, Peer};
pub(crate) use fair_queue::has_one_thread;
pub use fair_queue::{FairQueue, QueuedWork, SlicePermit, in_place};
pub use free_space::{Space, SpaceProbe};
pub use memory_budget::{BudgetExceeded, BudgetOwner, BudgetPermit, MemoryBudget, MemoryKind};
pub use quota::{Account, Limited, ProjectLookup, Quota, RunQuota, StreamPermit};
pub use ring_memory::RingBytes;
pub use stored_bytes::StoredBytes;
pub(crate) use stored_bytes::Storing;
