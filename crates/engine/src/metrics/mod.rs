//! Metrics of a node, for `GET /metrics`.
//!
//! Each node has its own registry: tests run many nodes in one process. A handle is an atomic that is created in
//! advance, so counting neither looks up a name, nor allocates, nor takes a lock; and no counter is updated per event.
//! Values that can be read on demand are not counted at all ([`GaugeSnapshot`]). Label values are Threadline's own names:
//! never an id, a path or other text that a client can choose.

mod agent_data;
mod conflicts;
mod histogram;
mod http;
mod jobs;
mod lineage;
mod process;
mod register;
mod snapshot;
mod takeovers;
#[cfg(test)]
mod tests;

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

pub use agent_data::{AgentData, AgentTable};
pub use conflicts::Conflicts;
pub use histogram::Histogram;
pub use http::Http;
pub use lineage::LineageCounts;
use process::Process;
use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};
pub use register::GaugeGuard;
use register::Register;
pub use snapshot::GaugeSnapshot;
pub use takeovers::Takeovers;

/// Media type of [`Metrics::text`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Metrics of a node. Cheap to clone; the clones share their values.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Counts>);

/// Fields of [`Metrics`]. The help text of each metric is at its registration.
#[derive(Debug)]
pub struct Counts {
    registry: Registry,
    /// Appends of producers, by outcome.
    pub appends: Appends,
    /// Batches, events and bytes added to logs by any writer.
    pub logged: Logged,
    /// Group commits: size, duration and failures.
    pub commits: Commits,
    /// Runs begun and ended by this node.
    pub runs: Runs,
    /// Starts refused because another run was active.
    pub conflicts: Conflicts,
    /// Failed calls of the lock service.
    pub lock_errors: Counter,
    /// Retention passes suspended because of a doubt about the store's clock.
    pub retention_refused: Counter,
    retention_held: Gauge,
    damaged_rows: Counter,
    skew: Gauge<f64, AtomicU64>,
    /// Background work that waits in the store.
    pub jobs: jobs::JobLevels,
    /// Steps of the store's clock that this node has noticed.
    pub clock_steps: Counter,
    /// Changes of the store's history.
    pub lineage: LineageCounts,
    /// Runs of agents that this node has taken over.
    pub takeovers: Takeovers,
    /// Writes of agent data.
    pub agent_data: AgentData,
    /// Followers of threads and feeds, and their deliveries.
    pub following: Following,
    /// Resyncs received from the bus.
    pub bus_resyncs: Counter,
    /// Pages read from the store, by reader.
    pub store_reads: StoreReads,
    /// HTTP requests, by route.
    pub http: Http,
    /// Sockets open on this node.
    pub sockets: Gauge,
    socket_closes: Family<[(&'static str, &'static str); 1], Counter>,
    /// Agent runs that this node drives.
    pub agent_runs: Gauge,
    /// Generated thread names, by outcome.
    pub names: Names,
    limited: Family<[(&'static str, &'static str); 1], Counter>,
    input_ignored: Family<[(&'static str, &'static str); 1], Counter>,
    levels: LevelGauges,
}

/// Appends of producers, by outcome.
#[derive(Debug)]
pub struct Appends {
    /// Appends whose new events were made durable.
    pub committed: Counter,
    /// Appends whose events had all been stored before.
    pub repeated: Counter,
    /// Appends refused because of a gap, other bytes or an ended run.
    pub refused: Counter,
    /// Appends with an unknown outcome, because the store failed.
    pub failed: Counter,
}

/// Additions to logs, by all writers.
#[derive(Debug)]
pub struct Logged {
    /// Log entries: what one commit added to one thread.
    pub batches: Counter,
    /// Events added by all writers.
    pub events: Counter,
    /// Bytes of the events added.
    pub bytes: Counter,
}

/// Group commits of this node.
#[derive(Debug)]
pub struct Commits {
    /// Appends that share a commit.
    pub size: Histogram,
    /// Time from the call of the store to its answer.
    pub duration: Histogram,
    /// Commits that the store failed.
    pub failed: Counter,
}

/// Runs that this node began or ended.
#[derive(Debug)]
pub struct Runs {
    /// Runs begun open, to be continued by appends.
    pub started: Counter,
    /// Runs appended as complete runs.
    pub appended_whole: Counter,
    /// Runs ended in RUN_FINISHED, stopped ones included.
    pub finished: Counter,
    /// Runs ended in RUN_ERROR.
    pub failed: Counter,
    /// Runs ended without a single event.
    pub abandoned: Counter,
    /// Runs ended by the reaper on behalf of a producer that did not end them.
    pub reaped: Counter,
    /// Runs ended likewise by the next start in the thread.
    pub succeeded: Counter,
}

