//! `threadline bench` as a program: which figures it gives, not what they are.

use std::process::{Command, Output, Stdio};

use serde_json::{Map, Value};

/// What other programs read.
const KEYS: [&str; 17] = [
    "append.store_ratio_to_bare",
    "append.socket_ratio",
    "append.events_per_s",
    "ack.p50_us",
    "ack.ratio",
    "live.p99_ms",
    "fanout.deliveries_per_s",
    "fanout.naive_deliveries_per_s",
    "fanout.ratio_to_naive",
    "replay.events_per_s",
    "resume.ms_1k",
    "resume.ms_100k",
    "start.ratio_100k_to_empty",
    "append.ratio_5000_messages_to_empty",
    "memory.bytes_per_idle_subscriber",
    "disk.bytes_per_event_sealed",
    "disk.raw_bytes_per_event",
];

fn bench(arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    command.arg("bench").args(arguments).args(["--tiny", "--dir"]).arg(home.path()).stdin(Stdio::null());
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    let left: Vec<_> = home.path().read_dir().expect("the directory is still there").collect();
    assert!(left.is_empty(), "everything is removed at the end, but {left:?}");
    output
}

fn figures(workload: &str) -> Map<String, Value> {
    let output = bench(&[workload, "--json"]);
    // One object, and nothing else.
    serde_json::from_slice(&output.stdout).expect("a JSON object")
}

#[test]
fn every_figure_has_its_key() {
    let figures = figures("all");
    for key in KEYS {
        assert!(figures.contains_key(key), "{key} is not among {:?}", figures.keys());
    }
    for (key, value) in &figures {
        // So little memory may not show at all.
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
fn people_get_a_table_that_judges() {
    let output = bench(&["resume"]);
    let table = String::from_utf8(output.stdout).expect("text");
    assert!(table.contains("coming back 1,000 events behind"), "{table}");
    let table = String::from_utf8(bench(&["disk"]).stdout).expect("text");
    assert!(table.contains("budget") && (table.contains(" met") || table.contains("MISSED")), "{table}");
    // Progress is for terminals.
    assert!(!String::from_utf8_lossy(&output.stderr).contains('\r'));
}
