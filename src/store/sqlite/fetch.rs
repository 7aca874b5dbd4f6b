//! Running statements, and what their errors mean.

use sqlx::{
    Sqlite, SqliteConnection,
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};

use super::super::StoreError;

/// A statement with its arguments.
pub(super) type Statement<'q> = Query<'q, Sqlite, SqliteArguments>;

/// Answer of a piece of work on a connection.
pub(super) type Work<T> = Result<T, Failure>;

/// Why a piece of work failed, and whether its connection is to be trusted any further.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: StoreError,
    pub(super) broken: bool,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self { error, broken: false }
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        // SQLITE_IOERR 10, CORRUPT 11, CONSTRAINT 19, NOTADB 26; the low byte of the extended code.
        let code = error.as_database_error().and_then(|error| error.code()).and_then(|code| code.parse::<i64>().ok());
        let text = error.to_string();
        match code.map(|code| code & 0xff) {
            Some(10) => Self { error: StoreError::Unavailable(text), broken: true },
            Some(11 | 26) => Self { error: StoreError::Corrupt(text), broken: true },
            Some(19) => Self { error: StoreError::Corrupt(text), broken: false },
            Some(_) => Self { error: StoreError::Unavailable(text), broken: false },
            None => match error {
                sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                    Self { error: StoreError::Corrupt(text), broken: false }
                }
                _ => Self { error: StoreError::Unavailable(text), broken: true },
            },
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// Runs all statements of a text to their end; how many rows they changed.
///
/// `fetch_optional` and `fetch_one` would stop at the first row and never reach the statements behind it: here
/// everything is run to its end.
pub(super) async fn change(connection: &mut SqliteConnection, statement: Statement<'_>) -> Work<u64> {
    Ok(statement.execute(connection).await?.rows_affected())
}

/// [`change`], whatever the number.
pub(super) async fn run(connection: &mut SqliteConnection, statement: Statement<'_>) -> Work<()> {
    change(connection, statement).await.map(drop)
}

/// Runs all statements of a text to their end; their rows.
pub(super) async fn rows(connection: &mut SqliteConnection, statement: Statement<'_>) -> Work<Vec<SqliteRow>> {
    Ok(statement.fetch_all(connection).await?)
}

/// [`rows`], of which there is at most one.
pub(super) async fn row(connection: &mut SqliteConnection, statement: Statement<'_>) -> Work<Option<SqliteRow>> {
    Ok(rows(connection, statement).await?.pop())
}
