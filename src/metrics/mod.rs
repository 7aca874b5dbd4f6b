//! What a node counts of itself, for `GET /metrics`.
//!
//! Each node has its own: tests run many in one process. A handle is an atomic that is known before it is needed, so
//! counting neither looks anything up, nor allocates, nor takes a lock; and nothing is counted per event. What can be
//! asked for when somebody reads the metrics is not counted at all ([`Levels`]). Labels are names of ours: never an
//! id, a path or anything else that a client can make up.

mod histogram;
mod http;
mod process;
mod register;

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};

pub use histogram::Histogram;
pub use http::Http;
pub use register::Present;

use process::Process;
use register::Register;

/// The media type of [`Metrics::text`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a node counts. Cheap to clone; the clones are one.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Counts>);

/// See [`Metrics`]. The texts of help stand where each one is registered.
#[derive(Debug)]
pub struct Counts {
    registry: Registry,
    /// Appends of producers.
    pub appends: Appends,
    /// What came into logs, whoever wrote it.
    pub logged: Logged,
    /// Group commits.
    pub commits: Commits,
    /// Runs.
    pub runs: Runs,
    /// Starts refused because another run was active.
    pub conflicts: Conflicts,
    /// Times that the lock could not be asked.
    pub lock_errors: Counter,
    /// Times that retention was refused because of the clocks.
    pub retention_refused: Counter,
    skew: Gauge<f64, AtomicU64>,
    /// Following.
    pub following: Following,
    /// Resyncs heard on the bus.
    pub bus_resyncs: Counter,
    /// Pages read from the store.
    pub store_reads: StoreReads,
    /// HTTP requests.
    pub http: Http,
    /// Open sockets.
    pub sockets: Gauge,
    socket_closes: Family<[(&'static str, &'static str); 1], Counter>,
    /// Runs that agents of this node are doing.
    pub agent_runs: Gauge,
    /// Names made up for threads.
    pub names: Names,
    limited: Family<[(&'static str, &'static str); 1], Counter>,
    levels: LevelGauges,
}

/// Appends of producers, by what came of them.
#[derive(Debug)]
pub struct Appends {
    /// New events of it were made durable.
    pub committed: Counter,
    /// All of it had been stored before.
    pub repeated: Counter,
    /// It could not be: a gap, other bytes, an ended run.
    pub refused: Counter,
    /// The store failed; nothing is known of it.
    pub failed: Counter,
}

/// What came into logs.
#[derive(Debug)]
pub struct Logged {
    /// Log entries: what one commit added to one thread.
    pub batches: Counter,
    /// Events.
    pub events: Counter,
    /// Their bytes.
    pub bytes: Counter,
}

/// Group commits.
#[derive(Debug)]
pub struct Commits {
    /// Appends in one.
    pub size: Histogram,
    /// From the hand-over to the store to its answer.
    pub duration: Histogram,
    /// Those that failed.
    pub failed: Counter,
}

/// Runs, as far as this node began or ended them.
#[derive(Debug)]
pub struct Runs {
    /// Begun, to go on.
    pub started: Counter,
    /// Appended whole.
    pub appended_whole: Counter,
    /// Ended in RUN_FINISHED, stopped ones included.
    pub finished: Counter,
    /// Ended in RUN_ERROR.
    pub failed: Counter,
    /// Ended without a word.
    pub abandoned: Counter,
    /// Ended on behalf of a producer that did not, by the reaper.
    pub reaped: Counter,
    /// The same, by the next start in the thread.
    pub succeeded: Counter,
}

/// Starts that were refused because another run was active.
#[derive(Debug)]
pub struct Conflicts {
    /// By the lock, before the store was asked to write.
    pub by_lock: Counter,
    /// By the store.
    pub by_store: Counter,
}

/// Following of logs and feeds.
#[derive(Debug)]
pub struct Following {
    /// Subscriptions to threads over sockets.
    pub socket: Gauge,
    /// To feeds over sockets.
    pub socket_feed: Gauge,
    /// Event streams of threads.
    pub sse: Gauge,
    /// Of feeds.
    pub sse_feed: Gauge,
    /// Long-polls of threads.
    pub poll: Gauge,
    /// Of feeds.
    pub poll_feed: Gauge,
    /// Pages that a follower found in memory.
    pub ring_hits: Counter,
    /// Followers that were too slow for it.
    pub fell_behind_slow: Counter,
    /// Followers that it began behind: hints of other nodes were missing, or more came at once than it holds.
    pub fell_behind_hint: Counter,
    /// From the commit of an event to its being written to a socket.
    pub socket_delivery: Histogram,
    /// To its being handed to the connection of an event stream.
    pub sse_delivery: Histogram,
}

/// Pages of logs read from the store, by who wanted them.
#[derive(Debug)]
pub struct StoreReads {
    /// Followers, for what is not in memory.
    pub follower: Counter,
    /// Requests for pages.
    pub page: Counter,
    /// Folds: messages, state, snapshots, closers.
    pub fold: Counter,
    /// Comparisons with what a producer sends again.
    pub retry: Counter,
}

