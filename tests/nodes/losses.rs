//! The Rust client at a server that has lost commits: its database is replaced by an earlier copy.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use futures_util::StreamExt;
use threadline_client::{Client, ClientError, Producer, RunOptions, RunStatus, Tail, TailItem, TailOptions};
use threadline_core::NewEvents;

use crate::{backing::ports::free_port, cluster::*, server::Server};

/// A server on a data directory, with a port that is kept over restarts.
struct Node {
    place: tempfile::TempDir,
    port: u16,
    server: Option<Server>,
}

impl Node {
    fn start() -> Self {
        let place = tempfile::tempdir().expect("a directory");
        fs::create_dir(place.path().join("saved")).expect("made");
        let mut node = Self { place, port: free_port(), server: None };
        node.restart();
        node
    }

    fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    fn client(&self) -> Client {
        client(&format!("http://127.0.0.1:{}", self.port))
    }

    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill();
        }
    }

    fn restart(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
        command.args(["dev", "--listen", &format!("127.0.0.1:{}", self.port), "--data"]).arg(self.data());
        command.env("NO_COLOR", "1").env_remove("THREADLINE_API_KEY");
        self.server = Some(Server::start(command));
        // Once it is ready, its first beat is witnessed. A loss before that goes unnoticed.
        let mut health = Command::new(env!("CARGO_BIN_EXE_threadline"));
        let url = format!("http://127.0.0.1:{}", self.port);
        let ready = health.args(["health", "--wait", "30", "--url", &url]).output().expect("runs");
        assert!(ready.status.success(), "{}", String::from_utf8_lossy(&ready.stderr));
    }

    /// Copies the database, and starts the server again.
    fn save(&mut self) {
        self.stop();
        copy_database(&self.data(), &self.place.path().join("saved"));
        self.restart();
    }

    /// Puts the copy in the place of the database: what was committed since is lost.
    fn lose(&mut self) {
        self.stop();
        copy_database(&self.place.path().join("saved"), &self.data());
        self.restart();
    }
}

/// Replaces the database of `to` by that of `from`, with its write-ahead log.
fn copy_database(from: &Path, to: &Path) {
    let database = |directory: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
        entries.filter(|path| path.to_string_lossy().contains("threadline.db")).collect()
    };
    for path in database(to) {
        fs::remove_file(path).expect("removed");
    }
    for path in database(from) {
        fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("copied");
    }
}

async fn run(client: &Client, id: &str) -> Producer {
    let options = RunOptions { run_id: Some(id.into()), lease: Some(PATIENCE), ..RunOptions::default() };
    client.run("t", options).await.expect("starts")
}

/// The events with the run's numbers in the log, as [`log`] shows them.
async fn written(client: &Client, run: &str) -> Vec<String> {
    let mut lines = log(client, "t").await;
    lines.retain(|line| line.starts_with(&format!("{run} ")) && kind(line) == "CUSTOM");
    lines
}

fn lines(run: &str, events: &NewEvents) -> Vec<String> {
    let body = String::from_utf8(events.body().to_vec()).expect("text");
    body.lines().map(|line| format!("{run} {line}")).collect()
}

