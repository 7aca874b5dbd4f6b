//! What happened, in order: the same seed must give the same.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Mutex,
    time::Duration,
};

/// A line for each call of the store, each thing that a client was told, and each fault.
#[derive(Debug, Default)]
pub struct Trace(Mutex<Vec<String>>);

impl Trace {
    /// `who` is a node, a client or the weather.
    pub fn note(&self, who: &str, what: impl std::fmt::Display) {
        self.note_at(turmoil::sim_elapsed().unwrap_or_default(), who, what);
    }

    /// The same from outside of the hosts.
    pub fn note_at(&self, now: Duration, who: &str, what: impl std::fmt::Display) {
        self.0.lock().expect("lock").push(format!("{:>6} {who}: {what}", now.as_millis()));
    }

    /// All lines.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("lock"))
    }
}

/// One number for a trace.
pub fn digest(lines: &[String]) -> u64 {
    // Its keys are fixed.
    let mut hasher = DefaultHasher::new();
    lines.hash(&mut hasher);
    hasher.finish()
}
