//! `threadline verify` finds each contradiction in a real database, and none in a healthy one.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    time::Duration,
};

use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use threadline_core::{AgentId, Clock, Hold, NewEvents, NewThread, ProjectId, RunId, ThreadId, ThreadKey, UserId};
use threadline_store::{
    ChangeQueue, QueuedTurn, StartOutcome, StartRun, TransferStore, postgres::PgStore, sqlite::SqliteStore,
};

use crate::{
    backing::{Standby, postgres::Postgres},
    damaged_page::damage_index,
};

/// Damages, as statements for SQLite and for Postgres, each with the kind of its finding.
const DAMAGES: [(&str, &str, &str); 27] = [
    ("log-gap", "DELETE FROM log WHERE first_seq = 4", ""),
    ("head-differs-from-log", "UPDATE heads SET tail = tail + 1", ""),
    ("run-differs-from-log", "UPDATE runs SET producer_seq = 2 WHERE id = 's'", ""),
    (
        "run-without-end",
        "UPDATE log SET crc = NULL, body = CAST(replace(CAST(body AS TEXT), 'FINISHED', 'FINISHES') AS BLOB)
          WHERE first_seq = 4",
        "UPDATE log SET crc = NULL, body = convert_to(replace(convert_from(body, 'UTF8'), 'FINISHED', 'FINISHES'), 'UTF8')
          WHERE first_seq = 4",
    ),
    (
        "checksum",
        "UPDATE log SET body = CAST(replace(CAST(body AS TEXT), '\"A\"', '\"B\"') AS BLOB) WHERE first_seq = 4",
        "UPDATE log SET body = convert_to(replace(convert_from(body, 'UTF8'), '\"A\"', '\"B\"'), 'UTF8')
          WHERE first_seq = 4",
    ),
    ("thread-without-head", "DELETE FROM heads", ""),
    ("thread-unreadable", "UPDATE runs SET status = 99 WHERE id = 'active'", ""),
    ("run-unreadable", "UPDATE runs SET status = 99 WHERE id = 's'", ""),
    ("feed-unreadable", "DELETE FROM heads WHERE tail > 0", ""),
    ("row-without-thread", "DELETE FROM threads WHERE id = 't'", ""),
    (
        "feed-entry-without-thread",
        "INSERT INTO feed_entries (project, user, pos, thread, key) VALUES ('default', 'dev', 1, 'ghost', 55)",
        "INSERT INTO feed_entries (project, user_id, pos, thread, key) VALUES ('default', 'dev', 1, 'ghost', 55)",
    ),
    ("log-times", "UPDATE log SET at = at - 5000 WHERE first_seq = 4", ""),
    ("log-times", "UPDATE log SET at = at + 7200000 WHERE first_seq = 7", ""),
    ("turns-differ-from-head", "DELETE FROM turns", ""),
    ("last-run-differs-from-record", "UPDATE threads SET last_run = 'x', last_status = 3 WHERE id = 'empty'", ""),
    (
        "turn-without-thread",
        "INSERT INTO turns (key, run, project, user, at) VALUES (99, 'x', 'p', 'u', 0)",
        "INSERT INTO turns (key, run, project, user_id, at) VALUES (99, 'x', 'p', 'u', 0)",
    ),
    ("queue-differs-from-head", "UPDATE heads SET queued = queued + 1 WHERE queued = 2", ""),
    ("queue-differs-from-head", "UPDATE heads SET queued = 1 WHERE tail = 0", ""),
    ("queue-differs-from-head", "UPDATE heads SET queued = 0 WHERE key < 0", ""),
    ("queue-differs-from-head", "DELETE FROM turns WHERE place = 2", ""),
    ("turn-without-thread", "UPDATE turns SET key = 99 WHERE place = 2", ""),
    ("feed-differs-from-threads", "DELETE FROM feed_entries", ""),
    (
        "snapshot-damaged",
        "INSERT INTO snapshots (key, seq, version, raw, body, crc) SELECT key, 3, 1, 1, x'00', 1 FROM heads",
        "INSERT INTO snapshots (key, seq, version, raw, body, crc) SELECT key, 3, 1, 1, '\\x00', 1 FROM heads",
    ),
    ("stream-incomplete", "DELETE FROM stream_chunks WHERE first = 2", ""),
    ("stream-incomplete", "UPDATE stream_chunks SET last = last + 5 WHERE first = 0", ""),
    (
        "stream-incomplete",
        "UPDATE stream_chunks SET body = CAST('a' AS BLOB) WHERE first = 0",
        "UPDATE stream_chunks SET body = 'a' WHERE first = 0",
    ),
    ("stream-without-source", "DELETE FROM streams WHERE path = 's'", ""),
];

