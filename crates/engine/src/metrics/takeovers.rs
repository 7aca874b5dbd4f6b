//! Metrics of runs that were taken over or up.

use super::register::Register;
use prometheus_client::metrics::{counter::Counter, family::Family};
use threadline_core::projection::superseding::TAKEN_UP;
use threadline_store::Before;

/// Runs that this node has taken over, or let a process of its producer take up.
#[derive(Debug)]
pub struct Takeovers(Family<[(&'static str, &'static str); 1], Counter>);

impl Takeovers {
    pub(super) fn new(all: &mut Register) -> Self {
        let help = "Runs of agents that this node has taken over, and runs of producers that another process has taken up, by reason";
        let takeovers: Family<_, Counter> = all.add("takeovers", help, Family::default());
        // Each counter exists from 0 on, so that the first takeover shows as an increase.
        for reason in Before::ALL.map(Before::reason).into_iter().chain([TAKEN_UP]) {
            drop(takeovers.get_or_create(&[("reason", reason)]));
        }
        Self(takeovers)
    }

    /// Counts a takeover by its reason.
    pub fn count(&self, reason: &'static str) {
        self.0.get_or_create(&[("reason", reason)]).inc();
    }
}