/// Reads until an item fits.
async fn item<T>(tail: &mut Tail, fits: impl Fn(Result<TailItem, ClientError>) -> Option<T>) -> T {
    let found = async {
        loop {
            let item = tail.next().await.expect("the stream continues");
            if let Some(found) = fits(item) {
                return found;
            }
        }
    };
    in_time(PATIENCE, "an item", found).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_sends_again_what_its_server_has_lost() {
    let mut node = Node::start();
    let client = node.client();
    make_thread(&client, "t").await;
    let mut producer = run(&client, "r").await;
    producer.append(numbered(1..=10)).await.expect("appends");
    node.save();
    for from in (11..=91).step_by(10) {
        producer.append(numbered(from..=from + 9)).await.expect("appends");
    }
    node.lose();
    let appended = producer.append(numbered(101..=110)).await.expect("heals");
    assert_eq!(appended.producer_seq, 110);
    assert_eq!(producer.epoch(), appended.epoch);

    // Lost again, and nothing is appended any more.
    node.lose();
    let ended = producer.finish().await.expect("finishes");
    assert_eq!((ended.status, ended.producer_seq), (RunStatus::Finished, 111));
    assert_eq!(written(&client, "r").await, lines("r", &numbered(1..=110)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_lost_as_a_whole_is_started_again_under_its_id() {
    let mut node = Node::start();
    let client = node.client();
    make_thread(&client, "t").await;
    node.save();
    let mut producer = run(&client, "r").await;
    for from in [1, 11, 21] {
        producer.append(numbered(from..=from + 9)).await.expect("appends");
    }
    node.lose();
    producer.append(numbered(31..=40)).await.expect("heals");
    let ended = producer.finish().await.expect("finishes");
    assert_eq!((ended.run_id.as_str(), ended.status), ("r", RunStatus::Finished));
    assert_eq!(written(&client, "r").await, lines("r", &numbered(1..=40)));

    // A thread that was deleted and created again is another one: its runs are not started again.
    let mut producer = run(&client, "s").await;
    producer.append(numbered(1..=3)).await.expect("appends");
    client.delete_thread("t", None).await.expect("deleted");
    make_thread(&client, "t").await;
    let error = producer.append(numbered(4..=4)).await.expect_err("another thread");
    assert!(error.problem("run-not-found").is_some(), "{error}");
    assert!(log(&client, "t").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_does_not_keep_lost_events_says_so() {
    let mut node = Node::start();
    let client = node.client();
    make_thread(&client, "t").await;
    run(&client, "r").await.append(numbered(1..=10)).await.expect("appends");
    let mut resumed = run(&client, "r").await;
    node.save();
    let large = vec![serde_json::json!({ "type": "CUSTOM", "value": "x".repeat(1_000_000) })];
    for _ in 0..6 {
        resumed.append(NewEvents::from_values(&large)).await.expect("appends");
    }
    node.lose();
    let error = resumed.append(numbered(17..=17)).await.expect_err("lost");
    assert!(matches!(error, ClientError::EventsLost { from: 11, kept: 13, .. }), "{error}");
    assert!(resumed.stop_token().is_cancelled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_continue_or_are_told_what_they_have_in_common_with_the_log() {
    let mut node = Node::start();
    let client = node.client();
    make_thread(&client, "t").await;
    let mut producer = run(&client, "r").await;
    producer.append(numbered(1..=10)).await.expect("appends");
    let tail = |client: &Client| client.tail("t", TailOptions::default());
    let live = |item| matches!(item, Ok(TailItem::CaughtUp(_))).then_some(());
    node.save();
    producer.append(numbered(11..=20)).await.expect("appends");
    let mut late = tail(&client);
    item(&mut late, live).await;
    node.lose();

    let error = item(&mut late, Result::err).await;
    let problem = error.problem("log-replaced").expect("a replaced log");
    let (after, epoch) = problem.common_cursor().expect("a common part");
    assert_eq!(after, 10);
    assert!(error.to_string().contains("read on after seq 10"), "{error}");
    let mut again = client.tail("t", TailOptions { after, epoch: Some(epoch.into()), run: None });
    producer.append(numbered(21..=30)).await.expect("heals");
    let mut seqs = Vec::new();
    while seqs.len() < 20 {
        seqs.push(
            item(&mut again, |item| match item.expect("no error") {
                TailItem::Event { seq, .. } => Some(seq),
                _ => None,
            })
            .await,
        );
    }
    assert_eq!(seqs, (11..=30).collect::<Vec<_>>());

    // A reader that has seen nothing of what was lost.
    let mut reader = tail(&client);
    let before = item(&mut reader, |item| match item.expect("no error") {
        TailItem::Hello { epoch, .. } => Some(epoch),
        _ => None,
    })
    .await;
    item(&mut reader, live).await;
    node.save();
    make_thread(&client, "other").await;
    node.lose();
    let (from, epoch) = item(&mut reader, |item| match item.expect("no error") {
        TailItem::Rebased { from, epoch } => Some((from, epoch)),
        _ => None,
    })
    .await;
    assert_eq!(from, before);
    producer.append(numbered(31..=31)).await.expect("appends");
    assert_eq!(producer.epoch(), epoch);
    let seq = item(&mut reader, |item| match item.expect("no error") {
        TailItem::Event { seq, .. } => Some(seq),
        _ => None,
    })
    .await;
    assert_eq!(seq, 31);
    producer.finish().await.expect("finishes");
}
