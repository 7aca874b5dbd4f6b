//! A long thread read over one socket, beside a raw stream of as many bytes; and the bytes that it takes on disk.

use std::{net::SocketAddr, path::Path, time::Instant};

use bytes::BytesMut;
use sqlx::{Connection, Row, SqliteConnection, query};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    BenchError, Plan, bare,
    generate::{Events, Random},
    measure::Pairs,
    process::{Process, TempDir},
    report::{Budget, Report},
    socket::Socket,
    store::Embedded,
};
use crate::{
    domain::{Clock, ThreadKey},
    store::{LogStore, sqlite::SqliteStore},
};

const EVENTS: u64 = 100_000;
const SHORT: u64 = 200;
/// Readings in one measurement: one alone takes a few hundredths of a second.
const READS: usize = 5;

/// Measures, in pairs.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    report.progress("writing and sealing 100,000 events");
    let data = TempDir::new(&plan.dir)?;
    let (thread, stored, raw) = prepare(data.path(), EVENTS).await?;
    let server = Process::start("serve", Some(data.path()))?;
    let peer = Process::start("peer", None)?;
    let mut pairs = Pairs::default();
    for pair in 0..plan.pairs {
        report.progress(&format!("replay of 100,000 events, pair {} of {}", pair + 1, plan.pairs));
        let (mut ours, mut bare) = (0.0, 0.0);
        for _ in 0..READS {
            let (seconds, bytes) = replay(server.address(), &thread).await?;
            ours += seconds;
            bare += stream(peer.addresses[1], bytes).await?;
        }
        let events = (READS as u64 * EVENTS) as f64;
        pairs.push(events / ours, events / bare);
    }
    drop((server, peer));
    report.progress("writing a thread of 200 events");
    let short = TempDir::new(&plan.dir)?;
    let (_, short, _) = prepare(short.path(), SHORT).await?;
    report.key("replay.events_per_s", pairs.ours());
    report.key("replay.bare_events_per_s", pairs.bare());
    report.key("replay.ratio_to_bare", pairs.ratio());
    report.key("replay.stored_bytes_per_event", stored);
    report.key("replay.stored_bytes_per_event_200", short);
    report.key("replay.raw_bytes_per_event", raw);
    report.row(
        "replay of 100,000 events (bare: a stream of bytes)",
        "events/s",
        pairs.ours(),
        Some(pairs.bare()),
        Some(pairs.ratio()),
        Budget::AtLeast(2e6),
    );
    report.row("stored, sealed (bare: the events alone)", "B/event", stored, Some(raw), None, Budget::AtMost(18.0));
    report.row("stored, a thread of 200 events", "B/event", short, Some(raw), None, Budget::None);
    Ok(())
}

/// A thread of `count` events in batches of 1 and of 32, half of the events in each, some milliseconds apart, and
/// sealed. The thread, bytes on disk per event (used pages), and bytes of the events themselves.
async fn prepare(dir: &Path, count: u64) -> Result<(String, f64, f64), BenchError> {
    let embedded = Embedded::open(dir, Clock::system()).await?;
    let (thread, run) = embedded.start_run().await?;
    let thread = embedded.service.threads.get(&embedded.principal, &thread).await?;
    embedded.service.runs.get(&embedded.principal, &thread.id, &run).await?;
    embedded.close().await;

    let mut connection = bare::open(&dir.join("threadline.db")).await?;
    let before = used_bytes(&mut connection).await?;
    let raw = write(&mut connection, thread.key, count).await?;
    connection.close().await?;

    // The store alone: a service would seal at the same time.
    let store = SqliteStore::open(dir, Clock::system()).await?;
    while store.seal(thread.key).await? {}
    store.close().await;
    let mut connection = bare::open(&dir.join("threadline.db")).await?;
    let after = used_bytes(&mut connection).await?;
    connection.close().await?;
    let per_event = |bytes: f64| bytes / count as f64;
    Ok((thread.id.to_string(), per_event(after - before), per_event(raw)))
}

