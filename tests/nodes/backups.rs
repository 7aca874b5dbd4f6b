//! Backups taken while a run is active, restored with `deploy/restore.sh`: the restored data, and the answers to clients.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use threadline_client::{Client, EventQuery, FeedEntry, FeedQuery, RunStatus};

use crate::{
    backing::postgres::{Postgres, binaries},
    cluster::*,
    server::{Server, command},
};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_threadline");

/// Runs the command to its end; returns its output, and whether it succeeded.
pub fn run(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

fn done(command: &mut Command) -> String {
    let (well, said) = run(command);
    assert!(well, "{command:?}:\n{said}");
    said
}

fn restore(words: &[&str]) -> Command {
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/restore.sh"));
    let path = std::env::var("PATH").unwrap_or_default();
    command.args(words).env("PROGRAM", PROGRAM).env("PATH", format!("{}:{path}", binaries().display()));
    command
}

/// What a client holds before everything is lost.
struct Before {
    epoch: String,
    log: Vec<String>,
    /// Cursor of the feed, with its epoch.
    feed: (u64, String),
    /// Events that were acknowledged before the backup began, and once it was there.
    acknowledged: (usize, usize),
}

/// A run that appends all the while, with a backup in its middle. Then the server is not asked any more.
async fn backed_up(client: &Client, backup: impl FnOnce() + Send + 'static) -> Before {
    make_thread(client, "t").await;
    make_thread(client, "other").await;
    let (stop, there) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut producer = client.run("t", options("r")).await.expect("starts");
    producer.append(numbered(1..=20)).await.expect("appends");
    let appending = tokio::spawn({
        let (stop, there) = (stop.clone(), there.clone());
        async move {
            let (mut appended, mut then) = (20, None);
            while !stop.load(SeqCst) {
                producer.append(numbered(appended + 1..=appended + 5)).await.expect("appends");
                appended += 5;
                if there.load(SeqCst) && then.is_none() {
                    then = Some(appended as usize);
                }
            }
            then.expect("it went on after the backup")
        }
    });
    let acknowledged = log(client, "t").await.len();
    tokio::task::spawn_blocking(backup).await.expect("the backup is made");
    there.store(true, SeqCst);
    make_thread(client, "made since").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    stop.store(true, SeqCst);
    let then = appending.await.expect("no panic");
    let query = EventQuery { after: Some(0), limit: Some(1), ..EventQuery::default() };
    let epoch = client.events("t", &query).await.expect("a page").epoch;
    let feed = in_time(PATIENCE, "the feed", async {
        loop {
            let page = client.feed(&FeedQuery::default()).await.expect("a page");
            if page.entries.len() == 3 {
                return (page.cursor, page.epoch);
            }
        }
    })
    .await;
    Before { epoch, log: log(client, "t").await, feed, acknowledged: (acknowledged, then) }
}

async fn read(client: &Client, after: usize, epoch: &str) -> Result<usize, String> {
    let query = EventQuery { after: Some(after as u64), epoch: Some(epoch.into()), ..EventQuery::default() };
    let page = client.events("t", &query).await;
    page.map(|page| page.events.len()).map_err(|error| error.to_string())
}

/// A server on the restored data.
async fn check(client: &Client, before: &Before) {
    // The active run has no producer any more, so it is ended, after its last event in the backup.
    let run = in_time(ENDED, "the run is ended", ended(client, "t", "r")).await;
    assert_eq!((run.status, run.error_code.as_deref()), (RunStatus::Error, Some("lease-expired")));
    let log = log(client, "t").await;
    let (kept, end) = log.split_at(log.len() - 1);
    assert_eq!(kind(&end[0]), "RUN_ERROR");
    assert_eq!(kept, &before.log[..kept.len()], "the same bytes, up to the moment of the backup");
    let (least, most) = before.acknowledged;
    assert!((least..=most).contains(&kept.len()), "{} of {least} to {most}", kept.len());
    assert!(kept.len() < before.log.len(), "something was lost, or this proves nothing");
    // A reader that has seen nothing of what was lost continues, under another epoch; one that has is refused.
    for after in [0, kept.len() - 1, kept.len()] {
        let rest = read(client, after, &before.epoch).await.expect("a common cursor");
        assert_eq!(rest, log.len() - after, "after {after}");
    }
    for after in [kept.len() + 1, before.log.len(), before.log.len() + 100] {
        let refused = read(client, after, &before.epoch).await.expect_err("refused");
        assert!(refused.contains("replaced"), "{after}: {refused}");
    }
    // A list whose cursor is ahead of the backup's feed is told so, and starts again.
    let (cursor, epoch) = before.feed.clone();
    let ahead = client.feed(&FeedQuery { after: cursor, epoch: Some(epoch), ..FeedQuery::default() }).await;
    let refused = ahead.expect_err("refused").to_string();
    assert!(refused.contains("replaced"), "{cursor}: {refused}");
    let page = client.feed(&FeedQuery::default()).await.expect("a page");
    let mut names: Vec<_> = page
        .entries
        .iter()
        .map(|entry| match entry {
            FeedEntry::Upsert { thread_id, .. } | FeedEntry::Delete { thread_id, .. } => thread_id.as_str(),
        })
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["other", "t"]);
    // And it is a server like any other.
    let mut next = client.run("t", options("next")).await.expect("starts");
    next.append(numbered(1..=5)).await.expect("appends");
    next.finish().await.expect("finishes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_is_backed_up_beside_its_server_and_restored() {
    let place = tempfile::tempdir().expect("a directory");
    let path = |name: &str| place.path().join(name);
    let text = |path: PathBuf| path.to_str().expect("text").to_owned();
    let (data, copy) = (path("data"), path("backup"));
    let mut server = Server::start(quick(&data));
    let client = self::client(&server.url);
    let backup = {
        let (data, copy) = (data.clone(), copy.clone());
        move || {
            let said = done(Command::new(PROGRAM).args(["backup", "--data"]).arg(&data).arg(&copy));
            assert!(said.contains("backed up"), "{said}");
        }
    };
    let before = backed_up(&client, backup).await;
    let words = ["sqlite", &text(copy.clone()), &text(data.clone())];
    let (well, said) = run(&mut restore(&words));
    assert!(!well && said.contains("is in use: stop the server first"), "{said}");
    let (well, said) = run(Command::new(PROGRAM).args(["backup", "--data"]).arg(&data).arg(&copy));
    assert!(!well && said.contains("exists: choose a new directory"), "{said}");
    server.kill();

    // A copy that is simply started opens a generation as well: no event is served under a seq that a reader has seen.
    let careless = path("careless");
    std::fs::create_dir(&careless).expect("made");
    for (from, file) in [(&copy, "threadline.db"), (&data, "secret.key")] {
        std::fs::copy(from.join(file), careless.join(file)).expect("copied");
    }
    let server = Server::start(quick(&careless));
    let client = self::client(&server.url);
    in_time(ENDED, "the run is ended", ended(&client, "t", "r")).await;
    let cursor = before.log.len();
    let mut other = client.run("t", options("other")).await.expect("starts");
    other.append(numbered(1..=cursor as u64)).await.expect("appends");
    let refused = read(&client, cursor, &before.epoch).await.expect_err("it has seen what was lost");
    assert!(refused.contains("replaced"), "{refused}");
    drop(server);

    let said = done(&mut restore(&words));
    assert!(said.contains("data.before-"), "{said}");
    let server = Server::start(quick(&data));
    check(&self::client(&server.url), &before).await;
    let kept = std::fs::read_dir(place.path()).expect("a directory").filter_map(Result::ok);
    assert!(kept.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("data.before-")));
}

