//! What following costs the store: reads per event, whatever the number of readers.

use std::{sync::Arc, time::Duration};

use threadline_core::{Batch, Clock, LogSlice, NewEvents, Seq, ThreadKey, Timestamp, limits::MIN_MEMORY_BYTES};
use threadline_engine::subscription::{Delivery, Hub, Subscription, TopicState};
use threadline_store::{Append, DynStore, Head, LogStore, RunStore, StartOutcome, StartRun, memory::MemoryStore};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    probe::{Intercept, Probe},
    support::{Rng, make_thread, numbered, run_id, run_seed, settle},
};

/// One thread with an active run; reads go through the probe.
struct Bench {
    raw: Arc<MemoryStore>,
    probe: Arc<Probe>,
    hub: Arc<Hub>,
    key: ThreadKey,
    head: Head,
}

impl Bench {
    async fn new(slow: bool) -> Self {
        let raw = Arc::new(MemoryStore::new(Clock::manual(Timestamp(0))));
        let probe = if slow { Intercept::slow(raw.clone(), Rng::new(1)) } else { Intercept::before(raw.clone()) };
        let key = make_thread(&raw, "t").await.key;
        let lease = Duration::from_secs(60);
        let start = StartRun {
            key,
            run: run_id("r"),
            agent: None,
            turn: None,
            attempt_id: None,
            author: None,
            asked_by: None,
            lease,
            closing: None,
            events: None,
            at: None,
            epoch: None,
            past_queue: false,
        };
        let StartOutcome::Started(done) = raw.start(start).await.expect("start") else { panic!("start was refused") };
        Self { raw, probe: Arc::new(probe), hub: Arc::default(), key, head: done.head }
    }

    async fn append(&mut self, events: NewEvents) -> LogSlice {
        let append = Append { key: self.key, fence: self.head.write_fence(), epoch: None, producer_seq: None, events };
        let done = self.raw.append(std::slice::from_ref(&append)).await.expect("append").remove(0).expect("appended");
        let batch = Batch::new(done.first_seq, done.head.tail, done.run, done.at, append.events.body().clone());
        self.head = done.head;
        LogSlice(vec![Arc::new(batch)])
    }

    async fn append_here(&mut self, count: usize) {
        let slice = self.append(numbered("here", count)).await;
        self.hub.commit(&self.head, &slice);
    }

    async fn append_elsewhere(&mut self, count: usize) {
        self.append(numbered("elsewhere", count)).await;
        self.hub.advance(self.key, &TopicState::committed(&self.head));
    }

    async fn open(&self, cursor: Seq) -> Subscription {
        let store = self.probe.clone() as DynStore;
        Subscription::open(&self.hub, store, self.key, cursor, None, None).await.expect("open")
    }

