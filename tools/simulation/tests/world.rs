//! State that the nodes and clients of one seed share: the durable store, the clocks, the failures, and the records.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::FutureExt;
use threadline_core::{Clock, ProjectId, Run, ThreadId, ThreadKey, Timestamp, limits::STOP_GRACE};
use threadline_store::{Head, RunStore, ThreadStore, memory::MemoryStore};
use tokio::sync::watch;

use crate::{
    beside::{Ether, Locks},
    judge::Event,
    plan::{Plan, Weather},
    planted::Design,
    record::{Lane, Tally},
    rng::Rng,
    through::Call,
    trace::Trace,
};

/// Time at which every simulation begins.
pub const BEGIN: Timestamp = Timestamp(1_800_000_000_000);

/// State of a node and of its connections to the store, the lock and the bus.
pub struct Node {
    pub rng: Rng,
    pub cut_off: bool,
    pub slow: bool,
    pub no_lock: bool,
    pub no_bus: bool,
    /// The node has shut down as requested.
    pub ended: bool,
    first_heads: HashMap<ThreadKey, Head>,
}

/// A start of a run that was refused because another run was active, with its times.
pub struct Held {
    pub thread: String,
    pub by: String,
    pub asked: Timestamp,
    pub answered: Timestamp,
}

/// Counts of events that every simulation has to exercise.
#[derive(Debug, Default, Clone)]
pub struct Counts {
    pub calls: usize,
    pub failed_before: usize,
    pub failed_after: usize,
    pub reconnects: usize,
    pub retries: usize,
    pub held: usize,
    pub fenced: usize,
    pub stops: usize,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        let Self { calls, failed_before, failed_after, reconnects, retries, held, fenced, stops } = other;
        self.calls += calls;
        self.failed_before += failed_before;
        self.failed_after += failed_after;
        self.reconnects += reconnects;
        self.retries += retries;
        self.held += held;
        self.fenced += fenced;
        self.stops += stops;
    }
}

impl Counts {
    /// Panics if an event happened so rarely that it counts as untested.
    pub fn assert_everything_happened(&self) {
        let Self { calls, failed_before, failed_after, reconnects, retries, held, fenced, stops } = *self;
        let all = [calls, failed_before, failed_after, reconnects, retries, held, fenced, stops];
        assert!(all.iter().all(|count| *count >= 20), "an event happened fewer than 20 times: {self:?}");
    }
}

/// Shared state of a simulation, as described at the top of this file.
pub struct World {
    pub plan: Plan,
    pub design: Design,
    /// Clock of the store.
    pub clock: Clock,
    /// Clocks of the nodes, which differ from the store's as planned.
    pub clocks: Vec<Clock>,
    pub store: Arc<MemoryStore>,
    pub trace: Trace,
    pub tally: Arc<Tally>,
    pub lanes: Vec<Arc<Lane>>,
    /// Number of producers that are not done.
    pub producing: AtomicUsize,
    /// Asks a node to shut down.
    pub drain: Vec<watch::Sender<()>>,
    /// For each node and each client: notified when a packet on their link is lost.
    pub cuts: Vec<Vec<watch::Sender<()>>>,
    /// The logs, once they no longer change.
    pub logs: OnceLock<HashMap<String, Vec<Event>>>,
    /// Contents that the feed must report for each thread by then.
    pub at_rest: OnceLock<BTreeMap<String, (bool, String)>>,
    pub held: Mutex<Vec<Held>>,
    /// Ends of the leases that were promised to runs, as they are written on the wire.
    pub leases: Mutex<HashMap<String, String>>,
    pub locks: Locks,
    ether: Mutex<Ether>,
    nodes: Vec<Mutex<Node>>,
    counts: Mutex<Counts>,
}

