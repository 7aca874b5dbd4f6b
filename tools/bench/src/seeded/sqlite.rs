//! Seeded threads in an SQLite file that no process has open.

use std::path::Path;

use sqlx::{Connection, Row as _, SqliteConnection, query};

use super::{
    super::{BenchError, bare::sqlite},
    Row,
};
use threadline_core::ThreadKey;

async fn open(dir: &Path) -> Result<SqliteConnection, sqlx::Error> {
    sqlite::open(&dir.join("threadline.db")).await
}

pub(super) async fn write(dir: &Path, key: ThreadKey, rows: &[Row]) -> Result<(), BenchError> {
    let mut connection = open(dir).await?;
    let mut transaction = connection.begin().await?;
    let put = "INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body) SELECT ?1, ?2, ?3, fence, ?4, ?5, ?6 \
               FROM heads WHERE key = ?1";
    for row in rows {
        let put = query(put).bind(key.0).bind(row.first).bind(row.last).bind(row.at).bind(row.body.len() as i64);
        put.bind(&row.body).execute(&mut *transaction).await?;
    }
    let tail = rows.last().map_or(0, |row| row.last);
    let head = "UPDATE heads SET tail = ?2, producer_seq = ?2 WHERE key = ?1";
    query(head).bind(key.0).bind(tail).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(connection.close().await?)
}

/// Bytes of the file without the pages on the free list.
pub(super) async fn used_bytes(dir: &Path) -> Result<f64, BenchError> {
    let mut connection = open(dir).await?;
    let pages = "SELECT (page_count - freelist_count) * page_size \
                 FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
    let bytes = query(pages).fetch_one(&mut connection).await?.try_get::<i64, _>(0)?;
    connection.close().await?;
    Ok(bytes as f64)
}
