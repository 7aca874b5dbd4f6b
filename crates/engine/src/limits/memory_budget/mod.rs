//! Memory of a node that all clients share. The share of a project or an untrusted client depends on the free memory:
//! one alone gets most of it, many get equal shares, and some is always left for the next. A client that keeps its
//! memory delays itself, and no other client.

mod budget;
mod owner;
mod permit;
mod pool;
#[cfg(test)]
mod tests;

pub use budget::MemoryBudget;
pub use owner::{BudgetOwner, MemoryKind};
pub use permit::{BudgetExceeded, BudgetPermit};