/// Names made up for threads, by what came of it.
#[derive(Debug)]
pub struct Names {
    /// Given, by the user's first words.
    pub auto: Counter,
    /// Given, by a model.
    pub title: Counter,
    /// What the model said is no name.
    pub rejected: Counter,
    /// The model said nothing, or not in time.
    pub failed: Counter,
    /// A person, or another run, was quicker.
    pub overtaken: Counter,
    /// Left out, because too much was waiting or the endpoint was resting.
    pub dropped: Counter,
}

/// What is looked at when the metrics are read.
#[derive(Debug, Default, Clone, Copy)]
pub struct Levels {
    /// Open connections, sockets included.
    pub connections: usize,
    /// Appends that wait for a group commit.
    pub commit_queue: usize,
    /// Threads that somebody follows here.
    pub topics: usize,
    /// Whether the store answers.
    pub store_up: bool,
    /// Whether Redis answers; `None` if there is none.
    pub redis_up: Option<bool>,
    /// Whether the node is shutting down.
    pub draining: bool,
}

#[derive(Debug)]
struct LevelGauges {
    connections: Gauge,
    commit_queue: Gauge,
    topics: Gauge,
    draining: Gauge,
    up: Family<[(&'static str, &'static str); 1], Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Of a node that starts now.
    pub fn new() -> Self {
        let mut all = Register::default();
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        all.0.register("threadline_build", "The program that runs here", version);
        all.0.register_collector(Box::new(Process::new()));
        let http = Http::default();
        all.0.register_collector(Box::new(http.clone()));
        let help = "HTTP requests whose answer has not begun";
        all.add("http_requests_in_flight", help, http.in_flight.clone());
        let help = "Requests refused with 429, by the limit that they met";
        let limited = all.add("limited", help, Family::default());
        let help = "Sockets closed by the server, by the reason that they were given";
        let socket_closes = all.add("socket_closes", help, Family::default());
        let counts = Counts {
            appends: Appends::new(&mut all),
            logged: Logged {
                batches: all.counter("appended_batches", "What single commits added to the log of a thread"),
                events: all.counter("appended_events", "Events committed to logs, whoever wrote them"),
                bytes: all.counter("appended_bytes", "Bytes of events committed to logs"),
            },
            commits: Commits {
                size: all.add("commit_size_appends", "Appends that share a group commit", Histogram::of_sizes()),
                duration: all.add(
                    "commit_duration_seconds",
                    "Time of a group commit in the store",
                    Histogram::of_times(),
                ),
                failed: all.counter("commit_failures", "Group commits that the store did not do"),
            },
            runs: Runs::new(&mut all),
            conflicts: Conflicts::new(&mut all),
            lock_errors: all.counter("lock_errors", "Starts that the store decided alone: the lock could not be asked"),
            retention_refused: all.counter(
                "retention_refused",
                "Times that retention did nothing because the clocks of the store and of this node are far apart",
            ),
            skew: all.add(
                "clock_skew_seconds",
                "By how much the store's clock was ahead of this node's when the store was asked last",
                Gauge::default(),
            ),
            following: Following::new(&mut all),
            bus_resyncs: all.counter("bus_resyncs", "Times that hints of other nodes may have been missed"),
            store_reads: StoreReads::new(&mut all),
            http,
            sockets: all.gauge("sockets", "Sockets that clients have open"),
            socket_closes,
            agent_runs: all.gauge("agent_runs", "Runs that agents are doing for this node"),
            names: Names::new(&mut all),
            limited,
            levels: LevelGauges {
                connections: all.gauge("connections", "Open connections, sockets included"),
                commit_queue: all.gauge("commit_queue_appends", "Appends that wait for a group commit"),
                topics: all.gauge("followed_threads", "Threads that somebody follows at this node"),
                draining: all.gauge("draining", "1 while the node is shutting down"),
                up: all.add("dependency_up", "1 if what the node stands on answers", Family::default()),
            },
            registry: all.0,
        };
        Self(Arc::new(counts))
    }

    /// The store's clock was found so many milliseconds ahead of this node's.
    pub fn skewed(&self, ms: i64) {
        self.0.skew.set(ms as f64 / 1_000.0);
    }

    /// There are these limits: each is counted from 0 on, so that the first refusal is seen as one.
    pub fn know_limits(&self, limits: impl IntoIterator<Item = &'static str>) {
        for limit in limits {
            drop(self.0.limited.get_or_create(&[("limit", limit)]));
        }
    }

    /// A request was refused with 429 by this limit.
    pub fn limited(&self, limit: &'static str) {
        self.0.limited.get_or_create(&[("limit", limit)]).inc();
    }

    /// So many were refused by this limit, as somebody else has counted.
    pub fn limited_so_far(&self, limit: &'static str, total: u64) {
        self.0.limited.get_or_create(&[("limit", limit)]).inner().fetch_max(total, Relaxed);
    }

