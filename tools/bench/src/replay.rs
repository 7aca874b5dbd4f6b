//! Replay of a long thread over one socket, compared with a raw stream of as many bytes.

use std::{net::SocketAddr, time::Instant};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    BenchError, Plan,
    generate::Events,
    measure::Pairs,
    process::Process,
    report::{Budget, Report},
    seeded,
    socket::Socket,
};

/// Reads in one measurement: a single read takes a few hundredths of a second.
const READS: usize = 5;

/// Measures both sides in pairs.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    report.progress("writing and sealing a long thread");
    let place = plan.ground.place().await?;
    let long = seeded::thread(&place, Events::new(11).take(plan.events as usize)).await?;
    let server = place.serve()?;
    let peer = Process::start("peer")?;
    let mut pairs = Pairs::default();
    for pair in 0..plan.pairs {
        report.progress(&format!("replay, pair {} of {}", pair + 1, plan.pairs));
        let (mut ours, mut bare) = (0.0, 0.0);
        for _ in 0..READS {
            let (seconds, bytes) = read(server.address(), &long.run.thread, (0, None), long.events).await?;
            ours += seconds;
            bare += stream(peer.addresses[1], bytes).await?;
        }
        let events = (READS as u64 * long.events) as f64;
        pairs.push(events / ours, events / bare);
    }
    report.key("replay.events_per_s", pairs.ours());
    report.key("replay.bare_events_per_s", pairs.bare());
    report.key("replay.ratio_to_bare", pairs.ratio());
    report.row(
        "replay of 100,000 events (bare: a stream of bytes)",
        "events/s",
        pairs.ours(),
        Some(pairs.bare()),
        Some(pairs.ratio()),
        Budget::AtLeast(2e6),
    );
    Ok(())
}

/// Reads a thread from a cursor to its tail over a new socket, including the connect. Returns the seconds, and the
/// bytes of the frames. Every event is counted, and every frame must begin at the end of the previous one.
pub async fn read(
    server: SocketAddr,
    thread: &str,
    (after, epoch): (u64, Option<&str>),
    tail: u64,
) -> Result<(f64, u64), BenchError> {
    let start = Instant::now();
    let mut socket = Socket::open(server).await?;
    let event = memchr::memmem::Finder::new("\"type\":\"");
    let (mut seen, mut bytes) = (after, 0u64);
    let after = serde_json::json!({ "threadId": thread, "after": after, "epoch": epoch });
    socket.send(format!("{{\"subscribe\":{after}}}")).await?;
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
    if seen == tail {
        Ok((seconds, bytes))
    } else {
        Err(BenchError::Unexpected(format!("read up to {seen} of {tail}")))
    }
}

/// Reads as many bytes from a plain connection. Returns the seconds.
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
