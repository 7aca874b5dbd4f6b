//! Failure to open a database.

use crate::{SecretsError, StoreError};

/// Failure to open a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database was migrated by a newer program, and is of no use to this one.
    #[error(
        "the database has schema version {found} and requires a program that knows version {min_reader}, but this one knows \
         versions up to {known}: run a newer release"
    )]
    Newer {
        /// Schema version of the database.
        found: i64,
        /// Oldest schema version that a program has to know in order to use the database.
        min_reader: i64,
        /// Newest schema version that this program knows.
        known: i64,
    },
    /// The database has tables with Threadline's names, but no schema version.
    #[error("the database contains tables of another program: use a separate database for Threadline")]
    Foreign,
    /// The server lacks features that the statements need.
    #[error("PostgreSQL {found} is too old: version 13 or later is required")]
    OldServer {
        /// Version of the server.
        found: String,
    },
    /// The database cannot store texts unchanged.
    #[error("the database has the encoding {found}: create one with ENCODING 'UTF8'")]
    Encoding {
        /// Encoding of the database.
        found: String,
    },
    /// The URL has an unknown value of `pooler`.
    #[error("unknown pooler={found}: expected pooler=transaction or pooler=session")]
    Pooler {
        /// Value of `pooler` in the URL.
        found: String,
    },
    /// The URL has an unknown value of `target_session_attrs`.
    #[error("unknown target_session_attrs={found}: expected read-write, primary or any")]
    Target {
        /// Value of `target_session_attrs` in the URL.
        found: String,
    },
    /// The URL has a parameter that libpq does not have either.
    #[error(
        "unknown parameter {found} in the URL: expected pooler, target_session_attrs, sslmode, sslrootcert, sslcert, sslkey, \
         application_name or options"
    )]
    Parameter {
        /// Name of the parameter.
        found: String,
    },
    /// The process cannot use the secrets of the store.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The lineage of the database cannot be read or continued.
    #[error("cannot open the database: {0}")]
    Store(#[from] StoreError),
    /// Any other error of the database.
    #[error("cannot open the database: {0}")]
    Database(#[from] sqlx::Error),
}

impl OpenError {
    /// True if the same database may open later: the server cannot be reached, is starting or shutting down, or has no
    /// connection left. Wrong passwords, missing databases and unsuitable servers need a person.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Newer { .. }
            | Self::Foreign
            | Self::OldServer { .. }
            | Self::Encoding { .. }
            | Self::Pooler { .. }
            | Self::Target { .. }
            | Self::Parameter { .. }
            | Self::Secrets(_) => false,
            Self::Store(error) => !matches!(error, StoreError::Corrupt(_)),
            Self::Database(error) => passes(error),
        }
    }
}

/// True if the same request may succeed later.
pub(super) fn passes(error: &sqlx::Error) -> bool {
    if matches!(error, sqlx::Error::Io(_)) {
        return true;
    }
    let code = error.as_database_error().and_then(|error| error.code());
    // Connection exceptions, operator intervention, insufficient resources; a lock timeout of the migration.
    code.is_some_and(|code| ["08", "57P", "53"].iter().any(|class| code.starts_with(class)) || code == "55P03")
}