/// Queues turns in a thread, and holds them.
async fn enqueue(store: &dyn TransferStore, key: ThreadKey, runs: &[&str]) {
    let agent = AgentId::new("a").expect("id");
    for run in runs {
        let seen = store.queue(key).await.expect("reads").expect("is there");
        let run = RunId::new(run).expect("id");
        let (asked_by, at) = (None, store.clock().now());
        let new =
            QueuedTurn { run: run.clone(), agent: agent.clone(), asked_by, key: None, at, input: Some("{}".into()) };
        let order = seen.turns.iter().map(|turn| turn.run.clone()).chain([run]).collect();
        let held = Some(Hold::Hand);
        let change = ChangeQueue { key, seen: seen.head, order, new: Some(new), edited: None, gone: Vec::new(), held };
        store.change_queue(change).await.expect("changes").expect("as it was seen");
    }
}

/// A thread with two runs that are over, one that is active and two queued turns, a thread without events, and one in the
/// trash with a queued turn, of a user whose feed is complete.
async fn fill(store: &dyn TransferStore) {
    let (project, user) = (ProjectId::new("p").expect("id"), UserId::new("u").expect("id"));
    let new = |id| NewThread {
        project: project.clone(),
        id: ThreadId::new(id).expect("id"),
        user: user.clone(),
        agent: None,
        name: None,
        metadata: "{}".into(),
        created_with: "digest".into(),
        request: None,
        claimed: true,
    };
    let key = store.create_thread(new("t")).await.expect("creates").thread.key;
    store.create_thread(new("empty")).await.expect("creates");
    for run in ["r", "s", "active"] {
        let end = if run == "active" { "" } else { "{\"type\":\"RUN_FINISHED\"}\n" };
        let events = format!("{{\"type\":\"A\"}}\n{{\"type\":\"A\"}}\n{end}");
        let start = StartRun {
            key,
            run: RunId::new(run).expect("id"),
            agent: None,
            turn: None,
            attempt_id: None,
            author: None,
            asked_by: None,
            lease: Duration::from_secs(3_600),
            closing: None,
            events: Some(NewEvents::from_ndjson(events.as_bytes()).expect("events")),
            at: None,
            epoch: None,
            past_queue: false,
        };
        assert!(matches!(store.start(start).await.expect("starts"), StartOutcome::Started(_)));
    }
    enqueue(store, key, &["next", "last"]).await;
    let unused = store.create_thread(new("unused")).await.expect("creates").thread.key;
    enqueue(store, unused, &["kept"]).await;
    let (day, tomorrow) = (Duration::from_secs(86_400), store.clock().now().plus(Duration::from_secs(86_400)));
    assert_eq!(store.trash(&project, &[unused], tomorrow, day).await.expect("trashes"), [unused]);
    store.pump_feed(&project, &user).await.expect("pumps");
    let whole = crate::streams::Plain::new("s").with(&["ab", "c"]).put(store).await;
    crate::streams::Plain::new("s/fork").fork(&whole, 1).with(&["z"]).put(store).await;
}

/// Exit code and the kinds of the findings. A verification that could begin ends with the line that counts.
pub fn verify(place: &str) -> (Option<i32>, Vec<String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    let output = command.arg("verify").arg(place).env_remove("THREADLINE_STORE").output().expect("the program runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let lines: Vec<_> = lines.collect();
    let kinds: Vec<_> = lines.iter().filter_map(|line| line["finding"].as_str().map(str::to_owned)).collect();
    let code = output.status.code();
    if code != Some(2) {
        let counted = lines.last().and_then(|line| line["verified"]["findings"].as_u64());
        assert_eq!(counted, Some(kinds.len() as u64), "{text}");
    }
    (code, kinds)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copies");
    }
}

fn found(place: &str, kind: &str) {
    let (code, kinds) = verify(place);
    assert_eq!(code, Some(1), "{kind}: {kinds:?}");
    assert!(kinds.iter().any(|found| found == kind), "{kind}: {kinds:?}");
}

