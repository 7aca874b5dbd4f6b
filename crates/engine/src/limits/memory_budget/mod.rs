//! Memory of a node that all clients share. What a project or an untrusted client may hold follows from what is free, so
//! one alone has most of it, many share it evenly, and some is always left for the next. A client that keeps its memory
//! delays itself, and no other client.

mod budget;
mod owner;
mod permit;
mod pool;
#[cfg(test)]
mod tests;

pub use budget::MemoryBudget;
pub use owner::{BudgetOwner, MemoryKind};
pub use permit::{BudgetExceeded, BudgetPermit};
