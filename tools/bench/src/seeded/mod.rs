//! Threads with a history, written directly into the tables before a server opens them.

use bytes::BytesMut;

use super::{BenchError, generate::Random, place::Place, socket::Run, store::Embedded};
use threadline_core::{Clock, ThreadKey};
use threadline_engine::ServiceError;

mod postgres;
mod sqlite;

/// Thread with one active run.
pub struct Seeded {
    /// The run, with the id of its thread.
    pub run: Run,
    /// Number of its events.
    pub events: u64,
    /// Bytes of the pages in use, per event.
    pub stored: f64,
    /// Bytes of the events themselves, per event.
    pub raw: f64,
}

/// Row of the log.
struct Row {
    first: i64,
    last: i64,
    at: i64,
    body: Vec<u8>,
}

/// Writes a sealed thread: half of its events in batches of 1, half in batches of 32, some milliseconds apart.
pub async fn thread(place: &Place, events: impl Iterator<Item = String>) -> Result<Seeded, BenchError> {
    let embedded = Embedded::open(place, Clock::system()).await?;
    let (thread, run) = embedded.start_run().await?;
    let thread = embedded.service.threads.get(&embedded.principal, &thread).await.map_err(ServiceError::from)?;
    embedded.close().await;

    let before = used_bytes(place).await?;
    let rows = rows(events);
    let events = rows.last().map_or(0, |row| row.last) as u64;
    let raw: usize = rows.iter().map(|row| row.body.len()).sum();
    write(place, thread.key, &rows).await?;

    // The store is opened without a service, which would seal at the same time.
    let store = place.store(Clock::system()).await?;
    while store.port().seal(thread.key).await? {}
    store.close().await;
    let after = used_bytes(place).await?;
    let run = Run { thread: thread.id.to_string(), run: run.to_string(), next: events + 1 };
    Ok(Seeded { run, events, stored: (after - before) / events as f64, raw: raw as f64 / events as f64 })
}

fn rows(mut events: impl Iterator<Item = String>) -> Vec<Row> {
    let mut random = Random::new(12);
    let mut at = jiff::Timestamp::now().as_millisecond();
    let (mut tail, mut singles, mut rows) = (0i64, 0, Vec::new());
    loop {
        let size = if singles == 0 { 32 } else { 1 };
        singles = if singles == 0 { 32 } else { singles - 1 };
        let (mut body, mut count) = (BytesMut::new(), 0i64);
        for event in events.by_ref().take(size) {
            if count > 0 {
                body.extend_from_slice(b"\n");
            }
            body.extend_from_slice(event.as_bytes());
            count += 1;
        }
        if count == 0 {
            return rows;
        }
        at += 5 + random.below(40) as i64;
        rows.push(Row { first: tail + 1, last: tail + count, at, body: body.to_vec() });
        tail += count;
    }
}

/// Writes the rows of a thread's only run, in one transaction.
async fn write(place: &Place, key: ThreadKey, rows: &[Row]) -> Result<(), BenchError> {
    match place {
        Place::Directory(data) => sqlite::write(data.path(), key, rows).await,
        Place::Database(database) => postgres::write(database, key, rows).await,
    }
}

/// Bytes of the pages in use.
async fn used_bytes(place: &Place) -> Result<f64, BenchError> {
    match place {
        Place::Directory(data) => sqlite::used_bytes(data.path()).await,
        Place::Database(database) => postgres::used_bytes(database).await,
    }
}
