//! The bare program: the statements of a group commit on one connection, and nothing around them.

use std::{collections::HashMap, path::Path, time::Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use sqlx::{
    ConnectOptions, Connection, Row, SqliteConnection, query, raw_sql,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use super::BenchError;
use crate::{
    domain::limits::{COMMIT_MAX_REQUESTS, COMMIT_QUEUE, SQLITE_CACHE_KIB, WAL_CHECKPOINT_PAGES, WAL_LIMIT_BYTES},
    store::sqlite::{GROUP, WRITE_COMMIT},
};

const SCHEMA: &str = include_str!("../../migrations/sqlite/0001_initial.sql");

/// A batch on its way.
struct Request {
    key: i64,
    events: usize,
    body: Bytes,
    done: oneshot::Sender<()>,
}

/// Opens a database file as the store does.
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

/// `writers` tasks, each of which hands in a batch, waits until it is durable, and hands in the next, until `end`.
/// How many events a second were made durable.
pub async fn append(
    dir: &Path,
    writers: usize,
    batch: usize,
    bodies: &[Bytes],
    span: std::time::Duration,
) -> Result<f64, BenchError> {
    let mut connection = open(&dir.join("bare.db")).await?;
    raw_sql(SCHEMA).execute(&mut connection).await?;
    let heads = "INSERT INTO heads (key, epoch, fence, run, lease_ms) \
                 SELECT value, 1, 1, 'bare', 3600000 FROM json_each(?)";
    let keys = json!((1..=writers).collect::<Vec<_>>()).to_string();
    query(heads).bind(keys).execute(&mut connection).await?;

    let (requests, mut queue) = mpsc::channel::<Request>(COMMIT_QUEUE);
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    for writer in 0..writers {
        let (requests, bodies) = (requests.clone(), bodies.to_vec());
        tasks.spawn(async move {
            let mut appended = 0;
            for number in writer.. {
                if start.elapsed() >= span {
                    break;
                }
                let (done, wait) = oneshot::channel();
                let body = bodies[number % bodies.len()].clone();
                let request = Request { key: writer as i64 + 1, events: batch, body, done };
                if requests.send(request).await.is_err() || wait.await.is_err() {
                    break;
                }
                appended += batch;
            }
            appended
        });
    }
    drop(requests);
    let mut group = Vec::new();
    while queue.recv_many(&mut group, COMMIT_MAX_REQUESTS).await > 0 {
        commit(&mut connection, &group).await?;
        for request in group.drain(..) {
            let _ = request.done.send(());
        }
    }
    let mut appended = 0;
    while let Some(task) = tasks.join_next().await {
        appended += task?;
    }
    let rate = appended as f64 / start.elapsed().as_secs_f64();
    connection.close().await?;
    Ok(rate)
}

async fn commit(connection: &mut SqliteConnection, group: &[Request]) -> Result<(), BenchError> {
    let now = jiff::Timestamp::now().as_millisecond();
    let wanted: Vec<_> = group.iter().map(|request| json!([request.key, 1, null, request.events])).collect();
    let heads = query(GROUP).bind(Value::Array(wanted).to_string()).bind(now).bind(0i64);
    let mut tails = HashMap::new();
    for row in heads.fetch_all(&mut *connection).await? {
        tails.insert(row.try_get::<i64, _>(0)?, row.try_get::<i64, _>(2)?);
    }
    let (mut bodies, mut entries) = (Vec::new(), Vec::new());
    for request in group {
        let tail = tails.get(&request.key).copied().unwrap_or_default();
        let first = tail + 1 - request.events as i64;
        entries.push(json!([request.key, 1, first, tail, bodies.len() + 1, request.body.len()]));
        bodies.extend_from_slice(&request.body);
    }
    let insert = query(WRITE_COMMIT).bind(Value::Array(entries).to_string()).bind(now).bind(bodies);
    insert.execute(&mut *connection).await?;
    Ok(())
}
