//! Account of a client's work.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use threadline_core::{Limit, limits::MAX_WORK_DEBT};
use tokio::time::Instant;

use crate::limits::bucket::{Bucket, Rate};

/// Numbers of times that each limit was reached.
pub(super) type Counts = [AtomicU64; Limit::ALL.len()];

/// Requests, bytes and work of a user or project.
#[derive(Debug, Default)]
pub(super) struct Spent {
    pub requests: Bucket,
    pub bytes: Bucket,
    /// Work in bytes: [`WORK_UNIT_BYTES`](threadline_core::limits::WORK_UNIT_BYTES) are a unit.
    pub work: Bucket,
}

/// Price of work: what a principal's user and project are charged for what was done. Without limits it is free.
#[derive(Debug, Clone, Default)]
pub struct Account(pub(super) Vec<Charged>);

#[derive(Debug, Clone)]
pub(super) struct Charged {
    pub limited: Arc<Counts>,
    pub spent: Arc<Spent>,
    pub rate: Rate,
    pub limit: Limit,
}

impl Account {
    /// Charges bytes that were folded, scanned or read. Returns the time until which the next must wait.
    pub fn charge(&self, bytes: usize) -> Option<Instant> {
        let now = Instant::now();
        let pauses = self.0.iter().map(|charged| {
            let wait = charged.spent.work.owe(charged.rate, bytes as u64, MAX_WORK_DEBT, now);
            if !wait.is_zero() {
                charged.limited[charged.limit as usize].fetch_add(1, Relaxed);
            }
            wait
        });
        let pause = pauses.max().unwrap_or_default();
        (!pause.is_zero()).then(|| now + pause)
    }
}