    /// The server may close sockets for these reasons; the same.
    pub fn know_socket_closes(&self, reasons: impl IntoIterator<Item = &'static str>) {
        for reason in reasons {
            drop(self.0.socket_closes.get_or_create(&[("reason", reason)]));
        }
    }

    /// The server closed a socket for this reason.
    pub fn socket_closed(&self, reason: &'static str) {
        self.0.socket_closes.get_or_create(&[("reason", reason)]).inc();
    }

    /// Everything, as OpenMetrics text.
    pub fn text(&self, now: &Levels) -> String {
        let level = |gauge: &Gauge, value: usize| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        let gauges = &self.0.levels;
        level(&gauges.connections, now.connections);
        level(&gauges.commit_queue, now.commit_queue);
        level(&gauges.topics, now.topics);
        level(&gauges.draining, now.draining.into());
        level(&gauges.up.get_or_create(&[("dependency", "store")]), now.store_up.into());
        if let Some(up) = now.redis_up {
            level(&gauges.up.get_or_create(&[("dependency", "redis")]), up.into());
        }
        let mut out = String::new();
        // Writing to a text cannot fail.
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
        let help = "Appends of producers to their runs, by what came of them";
        let outcomes = ["committed", "repeated", "refused", "failed"];
        let [committed, repeated, refused, failed] = all.counters("appends", help, "outcome", outcomes);
        Self { committed, repeated, refused, failed }
    }
}

impl Runs {
    fn new(all: &mut Register) -> Self {
        let help = "Runs begun here: to go on, or appended whole";
        let [started, appended_whole] = all.counters("runs_started", help, "kind", ["open", "whole"]);
        let help = "Runs ended here, by the terminal event that their log got: a stopped run is finished";
        let outcomes = ["finished", "error", "abandoned"];
        let [finished, failed, abandoned] = all.counters("runs_ended", help, "outcome", outcomes);
        let help = "Runs ended on behalf of their producers: lease over, stop overdue, or lock released";
        let [reaped, succeeded] = all.counters("runs_reaped", help, "by", ["reaper", "next-start"]);
        Self { started, appended_whole, finished, failed, abandoned, reaped, succeeded }
    }
}

impl Conflicts {
    fn new(all: &mut Register) -> Self {
        let help = "Starts refused with 409 because another run was active, by who knew it";
        let [by_lock, by_store] = all.counters("lock_conflicts", help, "decided_by", ["lock", "store"]);
        Self { by_lock, by_store }
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
        let help = "Times that a live follower was not served from memory: too slow for it, or it began behind them";
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
        let help = "Names that threads were to get without a person, by what came of it";
        let outcomes = ["auto", "title", "rejected", "failed", "overtaken", "dropped"];
        let [auto, title, rejected, failed, overtaken, dropped] =
            all.counters("thread_names", help, "outcome", outcomes);
        Self { auto, title, rejected, failed, overtaken, dropped }
    }
}

impl StoreReads {
    fn new(all: &mut Register) -> Self {
        let help = "Pages of logs read from the store, by who wanted them";
        let readers = ["follower", "page", "fold", "retry"];
        let [follower, page, fold, retry] = all.counters("store_reads", help, "reader", readers);
        Self { follower, page, fold, retry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_count_for_themselves_and_everything_is_explained() {
        let (one, other) = (Metrics::new(), Metrics::new());
        one.bus_resyncs.inc();
        one.limited("requests");
        one.limited_so_far("sockets", 3);
        one.limited_so_far("sockets", 2);
        let held = Present::new(&one.sockets);
        one.http.know(["/v1/threads/{threadId}".to_owned()].into_iter());
        one.http.answered("GET", Some("/v1/threads/{threadId}"), 200, std::time::Duration::from_millis(3));
        one.http.answered("BREW", Some("/coffee"), 404, std::time::Duration::ZERO);
        let text = one.text(&Levels { connections: 7, store_up: true, ..Levels::default() });
        for line in [
            "threadline_bus_resyncs_total 1",
            "threadline_limited_total{limit=\"requests\"} 1",
            "threadline_limited_total{limit=\"sockets\"} 3",
            "threadline_sockets 1",
            "threadline_connections 7",
            "threadline_dependency_up{dependency=\"store\"} 1",
            "threadline_http_requests_total{route=\"/v1/threads/{threadId}\",method=\"GET\",status=\"2xx\"} 1",
            "threadline_http_requests_total{route=\"none\",method=\"other\",status=\"4xx\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(!text.contains("redis") && !text.contains("coffee"), "{text}");
        drop(held);
        assert!(one.text(&Levels::default()).contains("\nthreadline_sockets 0\n"));
        let text = other.text(&Levels::default());
        assert!(text.contains("\nthreadline_bus_resyncs_total 0\n") && text.ends_with("# EOF\n"), "{text}");
        for line in text.lines().filter(|line| line.starts_with("# HELP")) {
            assert!(line.split_whitespace().count() > 5, "{line}");
        }
    }
}
