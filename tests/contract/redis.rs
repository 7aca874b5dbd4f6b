//! What Redis alone can do: be slow, silent, restarted empty, cut off; and come back.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use threadline_core::{
    Fence, Generation, ProjectId, RunId, ThreadId, ThreadKey, UserId,
    limits::{REDIS_PING, REDIS_RETRY, REDIS_TIMEOUT},
};
use threadline_engine::cluster::{
    bus::{self, BusEnd, BusMessage, Channel, Hint, ThreadNews},
    lock::{Acquired, Claim, Lock, LockName, redis::RedisLock},
    redis_connection::RedisConnection,
    redis_servers::RedisServers,
};
use tokio::time;

use crate::backing::{Cut, Flow, Proxy, Redis, Way};

pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn claim(run: &str) -> Claim {
    let name = LockName::new(
        &ProjectId::new("p").expect("id"),
        &UserId::new("u").expect("id"),
        &ThreadId::new("t").expect("id"),
    );
    Claim { name, run: RunId::new(run).expect("id"), ttl: Duration::from_secs(20) }
}

pub fn lock(url: &str) -> RedisLock {
    RedisLock::new(RedisConnection::new(RedisServers::parse(url).expect("an address")), "lock:")
}

fn through(proxy: &Proxy) -> String {
    format!("redis://{}/", proxy.address())
}

