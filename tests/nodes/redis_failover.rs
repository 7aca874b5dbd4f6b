//! Nodes over a Redis whose master fails and is replaced.

use std::time::Duration;

use threadline_client::{Client, Producer, RunStatus};
use tokio::time::Instant;

use crate::{
    backing::{RedisCluster, Sentinels},
    cluster::*,
    server::Server,
    watched::{get, ready},
};

const KEY: &str = "threadline:lock:default:dev:t";

/// Nodes over a Redis with this URL.
fn nodes(redis: &str, count: usize) -> Cluster {
    let mut cluster = Cluster::start(0);
    cluster.nodes = (0..count).map(|_| Server::start(cluster.command(&cluster.database, redis))).collect();
    cluster
}

/// A run over one node, and its reader on the other, which has read five events.
async fn under_way(a: &Client, b: &Client) -> (Producer, Reader) {
    make_thread(a, "t").await;
    let mut producer = a.run("t", options("r")).await.expect("starts");
    let mut reader = Reader::open(b, "t");
    in_time(PATIENCE, "live", reader.caught_up()).await;
    producer.append(numbered(1..=5)).await.expect("appends");
    in_time(PATIENCE, "read", reader.reads(5)).await;
    (producer, reader)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_of_redis_ends_no_run_and_admits_no_second_writer() {
    let sentinels = Sentinels::start(Duration::from_millis(1_000));
    let cluster = nodes(&sentinels.url(), 2);
    let (a, b) = (cluster.client(0), cluster.client(1));
    let (mut producer, mut reader) = under_way(&a, &b).await;
    let mut written = 5;
    for (round, how) in ["killed", "demoted", "stopped"].into_iter().enumerate() {
        if round > 0 {
            // The server that failed is a replica again, so that the next failover has somewhere to go.
            sentinels.restore();
        }
        let (before, begun) = (sentinels.named(), Instant::now());
        match how {
            "killed" => sentinels.master().kill(),
            "demoted" => sentinels.fail_over(),
            _ => sentinels.master().stop_signal(),
        }
        eventually(how, async || {
            let refused = b.run("t", options("second")).await.expect_err("held");
            assert!(refused.problem("run-active").is_some(), "{how}: {refused}");
            written += 1;
            producer.append(numbered(written..=written)).await.expect("a run that is under way does not notice");
            let said = get(&cluster.nodes[0], "/readyz").await.1 + &get(&cluster.nodes[1], "/readyz").await.1;
            (sentinels.named() != before && said.matches("\"status\":\"ready\"").count() == 2).then_some(())
        })
        .await;
        println!("{how}: back after {:?}", begun.elapsed());
        eventually("the lock is restored", async || (sentinels.master().command(&["GET", KEY]) == "r").then_some(()))
            .await;
        in_time(Duration::from_secs(5), how, reader.reads(written as usize)).await;
        written += 1;
        producer.append(numbered(written..=written)).await.expect("appends");
        in_time(BY_THE_BUS, how, reader.reads(written as usize)).await;
    }
    let run = producer.finish().await.expect("finishes");
    assert_eq!(run.status, RunStatus::Finished);
    in_time(PATIENCE, "the reader has it all", reader.reads(written as usize + 1)).await;
    assert_eq!(reader.seen, log(&a, "t").await);
    assert_eq!(reader.reconnects, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_of_a_redis_cluster_ends_no_run_and_admits_no_second_writer() {
    let redis = RedisCluster::start(Duration::from_millis(1_000));
    let cluster = nodes(&redis.url(), 2);
    let (a, b) = (cluster.client(0), cluster.client(1));
    let (mut producer, mut reader) = under_way(&a, &b).await;
    let mut written = 5;
    let (begun, killed) = (Instant::now(), redis.holder(KEY));
    assert_eq!(killed.command(&["GET", KEY]), "r");
    killed.kill();
    eventually("the lock is restored, and all checks pass", async || {
        let refused = b.run("t", options("second")).await.expect_err("held");
        assert!(refused.problem("run-active").is_some(), "{refused}");
        written += 1;
        producer.append(numbered(written..=written)).await.expect("a run that is under way does not notice");
        let said = get(&cluster.nodes[0], "/readyz").await.1 + &get(&cluster.nodes[1], "/readyz").await.1;
        let held = redis.try_holder(KEY).is_some_and(|server| server.command(&["GET", KEY]) == "r");
        (held && said.matches("\"status\":\"ready\"").count() == 2).then_some(())
    })
    .await;
    println!("a master of the cluster: back after {:?}", begun.elapsed());
    in_time(Duration::from_secs(5), "read", reader.reads(written as usize)).await;
    written += 1;
    producer.append(numbered(written..=written)).await.expect("appends");
    in_time(BY_THE_BUS, "by the bus", reader.reads(written as usize)).await;
    producer.finish().await.expect("finishes");
    in_time(PATIENCE, "the reader has it all", reader.reads(written as usize + 1)).await;
    assert_eq!(reader.seen, log(&a, "t").await);
    assert_eq!(reader.reconnects, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_starts_without_sentinels_and_uses_them_once_they_are_there() {
    let sentinels = Sentinels::start(PATIENCE);
    sentinels.sentinels().iter().for_each(|sentinel| sentinel.kill());
    let cluster = nodes(&sentinels.url(), 1);
    let (a, node) = (cluster.client(0), &cluster.nodes[0]);
    let degraded = ready(node, 200, "redis-unreachable").await;
    assert_eq!(degraded["status"], "degraded");
    make_thread(&a, "t").await;
    a.run("t", options("r")).await.expect("the store alone decides").finish().await.expect("finishes");
    assert!(node.said().contains("no sentinel can be reached"), "{}", node.said());
    sentinels.sentinels()[1].restart();
    ready(node, 200, "\"status\":\"ready\"").await;
    let producer = a.run("t", options("next")).await.expect("starts");
    assert_eq!(sentinels.master().command(&["GET", KEY]), "next");
    producer.finish().await.expect("finishes");
}
