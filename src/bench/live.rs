//! From an append to the sockets of ten followers, at half of the saturation.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::{task::JoinSet, time};

use super::{
    BenchError, Plan,
    append::{self, Saturation},
    generate::Events,
    process::{Process, TempDir},
    report::{Budget, Report},
    socket::{self, Run, Socket},
};

/// Sockets that follow one of the threads.
const FOLLOWERS: usize = 10;
/// Sockets that append …
const SOCKETS: usize = 4;
/// … to this many runs each.
const RUNS: usize = 4;
/// Where the moment of sending stands in an event.
const SENT: &[u8] = b"\"sentNs\":";

/// Measures.
pub async fn measure(plan: &Plan, saturation: Option<Saturation>, report: &mut Report) -> Result<(), BenchError> {
    let rate = match (plan.rate, saturation) {
        (Some(rate), _) => rate,
        (None, Some(saturation)) => saturation.events_per_s / 2.0,
        (None, None) => append::saturation(plan, report).await?.events_per_s / 2.0,
    };
    let data = TempDir::new(&plan.dir)?;
    let server = Process::start("serve", Some(data.path()))?;
    let (mut p50, mut p99, mut rates, mut events) = (vec![], vec![], vec![], 0);
    for round in 0..plan.pairs {
        report.progress(&format!("live at half of the saturation, round {} of {}", round + 1, plan.pairs));
        let (achieved, times) = follow(server.address(), rate, plan.span).await?;
        rates.push(achieved);
        p50.push(times.value_at_quantile(0.5) as f64 / 1e6);
        p99.push(times.value_at_quantile(0.99) as f64 / 1e6);
        events += times.len();
    }
    let (p50, p99) = (super::measure::median(p50), super::measure::median(p99));
    report.key("live.p50_ms", p50);
    report.key("live.p99_ms", p99);
    report.key("live.events_per_s", super::measure::median(rates));
    report.key("live.deliveries", events as f64);
    report.row("live at half of saturation, 10 followers: p50", "ms", p50, None, None, Budget::None);
    report.row("live at half of saturation, 10 followers: p99", "ms", p99, None, None, Budget::Below(10.0));
    Ok(())
}

/// Appends at `rate` events a second to all runs, one event a frame, while ten sockets follow one of them.
async fn follow(server: SocketAddr, rate: f64, span: Duration) -> Result<(f64, Histogram<u64>), BenchError> {
    let zero = Instant::now();
    let mut runs = socket::start_runs(server, SOCKETS * RUNS).await?;
    let thread = runs[0].thread.clone();
    let over = Arc::new(AtomicBool::new(false));
    let mut followers = JoinSet::new();
    for _ in 0..FOLLOWERS {
        let mut socket = Socket::open(server).await?;
        socket.follow(&thread).await?;
        followers.spawn(listen(socket, zero, over.clone()));
    }
    let mut producers = JoinSet::new();
    let start = Instant::now();
    for number in 0..SOCKETS {
        let socket = Socket::open(server).await?;
        let own = runs.split_off(runs.len() - RUNS);
        producers.spawn(produce(socket, own, rate / SOCKETS as f64, zero, start + span, number as u64));
    }
    let mut sent = 0;
    while let Some(done) = producers.join_next().await {
        sent += done??;
    }
    let achieved = sent as f64 / start.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    let mut times = histogram()?;
    while let Some(done) = followers.join_next().await {
        times.add(done??).map_err(|error| BenchError::Unexpected(error.to_string()))?;
    }
    Ok((achieved, times))
}

fn histogram() -> Result<Histogram<u64>, BenchError> {
    Histogram::new_with_bounds(1_000, 600_000_000_000, 3).map_err(|error| BenchError::Unexpected(error.to_string()))
}

/// Sends what is due every millisecond, whatever was answered so far.
async fn produce(
    mut socket: Socket,
    mut runs: Vec<Run>,
    rate: f64,
    zero: Instant,
    end: Instant,
    seed: u64,
) -> Result<u64, BenchError> {
    let events: Vec<String> = Events::new(seed).take(4_096).collect();
    let mut tick = time::interval(Duration::from_millis(1));
    tick.set_missed_tick_behavior(time::MissedTickBehavior::Skip);
    let (start, mut sent, mut answered) = (Instant::now(), 0u64, 0u64);
    while Instant::now() < end || answered < sent {
        tokio::select! {
            answer = socket.next() => {
                let mut answer = Some(answer?);
                while let Some(text) = answer {
                    socket::acknowledged(&text)?;
                    answered += 1;
                    answer = socket.ready()?;
                }
            }
            _ = tick.tick(), if Instant::now() < end => {
                let due = (start.elapsed().as_secs_f64() * rate) as u64;
                while sent < due {
                    let event = &events[sent as usize % events.len()][1..];
                    let now = zero.elapsed().as_nanos();
                    let event = format!("{{\"sentNs\":{now},{event}");
                    let run = sent as usize % runs.len();
                    socket.feed(runs[run].append(1, &event)).await?;
                    sent += 1;
                }
                socket.flush().await?;
            }
        }
    }
    Ok(answered)
}

/// Reads until nothing comes any more after `over`; how old each event was.
async fn listen(mut socket: Socket, zero: Instant, over: Arc<AtomicBool>) -> Result<Histogram<u64>, BenchError> {
    let mut times = histogram()?;
    let finder = memchr::memmem::Finder::new(SENT);
    loop {
        let text = match time::timeout(Duration::from_millis(200), socket.next()).await {
            Ok(text) => text?,
            Err(_) if over.load(Ordering::Relaxed) => return Ok(times),
            Err(_) => continue,
        };
        let now = zero.elapsed().as_nanos() as u64;
        for at in finder.find_iter(text.as_bytes()) {
            let digits = text.as_bytes()[at + SENT.len()..].iter().take_while(|byte| byte.is_ascii_digit());
            let sent = digits.fold(0u64, |number, digit| number * 10 + u64::from(digit - b'0'));
            times.saturating_record(now.saturating_sub(sent));
        }
    }
}
