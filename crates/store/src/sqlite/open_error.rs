//! Failure to open a data directory.

use std::path::PathBuf;

use crate::{SecretsError, StoreError, private::Exposed};

/// Failure to open a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the store open.
    #[error(
        "{} is in use by another process: stop that process, or choose another data directory",
        path.display()
    )]
    Locked {
        /// Path of the lock file.
        path: PathBuf,
    },
    /// The directory or its lock file cannot be created or opened.
    #[error("cannot use {}: {source}", path.display())]
    Directory {
        /// Path that could not be used.
        path: PathBuf,
        /// Error of the file system.
        source: std::io::Error,
    },
    /// Other users may read the files, and their modes cannot be restricted.
    #[error(transparent)]
    Exposed(#[from] Exposed),
    /// The process cannot use the secrets of the store.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The file was migrated by a newer program, and is of no use to this one.
    #[error(
        "the database has schema version {found} and requires a program that knows version {min_reader}, but this one knows \
         versions up to {known}: run a newer release"
    )]
    Newer {
        /// Schema version of the file.
        found: i64,
        /// Oldest schema version that a program has to know in order to use the file.
        min_reader: i64,
        /// Newest schema version that this program knows.
        known: i64,
    },
    /// The file is a database, but not one of Threadline's.
    #[error("{} contains tables of another program", path.display())]
    Foreign {
        /// Path of the database file.
        path: PathBuf,
    },
    /// The version of SQLite has a known corruption bug.
    #[error("SQLite {found} has a known corruption bug: version 3.51.3 or later is required")]
    OldSqlite {
        /// Version of SQLite in use.
        found: String,
    },
    /// The lineage of the file cannot be read or continued.
    #[error("cannot open the database: {0}")]
    Store(#[from] StoreError),
    /// Any other error of the database.
    #[error("cannot open the database: {0}")]
    Database(#[from] sqlx::Error),
}
