//! Moving threads between stores by way of files: `threadline export` and `threadline import`.
//!
//! ```text
//!   store ──► one file per thread, then the manifest ──► staged unseen ──► published, thread by thread ──► store
//! ```
//!
//! The files are described in `proto/export.md`. Both ways may be broken off at any moment and begun again: a thread is
//! there whole or not at all, and what is there is checked and passed over.

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

/// Why nothing more is moved. What was moved until then stays; the command may be given again.
#[derive(Debug, thiserror::Error)]
pub enum MovingError {
    /// A file or directory cannot be used.
    #[error("cannot use {path}: {1}", path = .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// The directory holds something else.
    #[error("{path} is not empty and holds no export: choose another directory", path = .0.display())]
    NotAnExport(PathBuf),
    /// The directory holds an export of other threads.
    #[error("{path} holds an export of {1}: choose another directory, or remove that one", path = .0.display())]
    OtherSelection(PathBuf, Selection),
    /// Another export or import is at work there.
    #[error("another export or import is using {path}: wait for its end", path = .0.display())]
    InUse(PathBuf),
    /// There is no export.
    #[error("there is no export in {path}", path = .0.display())]
    Nothing(PathBuf),
    /// The export has no end.
    #[error("the export in {path} is not finished: give the same `threadline export` again, it goes on where it was",
            path = .0.display())]
    Unfinished(PathBuf),
    /// A file that everything rests on is damaged.
    #[error("{0}")]
    Damaged(Damage),
    /// A thread that was named is not there.
    #[error("there is no thread {0}")]
    NoThread(String),
    /// The store failed.
    #[error("{0}\nGive the same command again: it goes on where it was.")]
    Store(#[from] StoreError),
    /// A task of ours failed.
    #[error("a task failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// What is wrong with a file of an export, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file, as the manifest names it.
    pub file: String,
    /// The line, from 1; `None` if it cannot be told.
    pub line: Option<u64>,
    /// What is wrong.
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

/// What was moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Threads written now.
    pub threads: u64,
    /// Their events.
    pub events: u64,
    /// Threads that were there already, unchanged.
    pub present: u64,
    /// Threads, agents, projects and keys that were refused.
    pub refused: u64,
}

/// Something that was refused, while the rest is moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What: a thread, an agent, a project or a key.
    pub what: String,
    /// Why, and what to do.
    pub why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// How far it is.
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
