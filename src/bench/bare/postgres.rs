//! The group commit in Postgres, and the commit of a single event.

use std::time::{Duration, Instant};

use sqlx::{PgConnection, query};

use super::{
    super::{BenchError, servers::Database},
    Request,
};
use crate::{
    domain::limits::{PG_PIPELINES, STOP_GRACE},
    store::postgres::{GROUP, ONE},
};

/// Heads to append to, and the connections of the group commits.
pub(super) async fn with_heads(database: &Database, threads: usize) -> Result<Vec<PgConnection>, BenchError> {
    let mut connections = database.connections(PG_PIPELINES).await?;
    if let Some(connection) = connections.first_mut() {
        let heads = "INSERT INTO heads (key, epoch, fence, run, lease_ms, active)
                     SELECT key, 1, 1, 'bare', 3600000, TRUE FROM generate_series(1, $1::bigint) AS key";
        query(heads).bind(threads as i64).execute(connection).await?;
    }
    Ok(connections)
}

pub(super) async fn commit(connection: &mut PgConnection, group: &mut [Request]) -> Result<(), BenchError> {
    // Heads are locked in the order of their keys, so that two connections never wait in a circle.
    group.sort_unstable_by_key(|request| request.key);
    let all = |value| vec![value; group.len()];
    let statement = query(GROUP)
        .bind(None::<i64>)
        .bind(group.iter().map(|request| request.key).collect::<Vec<_>>())
        .bind(all(Some(1i64)))
        .bind(all(None))
        .bind(group.iter().map(|request| request.events as i64).collect::<Vec<_>>())
        .bind(STOP_GRACE.as_millis() as i64)
        .bind(group.iter().map(|request| &request.body[..]).collect::<Vec<_>>());
    let committed = statement.fetch_all(connection).await?.len();
    if committed == group.len() {
        return Ok(());
    }
    Err(BenchError::Unexpected(format!("{committed} of {} batches were committed", group.len())))
}

/// A run of the bare program, which one connection appends to: one event, one statement, one commit.
pub struct Single {
    connection: PgConnection,
    _database: Database,
}

impl Single {
    /// In a database that nothing else is in.
    pub async fn open(database: Database) -> Result<Self, BenchError> {
        let mut connections = with_heads(&database, 1).await?;
        let connection = connections.pop().ok_or_else(|| BenchError::Unexpected("no connection".to_owned()))?;
        Ok(Self { connection, _database: database })
    }

    /// The time that committing an event takes.
    pub async fn trip(&mut self, body: &str) -> Result<Duration, BenchError> {
        let start = Instant::now();
        let statement = query(ONE)
            .bind(None::<i64>)
            .bind(1i64)
            .bind(1i64)
            .bind(None::<i64>)
            .bind(1i64)
            .bind(STOP_GRACE.as_millis() as i64)
            .bind(body.as_bytes());
        statement.fetch_one(&mut self.connection).await?;
        Ok(start.elapsed())
    }

    /// [`Single::trip`] for each body.
    pub async fn trips(&mut self, bodies: &[String]) -> Result<Vec<Duration>, BenchError> {
        let mut times = Vec::with_capacity(bodies.len());
        for body in bodies {
            times.push(self.trip(body).await?);
        }
        Ok(times)
    }
}
