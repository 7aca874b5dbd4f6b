//! Execution of the statements of cold tables.

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;

use super::{SqliteStore, fetch, rows::text_of};
use crate::{
    StoreResult,
    sql::tables::{Statements, Tables, Value, bound},
};

pub(super) const STATEMENTS: Statements = Statements {
    put_ticket: text_of(include_str!("../../queries/sqlite/put_ticket.sql")),
    sweep_tickets: text_of(include_str!("../../queries/sqlite/sweep_tickets.sql")),
    put_snapshot: text_of(include_str!("../../queries/sqlite/put_snapshot.sql")),
    unprojected: text_of(include_str!("../../queries/sqlite/unprojected.sql")),
};

#[async_trait]
impl Tables for SqliteStore {
    type Row = SqliteRow;

    const STATEMENTS: Statements = STATEMENTS;

    fn kept(text: &str) -> String {
        text.to_owned()
    }

    async fn found(&self, text: &'static str, values: Vec<Value>) -> StoreResult<Vec<SqliteRow>> {
        Ok(self.read_rows(bound(text, values)).await?)
    }

    async fn changed(&self, text: &'static str, values: Vec<Value>) -> StoreResult<Vec<SqliteRow>> {
        let statement = bound(text, values);
        self.transact(move |connection| Box::pin(fetch::rows(connection, statement))).await
    }
}
