//! Failures of an export or import, and what it refuses.

use std::{fmt, io, path::PathBuf};

use super::selection::Selection;
use threadline_store::StoreError;

/// Reason why a command stops. Data moved so far stays; the command may be repeated.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
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
    /// Damage of a whole file.
    pub fn whole(file: &str, what: impl fmt::Display) -> Self {
        Self { file: file.to_owned(), line: None, what: what.to_string() }
    }

    /// Damage of one line.
    pub fn at(file: &str, line: u64, what: impl fmt::Display) -> Self {
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

/// Item that was refused, while the rest is moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Thread, agent, project, key or plain stream that was refused.
    pub what: String,
    /// Reason, and advice to the user.
    pub why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}
