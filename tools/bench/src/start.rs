//! Starts of runs with a lock in Redis in front of the store, compared with one round trip to Redis and one commit,
//! which is the statement that starts a run.

use std::time::Duration;

use redis::{aio::MultiplexedConnection, pipe};

use super::{
    BenchError, Plan,
    bare::postgres::Commits,
    measure::{median, percentile_us, timed},
    report::{Budget, Report},
    servers::Servers,
    socket::Http,
};

/// Measures each kind in turn, trip by trip. Does nothing for nodes without shared servers.
pub async fn measure(plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    let Some(servers) = plan.ground.servers() else { return Ok(()) };
    let place = plan.ground.place().await?;
    let server = place.serve()?;
    let http = Http::new(server.address());
    let trips = plan.trips.div_ceil(2);
    let (mut commits, mut free) = Commits::of_threads(servers.database().await?, plan.pairs * trips).await?;
    let mut redis = servers.client().get_multiplexed_async_connection().await?;
    let mut rounds: Vec<[f64; 4]> = Vec::new();
    for round in 0..plan.pairs {
        report.progress(&format!("starts of runs, round {} of {}", round + 1, plan.pairs));
        // Threads are created before, so that no part of their creation is measured.
        let mut threads = Vec::with_capacity(trips);
        for _ in 0..trips {
            threads.push(http.create().await?);
        }
        let mut times: [Vec<Duration>; 4] = Default::default();
        for (thread, free) in threads.iter().zip(free.split_off(free.len() - trips)) {
            let taken = [
                timed(async || http.start(thread).await.map(drop)).await?,
                timed(async || http.failed_start(thread).await).await?,
                timed(async || lock(&mut redis, servers, thread).await).await?,
                timed(async || commits.start(free, thread).await).await?,
            ];
            times.iter_mut().zip(taken).for_each(|(times, taken)| times.push(taken));
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

/// Takes a free lock.
async fn lock(redis: &mut MultiplexedConnection, servers: &Servers, thread: &str) -> Result<(), BenchError> {
    let mut take = pipe();
    take.cmd("SET").arg(servers.key(&format!("bare:{thread}"))).arg(thread).arg("NX").arg("PX").arg(60_000);
    Ok(take.exec_async(redis).await?)
}
