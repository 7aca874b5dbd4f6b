//! One process per data directory; a clean end under load; a producer that sleeps through its lease.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    api::Api,
    load::{Load, Size},
    reply::slug,
    rng,
    server::{Server, command},
};

/// DRAIN_TIMEOUT, and a little for the file to be closed.
const CLEAN: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_on_the_same_data_is_refused() {
    let _turn = crate::turn().await;
    let data = tempfile::tempdir().expect("a directory");
    let first = Server::on(data.path());
    let mut second = Server::spawn(command(data.path(), &[]));
    let status = second.wait(Duration::from_secs(10)).expect("it ends by itself");
    // What it wrote may still be on its way through the pipe.
    sleep(Duration::from_millis(100)).await;
    assert_eq!(status.code(), Some(1), "{}", second.said());
    assert!(second.said().contains("is in use by another process"), "{}", second.said());
    assert!(second.said().contains(&*data.path().to_string_lossy()), "it names the directory: {}", second.said());
    // The first one is none the worse for it.
    Api::of(&first.url).post("/v1/threads", r#"{"threadId":"t"}"#).await.done();
    drop(first);
    // A lock does not outlive its process.
    let third = Server::on(data.path());
    Api::of(&third.url).get("/v1/threads/t").await.done();
}

#[test]
fn a_server_whose_log_has_no_reader_ends_cleanly() {
    let data = tempfile::tempdir().expect("a directory");
    let mut command = command(data.path(), &[]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut server = command.stdout(Stdio::piped()).stderr(writer).spawn().expect("it starts");
    drop((command, reader));
    let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("listening on")));
    kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM).expect("it runs");
    let status = server.wait().expect("a child");
    assert_eq!(status.code(), Some(0), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_and_ctrl_c_end_cleanly_under_load() {
    let _turn = crate::turn().await;
    let data = tempfile::tempdir().expect("a directory");
    let load = Load::begin(Size { lanes: 12, contended: 3, churned: 2, pause: 30 }, rng::seed());
    let mut longest = Duration::ZERO;
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Server::on(data.path());
        load.base.send_replace(Some(server.url.clone()));
        sleep(Duration::from_millis(1_500)).await;
        let asked = Instant::now();
        server.signal(signal);
        let status = tokio::task::block_in_place(|| server.wait(CLEAN));
        longest = longest.max(asked.elapsed());
        load.base.send_replace(None);
        let status = status.unwrap_or_else(|| panic!("{signal}: not gone after {CLEAN:?}\n{}", server.said()));
        assert_eq!(status.code(), Some(0), "{signal}: {}", server.said());
        // The write-ahead log was written back and removed.
        assert!(!data.path().join("threadline.db-wal").exists(), "{signal}: the write-ahead log is left");
        load.api.assert_sound();
    }
    let server = Server::on(data.path());
    load.base.send_replace(Some(server.url.clone()));
    sleep(Duration::from_millis(500)).await;
    let tally = load.tally.clone();
    let found = load.end().await;
    println!(
        "4 clean ends under load, the longest took {longest:?}; acked {} events, {} requests sent again\nfound: {found}",
        tally.acked.load(Ordering::Relaxed),
        tally.retried.load(Ordering::Relaxed)
    );
}

const PRODUCER: &str = "THREADLINE_FAULTS_PRODUCER";

/// Not a test of its own: this program started again, as a producer that can be stopped. It appends one event every
/// 20 ms, and continues regardless of the answers.
#[tokio::test]
async fn producer_process() {
    let Ok(url) = std::env::var(PRODUCER) else { return };
    let api = Api::of(&url);
    let mut seq = 1;
    let mut refusals = 0;
    while refusals < 20 {
        let body = format!(r#"[{{"type":"CUSTOM","n":{seq}}}]"#);
        match api.post(&format!("/v1/threads/t/runs/sleeper/events?producerSeq={seq}"), body).await {
            crate::api::Reply::Done(..) => seq += 1,
            other => {
                refusals += 1;
                println!("REFUSED {other:?}");
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
    println!("ACKED {}", seq - 1);
}

struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_sleeps_through_its_lease_is_fenced() {
    let _turn = crate::turn().await;
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::on(data.path());
    let api = Api::of(&server.url);
    api.post("/v1/threads", r#"{"threadId":"t"}"#).await.done();
    let start = json!({ "runId": "sleeper", "leaseSeconds": 1 }).to_string();
    api.post("/v1/threads/t/runs", start).await.done();
    let mut producer = Command::new(std::env::current_exe().expect("this program"));
    producer.args(["--exact", "shutdown::producer_process", "--nocapture"]).env(PRODUCER, &server.url);
    let child = producer.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut child = Stopped(child);
    let pid = Pid::from_raw(child.0.id() as i32);
    let deadline = Instant::now() + Duration::from_secs(10);
    while api.get("/v1/threads/t").await.done()["tail"].as_u64() < Some(10) {
        assert!(Instant::now() < deadline, "the producer does not append");
        sleep(Duration::from_millis(20)).await;
    }
    kill(pid, Signal::SIGSTOP).expect("stopped");
    let slept = Instant::now();
    let run = loop {
        let run = api.get("/v1/threads/t/runs/sleeper").await.done();
        if !run["endedAt"].is_null() {
            break run;
        }
        assert!(slept.elapsed() < Duration::from_secs(6), "not ended in lease + 5 s: {run}");
        sleep(Duration::from_millis(50)).await;
    };
    println!("the sleeper's run was ended after {:.1?}", slept.elapsed());
    assert_eq!((run["status"].as_str(), run["errorCode"].as_str()), (Some("error"), Some("lease-expired")));
    // Another run has the thread when the producer wakes.
    api.post("/v1/threads/t/runs", r#"{"runId":"next"}"#).await.done();
    let appended = api.post("/v1/threads/t/runs/next/events?producerSeq=1", r#"[{"type":"CUSTOM"}]"#).await.done();
    kill(pid, Signal::SIGCONT).expect("continues");
    let stdout = child.0.stdout.take().expect("piped");
    let said = thread::spawn(move || std::io::read_to_string(stdout).expect("text")).join().expect("read");
    let refused: Vec<_> = said.lines().filter(|line| line.starts_with("REFUSED")).collect();
    let acked = said.lines().find_map(|line| line.strip_prefix("ACKED ")).expect("a number");
    assert!(refused.len() >= 20 && refused.iter().all(|line| line.contains("/run-fenced")), "{said}");
    let thread = api.get("/v1/threads/t").await.done();
    assert_eq!(thread["tail"], appended["lastSeq"], "nothing was appended after it woke");
    // An append that was under way when it stopped may have been answered after it woke.
    let own = run["producerSeq"].as_u64().expect("a number") - 1;
    assert_eq!(acked.parse().ok(), Some(own), "its acknowledged events are stored: {run}");
    let problem: Value = api.post("/v1/threads/t/runs", "{}").await.refused();
    assert_eq!((slug(&problem).as_str(), problem["run"]["runId"].as_str()), ("run-active", Some("next")));
}
