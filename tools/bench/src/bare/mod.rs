//! Bare program: the statements of a group commit, on as many connections as the store commits over, without any other
//! code.

use std::time::{Duration, Instant};

use bytes::Bytes;
use sqlx::{PgConnection, SqliteConnection};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use super::{BenchError, place::Place};
use threadline_core::limits::{COMMIT_MAX_REQUESTS, COMMIT_QUEUE};

pub mod postgres;
pub mod sqlite;

/// Batch on its way to a commit.
struct Request {
    key: i64,
    events: usize,
    body: Bytes,
    done: oneshot::Sender<()>,
}

/// Connection of the bare program.
enum Connection {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Connection {
    async fn commit(&mut self, group: &mut [Request]) -> Result<(), BenchError> {
        match self {
            Self::Sqlite(connection) => sqlite::commit(connection, group).await,
            Self::Postgres(connection) => postgres::commit(connection, group).await,
        }
    }

    async fn close(self) -> Result<(), BenchError> {
        match self {
            Self::Sqlite(connection) => sqlx::Connection::close(connection).await?,
            Self::Postgres(connection) => sqlx::Connection::close(connection).await?,
        }
        Ok(())
    }
}

/// Creates heads with the keys 1 to `threads`, and opens the connections that append to them.
async fn open(place: &Place, threads: usize) -> Result<Vec<Connection>, BenchError> {
    Ok(match place {
        Place::Directory(data) => vec![Connection::Sqlite(sqlite::with_heads(data.path(), threads).await?)],
        Place::Database(database) => {
            let connections = postgres::with_heads(database, threads).await?;
            connections.into_iter().map(Connection::Postgres).collect()
        }
    })
}

/// Runs `writers` tasks for `span`, each of which submits a batch, waits until it is durable, and submits the next.
/// Returns the rate of durable events per second.
pub async fn append(
    place: &Place,
    writers: usize,
    batch: usize,
    bodies: &[Bytes],
    span: Duration,
) -> Result<f64, BenchError> {
    let connections = open(place, writers).await?;
    let start = Instant::now();
    let (mut queues, mut commits, mut tasks) = (Vec::new(), JoinSet::new(), JoinSet::new());
    for connection in connections {
        let (requests, queue) = mpsc::channel::<Request>(COMMIT_QUEUE);
        queues.push(requests);
        commits.spawn(commit_all(connection, queue));
    }
    for writer in 0..writers {
        // All batches of a thread use the same connection, as in the store.
        let (requests, bodies) = (queues[writer % queues.len()].clone(), bodies.to_vec());
        tasks.spawn(async move {
            let mut appended = 0;
            for number in writer.. {
                let (done, wait) = oneshot::channel();
                let body = bodies[number % bodies.len()].clone();
                let request = Request { key: writer as i64 + 1, events: batch, body, done };
                if requests.send(request).await.is_err() || wait.await.is_err() {
                    break;
                }
                appended += batch;
                if start.elapsed() >= span {
                    break;
                }
            }
            appended
        });
    }
    drop(queues);
    let mut appended = 0;
    while let Some(task) = tasks.join_next().await {
        appended += task?;
    }
    let rate = appended as f64 / start.elapsed().as_secs_f64();
    while let Some(ended) = commits.join_next().await {
        ended??.close().await?;
    }
    Ok(rate)
}

/// Commits the requests that arrived during the previous commit, until all writers have ended.
async fn commit_all(mut connection: Connection, mut queue: mpsc::Receiver<Request>) -> Result<Connection, BenchError> {
    let mut group = Vec::new();
    while queue.recv_many(&mut group, COMMIT_MAX_REQUESTS).await > 0 {
        connection.commit(&mut group).await?;
        for request in group.drain(..) {
            let _ = request.done.send(());
        }
    }
    Ok(connection)
}
