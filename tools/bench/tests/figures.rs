//! Tests of the program `threadline-bench`: the keys of its figures, not their values.

use std::{
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Map, Value};

use threadline_backing::{Postgres, Redis};

/// Keys that other programs read.
const KEYS: [&str; 26] = [
    "append.store_ratio_to_bare",
    "append.socket_ratio",
    "append.events_per_s",
    "ack.p50_us",
    "ack.ratio",
    "live.p99_ms",
    "doors.socket.p50_ms",
    "doors.sse.events_ratio",
    "doors.langgraph.p50_ratio",
    "doors.durable_streams.p99_ms",
    "fanout.deliveries_per_s",
    "fanout.naive_deliveries_per_s",
    "fanout.ratio_to_naive",
    "replay.events_per_s",
    "resume.ms_1k",
    "resume.ms_100k",
    "start.ratio_100k_to_empty",
    "append.ratio_5000_messages_to_empty",
    "messages.cold_ms",
    "messages.warm_ms",
    "messages.snapshot_ms",
    "runner.events_per_s",
    "runner.ack_p99_ms",
    "memory.bytes_per_idle_subscriber",
    "disk.bytes_per_event_sealed",
    "disk.raw_bytes_per_event",
];

/// Additional keys for nodes that share a Postgres and a Redis.
const SHARED_KEYS: [&str; 11] = [
    "append.bare_events_per_s",
    "append.socket_ratio_1",
    "append.socket_ratio_32",
    "ack.commit_p50_us",
    "ack.echo_p50_us",
    "live.cross_node_p50_ms",
    "live.cross_node_p99_ms",
    "start.p50_us",
    "start.redis_p50_us",
    "start.ratio_to_redis_and_commit",
    "start.refused_p50_us",
];

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline-bench"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn bench(arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().expect("a directory");
    let output = program(arguments).args(["--tiny", "--dir"]).arg(home.path()).output().expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    let left: Vec<_> = home.path().read_dir().expect("the directory is still there").collect();
    assert!(left.is_empty(), "everything is removed at the end, but {left:?}");
    output
}

fn figures(workload: &str) -> Map<String, Value> {
    let output = bench(&[workload, "--json"]);
    // Standard output is a single object.
    serde_json::from_slice(&output.stdout).expect("a JSON object")
}

#[test]
fn every_figure_has_its_key() {
    let figures = figures("all");
    check(&figures, KEYS);
    assert!(figures.contains_key("ack.fdatasync_p50_us"));
    assert!(!figures.keys().any(|key| key.starts_with("start.p50") || key.contains("node")), "{:?}", figures.keys());
}

fn check(figures: &Map<String, Value>, keys: impl IntoIterator<Item = &'static str>) {
    for key in keys {
        assert!(figures.contains_key(key), "{key} is not among {:?}", figures.keys());
    }
    for (key, value) in figures {
        // Memory of so few subscribers may not be measurable.
        let least = if key.starts_with("memory.") { 0.0 } else { f64::MIN_POSITIVE };
        assert!(value.as_f64().is_some_and(|number| number >= least), "{key}: {value}");
    }
}

#[test]
fn a_workload_left_out_leaves_its_keys_out() {
    let figures = figures("disk");
    assert!(figures.contains_key("disk.raw_bytes_per_event"));
    assert!(figures.keys().all(|key| key.starts_with("disk.")), "{:?}", figures.keys());
}

#[test]
fn the_table_for_people_compares_figures_with_their_bounds() {
    let output = bench(&["resume"]);
    let table = String::from_utf8(output.stdout).expect("text");
    assert!(table.contains("coming back 1,000 events behind"), "{table}");
    let table = String::from_utf8(bench(&["disk"]).stdout).expect("text");
    assert!(table.contains("budget") && (table.contains(" met") || table.contains("MISSED")), "{table}");
    // Progress is shown on terminals only.
    assert!(!String::from_utf8_lossy(&output.stderr).contains('\r'));
}

