//! The public conformance tests of the Durable Streams protocol, as their package has them, against the real program.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::process::{Process, made, path, port, threadline_with};

/// Tests of the package without those of subscriptions, which are left out by an option of the package.
const TESTS: usize = 332;
/// Tests that the server fails. docs/durable-streams.md explains each.
const FAILING: [&str; 0] = [];

/// Names of the tests that have passed, and of those that have not.
fn outcomes(report: &Path) -> (Vec<String>, Vec<String>) {
    let text = fs::read_to_string(report).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let files = report["testResults"].as_array().expect("files");
    let tests = files.iter().flat_map(|file| file["assertionResults"].as_array().expect("tests"));
    let (passed, failed): (Vec<_>, Vec<_>) = tests.partition(|test| test["status"] == "passed");
    let names = |tests: Vec<&Value>| tests.iter().map(|test| test["fullName"].as_str().expect("a name").to_owned());
    (names(passed).collect(), names(failed).collect())
}

/// Runs the tests. On a busy machine a test whose stream lives for a second may come too late: it is tried again.
fn conforms(store: &[&str]) {
    made("tests/real/durable-streams/node_modules/vitest");
    let (mut server, url) = threadline_with(store, port(), None);
    let reports = tempfile::tempdir().expect("a directory");
    let report = reports.path().join("report.json");
    let mut command = Command::new("node");
    command.current_dir(path("tests/real/durable-streams"));
    command.args(["node_modules/vitest/vitest.mjs", "run", "--reporter=json", "--retry=3", "--testTimeout=60000"]);
    command.arg(format!("--outputFile={}", report.display()));
    command.env("STREAMS", format!("{url}/streams")).env("CI", "1").env("NO_COLOR", "1");
    let status = Process::start("vitest", command).wait();
    let (passed, failed) = outcomes(&report);
    assert_eq!(failed, FAILING, "{status}");
    assert_eq!(passed.len() + failed.len(), TESTS);
    server.kill();
}

#[test]
fn the_conformance_tests_of_durable_streams_pass() {
    let data = tempfile::tempdir().expect("a directory");
    conforms(&["--data", data.path().to_str().expect("text")]);
}

#[test]
#[ignore = "the same tests on the other database take as long again: `make test-full` runs them"]
fn the_conformance_tests_of_durable_streams_pass_on_postgres() {
    let url = threadline_backing::postgres::Postgres::shared().fresh_database();
    conforms(&["--store", &url]);
}
