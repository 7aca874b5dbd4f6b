//! The public conformance tests of the Durable Streams protocol, as their package has them, against the real program.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use serde_json::Value;

use crate::process::{Process, made, path, port, threadline_with};

/// Tests of the package, without those of subscriptions, which it skips by an option.
const TESTS: usize = 332;
/// Tests that wait for the end of a long-poll, 20 s each, and their number.
const LONG: (&str, usize) = ("waits for data|long-poll on empty stream|204 timeout", 3);
/// Tests that the server fails. docs/durable-streams.md explains each.
const FAILING: [&str; 0] = [];

/// Names of the tests by their outcome.
fn outcomes(report: &Path) -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(report).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for file in report["testResults"].as_array().expect("files") {
        for test in file["assertionResults"].as_array().expect("tests") {
            let [name, status] = ["fullName", "status"].map(|member| test[member].as_str().expect("text").to_owned());
            found.entry(status).or_default().push(name);
        }
    }
    found
}

/// Runs the tests. On a busy machine a test whose stream lives for a second may come too late: it is tried again.
fn conforms(store: &[&str], all: bool) {
    made("tests/real/durable-streams/node_modules/vitest");
    let (mut server, url) = threadline_with(store, port(), None);
    let reports = tempfile::tempdir().expect("a directory");
    let report = reports.path().join("report.json");
    let mut command = Command::new("node");
    command.current_dir(path("tests/real/durable-streams"));
    command.args(["node_modules/vitest/vitest.mjs", "run", "--reporter=json", "--retry=3", "--testTimeout=60000"]);
    command.arg(format!("--outputFile={}", report.display()));
    if !all {
        command.arg(format!("--testNamePattern=^(?!.*({}))", LONG.0));
    }
    command.env("STREAMS", format!("{url}/streams")).env("CI", "1").env("NO_COLOR", "1");
    let status = Process::start("vitest", command).wait();
    let found = outcomes(&report);
    let named = |status: &str| found.get(status).map_or(&[][..], Vec::as_slice);
    assert_eq!(named("failed"), FAILING, "{status}");
    let left_out = if all { 0 } else { LONG.1 };
    assert_eq!(named("passed").len(), TESTS - FAILING.len() - left_out, "{status}");
    server.kill();
}

#[test]
fn the_conformance_tests_of_durable_streams_pass() {
    let data = tempfile::tempdir().expect("a directory");
    conforms(&["--data", data.path().to_str().expect("text")], false);
}

#[test]
#[ignore = "long-polls take a minute: `make test-full` runs all tests"]
fn all_conformance_tests_of_durable_streams_pass() {
    let data = tempfile::tempdir().expect("a directory");
    conforms(&["--data", data.path().to_str().expect("text")], true);
}

#[test]
#[ignore = "the same tests on the other database take as long again: `make test-full` runs them"]
fn all_conformance_tests_of_durable_streams_pass_on_postgres() {
    let url = threadline_backing::postgres::Postgres::shared().fresh_database();
    conforms(&["--store", &url], true);
}
