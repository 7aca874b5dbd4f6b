//! Group commit in Postgres, and single commits.

use sqlx::{PgConnection, query, query_scalar};

use super::{
    super::{BenchError, servers::Database},
    Request,
};
use threadline_core::limits::{PACK_FIRST_LOOK, PG_PIPELINES, STOP_GRACE};
use threadline_store::postgres::statements::{GROUP, ONE, START};

/// Creates heads to append to, and the connections of the group commits.
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
    // Heads are locked in the order of their keys, so that two connections cannot deadlock.
    group.sort_unstable_by_key(|request| request.key);
    let all = |value| vec![value; group.len()];
    let statement = query(GROUP)
        .bind(None::<i64>)
        .bind(group.iter().map(|request| request.key).collect::<Vec<_>>())
        .bind(all(Some(1i64)))
        .bind(all(None))
        .bind(group.iter().map(|request| request.events as i64).collect::<Vec<_>>())
        .bind(STOP_GRACE.as_millis() as i64)
        .bind(group.iter().map(|request| &request.body[..]).collect::<Vec<_>>())
        .bind(all(None::<i64>))
        .bind(all(None::<i64>))
        .bind(all(Some(0i64)));
    let committed = statement.fetch_all(connection).await?.len();
    if committed == group.len() {
        return Ok(());
    }
    Err(BenchError::Unexpected(format!("{committed} of {} batches were committed", group.len())))
}

/// One connection of the bare program, alone in its database: each statement is a commit.
pub struct Commits {
    connection: PgConnection,
    _database: Database,
}

impl Commits {
    /// Opens a connection with a run that accepts events.
    pub async fn of_a_run(database: Database) -> Result<Self, BenchError> {
        let connection = with_heads(&database, 1).await?.pop();
        let connection = connection.ok_or_else(|| BenchError::Unexpected("no connection".to_owned()))?;
        Ok(Self { connection, _database: database })
    }

    /// Opens a connection with threads in which runs can be started. Returns their keys.
    pub async fn of_threads(database: Database, threads: usize) -> Result<(Self, Vec<i64>), BenchError> {
        let connection = database.connections(1).await?.pop();
        let mut connection = connection.ok_or_else(|| BenchError::Unexpected("no connection".to_owned()))?;
        let made = "WITH made AS (
               INSERT INTO threads (project, id, user_id, created_at, updated_at, sort_at, created_with, metadata)
               SELECT 'default', gen_random_uuid()::text, 'dev', 0, 0, 0, '', '{}' FROM generate_series(1, $1::bigint)
               RETURNING key
             ) INSERT INTO heads (key, epoch) SELECT key, key FROM made RETURNING key";
        let keys = query_scalar(made).bind(threads as i64).fetch_all(&mut connection).await?;
        Ok((Self { connection, _database: database }, keys))
    }

    /// Appends an event to the run.
    pub async fn append(&mut self, body: &str) -> Result<(), BenchError> {
        let statement = query(ONE)
            .bind(None::<i64>)
            .bind(1i64)
            .bind(1i64)
            .bind(None::<i64>)
            .bind(1i64)
            .bind(STOP_GRACE.as_millis() as i64)
            .bind(body.as_bytes())
            .bind(None::<i64>)
            .bind(None::<i64>)
            .bind(0i64);
        statement.fetch_one(&mut self.connection).await?;
        Ok(())
    }

    /// Starts a run in a thread, with the store's statement.
    pub async fn start(&mut self, key: i64, run: &str) -> Result<(), BenchError> {
        let (no_number, no_text) = (None::<i64>, None::<&str>);
        let statement = query(START)
            .bind(no_number)
            .bind(key)
            .bind(run)
            .bind(no_text)
            .bind(3_600_000i64)
            .bind(0i64)
            // The start does not end the run itself …
            .bind(no_number)
            .bind(no_text)
            .bind(no_text)
            .bind(no_text)
            // … and no predecessor …
            .bind(no_number)
            .bind(no_number)
            .bind(0i64)
            .bind(no_number)
            .bind(no_text)
            .bind(no_text)
            // … appends no events …
            .bind(Vec::<i64>::new())
            .bind(Vec::<i64>::new())
            .bind(Vec::<&[u8]>::new())
            .bind(Vec::<i64>::new())
            // … starts at any tail of the log, for a producer.
            .bind(no_number)
            .bind(no_text)
            .bind(Vec::<i64>::new())
            .bind(no_number)
            // … is judged at any time, and puts the job of a run.
            .bind(i64::MAX)
            .bind(i64::try_from(PACK_FIRST_LOOK.as_millis()).unwrap_or(i64::MAX))
            .bind("operator")
            .bind("operator")
            .bind(no_number)
            .bind(no_text)
            .bind(no_text)
            .bind(no_text)
            .bind(false)
            .bind(no_text);
        statement.fetch_one(&mut self.connection).await?;
        Ok(())
    }
}
