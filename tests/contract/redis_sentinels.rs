//! A Redis that sentinels name: its master fails, changes, or is not to be found.

use std::time::Duration;

use threadline_backing::{Redis, Sentinels, ports::free_port, sentinels::NAME};
use threadline_core::ThreadKey;
use threadline_engine::cluster::{
    bus::{self, BusEnd, BusMessage, Channel},
    lock::{Acquired, Lock, LockState, redis::RedisLock},
    redis_connection::RedisConnection,
    redis_servers::RedisServers,
};
use tokio::time;

use crate::redis::{PATIENCE, answered, claim, heard_again, lock, next};

/// Time without an answer after which sentinels replace a master.
const DOWN_AFTER: Duration = Duration::from_millis(1_000);

/// Time between two looks at what is waited for.
pub const TICK: Duration = Duration::from_millis(50);

/// A lock and a bus of one node, which share what they know about the master.
pub async fn node(url: &str) -> (RedisLock, BusEnd) {
    let servers = RedisServers::parse(url).expect("an address");
    let mut end = bus::redis::join(servers.clone(), "x:");
    end.bus.listen(Channel::Thread(ThreadKey(1)));
    assert_eq!(next(&mut end).await, BusMessage::Resync);
    (RedisLock::new(RedisConnection::new(servers), "lock:"), end)
}

/// Renews the lock until a master has done so. A renewal restores a lock that a replica did not have yet.
pub async fn renewed(lock: &RedisLock) {
    let mut tick = time::interval(TICK);
    let renewed = async {
        while lock.renew(&[claim("a")]).await.ok().as_deref() != Some(&[true]) {
            // A check finds a server that is no master any more, as in a node.
            let _ = lock.check().await;
            tick.tick().await;
        }
    };
    time::timeout(PATIENCE, renewed).await.expect("another master is found");
}

/// Sends messages until this node receives its own.
pub async fn echoes(end: &BusEnd) {
    let echoed = async { while end.bus.echo().await != Some(true) {} };
    time::timeout(PATIENCE, echoed).await.expect("messages are delivered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_is_replaced_and_locks_and_messages_go_on() {
    let sentinels = Sentinels::start(DOWN_AFTER);
    let ((lock, teller), (other, mut listener)) = (node(&sentinels.url()).await, node(&sentinels.url()).await);
    assert_eq!(answered(&lock, "a").await, Acquired::Taken);
    assert_eq!(answered(&other, "b").await, Acquired::Held("a".into()));
    heard_again(&teller, &mut listener, 1).await;
    let before = sentinels.named();
    sentinels.master().kill();
    assert!(other.acquire(&claim("b")).await.is_err(), "the store decides meanwhile");
    renewed(&lock).await;
    assert_eq!(answered(&other, "b").await, Acquired::Held("a".into()));
    let mut tick = time::interval(TICK);
    let named = async {
        while sentinels.named() == before {
            tick.tick().await;
        }
    };
    time::timeout(PATIENCE, named).await.expect("all sentinels name it");
    assert_eq!(sentinels.master().command(&["GET", "lock:p:u:t"]), "a");
    while next(&mut listener).await != BusMessage::Resync {}
    heard_again(&teller, &mut listener, 2).await;
    echoes(&teller).await;
    assert_eq!(lock.check().await, Some(LockState::Good));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_became_a_replica_is_left() {
    let sentinels = Sentinels::start(PATIENCE);
    let ((lock, teller), (_, mut listener)) = (node(&sentinels.url()).await, node(&sentinels.url()).await);
    assert_eq!(answered(&lock, "a").await, Acquired::Taken);
    heard_again(&teller, &mut listener, 1).await;
    sentinels.fail_over();
    // A replica takes no writes.
    renewed(&lock).await;
    heard_again(&teller, &mut listener, 2).await;
    echoes(&teller).await;
    assert_eq!(lock.renew(&[claim("a"), claim("b")]).await.expect("asked"), [true, false]);
}

/// The text by which a lock explains that it cannot be taken.
async fn complaint(url: &str) -> String {
    let (state, text) = lock(url).examine().await.expect_err("no lock can be taken");
    assert_eq!(state, LockState::Unreachable, "{text}");
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_do_not_help_are_explained() {
    let sentinels = Sentinels::shared();
    let at = |port: u16| format!("127.0.0.1:{port}");
    let good = at(sentinels.sentinels()[0].port());
    let text = complaint(&format!("redis+sentinel://{good}/other")).await;
    assert!(text.contains("knows no master \"other\"") && text.contains(&good), "{text}");
    let nowhere = at(free_port());
    let text = complaint(&format!("redis+sentinel://{nowhere}/{NAME}")).await;
    assert!(text.contains("no sentinel can be reached") && text.contains(&nowhere), "{text}");
    let server = at(Redis::shared().port());
    let text = complaint(&format!("redis+sentinel://{nowhere},{server}/{NAME}")).await;
    assert!(text.contains("does not answer as a sentinel") && text.contains(&server), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_good_sentinel_is_enough() {
    let sentinels = Sentinels::shared();
    let silent = Redis::start(&[]);
    silent.stop_signal();
    let places = [free_port(), silent.port(), sentinels.sentinels()[2].port()].map(|port| format!("127.0.0.1:{port}"));
    let lock = lock(&format!("redis+sentinel://{}/{NAME}", places.join(",")));
    assert_eq!(answered(&lock, "one good sentinel").await, Acquired::Taken);
    silent.cont();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_require_credentials_get_those_of_the_servers() {
    let sentinels = Sentinels::with_password(PATIENCE, "s3cret");
    let lock = lock(&sentinels.url_as(":s3cret@"));
    assert_eq!(answered(&lock, "a").await, Acquired::Taken);
    let text = complaint(&sentinels.url()).await;
    assert!(text.contains("does not answer as a sentinel") && text.contains("NOAUTH"), "{text}");
}
