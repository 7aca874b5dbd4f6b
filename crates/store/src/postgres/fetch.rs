//! Execution of statements, and the meaning of their errors.

use sqlx::{
    Postgres,
    postgres::{PgArguments, PgRow},
    query::Query,
};

use crate::{LineageCause, StoreError};

/// A statement with its arguments.
pub(super) type Statement<'q> = Query<'q, Postgres, PgArguments>;

/// Answer of a piece of work on a connection.
pub(super) type Work<T> = Result<T, Failure>;

/// The rows of a statement.
pub(super) type Rows = Vec<PgRow>;

/// Failure of a piece of work, with its kind.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: StoreError,
    pub(super) kind: Kind,
}

/// Consequence of a failure for the work and for the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The connection is not to be trusted any further, nor any that was opened before it. The effect of the work is
    /// unknown.
    Broken,
    /// The work was not done, because of locks of others or too much load at once: a timeout, a deadlock.
    Busy,
    /// The work was not done, because of its content: bad data, no space.
    Refused,
    /// The work was not done, because a unique index has the value already: another transaction was first, or stored
    /// data contradicts itself.
    Duplicate,
}

impl Failure {
    /// The database cannot be reached, or does not answer.
    pub(super) fn broken(why: impl std::fmt::Display) -> Self {
        Self { error: StoreError::Unavailable(why.to_string()), kind: Kind::Broken }
    }

    /// The database received no statement.
    pub(super) fn busy(why: impl std::fmt::Display) -> Self {
        Self { error: StoreError::Unavailable(why.to_string()), kind: Kind::Busy }
    }
}

impl Failure {
    /// The server has another history than the known one.
    pub(super) fn fenced(cause: LineageCause) -> Self {
        Self { error: StoreError::Fenced(cause.name()), kind: Kind::Broken }
    }
}

/// The database received no statement, or its answer is not understood.
impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let kind = if matches!(error, StoreError::Corrupt(_)) { Kind::Refused } else { Kind::Busy };
        Self { error, kind }
    }
}

/// Error code of the function `threadline_lineage`.
const UNADOPTED: &str = "TL001";

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|error| error.code()).map(|code| code.into_owned());
        if code.as_deref() == Some(UNADOPTED) {
            return Self::fenced(LineageCause::Timeline);
        }
        let text = error.to_string();
        let (kind, corrupt) = match code.as_deref() {
            Some("23505") => (Kind::Duplicate, true),
            // Connection lost, server going down or starting, a server that only reads now, a prepared statement that a
            // pooler removed: the next connection may work.
            Some("25006" | "26000") => (Kind::Broken, false),
            Some(code) => match &code[..2.min(code.len())] {
                "08" => (Kind::Broken, false),
                "57" if code.starts_with("57P") => (Kind::Broken, false),
                // Data exceptions and constraints; a damaged page or index.
                "22" | "23" | "XX" => (Kind::Refused, true),
                // No space; too large or too complex.
                "53" | "54" => (Kind::Refused, false),
                // Timeouts, deadlocks, missing rights.
                _ => (Kind::Busy, false),
            },
            None => match error {
                sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::Encode(_) => {
                    (Kind::Refused, true)
                }
                _ => (Kind::Broken, false),
            },
        };
        let error = if corrupt { StoreError::Corrupt(text) } else { StoreError::Unavailable(text) };
        Self { error, kind }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}