/// A Postgres and a Redis that contain other data.
struct Shared {
    postgres: Postgres,
    redis: Redis,
}

impl Shared {
    fn start() -> Self {
        // Durability is not needed here, and without fsync databases are created faster.
        let (postgres, redis) = (Postgres::start(&[("fsync", "off")]), Redis::start(&[]));
        postgres.psql("postgres", "CREATE TABLE log (own text); INSERT INTO log VALUES ('kept')");
        redis.command(&["SET", "own", "kept"]);
        Self { postgres, redis }
    }

    fn bench(&self, arguments: &[&str]) -> Command {
        let mut command = program(arguments);
        command.args(["--store", &self.postgres.url("postgres"), "--redis", &self.redis.url()]);
        command
    }

    fn databases(&self) -> String {
        self.postgres.psql("postgres", "SELECT datname FROM pg_database WHERE datname LIKE 'threadline%'")
    }

    /// Checks that the servers contain the original data and no other.
    fn check_untouched(&self) {
        assert_eq!(self.databases(), "");
        assert_eq!(self.postgres.psql("postgres", "SELECT own FROM log"), "kept");
        let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
        assert_eq!(self.postgres.psql("postgres", tables), "1");
        assert_eq!(self.redis.command(&["KEYS", "*"]), "own");
    }
}

#[test]
fn nodes_that_share_servers_have_their_figures_and_leave_nothing_there() {
    let shared = Shared::start();
    let output = shared.bench(&["all", "--tiny", "--json"]).output().expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    let figures: Map<String, Value> = serde_json::from_slice(&output.stdout).expect("a JSON object");
    check(&figures, KEYS.into_iter().chain(SHARED_KEYS));
    assert!(!figures.contains_key("ack.fdatasync_p50_us"), "{figures:?}");
    shared.check_untouched();
}

#[test]
fn a_measurement_that_is_stopped_leaves_nothing_on_the_servers() {
    let shared = Shared::start();
    // This measurement takes so long that it still runs when it is stopped.
    let bench = shared.bench(&["live", "--rate", "100"]).spawn().expect("the program runs");
    let deadline = Instant::now() + Duration::from_secs(60);
    let keys = || shared.redis.command(&["DBSIZE"]).parse::<u64>().expect("a number");
    while shared.databases().is_empty() || keys() < 2 {
        assert!(Instant::now() < deadline, "the measurement has not begun");
        thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(bench.id() as i32), Signal::SIGINT).expect("it runs");
    let output = bench.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("stopped before"), "{output:?}");
    shared.check_untouched();
}

#[test]
fn servers_that_cannot_be_used_are_named() {
    let shared = Shared::start();
    shared.postgres.psql("postgres", "CREATE ROLE humble LOGIN");
    let (store, redis) = (shared.postgres.url("postgres"), shared.redis.url());
    let humble = store.replace("postgres@", "humble@");
    let gone = "redis://:s3cret@127.0.0.1:1/";
    for (arguments, what) in [
        (["--store", &humble, "--redis", &redis], "CREATEDB"),
        (["--store", &store, "--redis", gone], "Redis"),
        (["--store", "postgres://postgres:s3cret@127.0.0.1:1/none", "--redis", &redis], "127.0.0.1:1/none"),
        (["--store", &(store.clone() + "?pooler=transaction"), "--redis", &redis], "pooler"),
    ] {
        let output = program(&["disk", "--tiny"]).args(arguments).output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(what) && !said.contains("s3cret"), "{what}: {said}");
    }
    for arguments in [&["all", "--store", &store][..], &["all", "--redis", &redis], &["start", "--tiny"]] {
        assert!(!program(arguments).output().expect("the program runs").status.success(), "{arguments:?}");
    }
    shared.check_untouched();
}

#[test]
fn another_release_is_not_measured() {
    let output =
        program(&["disk", "--tiny"]).env("THREADLINE_BENCH_FOR", "999.0.0").output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(said.contains("999.0.0") && said.contains(env!("CARGO_PKG_VERSION")), "{said}");
}
