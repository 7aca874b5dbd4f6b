//! The lock in front of the store, and wake-ups between nodes: whatever becomes of them, the store decides.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use threadline_core::{FeedCursor, Fence, Generation, RunId, RunStatus, ThreadId, UserId};
use threadline_engine::{
    LockTiming, Ports, Service, StartError,
    cluster::{
        bus::{Hint, ThreadNews, local::LocalBus},
        lock::{Acquired, Claim, DynLock, Lock, LockError, LockName, LockResult, local::LocalLock},
    },
    subscription::{Delivery, FeedDelivery},
};
use threadline_store::DynStore;

use crate::support::{Node, events, new_run, project, run_id, run_seed, settle, thread_id};

/// A lock that can be away, and counts.
#[derive(Default)]
struct Spy {
    inner: LocalLock,
    away: AtomicBool,
    renewals: AtomicUsize,
}

impl Spy {
    fn there(&self) -> LockResult<()> {
        if self.away.load(SeqCst) { Err(LockError("away".into())) } else { Ok(()) }
    }

    async fn holder(&self, thread: &str) -> Option<String> {
        let probe = Claim { name: name(thread), run: run_id("probe"), ttl: Duration::from_secs(1) };
        match self.inner.acquire(&probe).await.expect("asked") {
            Acquired::Held(holder) => Some(holder),
            _ => {
                self.inner.release(&[(probe.name, probe.run)]).await.expect("released");
                None
            }
        }
    }

    /// As after a FLUSHALL.
    async fn lose(&self, thread: &str, run: &str) {
        self.inner.release(&[(name(thread), run_id(run))]).await.expect("released");
    }
}

#[async_trait]
impl Lock for Spy {
    async fn acquire(&self, claim: &Claim) -> LockResult<Acquired> {
        self.there()?;
        self.inner.acquire(claim).await
    }
    async fn take_over(&self, claim: &Claim, holder: &str) -> LockResult<bool> {
        self.there()?;
        self.inner.take_over(claim, holder).await
    }
    async fn renew(&self, claims: &[Claim]) -> LockResult<Vec<bool>> {
        self.renewals.fetch_add(claims.len(), SeqCst);
        self.there()?;
        self.inner.renew(claims).await
    }
    async fn release(&self, locks: &[(LockName, RunId)]) -> LockResult<()> {
        self.there()?;
        self.inner.release(locks).await
    }
}

fn name(thread: &str) -> LockName {
    LockName::new(&project(), &UserId::new("alice").expect("id"), &thread_id(thread))
}

/// Two nodes over one store, with one lock in front.
struct Pair {
    one: Node,
    two: Service,
    lock: Arc<Spy>,
    bus: LocalBus,
    thread: ThreadId,
}

impl Pair {
    async fn start(heartbeat: Duration) -> Self {
        let mut one = Node::start();
        let (lock, bus) = (Arc::new(Spy::default()), LocalBus::default());
        let service = || {
            Service::start(Ports {
                lock: lock.clone() as DynLock,
                bus: bus.join(),
                timing: LockTiming { heartbeat, ..LockTiming::default() },
                ..Ports::alone(one.store.clone() as DynStore, one.clock.clone())
            })
        };
        let (first, two) = (service(), service());
        one.service = first;
        let thread = one.thread("t").await;
        Self { one, two, lock, bus, thread }
    }

    async fn start_on_two(&self, run: &str) -> Result<bool, StartError> {
        let started = self.two.runs.start(&self.one.alice, &self.thread, new_run(run)).await;
        settle().await;
        started.map(|started| started.created)
    }

    async fn finish(&self, run: &str) {
        self.one.service.runs.finish(&self.one.alice, &self.thread, &run_id(run), 0).await.expect("finishes");
        settle().await;
    }
}

const BEAT: Duration = Duration::from_secs(15);