/// A server on which runs without a producer end soon.
fn quick(data: &Path) -> Command {
    let mut command = command(data, &[]);
    command.args(["--lock-ttl-seconds", "2"]);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_is_dumped_beside_its_nodes_and_restored() {
    let place = tempfile::tempdir().expect("a directory");
    let dump = place.path().join("threadline.dump").to_str().expect("text").to_owned();
    let mut cluster = Cluster::start(1);
    let client = cluster.client(0);
    let backup = {
        let (dump, url) = (dump.clone(), cluster.database.clone());
        move || {
            let mut command = Command::new(binaries().join("pg_dump"));
            done(command.args(["--format=custom", "--no-owner", "--file", &dump, &url]));
        }
    };
    let before = backed_up(&client, backup).await;
    cluster.nodes[0].kill();
    let database = Postgres::shared().fresh_database();
    // The URL may be in a file, as a node that systemd starts has it.
    let url = place.path().join("store-url");
    std::fs::write(&url, format!("{database}\n")).expect("written");
    std::fs::set_permissions(&url, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("ours");
    let said = done(restore(&["postgres", &dump]).env("THREADLINE_STORE_FILE", &url));
    assert!(said.contains("up to date") && said.contains("generation 2: "), "{said}");
    // A second time there is something there, and nothing is changed.
    assert!(!run(restore(&["postgres", &dump]).env("THREADLINE_STORE", &database)).0);
    cluster.database = database;
    let node = cluster.node();
    check(&self::client(&node.url), &before).await;
}
