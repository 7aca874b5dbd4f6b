//! Execution of the statements of cold tables.

use async_trait::async_trait;
use sqlx::postgres::PgRow;

use super::{
    PgStore,
    rows::{self, text_of},
};
use crate::{
    StoreResult,
    sql::tables::{Statements, Tables, Value, bound},
};

pub(super) const STATEMENTS: Statements = Statements {
    put_ticket: text_of(include_str!("../../queries/postgres/put_ticket.sql")),
    sweep_tickets: text_of(include_str!("../../queries/postgres/sweep_tickets.sql")),
    put_snapshot: text_of(include_str!("../../queries/postgres/put_snapshot.sql")),
    unprojected: text_of(include_str!("../../queries/postgres/unprojected.sql")),
};

#[async_trait]
impl Tables for PgStore {
    type Row = PgRow;

    const STATEMENTS: Statements = STATEMENTS;

    fn kept(text: &str) -> String {
        rows::text(text.to_owned())
    }

    async fn found(&self, text: &'static str, values: Vec<Value>) -> StoreResult<Vec<PgRow>> {
        self.read_rows(bound(text, values)).await
    }

    async fn changed(&self, text: &'static str, values: Vec<Value>) -> StoreResult<Vec<PgRow>> {
        self.write(bound(text, values)).await
    }
}