/// Followers of logs and feeds.
#[derive(Debug)]
pub struct Following {
    /// Subscriptions to threads over sockets.
    pub socket: Gauge,
    /// Subscriptions to feeds over sockets.
    pub socket_feed: Gauge,
    /// Event streams of threads.
    pub sse: Gauge,
    /// Event streams of feeds.
    pub sse_feed: Gauge,
    /// Long-polls that wait for events of a thread.
    pub poll: Gauge,
    /// Long-polls that wait for a feed.
    pub poll_feed: Gauge,
    /// Pages that followers found in the ring of newest events.
    pub ring_hits: Counter,
    /// Followers that read too slowly for the ring.
    pub fell_behind_slow: Counter,
    /// Followers that the ring began ahead of: hints of other nodes were missing, or more events came at once than fit.
    pub fell_behind_hint: Counter,
    /// Time from the commit of an event until it is written to a socket.
    pub socket_delivery: Histogram,
    /// Time from the commit of an event until it is passed to the connection of an event stream.
    pub sse_delivery: Histogram,
}

/// Pages of logs read from the store, by reader.
#[derive(Debug)]
pub struct StoreReads {
    /// Reads by followers, for pages that are not in memory.
    pub follower: Counter,
    /// Reads by requests for pages.
    pub page: Counter,
    /// Reads by folds: messages, state, snapshots, closers.
    pub fold: Counter,
    /// Reads to compare with events that a producer sends again.
    pub retry: Counter,
}

/// Generated thread names, by outcome.
#[derive(Debug)]
pub struct Names {
    /// Names taken from the user's first words.
    pub auto: Counter,
    /// Names given by a model.
    pub title: Counter,
    /// Answers of the model that are not valid names.
    pub rejected: Counter,
    /// Failed calls: no answer of the model, or none before the timeout.
    pub failed: Counter,
    /// Names superseded by a person's name or by another run.
    pub overtaken: Counter,
    /// Names skipped because the queue was full or the endpoint paused after failures.
    pub dropped: Counter,
}

#[derive(Debug)]
struct LevelGauges {
    connections: Gauge,
    commit_queue: Gauge,
    topics: Gauge,
    storage_free: Family<[(&'static str, &'static str); 1], Gauge>,
    draining: Gauge,
    memory: Family<[(&'static str, &'static str); 1], Gauge>,
    up: Family<[(&'static str, &'static str); 1], Gauge>,
    redis: Family<[(&'static str, &'static str); 1], Gauge>,
    durability: Family<[(&'static str, &'static str); 1], Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Metrics of a node, all at zero.
    pub fn new() -> Self {
        let mut all = Register::default();
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        all.0.register("threadline_build", "The program that runs here", version);
        all.0.register_collector(Box::new(Process::new()));
        let http = Http::default();
        all.0.register_collector(Box::new(http.clone()));
        let help = "HTTP requests whose response has not started";
        all.add("http_requests_in_flight", help, http.in_flight.clone());
        let help = "Requests rejected with 429, by limit";
        let limited = all.add("limited", help, Family::default());
        let help = "Parts of untrusted clients' input that agents were not given, by kind";
        let input_ignored = all.add("input_ignored", help, Family::default());
        let help = "Sockets closed by the server, by close reason";
        let socket_closes = all.add("socket_closes", help, Family::default());
        let counts = Counts {
            appends: Appends::new(&mut all),
            logged: Logged {
                batches: all.counter("appended_batches", "Batches of events committed to logs"),
                events: all.counter("appended_events", "Events committed to logs, by all writers"),
                bytes: all.counter("appended_bytes", "Bytes of events committed to logs"),
            },
            commits: Commits {
                size: all.add("commit_size_appends", "Appends that share a group commit", Histogram::of_sizes()),
                duration: all.add(
                    "commit_duration_seconds",
                    "Time of a group commit in the store",
                    Histogram::of_times(),
                ),
                failed: all.counter("commit_failures", "Group commits that failed"),
            },
            runs: Runs::new(&mut all),
            conflicts: Conflicts::new(&mut all),
            lock_errors: all.counter("lock_errors", "Starts without a lock: the lock service did not respond"),
            retention_refused: all.counter(
                "retention_refused",
                "Passes of retention suspended because clocks differ too much, or the store's clock was set",
            ),
            retention_held: all.gauge(
                "retention_held_projects",
                "Projects of which retention would put unusually many threads in the trash, and waits for an approval",
            ),
            damaged_rows: all.counter(
                "damaged_rows",
                "Reads of log rows and snapshots whose checksum is wrong, or of log rows that are missing",
            ),
            skew: all.add(
                "clock_skew_seconds",
                "Clock of the store minus the clock of this node, at the last beat",
                Gauge::default(),
            ),
            jobs: jobs::JobLevels::new(&mut all),
            clock_steps: all.counter("clock_steps", "Times that the store's clock was set, as this node noticed"),
            lineage: LineageCounts::new(&mut all),
            takeovers: Takeovers::new(&mut all),
            agent_data: AgentData::new(&mut all),
            following: Following::new(&mut all),
            bus_resyncs: all.counter("bus_resyncs", "Resynchronizations after hints of other nodes may have been lost"),
            store_reads: StoreReads::new(&mut all),
            http,
            sockets: all.gauge("sockets", "Sockets open on this node"),
            socket_closes,
            agent_runs: all.gauge("agent_runs", "Active runs of agents driven by this node"),
            names: Names::new(&mut all),
            limited,
            input_ignored,
            levels: LevelGauges {
                connections: all.gauge("connections", "Open connections, sockets included"),
                commit_queue: all.gauge("commit_queue_appends", "Appends waiting for a group commit"),
                topics: all.gauge("followed_threads", "Threads followed on this node"),
                storage_free: all.add(
                    "storage_free_bytes",
                    "Free bytes of the file system with the data directory",
                    Family::default(),
                ),
                draining: all.gauge("draining", "1 while the node is shutting down"),
                memory: all.add("memory_bytes", "Bytes of the shared memory that are held, by kind", Family::default()),
                up: all.add("dependency_up", "1 if the dependency responds", Family::default()),
                durability: all.add(
                    "store_durability",
                    "1 for the state: single, synchronous or async-standby",
                    Family::default(),
                ),
                redis: all.add("redis_check", "1 if Redis passed this check when it was last made", Family::default()),
            },
            registry: all.0,
        };
        Self(Arc::new(counts))
    }

