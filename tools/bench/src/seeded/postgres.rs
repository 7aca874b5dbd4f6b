//! Seeded threads in a Postgres database.

use sqlx::{Connection, Executor, Row as _, query, raw_sql};

use super::{
    super::{BenchError, servers::Database},
    Row,
};
use threadline_core::ThreadKey;

/// Rows in one statement.
const CHUNK: usize = 1_000;

pub(super) async fn write(database: &Database, key: ThreadKey, rows: &[Row]) -> Result<(), BenchError> {
    let mut connection = database.plain_connection().await?;
    let mut transaction = connection.begin().await?;
    let put = "INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body)
               SELECT h.key, r.first, r.last, h.fence, r.at, octet_length(r.body), r.body
               FROM heads h, unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[]) AS r (first, last, at, body)
               WHERE h.key = $1";
    for chunk in rows.chunks(CHUNK) {
        let column = |of: fn(&Row) -> i64| chunk.iter().map(of).collect::<Vec<_>>();
        let put = query(put).bind(key.0).bind(column(|row| row.first)).bind(column(|row| row.last));
        let put = put.bind(column(|row| row.at)).bind(chunk.iter().map(|row| &row.body[..]).collect::<Vec<_>>());
        put.execute(&mut *transaction).await?;
    }
    let tail = rows.last().map_or(0, |row| row.last);
    let head = "UPDATE heads SET tail = $2, producer_seq = $2 WHERE key = $1";
    query(head).bind(key.0).bind(tail).execute(&mut *transaction).await?;
    transaction.commit().await?;
    // Statistics are updated as autovacuum would soon do.
    connection.execute("ANALYZE").await?;
    Ok(connection.close().await?)
}

/// Bytes of the log, its index and its TOAST table, without free space.
pub(super) async fn used_bytes(database: &Database) -> Result<f64, BenchError> {
    let mut connection = database.plain_connection().await?;
    connection.execute("VACUUM (FULL) log").await?;
    let size = raw_sql("SELECT pg_total_relation_size('log')").fetch_one(&mut connection).await?;
    let bytes = size.try_get::<i64, _>(0)?;
    connection.close().await?;
    Ok(bytes as f64)
}
