//! Group commit in SQLite.

use std::{collections::HashMap, path::Path};

use serde_json::{Value, json};
use sqlx::{
    ConnectOptions, Row, SqliteConnection, query, raw_sql,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use super::{super::BenchError, Request};
use threadline_core::limits::{SQLITE_CACHE_KIB, WAL_CHECKPOINT_PAGES, WAL_LIMIT_BYTES};
use threadline_store::sqlite::statements::{GROUP, WRITE_COMMIT};

/// Steps of the schema that the statements need.
const SCHEMA: [&str; 6] = [
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/sqlite/0001_initial.sql")),
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/sqlite/0002_projections_and_agents.sql")),
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/sqlite/0007_nodes.sql")),
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/sqlite/0012_runs.sql")),
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/sqlite/0014_queue.sql")),
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/sqlite/0015_forks.sql")),
];

/// Opens a database file with the settings of the store.
pub async fn open(file: &Path) -> Result<SqliteConnection, sqlx::Error> {
    SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .foreign_keys(false)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("temp_store", "memory")
        .pragma("cache_size", format!("-{SQLITE_CACHE_KIB}"))
        .pragma("wal_autocheckpoint", WAL_CHECKPOINT_PAGES.to_string())
        .pragma("journal_size_limit", WAL_LIMIT_BYTES.to_string())
        .disable_statement_logging()
        .connect()
        .await
}

/// Creates a file in `dir`, with heads to append to.
pub(super) async fn with_heads(dir: &Path, threads: usize) -> Result<SqliteConnection, BenchError> {
    let mut connection = open(&dir.join("bare.db")).await?;
    for step in SCHEMA {
        raw_sql(step).execute(&mut connection).await?;
    }
    let heads = "INSERT INTO heads (key, epoch, fence, run, lease_ms) \
                 SELECT value, 1, 1, 'bare', 3600000 FROM json_each(?)";
    let keys = json!((1..=threads).collect::<Vec<_>>()).to_string();
    query(heads).bind(keys).execute(&mut connection).await?;
    Ok(connection)
}

pub(super) async fn commit(connection: &mut SqliteConnection, group: &[Request]) -> Result<(), BenchError> {
    let now = jiff::Timestamp::now().as_millisecond();
    let wanted: Vec<_> =
        group.iter().map(|request| json!([request.key, 1, null, request.events, null, 0, 0])).collect();
    let heads = query(GROUP).bind(Value::Array(wanted).to_string()).bind(now).bind(0i64);
    let mut tails = HashMap::new();
    for row in heads.fetch_all(&mut *connection).await? {
        tails.insert(row.try_get::<i64, _>(0)?, row.try_get::<i64, _>(2)?);
    }
    let (mut bodies, mut entries) = (Vec::new(), Vec::new());
    for request in group {
        let tail = tails.get(&request.key).copied().unwrap_or_default();
        let first = tail + 1 - request.events as i64;
        entries.push(json!([request.key, 1, first, tail, bodies.len() + 1, request.body.len(), null, now]));
        bodies.extend_from_slice(&request.body);
    }
    let insert = query(WRITE_COMMIT).bind(Value::Array(entries).to_string()).bind(bodies);
    insert.execute(&mut *connection).await?;
    Ok(())
}
