//! System calls of the server, compared with those that `deploy/threadline.service` allows: a call outside of the list fails
//! under systemd, and nowhere else.

use std::{collections::BTreeSet, fs, process::Command};

use nix::sys::signal::Signal;
use serde_json::json;
use tokio::time::Duration;

use crate::{
    api::Api,
    server::{Server, command, needs},
};

const UNIT: &str = include_str!("../../deploy/threadline.service");

/// System calls of a set like `@system-service`, which may name other sets.
fn calls_of(set: &str, found: &mut BTreeSet<String>) {
    let output = Command::new("systemd-analyze").args(["syscall-filter", set]).output().expect("it runs");
    assert!(output.status.success(), "{set} is unknown");
    for word in String::from_utf8(output.stdout).expect("text").lines().skip(1).map(str::trim) {
        match word {
            "" => {}
            _ if word.starts_with('#') => {}
            _ if word.starts_with('@') => calls_of(word, found),
            _ => drop(found.insert(word.to_owned())),
        }
    }
}

/// Names of the calls in a trace made with `strace -f`, also of those that another thread interrupted.
fn traced(trace: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        let call = call.strip_prefix("<... ").unwrap_or(call);
        let end = call.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        (end > 0 && call[end..].starts_with(['(', ' '])).then(|| call[..end].to_owned())
    };
    trace.lines().filter_map(name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_unit_allows_every_system_call_of_the_server() {
    let _turn = crate::turn().await;
    needs("strace", "strace");
    needs("systemd-analyze", "systemd");
    let set = UNIT.lines().find_map(|line| line.strip_prefix("SystemCallFilter=")).expect("a filter");
    let mut allowed = BTreeSet::new();
    calls_of(set, &mut allowed);
    let data = tempfile::tempdir().expect("a directory");
    let file = data.path().join("trace");
    let output = file.to_string_lossy();
    let mut server = Server::start(command(&data.path().join("data"), &["strace", "-f", "-qq", "-o", &output]));
    let api = Api::of(&server.url);
    api.post("/v1/threads", json!({ "threadId": "t" }).to_string()).await.done();
    api.post("/v1/threads/t/runs", json!({ "runId": "r" }).to_string()).await.done();
    let event = json!([{ "type": "CUSTOM", "name": "n", "value": 1 }]).to_string();
    api.post("/v1/threads/t/runs/r/events?producerSeq=1", event).await.done();
    api.log("t").await;
    server.signal(Signal::SIGTERM);
    let status = tokio::task::block_in_place(|| server.wait(Duration::from_secs(30)));
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    let used = traced(&fs::read_to_string(&file).expect("a trace"));
    for call in ["execve", "prlimit64", "fsync", "accept4"] {
        assert!(used.contains(call), "{call} is in no trace: {used:?}");
    }
    let refused: Vec<_> = used.difference(&allowed).collect();
    assert!(refused.is_empty(), "SystemCallFilter={set} refuses {refused:?}");
    // A set that is too small is noticed.
    let mut files_only = BTreeSet::new();
    calls_of("@basic-io", &mut files_only);
    assert!(!files_only.is_empty() && !used.is_subset(&files_only), "{used:?}");
}
