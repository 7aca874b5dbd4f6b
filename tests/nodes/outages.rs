//! Redis or Postgres slow, away, empty or cut off.

use std::time::Duration;

use threadline_client::{RunStatus, StreamRun};
use tokio::time::{self, Instant};

use crate::{
    backing::{Flow, Postgres, Proxy, Way},
    cluster::*,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_runs_continue_starts_are_decided_and_readers_progress() {
    let cluster = Cluster::start(2);
    let (a, b) = (cluster.client(0), cluster.client(1));
    make_thread(&a, "t").await;
    make_thread(&a, "other").await;
    let mut producer = a.run("t", options("r")).await.expect("starts");
    let mut reader = Reader::open(&b, "t");
    in_time(PATIENCE, "live", reader.caught_up()).await;
    cluster.redis.kill();
    producer.append(numbered(1..=5)).await.expect("a run that is under way does not notice");
    in_time(Duration::from_secs(5), "the recheck finds it", reader.reads(5)).await;
    let begun = Instant::now();
    assert!(b.run("t", options("second")).await.expect_err("held").problem("run-active").is_some());
    let other = b.run("other", options("first")).await.expect("the store alone decides");
    assert!(begun.elapsed() < Duration::from_secs(8), "no request waits for Redis: {:?}", begun.elapsed());
    other.finish().await.expect("finishes");
    // Longer than the lease: only the store's lease holds the thread.
    time::sleep(LEASE + Duration::from_secs(1)).await;
    producer.append(numbered(6..=10)).await.expect("the run is alive");
    cluster.redis.restart();
    time::sleep(Duration::from_secs(2)).await;
    producer.append(numbered(11..=15)).await.expect("appends");
    in_time(BY_THE_BUS, "the connection to the bus is restored", reader.reads(15)).await;
    assert_eq!(cluster.redis.command(&["GET", "threadline:lock:default:dev:t"]), "r", "and the lock restored");
    producer.finish().await.expect("finishes");
    assert_eq!(reader.reconnects, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_redis_ends_no_run_and_admits_no_second_writer() {
    let cluster = Cluster::start(2);
    let (a, b) = (cluster.client(0), cluster.client(1));
    make_thread(&a, "t").await;
    let mut producer = a.run("t", options("r")).await.expect("starts");
    for round in 0..5u64 {
        cluster.redis.command(&["FLUSHALL"]);
        assert!(b.run("t", options("second")).await.expect_err("held").problem("run-active").is_some());
        producer.append(numbered(round + 1..=round + 1)).await.expect("appends");
        time::sleep(Duration::from_millis(600)).await;
    }
    let run = producer.finish().await.expect("finishes");
    assert_eq!(run.status, RunStatus::Finished);
    assert!(log(&b, "t").await.iter().all(|line| line.starts_with("r ")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_cut_off_from_redis_alone_is_no_danger() {
    let mut cluster = Cluster::start(1);
    let proxy = Proxy::start(cluster.redis.port());
    cluster.nodes.push(cluster.node_behind(&proxy));
    let (a, b) = (cluster.client(0), cluster.client(1));
    make_thread(&a, "t").await;
    let mut reader = Reader::open(&b, "t");
    in_time(PATIENCE, "live", reader.caught_up()).await;
    for (round, how) in ["silent", "partitioned", "slow"].into_iter().enumerate() {
        match how {
            // Connections stay and nothing moves: the worst case, since nothing fails by itself.
            "silent" => proxy.set(Way::Both, Flow::Stall),
            "partitioned" => proxy.partition(),
            _ => proxy.set(Way::Both, Flow::Delay(Duration::from_millis(200), Duration::from_millis(100))),
        }
        let mut producer = a.run("t", options(&format!("a{round}"))).await.expect("starts");
        producer.append(numbered(1..=2)).await.expect("appends");
        in_time(Duration::from_secs(5), how, reader.reads(reader.seen.len() + 2)).await;
        let begun = Instant::now();
        let second = b.run("t", options(&format!("b{round}"))).await;
        assert!(second.expect_err("held").problem("run-active").is_some(), "{how}");
        assert!(begun.elapsed() < Duration::from_secs(8), "{how}: refused after {:?}", begun.elapsed());
        producer.finish().await.expect("finishes");
        let mut own = b.run("t", options(&format!("b{round}"))).await.expect("the store lets it in");
        // Longer than the lock's time to live, which it cannot renew.
        for n in 1..=6 {
            own.append(numbered(n..=n)).await.expect("a healthy run does not die of that");
            time::sleep(Duration::from_millis(500)).await;
        }
        let refused = a.run("t", options("never")).await.expect_err("held");
        assert!(refused.problem("run-active").is_some(), "{how}");
        own.finish().await.expect("finishes");
        proxy.heal();
    }
    in_time(PATIENCE, "the reader has it all", reader.reads(log(&a, "t").await.len())).await;
    assert_eq!(reader.seen, log(&b, "t").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_and_restarted_postgres_costs_only_time() {
    let postgres = Postgres::start(&[]);
    let cluster = Cluster::over(postgres.fresh_database(), 2);
    let (a, b) = (cluster.client(0), cluster.client(1));
    make_thread(&a, "t").await;
    make_thread(&a, "agent").await;
    let mut reader = Reader::open(&b, "t");
    in_time(PATIENCE, "live", reader.caught_up()).await;
    let mut producer = a.run("t", options("r")).await.expect("starts");
    for batch in 0..30u64 {
        if batch == 15 {
            postgres.kill();
            postgres.restart();
        }
        producer.append(numbered(batch * 2 + 1..=batch * 2 + 2)).await.expect("appended in the end");
    }
    let run = producer.finish().await.expect("finishes");
    assert_eq!(run.status, RunStatus::Finished);
    in_time(PATIENCE, "the reader has it all", reader.reads(61)).await;
    assert_eq!(reader.seen, log(&b, "t").await);
    for (n, line) in (1..=60).zip(&reader.seen) {
        assert!(line.ends_with(&format!("\"value\":{n}}}")), "{n}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agents_run_outlives_a_short_outage_of_the_database() {
    let postgres = Postgres::start(&[]);
    let cluster = Cluster::over(postgres.fresh_database(), 1);
    let a = cluster.client(0);
    make_thread(&a, "t").await;
    let run = a.start_run("t", &agent_run("Hello")).await.expect("starts").run.run_id;
    time::sleep(Duration::from_millis(300)).await;
    postgres.kill();
    postgres.restart();
    let ended = in_time(PATIENCE, "it ends by itself", ended(&a, "t", &run)).await;
    assert_eq!(ended.status, RunStatus::Finished, "{:?}", ended.error_code);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_streamed_run_outlives_a_restart_of_the_database() {
    let postgres = Postgres::start(&[]);
    let cluster = Cluster::over(postgres.fresh_database(), 1);
    let a = cluster.client(0);
    make_thread(&a, "t").await;
    let (lines, body) = tokio::sync::mpsc::unbounded_channel::<String>();
    let body = futures_util::stream::unfold(body, async |mut body| {
        let line = body.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(bytes::Bytes::from(line)), body))
    });
    let lease = Some(Duration::from_secs(20));
    let run = StreamRun { run_id: Some("r".into()), lease, ..StreamRun::default() };
    let streaming = tokio::spawn({
        let a = a.clone();
        async move { a.stream_run("t", &run, body).await }
    });
    let line = |n: u64| format!("{{\"type\":\"CUSTOM\",\"name\":\"n\",\"value\":{n}}}\n");
    lines.send(line(1)).expect("sent");
    let mut reader = Reader::open(&a, "t");
    in_time(PATIENCE, "the first line is in the log", reader.reads(1)).await;
    postgres.kill();
    lines.send(line(2)).expect("sent");
    time::sleep(Duration::from_millis(700)).await;
    postgres.restart();
    lines.send(line(3)).expect("sent");
    drop(lines);
    let run = in_time(PATIENCE, "the stream ends", streaming).await.expect("no panic").expect("it was not broken off");
    assert_eq!(run.run.status, RunStatus::Finished);
    in_time(PATIENCE, "all of it is there", reader.reads(4)).await;
    assert_eq!(reader.seen, log(&a, "t").await);
}