    /// Sets the clock skew: milliseconds by which the store's clock is ahead of this node's.
    pub fn skewed(&self, ms: i64) {
        self.0.skew.set(ms as f64 / 1_000.0);
    }

    /// Sets the number of projects whose retention waits for an approval.
    pub fn retention_held(&self, projects: usize) {
        self.0.retention_held.set(i64::try_from(projects).unwrap_or(i64::MAX));
    }

    /// Registers the limits: each counter exists from 0 on, so that the first refusal shows as an increase.
    pub fn know_limits(&self, limits: impl IntoIterator<Item = &'static str>) {
        for limit in limits {
            drop(self.0.limited.get_or_create(&[("limit", limit)]));
        }
    }

    /// Counts a request refused with 429 by this limit.
    pub fn limited(&self, limit: &'static str) {
        self.0.limited.get_or_create(&[("limit", limit)]).inc();
    }

    /// Sets the number of refusals of a limit that another part counts; a smaller total is ignored.
    pub fn limited_so_far(&self, limit: &'static str, total: u64) {
        self.0.limited.get_or_create(&[("limit", limit)]).inner().fetch_max(total, Relaxed);
    }

    /// Registers the kinds of input that can be ignored, each counter from 0 on.
    pub fn know_input_kinds(&self, kinds: impl IntoIterator<Item = &'static str>) {
        kinds.into_iter().for_each(|kind| drop(self.0.input_ignored.get_or_create(&[("kind", kind)])));
    }

    /// Counts parts of this kind that were ignored.
    pub fn input_ignored(&self, kind: &'static str, number: usize) {
        self.0.input_ignored.get_or_create(&[("kind", kind)]).inc_by(number as u64);
    }

    /// Registers the reasons for which the server may close a socket, each counter from 0 on.
    pub fn know_socket_closes(&self, reasons: impl IntoIterator<Item = &'static str>) {
        for reason in reasons {
            drop(self.0.socket_closes.get_or_create(&[("reason", reason)]));
        }
    }

    /// Counts a socket that the server closed for this reason.
    pub fn socket_closed(&self, reason: &'static str) {
        self.0.socket_closes.get_or_create(&[("reason", reason)]).inc();
    }

    /// Sets the durability of the store's commits.
    pub fn keeps(&self, now: threadline_store::Durability) {
        for one in threadline_store::Durability::ALL {
            self.0.levels.durability.get_or_create(&[("state", one.name())]).set(i64::from(one == now));
        }
    }

