//! Threads with a history, written straight into the file before a server opens it.

use std::path::Path;

use bytes::BytesMut;
use sqlx::{Connection, Row, SqliteConnection, query};

use super::{BenchError, bare, generate::Random, socket::Run, store::Embedded};
use crate::{
    domain::{Clock, ThreadKey},
    store::{LogStore, sqlite::SqliteStore},
};

/// A thread with one run, which goes on.
pub struct Seeded {
    /// The run, and its thread.
    pub run: Run,
    /// Its events so far.
    pub events: u64,
    /// Bytes of the pages that they take, per event.
    pub stored: f64,
    /// Bytes of the events themselves, per event.
    pub raw: f64,
}

/// Writes a thread into the file in `dir`: batches of 1 and of 32, half of the events in each, some milliseconds
/// apart, and sealed.
pub async fn thread(dir: &Path, events: impl Iterator<Item = String>) -> Result<Seeded, BenchError> {
    let embedded = Embedded::open(dir, Clock::system()).await?;
    let (thread, run) = embedded.start_run().await?;
    let thread = embedded.service.threads.get(&embedded.principal, &thread).await?;
    embedded.close().await;

    let mut connection = bare::open(&dir.join("threadline.db")).await?;
    let before = used_bytes(&mut connection).await?;
    let (events, raw) = write(&mut connection, thread.key, events).await?;
    connection.close().await?;

    // The store alone: a service would seal at the same time.
    let store = SqliteStore::open(dir, Clock::system()).await?;
    while store.seal(thread.key).await? {}
    store.close().await;
    let mut connection = bare::open(&dir.join("threadline.db")).await?;
    let after = used_bytes(&mut connection).await?;
    connection.close().await?;
    let run = Run { thread: thread.id.to_string(), run: run.to_string(), next: events + 1 };
    Ok(Seeded { run, events, stored: (after - before) / events as f64, raw: raw as f64 / events as f64 })
}

/// Writes the rows of a run that is one in its thread, in one transaction: how many events, and their bytes.
async fn write(
    connection: &mut SqliteConnection,
    key: ThreadKey,
    mut events: impl Iterator<Item = String>,
) -> Result<(u64, usize), BenchError> {
    let mut random = Random::new(12);
    let mut at = jiff::Timestamp::now().as_millisecond();
    let (mut tail, mut singles, mut raw) = (0u64, 0, 0usize);
    let mut transaction = connection.begin().await?;
    let put = "INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body) SELECT ?1, ?2, ?3, fence, ?4, ?5, ?6 \
               FROM heads WHERE key = ?1";
    loop {
        let size = if singles == 0 { 32 } else { 1 };
        singles = if singles == 0 { 32 } else { singles - 1 };
        let (mut body, mut count) = (BytesMut::new(), 0u64);
        for event in events.by_ref().take(size) {
            if count > 0 {
                body.extend_from_slice(b"\n");
            }
            body.extend_from_slice(event.as_bytes());
            count += 1;
        }
        if count == 0 {
            break;
        }
        raw += body.len();
        at += 5 + random.below(40) as i64;
        let row = query(put)
            .bind(key.0)
            .bind(tail as i64 + 1)
            .bind((tail + count) as i64)
            .bind(at)
            .bind(body.len() as i64)
            .bind(body.to_vec());
        row.execute(&mut *transaction).await?;
        tail += count;
    }
    let head = "UPDATE heads SET tail = ?2, producer_seq = ?2 WHERE key = ?1";
    query(head).bind(key.0).bind(tail as i64).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok((tail, raw))
}

/// Bytes of the pages in use.
async fn used_bytes(connection: &mut SqliteConnection) -> Result<f64, BenchError> {
    let pages = "SELECT (page_count - freelist_count) * page_size \
                 FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
    Ok(query(pages).fetch_one(connection).await?.try_get::<i64, _>(0)? as f64)
}
