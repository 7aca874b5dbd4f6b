//! Metrics of background work.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::{family::Family, gauge::Gauge};
use threadline_store::{JobKind, JobLevel};

use super::register::Register;

type Kind = [(&'static str, &'static str); 1];

/// Backlog of the jobs of the store, as this node has measured it last.
#[derive(Debug)]
pub struct JobLevels {
    oldest: Family<Kind, Gauge<f64, AtomicU64>>,
    parked: Family<Kind, Gauge>,
}

impl JobLevels {
    pub(super) fn new(all: &mut Register) -> Self {
        let help = "Time for which the oldest job of the store has been due, by kind; 0 if none is due";
        let oldest = all.add("jobs_oldest_seconds", help, Family::default());
        let help = "Jobs of the store that failed 10 times and are tried once a day, by kind";
        let parked = all.add("jobs_parked", help, Family::default());
        let levels = Self { oldest, parked };
        for kind in JobKind::ALL {
            levels.measured(&JobLevel { kind, oldest: std::time::Duration::ZERO, parked: 0 });
        }
        levels
    }

    /// Sets the level of a kind.
    pub fn measured(&self, level: &JobLevel) {
        let kind = [("kind", level.kind.name())];
        self.oldest.get_or_create(&kind).set(level.oldest.as_secs_f64());
        self.parked.get_or_create(&kind).set(i64::try_from(level.parked).unwrap_or(i64::MAX));
    }
}
