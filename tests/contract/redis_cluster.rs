//! A Redis Cluster: keys on several masters, of which one fails.

use std::time::Duration;

use threadline_backing::{Redis, RedisCluster};
use threadline_core::{ProjectId, RunId, ThreadId, UserId};
use threadline_engine::cluster::{
    bus::BusMessage,
    lock::{Acquired, Claim, Lock, LockName, LockState},
};
use tokio::time;

use crate::{
    redis::{PATIENCE, answered, claim, heard_again, lock, next},
    redis_sentinels::{TICK, echoes, node, renewed},
};

/// Time without an answer after which a replica takes the place of its master.
const DOWN_AFTER: Duration = Duration::from_millis(1_000);

fn claim_of(thread: usize) -> Claim {
    let id = ThreadId::new(format!("t{thread}")).expect("id");
    let name = LockName::new(&ProjectId::new("p").expect("id"), &UserId::new("u").expect("id"), &id);
    Claim { name, run: RunId::new("r").expect("id"), ttl: Duration::from_secs(60) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_all_masters_are_renewed_and_released_at_once() {
    let cluster = RedisCluster::shared();
    let lock = lock(&cluster.url());
    let claims: Vec<_> = (0..64).map(claim_of).collect();
    assert_eq!(lock.renew(&claims).await.expect("asked"), [true; 64], "a renewal restores");
    let holders: std::collections::HashSet<_> =
        (0..64).map(|thread| cluster.holder(&format!("lock:p:u:t{thread}")).port()).collect();
    assert_eq!(holders.len(), 3, "on every master");
    for claim in &claims {
        assert_eq!(lock.acquire(claim).await.expect("asked"), Acquired::Mine);
    }
    let locks: Vec<_> = claims.iter().map(|claim| (claim.name.clone(), claim.run.clone())).collect();
    lock.release(&locks).await.expect("asked");
    for claim in &claims {
        assert_eq!(lock.acquire(claim).await.expect("asked"), Acquired::Taken);
    }
    lock.release(&locks).await.expect("asked");
    assert_eq!(lock.check().await, Some(LockState::Good));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_of_a_cluster_is_replaced_and_locks_and_messages_go_on() {
    let cluster = RedisCluster::start(DOWN_AFTER);
    let ((lock, teller), (other, mut listener)) = (node(&cluster.url()).await, node(&cluster.url()).await);
    assert_eq!(answered(&lock, "a").await, Acquired::Taken);
    assert_eq!(answered(&other, "b").await, Acquired::Held("a".into()));
    heard_again(&teller, &mut listener, 1).await;
    let holder = cluster.holder("lock:p:u:t");
    holder.kill();
    assert!(other.acquire(&claim("b")).await.is_err(), "the store decides meanwhile");
    renewed(&lock).await;
    assert_eq!(answered(&other, "b").await, Acquired::Held("a".into()));
    assert_eq!(cluster.holder("lock:p:u:t").command(&["GET", "lock:p:u:t"]), "a");
    heard_again(&teller, &mut listener, 2).await;
    echoes(&teller).await;
    let mut tick = time::interval(TICK);
    let good = async {
        while lock.check().await != Some(LockState::Good) {
            tick.tick().await;
        }
    };
    time::timeout(PATIENCE, good).await.expect("all keys can be written");
    holder.restart();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_goes_on_at_another_server_of_the_cluster() {
    let cluster = RedisCluster::start(PATIENCE);
    let ((_, teller), (_, mut listener)) = (node(&cluster.url()).await, node(&cluster.url()).await);
    heard_again(&teller, &mut listener, 1).await;
    let listens = |server: &&Redis| server.command(&["PUBSUB", "NUMSUB", "x:thread:1"]) != "x:thread:1\n0";
    let server = cluster.servers().iter().find(listens).expect("a server that a node listens to");
    server.stop_signal();
    while next(&mut listener).await != BusMessage::Resync {}
    heard_again(&teller, &mut listener, 2).await;
    // A server of the cluster that hangs leaves enough time to connect to the others.
    let (_, newcomer) = node(&cluster.url()).await;
    heard_again(&newcomer, &mut listener, 3).await;
    server.cont();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_outside_of_a_cluster_is_refused_as_one() {
    let url = Redis::shared().url().replace("redis://", "redis+cluster://");
    let (state, text) = lock(&url).examine().await.expect_err("no cluster");
    println!("{state:?}: {text}");
    assert!(text.contains("cluster"), "{text}");
}
