//! The world that the readers live in: one store, two hubs, a writer on the first node, and a lossy bus.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, atomic::AtomicBool, atomic::Ordering::SeqCst},
    time::Duration,
};

use threadline_core::{Batch, Clock, Fence, LogSlice, NewEvents, RunStatus, ThreadKey, Timestamp};
use threadline_engine::subscription::{Hub, TopicState};
use threadline_store::{
    Append, CloseOutcome, CloseWhen, Closing, DynStore, Head, LogStore, Packing, RunStore, StartOutcome, StartRun,
    ThreadStore, memory::MemoryStore,
};
use tokio::{
    sync::broadcast,
    task::JoinSet,
    time::{interval, sleep},
};

use super::{
    checker::{Log, RunTruth, Stats, Truth},
    planted::Design,
    reader,
};
use crate::{
    probe::Intercept,
    support::{Rng, events, make_thread, run_id, thread_id},
};

/// What varies between tests.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub design: Design,
    /// Percent of hints that the bus loses.
    pub loss: u64,
    pub recheck: bool,
}

/// What came of a seed.
pub struct Outcome {
    pub violations: Vec<String>,
    pub stats: Stats,
}

pub struct World {
    pub options: Options,
    pub raw: Arc<MemoryStore>,
    pub slow: DynStore,
    pub hubs: [Arc<Hub>; 2],
    /// The writer has stopped: readers continue without leaving.
    pub quiet: AtomicBool,
    truth: Mutex<Truth>,
    stats: Mutex<Stats>,
    violations: Mutex<Vec<String>>,
    broadcasts: Mutex<HashMap<ThreadKey, broadcast::Sender<Arc<Batch>>>>,
}

impl World {
    pub fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().expect("lock")
    }

    pub fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().expect("lock")
    }

    pub fn violation(&self, what: String) {
        self.violations.lock().expect("lock").push(what);
    }

    /// For the planted readers.
    pub fn listen(&self, key: ThreadKey) -> Option<broadcast::Receiver<Arc<Batch>>> {
        self.broadcasts.lock().expect("lock").get(&key).map(broadcast::Sender::subscribe)
    }
}

const THREADS: [&str; 2] = ["t0", "t1"];
const STEPS: usize = 60;
/// The longest that the bus holds a hint back.
const DELAY: u64 = 60;

/// Runs one world to its end.
pub async fn run(seed: u64, options: Options) -> Outcome {
    let mut rng = Rng::new(seed);
    let raw = Arc::new(MemoryStore::new(Clock::manual(Timestamp(0))));
    let slow = Arc::new(Intercept::slow(raw.clone(), rng.fork()));
    let world = Arc::new(World {
        options,
        raw,
        slow,
        hubs: [Arc::default(), Arc::default()],
        quiet: AtomicBool::new(false),
        truth: Mutex::default(),
        stats: Mutex::default(),
        violations: Mutex::default(),
        broadcasts: Mutex::default(),
    });
    let mut readers = JoinSet::new();
    let mut seats = Vec::new();
    for index in 0..6 {
        let (node, id) = (index % 2, THREADS[index / 2 % 2]);
        let seat = reader::Seat::default();
        readers.spawn(reader::read(world.clone(), node, thread_id(id), rng.fork(), seat.clone()));
        seats.push((index, id, seat));
    }
    let mut rechecks = JoinSet::new();
    for node in (0..2).filter(|_| options.recheck) {
        let world = world.clone();
        rechecks.spawn(async move {
            let mut tick = interval(Duration::from_secs(2));
            loop {
                tick.tick().await;
                recheck(&world, node).await;
            }
        });
    }
    let mut writer = Writer { world: world.clone(), rng: rng.fork(), threads: [None, None], made: 0 };
    for _ in 0..STEPS {
        writer.step().await;
    }
    rechecks.shutdown().await;
    sleep(Duration::from_millis(2 * DELAY)).await;
    world.quiet.store(true, SeqCst);
    if options.recheck {
        // One is enough.
        recheck(&world, 0).await;
        recheck(&world, 1).await;
    }
    sleep(Duration::from_millis(2_000)).await;
    for (index, id, seat) in &seats {
        check_end(&world, *index, id, seat).await;
    }
    // A reader that panicked is a failure too.
    while let Some(ended) = readers.try_join_next() {
        ended.expect("reader");
    }
    readers.shutdown().await;
    let violations = std::mem::take(&mut *world.violations.lock().expect("lock"));
    let stats = world.stats().clone();
    Outcome { violations, stats }
}

async fn recheck(world: &World, node: usize) {
    let hub = &world.hubs[node];
    hub.recheck(world.slow.as_ref(), world.slow.lineage().generation(), &hub.followed()).await.expect("recheck");
}

