//! Starts of runs where a lock in Redis stands before the store: beside one round trip to Redis and one commit.

use std::time::{Duration, Instant};

use redis::{aio::MultiplexedConnection, pipe};

use super::{
    BenchError, Plan,
    bare::postgres::Single,
    measure::{median, percentile_us},
    report::{Budget, Report},
    servers::Servers,
    socket::Http,
};

/// Measures, in turn, trip by trip. Nodes that share nothing have no such start.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    let Some(servers) = plan.ground.servers() else { return Ok(()) };
    let place = plan.ground.place().await?;
    let server = place.serve()?;
    let mut bare = Bare {
        commit: Single::open(servers.database().await?).await?,
        redis: servers.client().get_multiplexed_async_connection().await?,
        servers,
    };
    let http = Http::new(server.address());
    let mut rounds: Vec<[f64; 4]> = Vec::new();
    for round in 0..plan.pairs {
        report.progress(&format!("starts of runs, round {} of {}", round + 1, plan.pairs));
        let mut times: [Vec<Duration>; 4] = Default::default();
        for _ in 0..plan.trips.div_ceil(2) {
            let thread = http.create().await?;
            let started = timed(async || http.start(&thread).await.map(drop)).await?;
            let refused = timed(async || http.start_in_vain(&thread).await).await?;
            let trips = [started, refused, bare.lock(&thread).await?, bare.commit(&thread).await?];
            times.iter_mut().zip(trips).for_each(|(times, trip)| times.push(trip));
        }
        rounds.push(times.map(|mut times| percentile_us(&mut times, 0.5)));
    }
    let [started, refused, lock, commit] = [0, 1, 2, 3].map(|what| median(rounds.iter().map(|round| round[what])));
    let ratio = median(rounds.iter().map(|[started, _, lock, commit]| started / (lock + commit)));
    report.key("start.p50_us", started);
    report.key("start.redis_p50_us", lock);
    report.key("start.commit_p50_us", commit);
    report.key("start.ratio_to_redis_and_commit", ratio);
    report.key("start.refused_p50_us", refused);
    let what = "start of a run: p50 (bare: SET NX in Redis, a commit)";
    report.row(what, "µs", started, Some(lock + commit), Some(ratio), Budget::RatioAtMost(1.5));
    report.row("start refused, another run is active: p50", "µs", refused, None, None, Budget::None);
    Ok(())
}

async fn timed(what: impl AsyncFnOnce() -> Result<(), BenchError>) -> Result<Duration, BenchError> {
    let start = Instant::now();
    what().await?;
    Ok(start.elapsed())
}

/// What cannot be avoided.
struct Bare<'s> {
    commit: Single,
    redis: MultiplexedConnection,
    servers: &'s Servers,
}

impl Bare<'_> {
    /// Takes a lock that nobody has.
    async fn lock(&mut self, thread: &str) -> Result<Duration, BenchError> {
        let mut take = pipe();
        take.cmd("SET").arg(self.servers.key(&format!("bare:{thread}"))).arg(thread).arg("NX").arg("PX").arg(60_000);
        timed(async || Ok(take.exec_async(&mut self.redis).await?)).await
    }

    async fn commit(&mut self, thread: &str) -> Result<Duration, BenchError> {
        self.commit.trip(&format!("{{\"type\":\"RUN_STARTED\",\"threadId\":\"{thread}\"}}")).await
    }
}