impl World {
    pub fn new(plan: Plan, design: Design) -> Arc<Self> {
        let clock = Clock::manual(BEGIN);
        let node = |number| Node {
            rng: Rng::new(plan.seed, 100 + number as u64),
            cut_off: false,
            slow: false,
            no_lock: false,
            no_bus: false,
            ended: false,
            first_heads: HashMap::new(),
        };
        Arc::new(Self {
            design,
            store: Arc::new(MemoryStore::new(clock.clone())),
            clock,
            clocks: plan.skew.iter().map(|skew| Clock::manual(Timestamp(BEGIN.0 + skew))).collect(),
            trace: Trace::default(),
            tally: Arc::default(),
            lanes: (0..plan.threads).map(|number| Lane::new(Plan::thread(number))).collect(),
            producing: AtomicUsize::new(0),
            drain: (0..plan.nodes).map(|_| watch::Sender::new(())).collect(),
            cuts: (0..plan.nodes).map(|_| plan.clients.iter().map(|_| watch::Sender::new(())).collect()).collect(),
            logs: OnceLock::new(),
            at_rest: OnceLock::new(),
            held: Mutex::default(),
            leases: Mutex::default(),
            locks: Locks::default(),
            ether: Mutex::default(),
            nodes: (0..plan.nodes).map(|number| Mutex::new(node(number))).collect(),
            counts: Mutex::default(),
            plan,
        })
    }

    pub fn node(&self, number: usize) -> MutexGuard<'_, Node> {
        self.nodes[number].lock().expect("lock")
    }

    pub fn ether(&self) -> MutexGuard<'_, Ether> {
        self.ether.lock().expect("lock")
    }

    /// Simulated time since the beginning, at the host that calls.
    pub fn now(&self) -> Duration {
        turmoil::sim_elapsed().unwrap_or_default()
    }

    /// Advances the clocks, and delivers the hints that are due.
    pub fn advance(&self, time: Duration) {
        self.clock.advance(time);
        self.clocks.iter().for_each(|clock| clock.advance(time));
        self.ether().deliver(self.clock.now());
    }

    /// True once the faults have ended.
    pub fn is_calm(&self) -> bool {
        self.plan.is_calm(self.now())
    }

    pub fn weather(&self) -> Weather {
        if self.is_calm() { Weather::default() } else { self.plan.weather }
    }

    pub fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().expect("lock")
    }

    /// Records a call of the store.
    pub fn call(&self, node: usize, call: Call<'_>, done: bool, answered: bool) {
        let mut counts = self.counts();
        counts.calls += 1;
        counts.failed_before += usize::from(!done);
        counts.failed_after += usize::from(done && !answered);
        drop(counts);
        let key = call.key.map_or(0, |key| key.0);
        let appends: String = call
            .appends
            .iter()
            .map(|append| {
                format!(" {}/{}+{:?}x{}", append.key.0, append.fence.run.0, append.producer_seq, append.events.count())
            })
            .collect();
        let fate = match (done, answered) {
            (true, true) => "",
            (true, false) => " takes effect, answer lost",
            (false, _) => " fails",
        };
        self.trace.note(&Plan::node(node), format_args!("{} {key}{appends}{fate}", call.name));
    }

    /// Returns these heads as the node first read them.
    pub fn first_heads(&self, node: usize, heads: Vec<Head>) -> Vec<Head> {
        let known = &mut self.node(node).first_heads;
        heads.into_iter().map(|head| known.entry(head.key).or_insert(head).clone()).collect()
    }

    /// Returns the active runs, read directly from the store.
    pub fn active(&self) -> Vec<Run> {
        let project = ProjectId::new("default").expect("an id");
        let newest = |lane: &Arc<Lane>| {
            let id = ThreadId::new(&lane.thread).expect("an id");
            // Calls of the memory store complete at once.
            let thread = self.store.thread_named(&project, &id).now_or_never()?.ok()?.thread()?;
            self.store.runs(thread.key, None, 1).now_or_never()?.ok()?.pop()
        };
        self.lanes.iter().filter_map(newest).filter(|run| run.status.is_active()).collect()
    }

    /// P5: no run is active 5 s after it was due, if a node was able to end it. `unable` is the last time at which
    /// no node was.
    pub fn check_ends(&self, unable: Timestamp) {
        let now = self.clock.now();
        for run in self.active() {
            let overdue = run.stop_requested_at.map(|asked| asked.plus(STOP_GRACE));
            let due = run.lease_until.into_iter().chain(overdue).min().unwrap_or(now);
            if now > due.max(unable).plus(Duration::from_secs(5)) {
                self.tally.violation(format!("at {now} run {} is active, which was due at {due}", run.id));
            }
        }
    }

    /// Records that a producer is done.
    pub fn produced(&self) {
        self.producing.fetch_sub(1, SeqCst);
    }
}
