//! Running statements, and what their errors mean.

use sqlx::{
    Postgres,
    postgres::{PgArguments, PgRow},
    query::Query,
};

use crate::store::StoreError;

/// A statement with its arguments.
pub(super) type Statement<'q> = Query<'q, Postgres, PgArguments>;

/// Answer of a piece of work on a connection.
pub(super) type Work<T> = Result<T, Failure>;

/// The rows of a statement.
pub(super) type Rows = Vec<PgRow>;

/// Why a piece of work failed, and whether connections made until now are to be trusted any further.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: StoreError,
    pub(super) broken: bool,
    /// A unique index refused: somebody else was first, or what is stored contradicts itself.
    pub(super) duplicate: bool,
}

impl Failure {
    /// The database cannot be reached, or does not answer.
    pub(super) fn gone(why: impl std::fmt::Display) -> Self {
        Self { error: StoreError::Unavailable(why.to_string()), broken: true, duplicate: false }
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|error| error.code()).map(|code| code.into_owned());
        let text = error.to_string();
        let unavailable = |text, broken| Self { error: StoreError::Unavailable(text), broken, duplicate: false };
        match code.as_deref() {
            Some("23505") => Self { error: StoreError::Corrupt(text), broken: false, duplicate: true },
            // Data exceptions and constraints; a damaged page or index.
            Some(code) if code.starts_with("22") || code.starts_with("23") || code.starts_with("XX") => {
                Self { error: StoreError::Corrupt(text), broken: false, duplicate: false }
            }
            // Connection lost, server going down or starting, a server that only reads now, a prepared statement that a
            // pooler took away: the next connection may be a better one.
            Some(code) if code.starts_with("08") || code.starts_with("57P") || matches!(code, "25006" | "26000") => {
                unavailable(text, true)
            }
            // Time-outs, no room, deadlocks, missing rights.
            Some(_) => unavailable(text, false),
            None => match error {
                sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::Encode(_) => {
                    Self { error: StoreError::Corrupt(text), broken: false, duplicate: false }
                }
                _ => unavailable(text, true),
            },
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}
