//! `kill -9` cannot show a missing fsync, because the page cache outlives the process. The order of system calls can.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use nix::sys::signal::Signal;
use serde_json::json;
use sqlx::{
    ConnectOptions, query,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::{task::JoinSet, time::Duration};

use crate::{
    api::Api,
    server::{Server, command, needs},
    trace::{order, without},
};

const CALLS: &str = "trace=pwrite64,fdatasync,fsync,writev,write,sendto,sendmsg";
const SQLITE: &str = "THREADLINE_FAULTS_SQLITE";

fn strace(output: &str) -> [&str; 11] {
    // -y names the files, --seccomp-bpf leaves all other calls alone, -s shows what is written.
    ["strace", "-f", "-qq", "-ttt", "-y", "--seccomp-bpf", "-s", "100000", "-o", output, "-e"]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_is_written_then_synced_then_acknowledged() {
    let _turn = crate::turn().await;
    needs("strace", "strace");
    let data = tempfile::tempdir().expect("a directory");
    let file = data.path().join("trace");
    let output = file.to_string_lossy();
    let under: Vec<&str> = strace(&output).into_iter().chain([CALLS]).collect();
    let mut server = Server::start(command(&data.path().join("data"), &under));
    let api = Api::of(&server.url);
    // Eight threads at once, so that some share a commit; each run begins at a seq that no other ack names.
    let mut producers = JoinSet::new();
    for lane in 0..8_u64 {
        let api = api.clone();
        producers.spawn(async move {
            let thread = format!("t{lane}");
            api.post("/v1/threads", json!({ "threadId": thread }).to_string()).await.done();
            let runs = format!("/v1/threads/{thread}/runs");
            // Whole runs first: they move the seqs of this thread to a range of its own.
            let before: Vec<_> = (1..lane * 100).map(|n| json!({ "type": "CUSTOM", "n": n })).collect();
            if !before.is_empty() {
                let body = serde_json::to_string(&before).expect("JSON");
                api.send(reqwest::Method::PUT, &format!("{runs}/before"), crate::api::JSON, body).await.done();
            }
            api.post(&runs, json!({ "runId": "r" }).to_string()).await.done();
            let mut acks = Vec::new();
            for n in 1..=20 {
                let body = json!([{ "type": "CUSTOM", "mark": format!("mark-{lane}-{n}.") }]).to_string();
                let receipt = api.post(&format!("{runs}/r/events?producerSeq={n}"), body).await.done();
                let seq = receipt["firstSeq"].as_u64().expect("a seq");
                assert!((lane * 100..(lane + 1) * 100).contains(&seq));
                acks.push((format!("mark-{lane}-{n}."), format!(r#"{{\"firstSeq\":{seq},\"lastSeq\""#)));
            }
            acks
        });
    }
    let mut acks = Vec::new();
    while let Some(done) = producers.join_next().await {
        acks.extend(done.expect("no panic"));
    }
    server.signal(Signal::SIGTERM);
    let status = tokio::task::block_in_place(|| server.wait(Duration::from_secs(15)));
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    let trace = fs::read_to_string(&file).expect("a trace");
    assert_eq!(acks.len(), 160);
    order(&trace, &acks).expect("write, sync, acknowledgement");
    // The same trace as it would be without the syncs of the write-ahead log.
    let bad = without(&trace, &["sync(", "sync resumed"]);
    for ack in &acks {
        order(&bad, std::slice::from_ref(ack)).expect_err("a missing sync must be seen");
    }
    println!(
        "write, sync, acknowledgement: {} acknowledged appends, {} lines of trace",
        acks.len(),
        trace.lines().count()
    );
}

/// Not a test of its own: this program started again, to write to SQLite with the syncs on or off.
#[tokio::test]
async fn sqlite_process() {
    let Ok(told) = std::env::var(SQLITE) else { return };
    let (synchronous, file) = told.split_once(' ').expect("two words");
    let synchronous = if synchronous == "full" { SqliteSynchronous::Full } else { SqliteSynchronous::Off };
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(synchronous);
    let mut connection = options.connect().await.expect("opens");
    query("CREATE TABLE log (body TEXT)").execute(&mut connection).await.expect("made");
    for n in 1..=10 {
        query("INSERT INTO log VALUES (?)").bind(format!("mark-{n}.")).execute(&mut connection).await.expect("written");
        println!("ack-{n}.");
    }
}

/// The negative control on a real process: without syncs the check fails, with them it passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_checker_finds_a_store_that_does_not_sync() {
    let _turn = crate::turn().await;
    needs("strace", "strace");
    let data = tempfile::tempdir().expect("a directory");
    let acks: Vec<_> = (1..=10).map(|n| (format!("mark-{n}."), format!("ack-{n}."))).collect();
    let full = traced(data.path(), "full");
    order(&full, &acks).expect("synchronous=FULL keeps the order");
    let off = traced(data.path(), "off");
    let seen = order(&off, &acks).expect_err("synchronous=OFF must be seen");
    println!("with synchronous=OFF: {seen}");
}

fn traced(data: &Path, synchronous: &str) -> String {
    let file = data.join(format!("{synchronous}.trace"));
    let output = file.to_string_lossy();
    let under = strace(&output);
    let mut command = Command::new(under[0]);
    command.args(&under[1..]).arg(CALLS).arg(std::env::current_exe().expect("this program"));
    command.args(["--exact", "order::sqlite_process", "--nocapture"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.env(SQLITE, format!("{synchronous} {}", data.join(format!("{synchronous}.db")).display()));
    assert!(command.status().expect("strace runs").success());
    fs::read_to_string(file).expect("a trace")
}
