//! Execution of the statements of cold tables.

use async_trait::async_trait;
use sqlx::postgres::PgRow;

use super::{
    PgStore,
    rows::{self, text_of},
};
use crate::{
    StoreResult,
    sql::tables::{Tables, Value, bound},
};

pub(super) const PUT_TICKET: &str = text_of(include_str!("../../queries/postgres/put_ticket.sql"));
pub(super) const SWEEP_TICKETS: &str = text_of(include_str!("../../queries/postgres/sweep_tickets.sql"));
const PUT_SNAPSHOT: &str = text_of(include_str!("../../queries/postgres/put_snapshot.sql"));
pub(super) const UNPROJECTED: &str = text_of(include_str!("../../queries/postgres/unprojected.sql"));

#[async_trait]
impl Tables for PgStore {
    type Row = PgRow;

    const PUT_TICKET: &'static str = PUT_TICKET;
    const SWEEP_TICKETS: &'static str = SWEEP_TICKETS;
    const PUT_SNAPSHOT: &'static str = PUT_SNAPSHOT;
    const UNPROJECTED: &'static str = UNPROJECTED;

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