/// Asks until there is an answer.
pub async fn answered(lock: &RedisLock, run: &str) -> Acquired {
    let asked = async {
        loop {
            match lock.acquire(&claim(run)).await {
                Ok(answer) => return answer,
                Err(_) => time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    time::timeout(PATIENCE, asked).await.expect("Redis is back")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_key_has_the_documented_form() {
    let redis = Redis::start(&[]);
    let lock = RedisLock::new(RedisConnection::new(RedisServers::parse(&redis.url()).expect("an address")), "my-app:");
    assert_eq!(lock.acquire(&claim("a")).await.expect("asked"), Acquired::Taken);
    assert_eq!(redis.command(&["GET", "my-app:p:u:t"]), "a");
    let left: u64 = redis.command(&["PTTL", "my-app:p:u:t"]).parse().expect("a number");
    assert!((15_000..=20_000).contains(&left), "{left} ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_or_absent_lock_blocks_no_run() {
    let redis = Redis::start(&[]);
    let lock = lock(&redis.url());
    assert_eq!(lock.acquire(&claim("a")).await.expect("asked"), Acquired::Taken);
    for away in ["stopped", "killed"] {
        if away == "stopped" {
            redis.stop_signal()
        } else {
            redis.kill()
        }
        let begun = Instant::now();
        for _ in 0..20 {
            assert!(lock.acquire(&claim("b")).await.is_err(), "{away}");
        }
        // One caller waits, the others are refused at once; one more may try again after the pause.
        let slowest = REDIS_TIMEOUT * 3 + REDIS_RETRY;
        assert!(begun.elapsed() < slowest, "{away}: twenty tries took {:?}", begun.elapsed());
        if away == "stopped" {
            redis.cont();
            assert_eq!(answered(&lock, "b").await, Acquired::Held("a".into()));
        }
    }
    redis.restart();
    assert_eq!(answered(&lock, "b").await, Acquired::Taken, "it came back empty");
    assert_eq!(lock.renew(&[claim("a"), claim("b")]).await.expect("asked"), [false, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_whose_answer_is_lost_can_be_asked_again() {
    let redis = Redis::start(&[]);
    let proxy = Proxy::start(redis.port());
    let lock = lock(&through(&proxy));
    lock.release(&[(claim("a").name, claim("a").run)]).await.expect("connected");
    // The command arrives, the answer does not.
    proxy.cut_after(Way::ToClient, 1, Cut::Reset);
    assert!(lock.acquire(&claim("a")).await.is_err());
    proxy.heal();
    assert_eq!(answered(&lock, "a").await, Acquired::Mine);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_asking_shares_a_connection() {
    let redis = Redis::start(&[]);
    let proxy = Proxy::start(redis.port());
    let lock = Arc::new(lock(&through(&proxy)));
    let asked = (0..200).map(|number| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire(&claim(&format!("r{number}"))).await.is_ok() })
    });
    assert!(futures_util::future::join_all(asked).await.into_iter().all(|asked| asked.is_ok_and(|ok| ok)));
    assert_eq!(proxy.connections(), 1);
}

pub fn hint(tail: u64) -> Hint {
    let news = ThreadNews {
        generation: Generation(3),
        tail,
        fence: Fence(1),
        active: true,
        stop_requested: false,
        gone: false,
        queue: threadline_core::QueueState::default(),
    };
    Hint::Thread(ThreadKey(1), news)
}

pub async fn next(end: &mut BusEnd) -> BusMessage {
    time::timeout(PATIENCE, end.heard.recv()).await.expect("something is heard in time").expect("the bus is there")
}

/// Tells until it is heard: a hint may be lost while a connection is made.
pub async fn heard_again(teller: &BusEnd, listener: &mut BusEnd, tail: u64) {
    let delivered = async {
        loop {
            teller.bus.tell(hint(tail));
            if time::timeout(Duration::from_millis(200), listener.heard.recv()).await
                == Ok(Some(BusMessage::Hint(hint(tail))))
            {
                return;
            }
        }
    };
    time::timeout(PATIENCE, delivered).await.expect("the connection to the bus is restored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_that_was_cut_off_resyncs_and_continues() {
    let redis = Redis::start(&[]);
    let proxy = Proxy::start(redis.port());
    let teller = bus::redis::join(RedisServers::parse(&redis.url()).expect("an address"), "x:");
    let mut listener = bus::redis::join(RedisServers::parse(&through(&proxy)).expect("an address"), "x:");
    listener.bus.listen(Channel::Thread(ThreadKey(1)));
    assert_eq!(next(&mut listener).await, BusMessage::Resync);
    heard_again(&teller, &mut listener, 1).await;
    for (tail, how) in [(2, "reset"), (3, "closed"), (4, "silent"), (5, "restarted")] {
        match how {
            "reset" => proxy.cut(Cut::Reset),
            "closed" => proxy.cut(Cut::Fin),
            // Half-open: only its own pings can find that.
            "silent" => {
                proxy.set(Way::Both, Flow::Stall);
                time::sleep(REDIS_PING + REDIS_TIMEOUT * 2).await;
                proxy.cut(Cut::Reset);
                proxy.heal();
            }
            _ => redis.restart(),
        }
        while next(&mut listener).await != BusMessage::Resync {}
        heard_again(&teller, &mut listener, tail).await;
    }
    // Channels without a subscriber on this node are not delivered to it.
    listener.bus.ignore(&Channel::Thread(ThreadKey(1)));
    let unsubscribed = async {
        while redis.command(&["PUBSUB", "NUMSUB", "x:thread:1"]) != "x:thread:1\n0" {
            time::sleep(Duration::from_millis(20)).await;
        }
    };
    time::timeout(PATIENCE, unsubscribed).await.expect("it unsubscribes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_without_redis_drops_messages_and_works_once_redis_is_there() {
    let redis = Redis::start(&[]);
    redis.kill();
    let teller = bus::redis::join(RedisServers::parse(&redis.url()).expect("an address"), "x:");
    let mut listener = bus::redis::join(RedisServers::parse(&redis.url()).expect("an address"), "x:");
    listener.bus.listen(Channel::Thread(ThreadKey(1)));
    let begun = Instant::now();
    for tail in 0..100_000 {
        teller.bus.tell(hint(tail));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "telling never waits");
    redis.restart();
    assert_eq!(next(&mut listener).await, BusMessage::Resync);
    heard_again(&teller, &mut listener, 200_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_messages_on_a_channel_are_ignored() {
    let redis = Redis::start(&[]);
    let mut listener = bus::redis::join(RedisServers::parse(&redis.url()).expect("an address"), "x:");
    let teller = bus::redis::join(RedisServers::parse(&redis.url()).expect("an address"), "x:");
    listener.bus.listen(Channel::Thread(ThreadKey(1)));
    assert_eq!(next(&mut listener).await, BusMessage::Resync);
    heard_again(&teller, &mut listener, 1).await;
    for nonsense in
        ["", "1", "1 x", "2 1 1 1 1", "1 1 5 1 999", "1 1 99999999999999999999 1 1", "\u{0}", "1 -1 -1 -1 -1"]
    {
        redis.command(&["PUBLISH", "x:thread:1", nonsense]);
    }
    // A later release may add to what it tells.
    redis.command(&["PUBLISH", "x:thread:1", "1 3 7 1 1 more"]);
    let mut heard = next(&mut listener).await;
    // Messages sent before the subscription was confirmed may come again.
    while heard == BusMessage::Hint(hint(1)) {
        heard = next(&mut listener).await;
    }
    assert_eq!(heard, BusMessage::Hint(hint(7)));
}
