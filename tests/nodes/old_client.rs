//! A client of an earlier release against the nodes of this one, while they are replaced one by one.

use std::{path::Path, process::Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::cluster::*;

const CLIENT: &str = "tests/fixtures/client-0.1.0/client.py";

/// Ended with its test, whatever happens.
fn start(words: &[&str]) -> Child {
    let mut command = Command::new("python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(CLIENT)).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().expect("these tests need `python3`: install the package python3 (apt-get install python3)")
}

/// What it printed, and what it noted beside.
async fn ended(client: Child, what: &str) -> (Vec<Value>, String) {
    let output = in_time(PATIENCE, what, client.wait_with_output()).await.expect("it ends");
    let notes = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{what}:\n{notes}");
    let lines = String::from_utf8(output.stdout).expect("text");
    (lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(), notes)
}

/// An event of [`log`] without its blanks.
fn compact(line: &str) -> String {
    let (run, event) = line.split_once(' ').expect("run and event");
    format!("{run} {}", serde_json::from_str::<Value>(event).expect("JSON"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_0_1_0_goes_through_a_rolling_restart() {
    let mut cluster = Cluster::start(2);
    let balancer = cluster.balancer().await;
    let url = balancer.url.as_str();
    let client = client(url);
    make_thread(&client, "t").await;
    let followers = ["sse", "socket"].map(|way| (way, start(&["follow", way, url, "t"])));
    let mut producer = start(&["produce", url, "t"]);
    let mut reader = Reader::open(&client, "t");
    in_time(PATIENCE, "it produces", reader.reads(40)).await;
    for node in 0..2 {
        let started = cluster.node();
        let mut old = std::mem::replace(&mut cluster.nodes[node], started);
        balancer.set(cluster.addresses());
        old.signal(Signal::SIGTERM);
        let status = tokio::task::spawn_blocking(move || old.wait(PATIENCE)).await.expect("no panic");
        assert!(status.is_some_and(|status| status.success()), "a drain is a good end");
        in_time(PATIENCE, "it continues", reader.reads(reader.seen.len() + 40)).await;
    }
    drop(producer.stdin.take());
    let (said, _) = ended(producer, "the producer").await;
    let (runs, values) = (said[0]["runs"].as_u64().expect("runs"), said[0]["values"].as_u64().expect("values"));
    let log: Vec<_> = log(&client, "t").await.iter().map(|line| compact(line)).collect();
    assert_eq!(log.len() as u64, runs + values, "each run ends once, and no value is there twice");
    for (way, follower) in followers {
        let (seen, notes) = ended(follower, way).await;
        let seen: Vec<_> =
            seen.iter().map(|line| format!("{} {}", line["runId"].as_str().expect("a run"), line["event"])).collect();
        assert_eq!(seen, log, "{way}");
        assert!(notes.contains("going away"), "{way} was sent to another node:\n{notes}");
    }
    // In the order in which they were produced.
    let numbers =
        log.iter().filter_map(|line| line.rsplit_once("\"value\":")?.1.trim_end_matches('}').parse::<u64>().ok());
    assert_eq!(numbers.collect::<Vec<_>>(), (1..=values).collect::<Vec<_>>());
}
