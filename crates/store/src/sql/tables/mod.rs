//! Cold tables, written once for both databases. Their statements number parameters `$1`, `$2`, …, which SQLite takes as
//! well, and a change answers with rows.

use async_trait::async_trait;
use sqlx::{Database, Encode, Type, query::Query};

use super::columns::Cells;
use crate::StoreResult;

pub(crate) mod agents;
pub(crate) mod identity;
pub(crate) mod snapshots;

/// A value of a statement.
pub(crate) enum Value {
    Int(i64),
    MaybeInt(Option<i64>),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Self {
        Self::MaybeInt(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<&[u8; 32]> for Value {
    fn from(digest: &[u8; 32]) -> Self {
        Self::Bytes(digest.to_vec())
    }
}

/// Statements of cold tables that differ between the databases; their parameters are the same.
pub(crate) struct Statements {
    /// Stores a ticket and removes expired ones: `$1` digest, `$2` bearer, `$3` until, `$4` now, `$5` limit.
    pub(crate) put_ticket: &'static str,
    /// Removes expired tickets, a row for each: `$1` now, `$2` limit.
    pub(crate) sweep_tickets: &'static str,
    /// Stores a snapshot and drops older ones: `$1` key, `$2` seq, `$3` version, `$4` bytes before compression, `$5` body,
    /// `$6` seqs to drop as a JSON array.
    pub(crate) put_snapshot: &'static str,
    /// Measures the events after the newest snapshot: `$1` key, `$2` version.
    pub(crate) unprojected: &'static str,
}

/// A database that runs the statements of cold tables.
#[async_trait]
pub(crate) trait Tables: Send + Sync {
    /// A row of the database.
    type Row: Cells + Send + Sync;

    /// Statements that differ between the databases.
    const STATEMENTS: Statements;

    /// A text of any characters, as the database can keep it.
    fn kept(text: &str) -> String;

    /// The rows of a statement that only reads.
    async fn found(&self, text: &'static str, values: Vec<Value>) -> StoreResult<Vec<Self::Row>>;

    /// The rows of a statement that is a transaction of its own.
    async fn changed(&self, text: &'static str, values: Vec<Value>) -> StoreResult<Vec<Self::Row>>;
}

/// A statement with its values.
pub(crate) fn bound<DB>(text: &'static str, values: Vec<Value>) -> Query<'static, DB, DB::Arguments>
where
    DB: Database,
    i64: for<'q> Encode<'q, DB> + Type<DB>,
    Option<i64>: for<'q> Encode<'q, DB> + Type<DB>,
    String: for<'q> Encode<'q, DB> + Type<DB>,
    Vec<u8>: for<'q> Encode<'q, DB> + Type<DB>,
{
    values.into_iter().fold(sqlx::query(text), |statement, value| match value {
        Value::Int(number) => statement.bind(number),
        Value::MaybeInt(number) => statement.bind(number),
        Value::Text(text) => statement.bind(text),
        Value::Bytes(bytes) => statement.bind(bytes),
    })
}
