//! Execution of the statements of cold tables.

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;

use super::{SqliteStore, fetch, rows::text_of};
use crate::{
    StoreResult,
    sql::tables::{Tables, Value, bound},
};

pub(super) const PUT_TICKET: &str = text_of(include_str!("../../queries/sqlite/put_ticket.sql"));
pub(super) const SWEEP_TICKETS: &str = text_of(include_str!("../../queries/sqlite/sweep_tickets.sql"));
const PUT_SNAPSHOT: &str = text_of(include_str!("../../queries/sqlite/put_snapshot.sql"));
pub(super) const UNPROJECTED: &str = text_of(include_str!("../../queries/sqlite/unprojected.sql"));

#[async_trait]
impl Tables for SqliteStore {
    type Row = SqliteRow;

    const PUT_TICKET: &'static str = PUT_TICKET;
    const SWEEP_TICKETS: &'static str = SWEEP_TICKETS;
    const PUT_SNAPSHOT: &'static str = PUT_SNAPSHOT;
    const UNPROJECTED: &'static str = UNPROJECTED;

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
