//! The contract of the lock port. Every test runs in process and on Redis.

use std::{sync::Arc, time::Duration};

use threadline_core::{ProjectId, RunId, ThreadId, UserId};
use threadline_engine::cluster::{
    lock::{Acquired, Claim, DynLock, LockName, local::LocalLock, redis::RedisLock},
    redis_connection::RedisConnection,
    redis_servers::RedisServers,
};

const TTL: Duration = Duration::from_secs(20);
/// Long enough to be held when the test checks it, short enough to wait for.
const SHORT: Duration = Duration::from_millis(300);

/// A lock under test.
pub struct Gate(DynLock);

impl Gate {
    pub fn local() -> Self {
        Self(Arc::new(LocalLock::default()))
    }

    /// Every test has keys of its own in the Redis of this URL.
    pub fn redis(url: String) -> Self {
        let link = RedisConnection::new(RedisServers::parse(&url).expect("an address"));
        Self(Arc::new(RedisLock::new(link, &format!("{}:", RunId::generate()))))
    }

    async fn acquire(&self, run: &str) -> Acquired {
        self.0.acquire(&claim("t", run, TTL)).await.expect("asked")
    }

    async fn renew(&self, run: &str) -> bool {
        self.0.renew(&[claim("t", run, TTL)]).await.expect("renewed") == [true]
    }

    async fn release(&self, run: &str) {
        self.0.release(&[(name("t"), run_id(run))]).await.expect("released");
    }
}

fn run_id(run: &str) -> RunId {
    RunId::new(run).expect("id")
}

fn name(thread: &str) -> LockName {
    LockName::new(
        &ProjectId::new("p").expect("id"),
        &UserId::new("u").expect("id"),
        &ThreadId::new(thread).expect("id"),
    )
}

fn claim(thread: &str, run: &str, ttl: Duration) -> Claim {
    Claim { name: name(thread), run: run_id(run), ttl }
}

fn held(run: &str) -> Acquired {
    Acquired::Held(run.to_owned())
}

pub async fn a_lock_is_held_by_one(gate: Gate) {
    assert_eq!(gate.acquire("a").await, Acquired::Taken);
    assert_eq!(gate.acquire("b").await, held("a"));
    assert_eq!(gate.acquire("a").await, Acquired::Mine, "a repetition is no second holder");
    let other = gate.0.acquire(&claim("another", "b", TTL)).await.expect("asked");
    assert_eq!(other, Acquired::Taken, "each thread has its own");
}

pub async fn many_at_once_and_one_gets_it(gate: Gate) {
    let gate = Arc::new(gate);
    let tries = (0..32).map(|number| {
        let gate = gate.clone();
        tokio::spawn(async move { gate.acquire(&format!("r{number}")).await })
    });
    let mut taken = 0;
    for answer in futures_util::future::join_all(tries).await {
        taken += usize::from(answer.expect("no panic") == Acquired::Taken);
    }
    assert_eq!(taken, 1);
}

pub async fn only_its_holder_releases_a_lock(gate: Gate) {
    gate.acquire("a").await;
    gate.release("b").await;
    assert_eq!(gate.acquire("b").await, held("a"));
    gate.release("a").await;
    gate.release("a").await;
    assert_eq!(gate.acquire("b").await, Acquired::Taken);
}

pub async fn a_renewal_keeps_it_and_restores_it(gate: Gate) {
    gate.0.acquire(&claim("t", "a", SHORT)).await.expect("asked");
    assert!(gate.renew("a").await);
    assert!(!gate.renew("b").await, "held by another run");
    tokio::time::sleep(SHORT + Duration::from_millis(100)).await;
    assert_eq!(gate.acquire("b").await, held("a"), "the renewal gave it a longer time");
    gate.release("a").await;
    assert!(gate.renew("a").await, "one that vanished is there again");
    assert_eq!(gate.acquire("b").await, held("a"));
    let both = [claim("t", "b", TTL), claim("t", "a", TTL), claim("new", "a", TTL)];
    assert_eq!(gate.0.renew(&both).await.expect("renewed"), [false, true, true]);
    assert_eq!(gate.0.renew(&[]).await.expect("renewed"), Vec::<bool>::new());
}

pub async fn a_lock_expires_without_a_release(gate: Gate) {
    gate.0.acquire(&claim("t", "a", SHORT)).await.expect("asked");
    assert_eq!(gate.acquire("b").await, held("a"));
    tokio::time::sleep(SHORT + Duration::from_millis(100)).await;
    assert_eq!(gate.acquire("b").await, Acquired::Taken);
    gate.release("a").await;
    assert_eq!(gate.acquire("c").await, held("b"), "who came too late has nothing to give back");
}

pub async fn a_lock_is_taken_over_from_the_holder_that_was_read(gate: Gate) {
    let over = |holder: &'static str, run: &'static str| {
        let lock = gate.0.clone();
        async move { lock.take_over(&claim("t", run, TTL), holder).await.expect("asked") }
    };
    gate.acquire("a").await;
    assert!(!over("b", "c").await, "not whom it was seen with");
    assert!(over("a", "b").await);
    assert!(!over("a", "c").await, "the first one has it");
    assert_eq!(gate.acquire("c").await, held("b"));
    gate.release("b").await;
    assert!(over("b", "c").await, "free meanwhile");
    assert_eq!(gate.acquire("c").await, Acquired::Mine);
}
