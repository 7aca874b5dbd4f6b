//! Metrics of the store's history.

use std::{
    sync::atomic::{AtomicI64, AtomicU64},
    time::Duration,
};

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

use threadline_store::LineageCause;

use super::register::Register;

/// Changes of the store's history, and what they may have cost.
#[derive(Debug)]
pub struct LineageCounts {
    changes: Family<[(&'static str, &'static str); 1], Counter>,
    generation: Gauge<i64, AtomicI64>,
    loss: Gauge<f64, AtomicU64>,
}

impl LineageCounts {
    pub(super) fn new(all: &mut Register) -> Self {
        let help = "Changes of the store's history that this node has adopted, by cause";
        let changes: Family<_, Counter> = all.add("lineage_changes", help, Family::default());
        // Each counter exists from 0 on, so that the first change shows as an increase.
        for cause in LineageCause::ALL {
            drop(changes.get_or_create(&[("cause", cause.name())]));
        }
        Self {
            changes,
            loss: all.add(
                "lineage_loss_seconds",
                "Length of the period before the last change of the store's history whose commits may be lost",
                Gauge::default(),
            ),
            generation: all.add("store_generation", "Generation of the store's history", Gauge::default()),
        }
    }

    /// Counts a change of the history by its cause.
    pub fn changed(&self, cause: &'static str) {
        self.changes.get_or_create(&[("cause", cause)]).inc();
    }

    /// Sets the time whose commits the last change may have lost.
    pub fn lost(&self, time: Duration) {
        self.loss.set(time.as_secs_f64());
    }

    /// Sets the generation of the history.
    pub fn entered(&self, generation: i64) {
        self.generation.set(generation);
    }
}
