//! What only a store in PostgreSQL can be asked.

mod faults;
mod nodes;
mod opening;
mod plans;
mod pooler;

use std::{sync::Arc, time::Duration};

use threadline::store::postgres::PgStore;

use crate::{backing::postgres::Postgres, support::*};

/// A database of its own; its URL and its name.
fn database() -> (String, String) {
    let url = Postgres::shared().fresh_database();
    let name = url.rsplit('/').next().expect("a name").to_owned();
    (url, name)
}

/// Another node over a database.
async fn node(url: &str, like: &Env) -> Env {
    let store = PgStore::open(url, like.clock.clone()).await.expect("opens");
    Env { store: Arc::new(store), clock: like.clock.clone(), dir: None }
}

async fn first_node(url: &str) -> Env {
    node(url, &Env::memory()).await
}

/// Fails if it takes longer than it may.
async fn within<T>(seconds: u64, what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), what).await.expect("in time")
}
