//! Messages of a long thread: read from a server that has just started and has only the log, read again, and read after
//! the end of the run has left a snapshot.

use std::time::{Duration, Instant};

use super::{
    BenchError, Plan, ack,
    generate::Events,
    measure::{median, percentile_us, timed},
    report::{Budget, Report},
    seeded,
    socket::Socket,
};

/// Divisor for the events of a long thread: a conversation of a day, not of a year.
const SHARE: u64 = 10;
/// Least number of events for which a snapshot is made.
const LEAST: u64 = 1_000;
/// Metric of the server that counts folds of events.
const FOLDED: &str = "threadline_store_reads_total{reader=\"fold\"}";
/// Timeout for the snapshot.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures cold and warm reads.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    report.progress("writing a long thread");
    let place = plan.ground.place().await?;
    let mut long = seeded::thread(&place, Events::new(51).take((plan.events / SHARE).max(LEAST) as usize)).await?;
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for round in 0..plan.pairs {
        report.progress(&format!("messages of a long thread, round {} of {}", round + 1, plan.pairs));
        let server = place.serve()?;
        let reader = Reader::new(&server.address().to_string(), &long.run.thread);
        cold.push(ms(timed(async || reader.read().await).await?));
        warm.push(reader.often(plan.trips / 50).await?);
    }
    let server = place.serve()?;
    let reader = Reader::new(&server.address().to_string(), &long.run.thread);
    let mut socket = Socket::open(server.address()).await?;
    ack::trip(&mut socket, &mut long.run, "{\"type\":\"RUN_FINISHED\"}").await?;
    reader.until_nothing_is_folded().await?;
    let snapshot = reader.often(plan.trips / 50).await?;
    let (cold, warm) = (median(cold), median(warm));
    report.key("messages.events", long.events as f64);
    report.key("messages.cold_ms", cold);
    report.key("messages.warm_ms", warm);
    report.key("messages.snapshot_ms", snapshot);
    for (what, value) in [
        ("messages of 10,000 events, server just started", cold),
        ("messages of 10,000 events, from the log: p50", warm),
        ("messages of 10,000 events, from a snapshot: p50", snapshot),
    ] {
        report.row(what, "ms", value, None, None, Budget::None);
    }
    Ok(())
}

struct Reader {
    client: reqwest::Client,
    messages: String,
    metrics: String,
}

impl Reader {
    fn new(server: &str, thread: &str) -> Self {
        let messages = format!("http://{server}/v1/threads/{thread}/messages");
        Self { client: reqwest::Client::new(), messages, metrics: format!("http://{server}/metrics") }
    }

    async fn read(&self) -> Result<(), BenchError> {
        let body = self.client.get(&self.messages).send().await?.error_for_status()?.bytes().await?;
        if memchr::memmem::find(&body, b"\"messages\":[{").is_some() {
            Ok(())
        } else {
            Err(BenchError::Unexpected(String::from_utf8_lossy(&body).into_owned()))
        }
    }

    async fn often(&self, times: usize) -> Result<f64, BenchError> {
        let mut taken = Vec::with_capacity(times);
        for _ in 0..times.max(1) {
            taken.push(timed(async || self.read().await).await?);
        }
        Ok(percentile_us(&mut taken, 0.5) / 1e3)
    }

    async fn folded(&self) -> Result<f64, BenchError> {
        let text = self.client.get(&self.metrics).send().await?.error_for_status()?.text().await?;
        let line = text.lines().find_map(|line| line.strip_prefix(FOLDED)?.trim().parse().ok());
        line.ok_or_else(|| BenchError::Unexpected(format!("no {FOLDED} among the metrics")))
    }

    /// Waits until a read folds no events: then a snapshot covers all of them.
    async fn until_nothing_is_folded(&self) -> Result<(), BenchError> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let before = self.folded().await?;
            self.read().await?;
            if self.folded().await? == before {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(BenchError::Unexpected("no snapshot is made at the end of a run".into()))
    }
}

fn ms(taken: Duration) -> f64 {
    taken.as_secs_f64() * 1e3
}
