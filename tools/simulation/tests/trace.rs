//! Trace of a simulation, in order: the same seed must give the same trace.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Mutex,
    time::Duration,
};

/// Trace with a line for each call of the store, each answer to a client, and each fault.
#[derive(Debug, Default)]
pub struct Trace(Mutex<Vec<String>>);

impl Trace {
    /// Adds a line; `who` is a node, a client or `weather`, the source of faults.
    pub fn note(&self, who: &str, what: impl std::fmt::Display) {
        self.note_at(turmoil::sim_elapsed().unwrap_or_default(), who, what);
    }

    /// Adds a line from outside of the hosts.
    pub fn note_at(&self, now: Duration, who: &str, what: impl std::fmt::Display) {
        self.0.lock().expect("lock").push(format!("{:>6} {who}: {what}", now.as_millis()));
    }

    /// Takes all lines out of the trace.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("lock"))
    }
}

/// Hashes a trace.
pub fn digest(lines: &[String]) -> u64 {
    // `DefaultHasher` has fixed keys, so digests of equal traces are equal.
    let mut hasher = DefaultHasher::new();
    lines.hash(&mut hasher);
    hasher.finish()
}