    /// Live readers, each of which follows until it has seen `last`.
    async fn followers(&self, count: usize, last: Seq) -> JoinSet<()> {
        let mut readers = JoinSet::new();
        for _ in 0..count {
            let mut reader = self.open(self.head.tail).await;
            readers.spawn(async move {
                while reader.cursor() < last {
                    reader.next().await.expect("next").expect("delivery");
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        readers
    }
}

async fn read_to(reader: &mut Subscription, last: Seq) {
    while reader.cursor() < last {
        reader.next().await.expect("next").expect("delivery");
    }
}

async fn finish(mut readers: JoinSet<()>) {
    while let Some(done) = readers.join_next().await {
        done.expect("reader");
    }
}

#[test]
fn events_of_another_node_are_read_once_for_all_readers() {
    for (readers, slow) in [(1, false), (64, false), (64, true), (256, false), (256, true)] {
        run_seed(readers as u64, async {
            const EVENTS: u64 = 100;
            let mut bench = Bench::new(slow).await;
            bench.append_elsewhere(5).await;
            let followers = bench.followers(readers, bench.head.tail + EVENTS).await;
            bench.probe.take_reads();
            for _ in 0..EVENTS {
                bench.append_elsewhere(1).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            finish(followers).await;
            let reads = bench.probe.take_reads() as u64;
            assert!((EVENTS..=EVENTS + 5).contains(&reads), "{readers} readers, slow {slow}: {reads} reads");
        });
    }
}

#[test]
fn a_burst_of_another_node_is_read_in_fewer_reads_than_it_has_events() {
    run_seed(1, async {
        let mut bench = Bench::new(true).await;
        let followers = bench.followers(64, 100).await;
        for _ in 0..100 {
            bench.append_elsewhere(1).await;
            tokio::task::yield_now().await;
        }
        finish(followers).await;
        let reads = bench.probe.take_reads();
        assert!(reads <= 100, "{reads} reads");
    });
}

#[test]
fn events_of_this_node_cost_no_read() {
    for readers in [1, 64, 256] {
        run_seed(readers as u64, async {
            let mut bench = Bench::new(false).await;
            bench.append_here(5).await;
            let followers = bench.followers(readers, bench.head.tail + 300).await;
            bench.probe.take_reads();
            for _ in 0..100 {
                bench.append_here(3).await;
                settle().await;
            }
            finish(followers).await;
            assert_eq!(bench.probe.take_reads(), 0, "{readers} readers");
        });
    }
}

#[test]
fn a_reader_of_history_does_not_disturb_the_ring() {
    run_seed(1, async {
        let mut bench = Bench::new(false).await;
        bench.append_here(2_500).await;
        let mut live = bench.open(2_500).await;
        assert!(matches!(live.next().await, Ok(Some(Delivery::CaughtUp(2_500)))));
        // One reader reads the beginning and leaves, then events come from the other node and from this one.
        for cursor in [0, 700, 1_499] {
            let mut history = bench.open(cursor).await;
            assert!(matches!(history.next().await, Ok(Some(Delivery::Events(_)))));
        }
        bench.probe.take_reads();
        bench.append_elsewhere(1).await;
        read_to(&mut live, 2_501).await;
        assert_eq!(bench.probe.take_reads(), 1);
        for cursor in [0, 700, 1_499, 2_000] {
            let mut history = bench.open(cursor).await;
            read_to(&mut history, 2_501).await;
        }
        bench.append_here(1).await;
        bench.probe.take_reads();
        let mut late = bench.open(2_500).await;
        read_to(&mut late, 2_502).await;
        read_to(&mut live, 2_502).await;
        assert_eq!(bench.probe.take_reads(), 0, "both are served from memory");
    });
}

#[test]
fn a_reader_that_only_joined_does_not_pin_an_empty_ring() {
    run_seed(1, async {
        let mut bench = Bench::new(false).await;
        bench.append_here(2_500).await;
        // The first page that a reader takes is old. It must not block the newest events.
        let mut history = bench.open(0).await;
        assert!(matches!(history.next().await, Ok(Some(Delivery::Events(_)))));
        let followers = bench.followers(64, 2_520).await;
        bench.probe.take_reads();
        for _ in 0..20 {
            bench.append_elsewhere(1).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        finish(followers).await;
        assert_eq!(bench.probe.take_reads(), 20);
    });
}

#[test]
fn history_is_read_without_the_single_flight_lock() {
    run_seed(1, async {
        let mut bench = Bench::new(false).await;
        bench.append_elsewhere(1_200).await;
        let (mut near, mut far) = (bench.open(1_199).await, bench.open(0).await);
        // The near reader takes the lock, and its read hangs.
        bench.probe.read_gate.hold();
        assert!(timeout(Duration::from_millis(5), near.next()).await.is_err());
        let waiting = tokio::spawn(async move {
            near.next().await.expect("next");
        });
        settle().await;
        assert_eq!(bench.probe.take_reads(), 1, "an abandoned read still reads for all");
        // If the far reader waited for the lock, its read would not reach the store.
        assert!(timeout(Duration::from_millis(5), far.next()).await.is_err());
        assert_eq!(bench.probe.take_reads(), 1, "the far reader reads for itself");
        // Another near reader waits for the first one.
        let mut second = bench.open(1_198).await;
        assert!(timeout(Duration::from_millis(5), second.next()).await.is_err());
        assert_eq!(bench.probe.take_reads(), 0, "one near reader reads for all");
        bench.probe.read_gate.open();
        waiting.await.expect("near reader");
        assert!(matches!(far.next().await, Ok(Some(Delivery::Events(_)))));
    });
}

#[test]
fn stuck_readers_of_large_events_share_a_bounded_room() {
    run_seed(1, async {
        let mut bench = Bench::new(false).await;
        let large = format!("{{\"type\":\"X\",\"pad\":\"{}\"}}", "x".repeat(4 * 1_024 * 1_024));
        bench.append(NewEvents::from_ndjson(large.as_bytes()).expect("valid")).await;
        bench.append_here(1).await;
        let room = MIN_MEMORY_BYTES / large.len();
        let mut served = Vec::new();
        for _ in 0..room {
            let mut reader = bench.open(0).await;
            assert!(matches!(reader.next().await, Ok(Some(Delivery::Events(_)))));
            served.push(reader);
        }
        // The next one waits, and holds nothing; a dropped wait loses nothing.
        let mut late = bench.open(0).await;
        assert!(timeout(Duration::from_secs(60), late.next()).await.is_err());
        assert_eq!(late.cursor(), 0);
        // A reader of small events is not concerned.
        let mut small = bench.open(1).await;
        assert!(matches!(small.next().await, Ok(Some(Delivery::Events(_)))));
        // A reader that asks for more has released its page.
        let _ = served[0].next().await;
        assert!(matches!(late.next().await, Ok(Some(Delivery::Events(_)))));
        assert_eq!(late.cursor(), 1);
    });
}

#[test]
fn an_idle_reader_delays_no_other() {
    run_seed(1, async {
        let mut bench = Bench::new(false).await;
        bench.append_elsewhere(5).await;
        let (mut left_alone, mut other) = (bench.open(0).await, bench.open(0).await);
        bench.probe.read_gate.hold();
        // As in a response that its client does not read: its read has begun, for all readers near the tail, and its own piece
        // is never requested.
        let mut begun = Box::pin(left_alone.next());
        assert!(futures_util::poll!(begun.as_mut()).is_pending());
        settle().await;
        bench.probe.read_gate.open();
        timeout(Duration::from_secs(5), read_to(&mut other, 5)).await.expect("it continues");
        begun.await.expect("next").expect("delivery");
        read_to(&mut left_alone, 5).await;
    });
}