fn refused(answer: Result<bool, StartError>, by: &str) {
    match answer {
        Err(StartError::RunActive(active)) => assert_eq!(active.run.id, run_id(by)),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_second_start_on_another_node_costs_the_store_no_write() {
    run_seed(0, async {
        let pair = Pair::start(BEAT).await;
        pair.one.run(&pair.thread, "a").await;
        let starts = pair.one.store.starts();
        refused(pair.start_on_two("b").await, "a");
        assert_eq!(pair.one.store.starts(), starts, "the lock was enough");
        pair.finish("a").await;
        assert_eq!(pair.lock.holder("t").await, None, "given back with the end of the run");
        assert!(pair.start_on_two("b").await.expect("free"));
    });
}

#[test]
fn a_repeated_start_gets_its_response_whichever_node_holds_the_lock() {
    run_seed(0, async {
        let pair = Pair::start(BEAT).await;
        pair.one.run(&pair.thread, "a").await;
        assert!(!pair.start_on_two("a").await.expect("the same run"));
        pair.finish("a").await;
        pair.one.run(&pair.thread, "b").await;
        assert!(!pair.start_on_two("a").await.expect("a repetition is no new run"));
        assert_eq!(pair.lock.holder("t").await.as_deref(), Some("b"));
        refused(pair.start_on_two("c").await, "b");
    });
}

#[test]
fn a_stale_lock_refuses_no_run() {
    run_seed(0, async {
        let pair = Pair::start(BEAT).await;
        // A lock left by a start that never reached the store, or by a run whose release failed.
        let dead = Claim { name: name("t"), run: run_id("dead"), ttl: Duration::from_secs(3_600) };
        pair.lock.acquire(&dead).await.expect("asked");
        assert!(pair.start_on_two("a").await.expect("taken over"));
        assert_eq!(pair.lock.holder("t").await.as_deref(), Some("a"));
        refused(pair.start_on_two("b").await, "a");
    });
}

#[test]
fn a_lock_that_vanishes_ends_no_run_and_admits_no_second() {
    run_seed(0, async {
        let pair = Pair::start(BEAT).await;
        pair.one.run(&pair.thread, "a").await;
        pair.lock.lose("t", "a").await;
        refused(pair.start_on_two("b").await, "a");
        assert_eq!(pair.lock.holder("t").await, None, "who was refused by the store gives the lock back");
        let lease = Some(Duration::from_secs(100));
        pair.one.service.runs.heartbeat(&pair.one.alice, &pair.thread, &run_id("a"), lease).await.expect("alive");
        pair.one.pass(BEAT + Duration::from_secs(2)).await;
        assert_eq!(pair.lock.holder("t").await.as_deref(), Some("a"), "the renewal has restored it");
    });
}

#[test]
fn a_lock_that_a_refused_start_had_for_a_moment_is_restored() {
    run_seed(0, async {
        let pair = Pair::start(Duration::from_secs(1)).await;
        pair.one.run(&pair.thread, "a").await;
        // A start that finds the lock free has it until the store refuses: a renewal just then is refused.
        pair.lock.lose("t", "a").await;
        let moment = Claim { name: name("t"), run: run_id("b"), ttl: Duration::from_millis(2_500) };
        assert_eq!(pair.lock.inner.acquire(&moment).await.expect("asked"), Acquired::Taken);
        pair.one.pass(Duration::from_secs(5)).await;
        assert_eq!(pair.lock.holder("t").await.as_deref(), Some("a"));
    });
}

#[test]
fn a_lock_is_renewed_while_its_run_is_active_and_every_second_after_a_failure() {
    run_seed(0, async {
        let pair = Pair::start(Duration::from_secs(5)).await;
        pair.one.run(&pair.thread, "a").await;
        let beat = async |seconds| {
            let lease = Some(Duration::from_secs(seconds));
            pair.one.service.runs.heartbeat(&pair.one.alice, &pair.thread, &run_id("a"), lease).await.expect("alive");
        };
        beat(3_600).await;
        pair.one.pass(Duration::from_secs(61)).await;
        let renewals = pair.lock.renewals.load(SeqCst);
        assert!((9..=12).contains(&renewals), "{renewals} in a minute");
        assert_eq!(pair.lock.holder("t").await.as_deref(), Some("a"), "for longer than its time to live");
        pair.lock.away.store(true, SeqCst);
        pair.one.pass(Duration::from_secs(10)).await;
        let tried = pair.lock.renewals.load(SeqCst) - renewals;
        assert!((5..=11).contains(&tried), "{tried} tries in ten seconds");
        pair.lock.away.store(false, SeqCst);
        pair.one.pass(Duration::from_secs(2)).await;
        pair.finish("a").await;
        let renewals = pair.lock.renewals.load(SeqCst);
        pair.one.pass(Duration::from_secs(30)).await;
        assert_eq!(pair.lock.renewals.load(SeqCst), renewals, "nothing is kept for a run that is over");
    });
}

#[test]
fn without_the_lock_the_store_decides_alone() {
    run_seed(0, async {
        let pair = Pair::start(BEAT).await;
        pair.lock.away.store(true, SeqCst);
        pair.one.run(&pair.thread, "a").await;
        refused(pair.start_on_two("b").await, "a");
        pair.finish("a").await;
        assert!(pair.start_on_two("b").await.expect("free"));
        pair.lock.away.store(false, SeqCst);
        refused(pair.start_on_two("c").await, "b");
    });
}

#[test]
fn a_released_or_lapsed_run_is_succeeded_through_the_gate() {
    run_seed(0, async {
        let pair = Pair::start(BEAT).await;
        pair.one.run(&pair.thread, "a").await;
        pair.one.service.runs.release(&pair.one.alice, &pair.thread, &run_id("a")).await.expect("released");
        assert!(pair.start_on_two("b").await.expect("its lock was released"));
        refused(pair.start_on_two("c").await, "b");
        // Its lease is over, and the reaper has not come by yet.
        pair.one.clock.advance(Duration::from_secs(21));
        assert!(pair.start_on_two("c").await.expect("its lease is over"));
        let run = pair.two.runs.get(&pair.one.alice, &pair.thread, &run_id("b")).await.expect("a run");
        assert_eq!(run.status, RunStatus::Abandoned);
        assert_eq!(pair.lock.holder("t").await.as_deref(), Some("c"));
    });
}

#[test]
fn a_deleted_thread_leaves_no_lock() {
    run_seed(0, async {
        let pair = Pair::start(BEAT).await;
        pair.one.run(&pair.thread, "a").await;
        pair.one.service.threads.delete(&pair.one.alice, &pair.thread).await.expect("deleted");
        settle().await;
        assert_eq!(pair.lock.holder("t").await, None);
    });
}

#[test]
fn a_commit_on_one_node_wakes_followers_on_the_other() {
    run_seed(0, async {
        let pair = Pair::start(BEAT).await;
        let (alice, thread) = (&pair.one.alice, &pair.thread);
        let mut log = pair
            .two
            .events
            .subscribe(alice, thread, 0, None, None, threadline_engine::subscription::FollowMethod::Socket)
            .await
            .expect("subscribes");
        let mut feed = pair.two.feed.subscribe(alice, None, FeedCursor::START).await.expect("subscribes");
        assert!(matches!(log.next().await, Ok(Some(Delivery::CaughtUp(0)))));
        while !matches!(feed.next().await, Ok(FeedDelivery::CaughtUp(_))) {}
        pair.one.run(thread, "a").await;
        // Far sooner than the recheck.
        let soon = Duration::from_millis(50);
        let entry = async {
            loop {
                match feed.next().await {
                    Ok(FeedDelivery::Rebased { .. }) => {}
                    entry => return entry,
                }
            }
        };
        let entry = tokio::time::timeout(soon, entry).await.expect("the feed is woken");
        assert!(matches!(entry, Ok(FeedDelivery::Entries(_))));
        let appended = events(&[r#"{"type":"A"}"#]);
        pair.one.service.runs.append(alice, thread, &run_id("a"), Some(1), appended).await.expect("appends");
        let page = tokio::time::timeout(soon, log.next()).await.expect("the log is woken");
        assert!(matches!(page, Ok(Some(Delivery::Events(slice))) if slice.count() == 1));
        // A stop requested on the second node reaches the producer on the first.
        let (topic, fence) = pair.one.service.events.watch_run(alice, thread, &run_id("a")).await.expect("a run");
        let mut changes = topic.watch();
        pair.two.runs.stop(alice, thread, &run_id("a")).await.expect("asked");
        let stopped = async { while !topic.state().stop_requested(fence) && changes.changed().await.is_ok() {} };
        tokio::time::timeout(soon, stopped).await.expect("the stop is heard");
        pair.two.threads.delete(alice, thread).await.expect("deleted");
        let gone = async { while !topic.state().gone && changes.changed().await.is_ok() {} };
        tokio::time::timeout(soon, gone).await.expect("the deletion is heard");
    });
}

#[test]
fn a_false_hint_of_another_node_changes_nothing_for_readers() {
    run_seed(0, async {
        let pair = Pair::start(BEAT).await;
        let (alice, thread) = (&pair.one.alice, &pair.thread);
        let append = async |producer_seq| {
            let appended = events(&[r#"{"type":"A"}"#]);
            let runs = &pair.one.service.runs;
            runs.append(alice, thread, &run_id("a"), Some(producer_seq), appended).await.expect("appends");
        };
        let fence = pair.one.run(thread, "a").await.run.fence;
        append(1).await;
        let via = threadline_engine::subscription::FollowMethod::Socket;
        let mut whole = pair.two.events.subscribe(alice, thread, 0, None, None, via).await.expect("subscribes");
        let bound = pair.two.events.subscribe(alice, thread, 0, None, Some(&run_id("a")), via).await;
        let mut readers = [&mut whole, &mut bound.expect("subscribes")];
        for reader in &mut readers {
            assert!(matches!(reader.next().await, Ok(Some(Delivery::Events(slice))) if slice.count() == 1));
            assert!(matches!(reader.next().await, Ok(Some(Delivery::CaughtUp(1)))));
        }
        let (liar, key) = (pair.bus.join(), pair.one.key(thread).await);
        let news = ThreadNews {
            generation: Generation::FIRST,
            tail: 1,
            fence,
            active: true,
            stop_requested: false,
            gone: false,
            queue: threadline_core::QueueState::default(),
        };
        for news in [
            ThreadNews { tail: 5_000, ..news },
            ThreadNews { tail: 5_000, fence: Fence(fence.0 + 1), ..news },
            ThreadNews { active: false, ..news },
            ThreadNews { gone: true, ..news },
        ] {
            liar.bus.tell(Hint::Thread(key, news));
            settle().await;
            for reader in &mut readers {
                let waiting = tokio::time::timeout(Duration::from_millis(50), reader.next()).await;
                assert!(waiting.is_err(), "{news:?}: {waiting:?}");
            }
        }
        append(2).await;
        for reader in &mut readers {
            assert!(matches!(reader.next().await, Ok(Some(Delivery::Events(slice))) if slice.last_seq() == Some(2)));
        }
    });
}
