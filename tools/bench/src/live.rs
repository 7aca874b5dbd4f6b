//! Latency from an append to the sockets of ten followers, at half of the saturation: on the same node, and on another
//! node if nodes share servers.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::{sync::watch, task::JoinSet, time};

use super::{
    BenchError, Plan,
    append::{self, Saturation},
    generate::Events,
    measure::median,
    report::{Budget, Report},
    socket::{self, Run, Socket},
};

/// Sockets that follow one of the threads.
const FOLLOWERS: usize = 10;
/// Sockets of the producers.
const SOCKETS: usize = 4;
/// Runs on each socket.
const RUNS: usize = 4;
/// Longest wait for the next event.
const PATIENCE: Duration = Duration::from_secs(30);
/// Member of an event that holds the time of sending.
const SENT: &[u8] = b"\"sentNs\":";

/// Measures the latency on each node.
pub async fn measure(plan: &Plan, saturation: Option<Saturation>, report: &mut Report) -> Result<(), BenchError> {
    let rate = match (plan.rate, saturation) {
        (Some(rate), _) => rate,
        (None, Some(saturation)) => saturation.events_per_s / 2.0,
        (None, None) => append::saturation(plan, report).await?.events_per_s / 2.0,
    };
    let place = plan.ground.place().await?;
    let server = place.serve()?;
    let other = plan.ground.servers().map(|_| place.serve()).transpose()?;
    let (mut same, mut cross) = (Rounds::default(), Rounds::default());
    for round in 0..plan.pairs {
        report.progress(&format!("live at half of the saturation, round {} of {}", round + 1, plan.pairs));
        same.push(follow(server.address(), server.address(), rate, plan.span).await?);
        if let Some(other) = &other {
            cross.push(follow(server.address(), other.address(), rate, plan.span).await?);
        }
    }
    let (p50, p99) = (median(same.p50), median(same.p99));
    report.key("live.p50_ms", p50);
    report.key("live.p99_ms", p99);
    report.key("live.events_per_s", median(same.rates));
    report.key("live.deliveries", same.events as f64);
    report.row("live at half of saturation, 10 followers: p50", "ms", p50, None, None, Budget::None);
    report.row("live at half of saturation, 10 followers: p99", "ms", p99, None, None, Budget::Below(10.0));
    if other.is_some() {
        let (p50, p99) = (median(cross.p50), median(cross.p99));
        report.key("live.cross_node_p50_ms", p50);
        report.key("live.cross_node_p99_ms", p99);
        report.key("live.cross_node_events_per_s", median(cross.rates));
        report.key("live.cross_node_deliveries", cross.events as f64);
        report.row("live, followers on another node: p50", "ms", p50, None, None, Budget::None);
        report.row("live, followers on another node: p99", "ms", p99, None, None, Budget::Below(20.0));
    }
    Ok(())
}

/// Results of the rounds.
#[derive(Default)]
struct Rounds {
    p50: Vec<f64>,
    p99: Vec<f64>,
    rates: Vec<f64>,
    events: u64,
}

impl Rounds {
    fn push(&mut self, (rate, times): (f64, Histogram<u64>)) {
        self.rates.push(rate);
        self.p50.push(times.value_at_quantile(0.5) as f64 / 1e6);
        self.p99.push(times.value_at_quantile(0.99) as f64 / 1e6);
        self.events += times.len();
    }
}

/// Appends `rate` events per second to all runs, one event per frame, while ten sockets of `node` follow one of them.
async fn follow(
    server: SocketAddr,
    node: SocketAddr,
    rate: f64,
    span: Duration,
) -> Result<(f64, Histogram<u64>), BenchError> {
    let zero = Instant::now();
    let mut runs = socket::start_runs(server, SOCKETS * RUNS).await?;
    let thread = runs[0].thread.clone();
    let (over, wait) = watch::channel(None);
    let mut followers = JoinSet::new();
    for _ in 0..FOLLOWERS {
        let mut socket = Socket::open(node).await?;
        socket.follow(&thread).await?;
        followers.spawn(listen(socket, zero, wait.clone()));
    }
    let mut producers = JoinSet::new();
    let start = Instant::now();
    for number in 0..SOCKETS {
        let socket = Socket::open(server).await?;
        let own = runs.split_off(runs.len() - RUNS);
        producers.spawn(produce(socket, own, rate / SOCKETS as f64, zero, start + span, number as u64));
    }
    let (mut sent, mut expected) = (0, 0);
    while let Some(done) = producers.join_next().await {
        let runs = done??;
        sent += runs.iter().map(|run| run.next - 1).sum::<u64>();
        expected += runs.iter().filter(|run| run.thread == thread).map(|run| run.next - 1).sum::<u64>();
    }
    let achieved = sent as f64 / start.elapsed().as_secs_f64();
    over.send_replace(Some(expected));
    let mut times = histogram()?;
    while let Some(done) = followers.join_next().await {
        times.add(done??).map_err(|error| BenchError::Unexpected(error.to_string()))?;
    }
    Ok((achieved, times))
}

fn histogram() -> Result<Histogram<u64>, BenchError> {
    Histogram::new_with_bounds(1_000, 600_000_000_000, 3).map_err(|error| BenchError::Unexpected(error.to_string()))
}

/// Sends the due events every millisecond, independent of answers, and at least one event to each run. Returns the runs
/// after all events are acknowledged.
async fn produce(
    mut socket: Socket,
    mut runs: Vec<Run>,
    rate: f64,
    zero: Instant,
    end: Instant,
    seed: u64,
) -> Result<Vec<Run>, BenchError> {
    let events: Vec<String> = Events::new(seed).take(4_096).collect();
    let mut tick = time::interval(Duration::from_millis(1));
    tick.set_missed_tick_behavior(time::MissedTickBehavior::Skip);
    let (start, mut sent, mut answered) = (Instant::now(), 0u64, 0u64);
    loop {
        let more = Instant::now() < end || sent < runs.len() as u64;
        if !more && answered == sent {
            return Ok(runs);
        }
        tokio::select! {
            answer = socket.next() => {
                let mut answer = Some(answer?);
                while let Some(text) = answer {
                    socket::acknowledged(&text)?;
                    answered += 1;
                    answer = socket.ready()?;
                }
            }
            _ = tick.tick(), if more => {
                let due = ((start.elapsed().as_secs_f64() * rate) as u64).max(runs.len() as u64);
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
}

/// Reads until `over` events in total have arrived. Returns a histogram of their ages.
async fn listen(
    mut socket: Socket,
    zero: Instant,
    mut over: watch::Receiver<Option<u64>>,
) -> Result<Histogram<u64>, BenchError> {
    let mut times = histogram()?;
    let finder = memchr::memmem::Finder::new(SENT);
    loop {
        let expected = *over.borrow_and_update();
        if expected == Some(times.len()) {
            return Ok(times);
        }
        let text = tokio::select! {
            text = time::timeout(PATIENCE, socket.next()) => text.map_err(|_| {
                BenchError::Unexpected(format!("{} of {expected:?} events were delivered", times.len()))
            })??,
            Ok(()) = over.changed() => continue,
        };
        let now = zero.elapsed().as_nanos() as u64;
        for at in finder.find_iter(text.as_bytes()) {
            let digits = text.as_bytes()[at + SENT.len()..].iter().take_while(|byte| byte.is_ascii_digit());
            let sent = digits.fold(0u64, |number, digit| number * 10 + u64::from(digit - b'0'));
            times.saturating_record(now.saturating_sub(sent));
        }
    }
}