async fn check_end(world: &World, index: usize, id: &str, seat: &reader::Seat) {
    let thread = world.raw.thread_named(&crate::support::project(), &thread_id(id)).await.expect("store").thread();
    let session = seat.lock().expect("lock").clone();
    match (thread, session) {
        (Some(thread), Some(session)) => {
            if session.key != thread.key || session.cursor != thread.tail || !session.live {
                world.violation(format!("reader {index} stays at {session:?}, the tail is {}", thread.tail));
            }
        }
        (None, None) => {}
        (thread, session) => {
            world.violation(format!("reader {index}: thread {:?}, session {session:?}", thread.map(|t| t.key)));
        }
    }
}

#[derive(Clone, Copy)]
struct Writing {
    key: ThreadKey,
    run: Option<Fence>,
    tail: u64,
}

/// Writes on the first node, straight through the port.
struct Writer {
    world: Arc<World>,
    rng: Rng,
    threads: [Option<Writing>; 2],
    made: usize,
}

impl Writer {
    async fn step(&mut self) {
        let pause = if self.rng.chance(5) { 1_500 } else { 40 };
        sleep(self.rng.millis(pause)).await;
        let place = self.rng.below(2) as usize;
        let Some(writing) = self.threads[place] else { return self.create(place).await };
        let dice = self.rng.below(100);
        self.threads[place] = match (writing.run, dice) {
            (_, 0..=3) => self.delete(writing).await,
            (_, 4..=5) => {
                let raw = &self.world.raw;
                let sealed = raw.seal(writing.key).await.expect("seal");
                let packed = raw.pack(writing.key, Duration::ZERO).await.expect("pack") == Packing::More;
                self.world.stats().sealed += usize::from(sealed) + usize::from(packed);
                Some(writing)
            }
            (None, _) => Some(self.start(writing).await),
            (Some(fence), 6..=15) => Some(self.close(writing, fence).await),
            (Some(fence), 16..=23) => {
                let end = r#"{"type":"RUN_FINISHED"}"#;
                Some(self.append(writing, fence, &[end.to_owned()]).await)
            }
            // More batches than the ring holds.
            (Some(fence), 24) => {
                let mut writing = writing;
                for _ in 0..280 {
                    let lines = self.lines(1);
                    writing = self.append(writing, fence, &lines).await;
                }
                Some(writing)
            }
            // More events than count as near the tail.
            (Some(fence), 25) if self.rng.chance(50) => {
                let lines = self.lines(1_100);
                Some(self.append(writing, fence, &lines).await)
            }
            // More bytes than the ring or a page holds.
            (Some(fence), 26) if self.rng.chance(15) => {
                let pad = "x".repeat(100_000);
                let mut writing = writing;
                for _ in 0..4 {
                    self.made += 1;
                    let line = format!(r#"{{"type":"X","n":{},"pad":"{pad}"}}"#, self.made);
                    writing = self.append(writing, fence, &[line]).await;
                }
                Some(writing)
            }
            (Some(fence), _) => {
                let count = 1 + self.rng.below(4);
                let lines = self.lines(count);
                Some(self.append(writing, fence, &lines).await)
            }
        };
    }

    fn lines(&mut self, count: u64) -> Vec<String> {
        let mut line = || {
            self.made += 1;
            format!(r#"{{"type":"X","n":{}}}"#, self.made)
        };
        (0..count).map(|_| line()).collect()
    }

    async fn create(&mut self, place: usize) {
        let thread = make_thread(&self.world.raw, THREADS[place]).await;
        let log = Log { events: Vec::new(), runs: Vec::new(), gone: false };
        self.world.truth().logs.insert(thread.key, log);
        self.world.broadcasts.lock().expect("lock").insert(thread.key, broadcast::Sender::new(16));
        self.threads[place] = Some(Writing { key: thread.key, run: None, tail: 0 });
    }

    async fn delete(&mut self, writing: Writing) -> Option<Writing> {
        assert!(self.world.raw.delete_thread(writing.key, None).await.expect("delete"));
        let mut truth = self.world.truth();
        let log = truth.logs.get_mut(&writing.key).expect("log");
        log.gone = true;
        drop(truth);
        self.world.broadcasts.lock().expect("lock").remove(&writing.key);
        self.tell(writing.key, TopicState::GONE, None);
        None
    }

    async fn start(&mut self, writing: Writing) -> Writing {
        self.made += 1;
        let start = StartRun {
            key: writing.key,
            run: run_id(&format!("r{}", self.made)),
            agent: None,
            turn: None,
            attempt_id: None,
            author: None,
            asked_by: None,
            lease: Duration::from_secs(3_600),
            closing: None,
            events: self.rng.chance(20).then(|| events(&[r#"{"type":"A"}"#, r#"{"type":"RUN_FINISHED"}"#])),
            at: None,
            epoch: None,
            past_queue: false,
        };
        let StartOutcome::Started(done) = self.world.raw.start(start).await.expect("start") else {
            panic!("the start was refused");
        };
        let last = done.run.ended_at.map(|_| done.run.last_seq());
        self.world.truth().logs.get_mut(&writing.key).expect("log").runs.push(RunTruth { run: done.run.clone(), last });
        let (run, tail) = (done.head.active.as_ref().map(|_| done.run.fence), done.head.tail);
        self.committed(done.head, done.slice);
        Writing { run, tail, ..writing }
    }

    async fn append(&mut self, writing: Writing, fence: Fence, lines: &[String]) -> Writing {
        let append =
            Append { key: writing.key, fence: fence.into(), epoch: None, producer_seq: None, events: events(lines) };
        let done = self.world.raw.append(std::slice::from_ref(&append)).await.expect("append");
        let done = done.into_iter().next().flatten().expect("the append was refused");
        let (tail, body) = (done.head.tail, append.events.body().clone());
        let batch = Arc::new(Batch::new(done.first_seq, tail, done.run, done.at, body));
        let run = done.head.active.as_ref().map(|_| fence);
        self.ended(writing.key, run.is_none(), tail);
        self.committed(done.head, LogSlice(vec![batch]));
        Writing { run, tail, ..writing }
    }

    /// Like the reaper: with closers, or without any event if the run has none.
    async fn close(&mut self, writing: Writing, fence: Fence) -> Writing {
        let run = self.world.raw.runs(writing.key, None, 1).await.expect("runs").remove(0);
        let events = (run.producer_seq > 0)
            .then(|| NewEvents::from_ndjson(b"{\"code\":\"lease-expired\",\"type\":\"RUN_ERROR\"}").expect("events"));
        let status = if events.is_some() { RunStatus::Error } else { RunStatus::Abandoned };
        let (tail, error_code, error_message) = (writing.tail, None, None);
        let closing = Closing { fence: fence.into(), tail, epoch: None, events, status, error_code, error_message };
        let CloseOutcome::Closed(done) =
            self.world.raw.close(writing.key, closing, CloseWhen::Always).await.expect("close")
        else {
            panic!("the close was refused");
        };
        self.ended(writing.key, true, done.head.tail);
        let tail = done.head.tail;
        self.committed(done.head, done.slice);
        Writing { run: None, tail, ..writing }
    }

    fn ended(&self, key: ThreadKey, ended: bool, last: u64) {
        if ended {
            let mut truth = self.world.truth();
            truth.logs.get_mut(&key).expect("log").runs.last_mut().expect("run").last = Some(last);
        }
    }

    fn committed(&mut self, head: Head, slice: LogSlice) {
        let mut truth = self.world.truth();
        let log = truth.logs.get_mut(&head.key).expect("log");
        log.events.extend(slice.events().map(|(_, event, batch)| batch.body.slice_ref(event)));
        assert_eq!(log.tail(), head.tail, "the store's tail");
        drop(truth);
        if let Some(live) = self.world.broadcasts.lock().expect("lock").get(&head.key) {
            for batch in &slice.0 {
                // The hub may have no subscriber.
                let _ = live.send(batch.clone());
            }
        }
        self.tell(head.key, TopicState::committed(&head), Some((head, slice)));
    }

    /// Publishes on the own node, and sends hints to the other one.
    fn tell(&mut self, key: ThreadKey, news: TopicState, commit: Option<(Head, LogSlice)>) {
        let own = self.world.hubs[0].clone();
        let publish = move || match &commit {
            Some((head, slice)) => own.commit(head, slice),
            None => own.advance(key, &news),
        };
        match self.rng.below(100) {
            // The node was killed between the commit and the word of it.
            0..=3 if self.world.options.recheck => {}
            // Two tasks of the node publish in the wrong order.
            4..=20 => {
                let late = self.rng.millis(10);
                tokio::spawn(async move {
                    sleep(late).await;
                    publish();
                });
            }
            _ => publish(),
        }
        let copies = if self.rng.chance(self.world.options.loss) { 0 } else { 1 + self.rng.below(2) };
        for _ in 0..copies {
            let (other, delay) = (self.world.hubs[1].clone(), self.rng.millis(DELAY));
            tokio::spawn(async move {
                sleep(delay).await;
                other.advance(key, &news);
            });
        }
    }
}