    /// Formats all metrics as OpenMetrics text.
    pub fn text(&self, now: &GaugeSnapshot) -> String {
        let level = |gauge: &Gauge, value: usize| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        let gauges = &self.0.levels;
        level(&gauges.connections, now.connections);
        level(&gauges.commit_queue, now.commit_queue);
        level(&gauges.topics, now.topics);
        for (kind, bytes) in now.memory.iter().filter(|(kind, _)| !kind.is_empty()) {
            level(&gauges.memory.get_or_create(&[("kind", kind)]), *bytes);
        }
        if let Some(bytes) = now.storage_free {
            level(
                &gauges.storage_free.get_or_create(&[("directory", "data")]),
                usize::try_from(bytes).unwrap_or(usize::MAX),
            );
        }
        level(&gauges.draining, now.draining.into());
        level(&gauges.up.get_or_create(&[("dependency", "store")]), now.store_up.into());
        if let Some(checks) = now.redis {
            let up = checks.iter().all(|(_, passed)| *passed);
            level(&gauges.up.get_or_create(&[("dependency", "redis")]), up.into());
            for (check, passed) in checks {
                level(&gauges.redis.get_or_create(&[("check", check)]), passed.into());
            }
        }
        self.0.damaged_rows.inner().store(threadline_store::damaged_rows(), Relaxed);
        let mut out = String::new();
        // Writing to a `String` cannot fail.
        let _ = text::encode(&mut out, &self.0.registry);
        out
    }
}

impl Deref for Metrics {
    type Target = Counts;
    fn deref(&self) -> &Counts {
        &self.0
    }
}

impl Appends {
    fn new(all: &mut Register) -> Self {
        let help = "Appends of producers to their runs, by outcome";
        let outcomes = ["committed", "repeated", "refused", "failed"];
        let [committed, repeated, refused, failed] = all.counters("appends", help, "outcome", outcomes);
        Self { committed, repeated, refused, failed }
    }
}

impl Runs {
    fn new(all: &mut Register) -> Self {
        let help = "Runs started here: open ones, and complete ones that were appended in one request";
        let [started, appended_whole] = all.counters("runs_started", help, "kind", ["open", "whole"]);
        let help = "Runs ended here, by the terminal event in their log: a stopped run is finished";
        let outcomes = ["finished", "error", "abandoned"];
        let [finished, failed, abandoned] = all.counters("runs_ended", help, "outcome", outcomes);
        let help = "Runs ended on behalf of their producers: lease expired, stop overdue, or lock released";
        let [reaped, succeeded] = all.counters("runs_reaped", help, "by", ["reaper", "next-start"]);
        Self { started, appended_whole, finished, failed, abandoned, reaped, succeeded }
    }
}

impl Following {
    fn new(all: &mut Register) -> Self {
        let help = "Readers that follow a thread or a feed, by how they are served";
        let family = all.add("subscribers", help, Family::<[(&str, &str); 2], Gauge>::default());
        let gauge = |transport, what| family.get_or_create_owned(&[("transport", transport), ("follows", what)]);
        let help = "Time from the commit of a live event to its delivery, by the store's clock";
        let family =
            Family::<[(&str, &str); 1], Histogram, fn() -> Histogram>::new_with_constructor(Histogram::of_times);
        let family = all.add("delivery_duration_seconds", help, family);
        let delivery = |transport| family.get_or_create_owned(&[("transport", transport)]);
        let help = "Times a live follower was not served from memory: too slow, or started before the events there";
        let [fell_behind_slow, fell_behind_hint] = all.counters("fell_behind", help, "cause", ["slow", "hint"]);
        Self {
            socket: gauge("socket", "thread"),
            socket_feed: gauge("socket", "feed"),
            sse: gauge("sse", "thread"),
            sse_feed: gauge("sse", "feed"),
            poll: gauge("poll", "thread"),
            poll_feed: gauge("poll", "feed"),
            ring_hits: all.counter("ring_hits", "Pages that followers found among the newest events in memory"),
            fell_behind_slow,
            fell_behind_hint,
            socket_delivery: delivery("socket"),
            sse_delivery: delivery("sse"),
        }
    }
}

impl Names {
    fn new(all: &mut Register) -> Self {
        let help = "Attempts to find a title for a thread, by outcome";
        let outcomes = ["auto", "title", "rejected", "failed", "overtaken", "dropped"];
        let [auto, title, rejected, failed, overtaken, dropped] =
            all.counters("thread_names", help, "outcome", outcomes);
        Self { auto, title, rejected, failed, overtaken, dropped }
    }
}

impl StoreReads {
    fn new(all: &mut Register) -> Self {
        let help = "Pages of logs read from the store, by reader";
        let readers = ["follower", "page", "fold", "retry"];
        let [follower, page, fold, retry] = all.counters("store_reads", help, "reader", readers);
        Self { follower, page, fold, retry }
    }
}
