//! Metrics of runs that were taken over.

use prometheus_client::metrics::{counter::Counter, family::Family};
use threadline_store::Before;

use super::register::Register;

/// Runs that this node has taken over.
#[derive(Debug)]
pub struct Takeovers(Family<[(&'static str, &'static str); 1], Counter>);

impl Takeovers {
    pub(super) fn new(all: &mut Register) -> Self {
        let help = "Runs of agents that this node has taken over, by reason";
        let takeovers: Family<_, Counter> = all.add("takeovers", help, Family::default());
        // Each counter exists from 0 on, so that the first takeover shows as an increase.
        for before in Before::ALL {
            drop(takeovers.get_or_create(&[("reason", before.reason())]));
        }
        Self(takeovers)
    }

    /// Counts a takeover by what became of the driver before.
    pub fn count(&self, before: Before) {
        self.0.get_or_create(&[("reason", before.reason())]).inc();
    }
}
