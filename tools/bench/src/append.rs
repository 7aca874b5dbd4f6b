//! Durable appends over the socket: throughput with batches of 1 and of 32.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::{
    BenchError, Plan,
    generate::Events,
    measure::{Pairs, median},
    process::Process,
    report::{Budget, Report},
    socket::{self, Producer, Socket},
};

/// Sockets of the producers.
const SOCKETS: usize = 4;
/// Runs on each socket.
const RUNS: usize = 25;
/// Most frames in flight on each socket.
const WINDOW: usize = 256;
/// Number of different batches.
const BODIES: usize = 512;

/// Events a second that the server accepted over sockets; the live measurement runs at half of it.
#[derive(Debug, Clone, Copy)]
pub struct Saturation {
    /// Rate with batches of one event.
    pub events_per_s: f64,
}

/// Batches of events, as in a frame.
pub fn bodies(batch: usize, count: usize, seed: u64) -> Vec<String> {
    let mut events = Events::new(seed);
    (0..count).map(|_| events.by_ref().take(batch).collect::<Vec<_>>().join(",")).collect()
}

/// Measures both sides in pairs.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<Saturation, BenchError> {
    let place = plan.ground.place().await?;
    let server = place.serve()?;
    let peer = Process::start("peer")?;
    let bare_store = report.get("append.bare_events_per_s");
    let mut worst = f64::INFINITY;
    let mut saturation = Saturation { events_per_s: 0.0 };
    for (batch, what) in [(1, "append over the socket, batches of 1"), (32, "append over the socket, batches of 32")] {
        let mut ours = producers(Some(server.address()), None, batch).await?;
        let mut echo = producers(None, Some(peer.address()), batch).await?;
        let (mut pairs, mut work) = (Pairs::default(), Work::begin(&server));
        for pair in 0..plan.pairs {
            report.progress(&format!("{what}, pair {} of {}", pair + 1, plan.pairs));
            let (mine, others);
            if pair % 2 == 0 {
                mine = pump(&mut ours, WINDOW, plan.span).await?;
                others = pump(&mut echo, WINDOW, plan.span).await?;
            } else {
                others = pump(&mut echo, WINDOW, plan.span).await?;
                mine = pump(&mut ours, WINDOW, plan.span).await?;
            }
            pairs.push(mine.rate(), others.rate());
            work.events += mine.events;
        }
        check(server.address(), &ours).await?;
        // The baseline is the slower of the echo and the bare store.
        let slower = bare_store.map_or(pairs.bare(), |bare| bare.min(pairs.bare()));
        let ratio = pairs.ratio() * pairs.bare() / slower;
        worst = worst.min(ratio);
        report.key(&format!("append.socket_ratio_{batch}"), ratio);
        report.key(&format!("append.events_per_s_{batch}"), pairs.ours());
        report.key(&format!("append.echo_events_per_s_{batch}"), pairs.bare());
        if let Some(spent) = work.us_per_event(&server) {
            report.key(&format!("append.cpu_us_per_event_{batch}"), spent);
        }
        report.row(what, "events/s", pairs.ours(), Some(slower), Some(ratio), Budget::RatioAtLeast(0.5));
        if batch == 1 {
            saturation.events_per_s = pairs.ours();
        } else {
            report.key("append.events_per_s", pairs.ours());
        }
    }
    report.key("append.socket_ratio", worst);
    Ok(saturation)
}

/// Measures only the saturation, for the measurement of live latency.
pub async fn saturation(plan: &Plan, report: &Report) -> Result<Saturation, BenchError> {
    let place = plan.ground.place().await?;
    let server = place.serve()?;
    let mut producers = producers(Some(server.address()), None, 1).await?;
    let mut rates = Vec::new();
    for _ in 0..3 {
        report.progress("saturation over the socket, batches of 1");
        rates.push(pump(&mut producers, WINDOW, plan.span.min(Duration::from_secs(1))).await?.rate());
    }
    Ok(Saturation { events_per_s: median(rates) })
}

async fn producers(
    server: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    batch: usize,
) -> Result<Vec<Producer>, BenchError> {
    let mut producers = Vec::with_capacity(SOCKETS);
    for number in 0..SOCKETS {
        let (socket, runs) = match (server, peer) {
            (Some(server), _) => (Socket::open(server).await?, socket::start_runs(server, RUNS).await?),
            (None, Some(peer)) => (Socket::echo(peer, "/").await?, socket::unsaved_runs(RUNS)),
            (None, None) => continue,
        };
        producers.push(Producer::new(socket, runs, batch, bodies(batch, BODIES, number as u64)));
    }
    Ok(producers)
}

/// Result of one measurement.
pub struct Pumped {
    pub events: u64,
    /// Duration of the measurement, in seconds.
    pub seconds: f64,
}

impl Pumped {
    /// Acknowledged events per second.
    pub fn rate(&self) -> f64 {
        self.events as f64 / self.seconds
    }
}

/// CPU time for a server's events, which a busy machine changes less than elapsed time.
pub struct Work {
    before: Option<f64>,
    /// Events accepted since the start.
    pub events: u64,
}

impl Work {
    /// Starts to count CPU time and events.
    pub fn begin(server: &Process) -> Self {
        Self { before: server.cpu_seconds(), events: 0 }
    }

    /// CPU microseconds per event; `None` if the system does not report them.
    pub fn us_per_event(&self, server: &Process) -> Option<f64> {
        Some((server.cpu_seconds()? - self.before?) * 1e6 / self.events as f64)
    }
}

/// Runs all producers at once, at full speed, each with at most `window` frames in flight.
pub async fn pump(producers: &mut Vec<Producer>, window: usize, span: Duration) -> Result<Pumped, BenchError> {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for mut producer in producers.drain(..) {
        tasks.spawn(async move {
            let done = producer.pump(window, start + span).await?;
            Ok::<_, BenchError>((producer, done))
        });
    }
    let mut events = 0;
    while let Some(task) = tasks.join_next().await {
        let (producer, done) = task??;
        producers.push(producer);
        events += done;
    }
    Ok(Pumped { events, seconds: start.elapsed().as_secs_f64() })
}

/// Checks that the acknowledged events are stored, and no others.
async fn check(server: SocketAddr, producers: &[Producer]) -> Result<(), BenchError> {
    for run in producers.iter().flat_map(Producer::runs) {
        let tail = socket::tail(server, &run.thread).await?;
        if tail + 1 != run.next {
            let reason = format!("thread {} has {tail} events, {} were acknowledged", run.thread, run.next - 1);
            return Err(BenchError::Unexpected(reason));
        }
    }
    Ok(())
}
