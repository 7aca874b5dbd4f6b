//! Metrics of starts that were refused because of an active run.

use prometheus_client::metrics::counter::Counter;

use super::register::Register;

/// Starts refused because another run was active.
#[derive(Debug)]
pub struct Conflicts {
    /// Refused by the lock, without a write to the store.
    pub by_lock: Counter,
    /// Refused by the store itself.
    pub by_store: Counter,
}

impl Conflicts {
    pub(super) fn new(all: &mut Register) -> Self {
        let help = "Starts refused with 409 because another run was active, by the component that refused them";
        let [by_lock, by_store] = all.counters("lock_conflicts", help, "decided_by", ["lock", "store"]);
        Self { by_lock, by_store }
    }
}
