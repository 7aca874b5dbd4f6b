//! What only a store in PostgreSQL can be asked.

mod erasure;
mod faults;
mod feeds;
mod lineage;
mod nodes;
mod opening;
mod plans;
mod pooler;
mod servers;

use std::{sync::Arc, time::Duration};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use threadline_core::Clock;
use threadline_store::postgres::PgStore;

use crate::{backing::postgres::Postgres, support::*};

/// A session of the test's own.
async fn session(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("connects")
}

async fn execute(session: &mut PgConnection, text: &str) {
    sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(session).await.expect("SQL");
}

/// The first column of the first row.
async fn ask(url: &str, text: &str) -> i64 {
    let text = AssertSqlSafe(format!("SELECT ({text})::bigint"));
    sqlx::query_scalar(text).fetch_one(&mut session(url).await).await.expect("SQL")
}

/// A node over a database.
async fn node(url: &str, clock: &Clock) -> (Env, PgStore) {
    let store = PgStore::open(url, clock.clone()).await.expect("opens");
    (Env { store: Arc::new(store.clone()), clock: clock.clone(), dir: None }, store)
}

/// Fails if it takes longer than it may.
async fn within<T>(seconds: u64, what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), what).await.expect("in time")
}