/// Writes the rows of a run that is one in its thread, in one transaction.
async fn write(connection: &mut SqliteConnection, key: ThreadKey, count: u64) -> Result<f64, BenchError> {
    let (mut events, mut random) = (Events::new(11), Random::new(12));
    let mut at = jiff::Timestamp::now().as_millisecond();
    let (mut seq, mut singles, mut raw) = (1u64, 0, 0usize);
    let mut transaction = connection.begin().await?;
    let put = "INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body) SELECT ?1, ?2, ?3, fence, ?4, ?5, ?6 \
               FROM heads WHERE key = ?1";
    while seq <= count {
        let size = if singles == 0 { 32 } else { 1 }.min(count + 1 - seq);
        singles = if singles == 0 { 32 } else { singles - 1 };
        let mut body = BytesMut::new();
        for event in events.by_ref().take(size as usize) {
            if !body.is_empty() {
                body.extend_from_slice(b"\n");
            }
            body.extend_from_slice(event.as_bytes());
        }
        raw += body.len();
        at += 5 + random.below(40) as i64;
        let row = query(put)
            .bind(key.0)
            .bind(seq as i64)
            .bind((seq + size - 1) as i64)
            .bind(at)
            .bind(body.len() as i64)
            .bind(body.to_vec());
        row.execute(&mut *transaction).await?;
        seq += size;
    }
    let head = "UPDATE heads SET tail = ?2, producer_seq = ?2 WHERE key = ?1";
    query(head).bind(key.0).bind(count as i64).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(raw as f64)
}

/// Bytes of the pages in use.
async fn used_bytes(connection: &mut SqliteConnection) -> Result<f64, BenchError> {
    let pages = "SELECT (page_count - freelist_count) * page_size \
                 FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
    Ok(query(pages).fetch_one(connection).await?.try_get::<i64, _>(0)? as f64)
}

/// Reads the whole thread over a new socket: seconds, and bytes of the frames. Every event is counted, and every
/// frame must begin where the one before it ended.
async fn replay(server: SocketAddr, thread: &str) -> Result<(f64, u64), BenchError> {
    let mut socket = Socket::open(server).await?;
    let event = memchr::memmem::Finder::new("\"type\":\"");
    let (start, mut seen, mut bytes) = (Instant::now(), 0u64, 0u64);
    socket.send(format!("{{\"subscribe\":{{\"threadId\":\"{thread}\",\"after\":0}}}}")).await?;
    loop {
        let text = socket.next().await?;
        bytes += text.len() as u64;
        if text.starts_with("{\"caughtUp\"") {
            break;
        }
        if !text.starts_with("{\"events\"") {
            continue;
        }
        let first = text.split_once("\"seq\":").and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
        if first != Some(seen + 1) {
            return Err(BenchError::Unexpected(format!("a frame begins at {first:?} after {seen} events")));
        }
        seen += event.find_iter(text.as_bytes()).count() as u64;
    }
    let seconds = start.elapsed().as_secs_f64();
    if seen == EVENTS { Ok((seconds, bytes)) } else { Err(BenchError::Unexpected(format!("{seen} events were read"))) }
}

/// Reads as many bytes from a plain connection: seconds.
async fn stream(source: SocketAddr, bytes: u64) -> Result<f64, BenchError> {
    let mut stream = TcpStream::connect(source).await.map_err(BenchError::Connection)?;
    let (mut buffer, mut left) = (vec![0; 128 * 1_024], bytes);
    let start = Instant::now();
    stream.write_u64(bytes).await.map_err(BenchError::Connection)?;
    while left > 0 {
        let read = stream.read(&mut buffer).await.map_err(BenchError::Connection)?;
        if read == 0 {
            return Err(BenchError::Unexpected("the stream ended early".to_owned()));
        }
        left = left.saturating_sub(read as u64);
    }
    Ok(start.elapsed().as_secs_f64())
}
