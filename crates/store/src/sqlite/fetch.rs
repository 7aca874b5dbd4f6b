//! Execution of statements, and the meaning of their errors.

use sqlx::{
    Sqlite, SqliteConnection,
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};

use super::super::StoreError;

/// A statement with its arguments.
pub(super) type Statement<'q> = Query<'q, Sqlite, SqliteArguments>;

/// Result of a piece of work on a connection.
pub(super) type Work<T> = Result<T, Failure>;

/// Failure of a piece of work.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: StoreError,
    /// True if the connection must not be used any further.
    pub(super) broken: bool,
    /// True if SQLite has found the file to be damaged. Data that contradicts itself is not damage.
    pub(super) damaged: bool,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self { error, broken: false, damaged: false }
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        // SQLITE_IOERR 10, CORRUPT 11, CONSTRAINT 19, NOTADB 26; the low byte of the extended code.
        let code = error.as_database_error().and_then(|error| error.code()).and_then(|code| code.parse::<i64>().ok());
        let text = error.to_string();
        let code = code.map(|code| code & 0xff);
        let undecoded = matches!(error, sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_));
        let (corrupt, broken) = match code {
            Some(10) => (false, true),
            Some(11 | 26) => (true, true),
            Some(19) => (true, false),
            Some(_) => (false, false),
            None => (undecoded, !undecoded),
        };
        let error = if corrupt { StoreError::Corrupt(text) } else { StoreError::Unavailable(text) };
        Self { error, broken, damaged: matches!(code, Some(11 | 26)) }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// Runs all statements of a text to their end; returns how many rows they changed.
///
/// `fetch_optional` and `fetch_one` would stop at the first row and never reach the statements after it.
pub(super) async fn change(connection: &mut SqliteConnection, statement: Statement<'_>) -> Work<u64> {
    Ok(statement.execute(connection).await?.rows_affected())
}

/// Does the same as [`change`], for callers that do not need the number.
pub(super) async fn run(connection: &mut SqliteConnection, statement: Statement<'_>) -> Work<()> {
    change(connection, statement).await.map(drop)
}

/// Runs all statements of a text to their end; returns their rows.
pub(super) async fn rows(connection: &mut SqliteConnection, statement: Statement<'_>) -> Work<Vec<SqliteRow>> {
    Ok(statement.fetch_all(connection).await?)
}

/// Does the same as [`rows`], for statements with at most one row.
pub(super) async fn row(connection: &mut SqliteConnection, statement: Statement<'_>) -> Work<Option<SqliteRow>> {
    Ok(rows(connection, statement).await?.pop())
}
