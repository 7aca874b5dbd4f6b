//! Moves threads between stores through files: `threadline export` and `threadline import`.
//!
//! ```text
//!   store ──► one file per thread, then the manifest ──► staged unseen ──► published, thread by thread ──► store
//! ```
//!
//! The files are described in `proto/export.md`. Both commands may be interrupted at any moment and repeated: a thread
//! is complete or absent, and existing data is verified and skipped.

mod annotations;
mod compare;
mod directory;
mod export;
mod format;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod import;
mod manifest;
mod projects;
mod reading;
mod restored;

use std::{
    fmt, io,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

pub use export::export;
pub use import::import;
pub use manifest::Selection;
pub use restored::restored;

use crate::{progress::Progress, store::StoreError};

/// Reason why a command stops. Data moved so far stays; the command may be repeated.
#[derive(Debug, thiserror::Error)]
pub enum MovingError {
    /// A file or directory cannot be used.
    #[error("cannot use {path}: {1}", path = .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// The directory holds other files.
    #[error("{path} is not empty and contains no export: choose another directory", path = .0.display())]
    NotAnExport(PathBuf),
    /// The directory holds an export of other threads.
    #[error("{path} contains an export of {1}: choose another directory, or remove that export", path = .0.display())]
    OtherSelection(PathBuf, Selection),
    /// Another export or import is running on the directory.
    #[error("another export or import is using {path}: wait until it ends", path = .0.display())]
    InUse(PathBuf),
    /// The directory holds no export.
    #[error("{path} contains no export", path = .0.display())]
    Nothing(PathBuf),
    /// The export is not finished.
    #[error("the export in {path} is incomplete: run the same `threadline export` again to continue it",
            path = .0.display())]
    Unfinished(PathBuf),
    /// Damage of a file that every import needs.
    #[error("{0}")]
    Damaged(Damage),
    /// A thread named on the command line does not exist.
    #[error("thread not found: {0}")]
    NoThread(String),
    /// Failure of the store.
    #[error("{0}\nRun the same command again to continue.")]
    Store(#[from] StoreError),
    /// A background task panicked or was cancelled.
    #[error("a task failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Damage of a file of an export, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Name of the file in the manifest.
    pub file: String,
    /// Line number, from 1; `None` if unknown.
    pub line: Option<u64>,
    /// Description of the fault.
    pub what: String,
}

impl Damage {
    fn whole(file: &str, what: impl fmt::Display) -> Self {
        Self { file: file.to_owned(), line: None, what: what.to_string() }
    }

    fn at(file: &str, line: u64, what: impl fmt::Display) -> Self {
        Self { file: file.to_owned(), line: Some(line), what: what.to_string() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

/// Counts of an export or import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Threads that were written.
    pub threads: u64,
    /// Events of the written threads.
    pub events: u64,
    /// Threads that existed already, unchanged.
    pub present: u64,
    /// Threads, agents, projects and keys that were refused.
    pub refused: u64,
}

/// Item that was refused, while the rest is moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Thread, agent, project or key that was refused.
    pub what: String,
    /// Reason, and advice to the user.
    pub why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// Progress of an export or import.
struct Counter<'p> {
    progress: &'p Progress,
    verb: &'static str,
    total: u64,
    threads: AtomicU64,
    events: AtomicU64,
}

impl<'p> Counter<'p> {
    fn new(progress: &'p Progress, verb: &'static str, total: u64) -> Self {
        Self { progress, verb, total, threads: AtomicU64::new(0), events: AtomicU64::new(0) }
    }

    fn thread(&self) {
        self.threads.fetch_add(1, Ordering::Relaxed);
        self.look();
    }

    fn events(&self, count: u64) {
        self.events.fetch_add(count, Ordering::Relaxed);
        self.look();
    }

    fn look(&self) {
        let (threads, events) = (self.threads.load(Ordering::Relaxed), self.events.load(Ordering::Relaxed));
        self.progress
            .bar(threads, self.total, || format!("{} {threads} of {} threads, {events} events", self.verb, self.total));
    }
}
