//! A full disk: appends are refused as retryable, reads continue, and no acknowledged event is lost.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use crate::{
    api::{Api, Reply},
    rng::{self, Rng},
    seen::envelope,
    server::{Server, command, needs},
};

const THREADS: usize = 6;

/// The server in a mount namespace of its own, its data on a small tmpfs there.
fn on_small_disk(data: &Path) -> Server {
    let mode = if nix::unistd::geteuid().is_root() { "-m" } else { "-Urm" };
    let script = r#"mount -t tmpfs -o size=12m threadline "$0" && exec "$@""#;
    let disk = data.to_string_lossy();
    Server::start(command(&data.join("data"), &["unshare", mode, "sh", "-c", script, &disk]))
}

/// The disk, as the server sees it.
fn seen(server: &Server, data: &Path) -> PathBuf {
    Path::new(&format!("/proc/{}/root", server.pid)).join(data.strip_prefix("/").expect("absolute"))
}

/// Fills it up to the last byte.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("ballast");
    let mut file = fs::File::create(&path).expect("a file on the small disk");
    for size in [65_536, 4_096, 1] {
        while file.write_all(&vec![7; size]).is_ok() {}
    }
    path
}

struct Writer {
    thread: String,
    seq: usize,
    /// Payloads in the order of their seqs.
    acked: Vec<String>,
}

impl Writer {
    fn next(&self, rng: &mut Rng) -> Vec<String> {
        let event = |n| {
            let pad = "y".repeat(rng.between(10, 600) as usize);
            format!(r#"{{"type":"CUSTOM","n":{},"pad":"{pad}"}}"#, self.seq + n)
        };
        (0..20).map(event).collect()
    }

    fn path(&self) -> String {
        format!("/v1/threads/{}/runs/r/events?producerSeq={}", self.thread, self.seq + 1)
    }

    fn took(&mut self, events: Vec<String>, receipt: &Value) {
        self.seq += events.len();
        assert_eq!(receipt["lastSeq"], self.seq, "{receipt}");
        self.acked.extend(events);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_and_stops_no_reader() {
    let _turn = crate::turn().await;
    needs("unshare", "util-linux");
    let mut rng = Rng::new(rng::seed(), 0);
    let data = tempfile::tempdir().expect("a directory");
    let server = on_small_disk(data.path());
    let disk = seen(&server, data.path());
    assert!(disk.join("data/threadline.db").exists(), "the server's disk is not where it is looked for: {disk:?}");
    let api = Api::of(&server.url);
    let mut writers = Vec::new();
    for n in 0..THREADS {
        let thread = format!("t{n}");
        api.post("/v1/threads", json!({ "threadId": thread }).to_string()).await.done();
        let start = json!({ "runId": "r", "leaseSeconds": 600 }).to_string();
        api.post(&format!("/v1/threads/{thread}/runs"), start).await.done();
        writers.push(Writer { thread, seq: 0, acked: Vec::new() });
    }
    let (mut refusals, mut before) = (0, 0);
    for round in 0..3 {
        for writer in &mut writers {
            for _ in 0..3 {
                let events = writer.next(&mut rng);
                let body = format!("[{}]", events.join(","));
                writer.took(events, &api.post(&writer.path(), body).await.done());
                before += 1;
            }
        }
        let ballast = fill(&disk);
        let mut waiting: Vec<Option<Vec<String>>> = writers.iter().map(|_| None).collect();
        let deadline = Instant::now() + Duration::from_secs(20);
        // Some still fit into what the files have already; in the end none does.
        while waiting.iter().any(Option::is_none) {
            assert!(Instant::now() < deadline, "the disk is full and appends continue");
            for (writer, waiting) in writers.iter_mut().zip(&mut waiting).filter(|(_, waiting)| waiting.is_none()) {
                let events = writer.next(&mut rng);
                let body = format!("[{}]", events.join(","));
                match refused(&server.url, &writer.path(), &body).await {
                    None => writer.took(events, &json!({ "lastSeq": writer.seq + 20 })),
                    Some(problem) => {
                        refusals += 1;
                        assert_eq!(problem["type"], "/problems/store-unavailable", "{problem}");
                        assert_eq!(problem["retryable"], true, "{problem}");
                        *waiting = Some(events);
                    }
                }
            }
        }
        for writer in &writers {
            compare(&api, writer).await;
        }
        // Whatever else writes is no worse: unclear or done, but not refused for good.
        let made = api.post("/v1/threads", json!({ "threadId": format!("more-{round}") }).to_string()).await;
        assert!(!matches!(made, Reply::Refused(..)), "{made:?}");
        fs::remove_file(ballast).expect("removed");
        for (writer, events) in writers.iter_mut().zip(waiting) {
            let events = events.expect("refused before");
            let body = format!("[{}]", events.join(","));
            let freed = Instant::now();
            loop {
                match api.post(&writer.path(), body.clone()).await {
                    Reply::Done(_, receipt) => break writer.took(events, &receipt),
                    other => assert!(freed.elapsed() < Duration::from_secs(10), "space is free again, but: {other:?}"),
                }
            }
        }
    }
    for writer in &writers {
        compare(&api, writer).await;
    }
    println!("full disk: 3 times, {before} appends before, {refusals} refusals with 503; 0 acked lost");
}

/// `None` if it was accepted, else the problem, which must be a 503.
async fn refused(url: &str, path: &str, body: &str) -> Option<Value> {
    let http =
        Client::builder().no_proxy().tls_certs_only([]).timeout(Duration::from_secs(60)).build().expect("a client");
    let request = http.post(format!("{url}{path}")).header("content-type", "application/json").body(body.to_owned());
    let response = request.send().await.expect("an answer");
    let status = response.status();
    let text = response.text().await.expect("a body");
    if status == StatusCode::OK {
        return None;
    }
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    Some(serde_json::from_str(&text).expect("a problem"))
}

/// The log is what was acknowledged: byte for byte, and nothing else.
async fn compare(api: &Api, writer: &Writer) {
    let (_, text) = api.log(&writer.thread).await;
    let log: Vec<_> = text.lines().map(envelope).collect();
    assert_eq!(log.len(), writer.acked.len(), "{}", writer.thread);
    for (at, ((seq, event), acked)) in log.iter().zip(&writer.acked).enumerate() {
        assert_eq!((*seq, &event.payload), (at as u64 + 1, acked), "{}", writer.thread);
    }
}
