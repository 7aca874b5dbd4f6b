//! Latency of an acknowledgement: one run, one event at a time, on an otherwise idle machine.
//!
//! The baseline is the unavoidable part: the round trip to a server, and the durable write. For SQLite that is an
//! fdatasync, for Postgres the same statement, committed over one connection by a bare program.

use std::{
    fs::File,
    io::{Seek, Write},
    path::Path,
    time::{Duration, Instant},
};

use super::{
    BenchError, Plan,
    append::bodies,
    bare::postgres::Commits,
    measure::{median, percentile_us, timed},
    place::{Ground, Place},
    process::{Process, TempDir},
    report::{Budget, Report},
    socket::{self, Run, Socket},
};

/// Durable write without a server.
enum Durable {
    /// File that is synchronised, on the same disk as the data.
    File(TempDir),
    /// Database with one commit per statement.
    Commit(Box<Commits>),
}

impl Durable {
    async fn open(ground: &Ground) -> Result<Self, BenchError> {
        Ok(match ground.place().await? {
            Place::Directory(data) => Self::File(data),
            Place::Database(database) => Self::Commit(Box::new(Commits::of_a_run(database).await?)),
        })
    }

    async fn trips(&mut self, bodies: &[String]) -> Result<Vec<Duration>, BenchError> {
        match self {
            Self::File(data) => {
                let (file, count) = (data.path().join("fdatasync"), bodies.len());
                tokio::task::spawn_blocking(move || fdatasync(&file, count)).await?
            }
            Self::Commit(commits) => {
                let mut times = Vec::with_capacity(bodies.len());
                for body in bodies {
                    times.push(timed(async || commits.append(body).await).await?);
                }
                Ok(times)
            }
        }
    }

    /// Key and label of its figure.
    fn words(&self) -> (&'static str, &'static str) {
        match self {
            Self::File(_) => ("ack.fdatasync_p50_us", "acknowledgement, one event, idle: p50"),
            Self::Commit(..) => ("ack.commit_p50_us", "acknowledgement, idle: p50 (bare: a commit and an echo)"),
        }
    }
}

/// Measures both in turn.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    let place = plan.ground.place().await?;
    let server = place.serve()?;
    let peer = Process::start("peer")?;
    let mut durable = Durable::open(&plan.ground).await?;
    let bodies = bodies(1, plan.trips, 9);
    let mut ours = (Socket::open(server.address()).await?, socket::start_runs(server.address(), 1).await?);
    let mut echo = (Socket::echo(peer.address(), "/").await?, socket::unsaved_runs(1));
    let (mut p50, mut p99, mut trip, mut disk, mut ratio) = (vec![], vec![], vec![], vec![], vec![]);
    for pair in 0..plan.pairs {
        report.progress(&format!("time until an acknowledgement, round {} of {}", pair + 1, plan.pairs));
        let mut mine = trips(&mut ours.0, &mut ours.1[0], &bodies).await?;
        let mut synced = durable.trips(&bodies).await?;
        let mut echoed = trips(&mut echo.0, &mut echo.1[0], &bodies).await?;
        let (m, d, e) =
            (percentile_us(&mut mine, 0.5), percentile_us(&mut synced, 0.5), percentile_us(&mut echoed, 0.5));
        p50.push(m);
        p99.push(percentile_us(&mut mine, 0.99));
        disk.push(d);
        trip.push(e);
        ratio.push(m / (d + e));
    }
    let (p50, disk, trip, ratio) = (median(p50), median(disk), median(trip), median(ratio));
    report.key("ack.p50_us", p50);
    report.key("ack.p99_us", median(p99));
    let (key, what) = durable.words();
    report.key(key, disk);
    report.key("ack.echo_p50_us", trip);
    report.key("ack.ratio", ratio);
    report.row(what, "µs", p50, Some(disk + trip), Some(ratio), Budget::RatioAtMost(3.0));
    Ok(())
}

async fn trips(socket: &mut Socket, run: &mut Run, bodies: &[String]) -> Result<Vec<Duration>, BenchError> {
    let mut times = Vec::with_capacity(bodies.len());
    for body in bodies {
        times.push(trip(socket, run, body).await?);
    }
    Ok(times)
}

/// Appends one event. Returns the time until its acknowledgement.
pub async fn trip(socket: &mut Socket, run: &mut Run, body: &str) -> Result<Duration, BenchError> {
    let frame = run.append(1, body);
    let start = Instant::now();
    socket.send(frame).await?;
    socket::acknowledged(&socket.next().await?)?;
    Ok(start.elapsed())
}

fn fdatasync(path: &Path, count: usize) -> Result<Vec<Duration>, BenchError> {
    let failed = |error| BenchError::Io(path.to_owned(), error);
    let mut file = File::create(path).map_err(failed)?;
    let block = [7u8; 4_096];
    // The file is preallocated, like a write-ahead log in use: no sync has to wait for the file to grow.
    file.write_all(&block.repeat(count)).and_then(|()| file.sync_all()).map_err(failed)?;
    file.rewind().map_err(failed)?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        file.write_all(&block).and_then(|()| file.sync_data()).map_err(failed)?;
        times.push(start.elapsed());
    }
    Ok(times)
}