#[tokio::test]
async fn every_damage_of_a_data_directory_is_found() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let store = SqliteStore::open(&data, Clock::system()).await.expect("opens");
    fill(&store).await;
    store.close().await;
    let path = |path: &Path| path.to_str().expect("text").to_owned();
    assert_eq!(verify(&path(&data)), (Some(0), Vec::new()));
    assert_eq!(verify(&path(&home.path().join("nothing"))).0, Some(2));
    for (number, (kind, damage, _)) in DAMAGES.iter().enumerate() {
        let damaged = home.path().join(number.to_string());
        copy(&data, &damaged);
        let url = format!("sqlite://{}", damaged.join("threadline.db").display());
        let mut own = SqliteConnection::connect(&url).await.expect("connects");
        let done = sqlx::raw_sql(AssertSqlSafe(*damage)).execute(&mut own).await.expect("changes");
        assert!(done.rows_affected() > 0, "{kind}");
        own.close().await.expect("closes");
        found(&path(&damaged), kind);
    }
    // A backup of damaged data says so.
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    command.args(["backup", "--verify", "--data"]).arg(home.path().join("4")).arg(home.path().join("copy"));
    let output = command.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"checksum\""), "{output:?}");
}

#[tokio::test]
async fn a_project_selects_threads_wherever_it_is_named() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let store = SqliteStore::open(&data, Clock::system()).await.expect("opens");
    fill(&store).await;
    store.close().await;
    let verified = |before: &[&str], after: &[&str], variable: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
        command.args(before).arg("verify").arg(&data).args(after).env_remove("THREADLINE_STORE");
        variable.map(|project| command.env("THREADLINE_PROJECT", project));
        let output = command.output().expect("the program runs");
        let last = String::from_utf8(output.stdout).expect("text").lines().last().map(str::to_owned);
        let counts = last.and_then(|line| serde_json::from_str::<serde_json::Value>(&line).ok());
        (output.status.code(), counts.and_then(|counts| counts["verified"]["threads"].as_u64()))
    };
    assert_eq!(verified(&[], &[], None), (Some(0), Some(2)));
    for (project, threads) in [("p", 2), ("other", 0)] {
        let expected = (Some(0), Some(threads));
        assert_eq!(verified(&[], &["--project", project], None), expected);
        assert_eq!(verified(&["--project", project], &[], None), expected);
        assert_eq!(verified(&[], &[], Some(project)), expected);
    }
    assert_eq!(verified(&[], &["--project", ""], None), (Some(2), None));
}

#[tokio::test]
async fn a_damaged_page_of_a_data_directory_is_found() {
    let home = tempfile::tempdir().expect("a directory");
    let (data, file) = (home.path().join("data"), home.path().join("data/threadline.db"));
    let store = SqliteStore::open(&data, Clock::system()).await.expect("opens");
    fill(&store).await;
    store.close().await;
    damage_index(&file, "threads_recent").await;
    found(data.to_str().expect("text"), "database-damaged");
}

#[tokio::test]
async fn every_damage_of_a_database_is_found() {
    for (kind, damage, of_postgres) in DAMAGES {
        let url = Postgres::shared().fresh_database();
        let store = PgStore::open(&url, Clock::system()).await.expect("opens");
        fill(&store).await;
        assert_eq!(verify(&url), (Some(0), Vec::new()));
        let mut own = PgConnection::connect(&url).await.expect("connects");
        let damage = if of_postgres.is_empty() { damage } else { of_postgres };
        let done = sqlx::raw_sql(AssertSqlSafe(damage)).execute(&mut own).await.expect("changes");
        assert!(done.rows_affected() > 0, "{kind}");
        found(&url, kind);
        store.close().await;
    }
}

#[tokio::test]
async fn commands_on_a_standby_name_the_primary() {
    let primary = Postgres::start(&[]);
    let own = primary.fresh_database();
    PgStore::open(&own, Clock::system()).await.expect("opens").close().await;
    let standby = Standby::of(&primary);
    standby.catch_up(&primary);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("store-url");
    fs::write(&file, standby.url(own.rsplit('/').next().expect("a name"))).expect("written");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("ours");
    for (command, code) in [(["verify"].as_slice(), 2), (&["lineage", "list"], 1), (&["lineage", "new"], 1)] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_threadline"));
        let output = program.args(command).env("THREADLINE_STORE_FILE", &file).output().expect("the program runs");
        let told = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(code), "{command:?}: {told}");
        assert!(told.starts_with("error: standby database: postgres://"), "{command:?}: {told}");
        assert!(told.trim_end().ends_with("run this command against the primary"), "{command:?}: {told}");
        assert!(output.stdout.is_empty(), "{command:?}");
    }
}
