//! Counts of an export or import, as a result and as progress.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::progress::Progress;

/// Counts of an export or import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Threads that were written.
    pub threads: u64,
    /// Events of the written threads.
    pub events: u64,
    /// Threads that existed already, unchanged.
    pub present: u64,
    /// Threads, agents, projects, keys and plain streams that were refused.
    pub refused: u64,
}

/// Progress of an export or import.
pub struct Counter<'p> {
    progress: &'p Progress,
    verb: &'static str,
    total: u64,
    threads: AtomicU64,
    events: AtomicU64,
}

impl<'p> Counter<'p> {
    /// Starts at zero of `total` threads.
    pub fn new(progress: &'p Progress, verb: &'static str, total: u64) -> Self {
        Self { progress, verb, total, threads: AtomicU64::new(0), events: AtomicU64::new(0) }
    }

    /// Counts a thread that was written.
    pub fn thread(&self) {
        self.threads.fetch_add(1, Ordering::Relaxed);
        self.look();
    }

    /// Counts events of a thread that is not complete yet.
    pub fn events(&self, count: u64) {
        self.events.fetch_add(count, Ordering::Relaxed);
        self.look();
    }

    fn look(&self) {
        let (threads, events) = (self.threads.load(Ordering::Relaxed), self.events.load(Ordering::Relaxed));
        self.progress
            .bar(threads, self.total, || format!("{} {threads} of {} threads, {events} events", self.verb, self.total));
    }
}
