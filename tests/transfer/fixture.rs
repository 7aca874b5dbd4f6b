//! A data directory that an earlier release wrote. `tests/fixtures/README.md` says how the next one is made.

use std::{
    fs,
    path::{Path, PathBuf},
};

use reqwest::Method;
use serde_json::{Value, json};
use threadline_core::{Clock, ProjectId, ThreadId, Timestamp};

use crate::{
    backing::Postgres,
    harness::{Backend, Options, Server, after, eventually, number},
    seen::{Seen, assert_same, everything},
};

/// The files of a data directory that hold data; the log beside the database is part of it, as after a crash.
const FILES: [&str; 2] = ["threadline.db", "threadline.db-wal"];
/// A database, as SQL.
const DUMP: &str = "dump.sql";
const ANSWERS: &str = "answers.ndjson";
const USERS: [&str; 3] = ["alice", "bob", "somebody-else"];
/// When the first request of a fixture is made. The clock only moves when the fixture advances it.
const BEGIN: Timestamp = Timestamp(1_795_000_000_000);

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn packed(fixture: &Path, name: &str) -> PathBuf {
    fixture.join(format!("{name}.zst"))
}

fn unpack(fixture: &Path, name: &str) -> Vec<u8> {
    let path = packed(fixture, name);
    let file = fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    zstd::stream::decode_all(file).expect("zstd")
}

fn answers(fixture: &Path) -> (Timestamp, Vec<Seen>) {
    let text = String::from_utf8(unpack(fixture, ANSWERS)).expect("text");
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let moment = Timestamp(lines.next().expect("a first line")["now"].as_i64().expect("a moment"));
    (moment, lines.map(|line| Seen::from(&line)).collect())
}

/// Puts a fixture where a server can open it. The moment at which it was closed, and what was seen of it.
pub fn placed(fixture: &str, data: &Path) -> (Timestamp, Vec<Seen>) {
    let fixture = fixtures().join(fixture);
    fs::create_dir_all(data).expect("a directory");
    for name in FILES {
        fs::write(data.join(name), unpack(&fixture, name)).expect("written");
    }
    answers(&fixture)
}

/// A server on a data directory, at this moment.
pub async fn server_at(data: &Path, moment: Timestamp) -> Server {
    Server::in_directory(data, Options { clock: Clock::manual(moment), ..Options::new(Backend::Sqlite) }).await
}

/// A server on a database, at this moment.
pub async fn server_on(url: &str, moment: Timestamp) -> Server {
    let options = Options { clock: Clock::manual(moment), ..Options::new(Backend::Production) };
    Server::in_database(url, options).await
}

/// All of them, the oldest first.
fn releases(of: &str) -> Vec<String> {
    let entries = fs::read_dir(fixtures()).expect("fixtures").map(|entry| entry.expect("an entry"));
    let directories = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<_> = directories.map(|entry| entry.file_name().into_string().expect("text")).collect();
    names.retain(|name| name.starts_with(of));
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_every_earlier_release_opens_with_the_same_bytes() {
    let releases = releases("sqlite-");
    assert!(!releases.is_empty(), "there is no fixture");
    for release in releases {
        println!("{release}");
        let data = tempfile::tempdir().expect("a directory");
        let (moment, then) = placed(&release, data.path());
        let server = server_at(data.path(), moment).await;
        assert_same(&server, &then).await;
        last_runs(&server).await;
        continues(&server).await;
        server.stop().await;
        // And once more, now that this release has written to it: what had ended is as it was.
        let server = server_at(data.path(), moment).await;
        let ended = ["/threads/sealed", "/threads/ended", "/threads/large"];
        let then: Vec<_> = then.into_iter().filter(|seen| ended.iter().any(|path| seen.path.contains(path))).collect();
        assert_same(&server, &then).await;
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_every_earlier_release_opens_with_the_same_bytes() {
    let releases = releases("postgres-");
    assert!(!releases.is_empty(), "there is no fixture");
    for release in releases {
        println!("{release}");
        let (fixture, postgres) = (fixtures().join(&release), Postgres::shared());
        let url = postgres.fresh_database();
        postgres.load(&url, &unpack(&fixture, DUMP));
        let (moment, then) = answers(&fixture);
        let server = server_on(&url, moment).await;
        assert_same(&server, &then).await;
        last_runs(&server).await;
        continues(&server).await;
        server.stop().await;
    }
}

/// Every thread has the state of its newest run, which the migration took from the runs.
async fn last_runs(server: &Server) {
    let mut statuses = std::collections::BTreeSet::new();
    for user in USERS {
        let user = server.user(user);
        let list = user.get("/v1/threads?includeArchived=true").await.ok(200);
        for thread in list["threads"].as_array().expect("threads") {
            let id = crate::seen::escaped(thread["threadId"].as_str().expect("an id"));
            let newest = &user.get(&format!("/v1/threads/{id}/runs?limit=1")).await.ok(200)["runs"][0];
            for member in ["runId", "status", "errorCode", "endedAt"] {
                assert_eq!(thread["lastRun"][member], newest[member], "{member} of {id}");
            }
            statuses.insert(newest["status"].to_string());
        }
        let failed = user.get("/v1/threads?includeArchived=true&status=failed").await.ok(200);
        let failed = failed["threads"].as_array().expect("threads").len();
        let ended_badly =
            |thread: &&Value| ["error", "abandoned"].iter().any(|status| thread["lastRun"]["status"] == *status);
        assert_eq!(list["threads"].as_array().expect("threads").iter().filter(ended_badly).count(), failed);
    }
    assert!(statuses.len() > 3, "{statuses:?}");
}

/// Pending work continues: retries find their events, the active runs take more, and abandoned runs are ended.
async fn continues(server: &Server) {
    let alice = server.user("alice");
    let again = alice.append("active", "second", 1, json!([{ "type": "STEP_STARTED", "stepName": "a" }])).await.ok(200);
    assert_eq!((number(&again, "firstSeq"), number(&again, "producerSeq")), (3, 1));
    let more = alice.append("active", "second", 3, json!([{ "type": "RUN_FINISHED" }])).await.ok(200);
    assert_eq!(number(&more, "firstSeq"), 5);
    alice.append("active", "second", 1, json!([{ "type": "OTHER" }])).await.problem(422, "producer-seq-conflict");
    let list = alice.get("/v1/threads").await.ok(200);
    let (feed, place) = (number(&list, "feedCursor"), after(&list));
    assert!(feed > 5, "{feed}");
    alice.post("/v1/threads", json!({ "threadId": "new" })).await.ok(201);
    // All threads of earlier releases have claimed their ids.
    let taken = server.user("newcomer").post("/v1/threads", json!({ "threadId": "sealed" })).await;
    taken.problem(409, "thread-exists");
    eventually("the feed continues", async || {
        let page = alice.get(&format!("/v1/feed?{place}")).await.ok(200);
        page["entries"].as_array()?.iter().any(|entry| entry["threadId"] == "new").then_some(())
    })
    .await;
    server.pass(3_700);
    for (thread, status) in [("stopping", "stopped"), ("finishing", "error")] {
        eventually("the reaper ends what was left", async || {
            let run = alice.get(&format!("/v1/threads/{thread}/runs/r")).await.ok(200);
            (run["status"] == status).then_some(())
        })
        .await;
    }
}

/// A directory for a new fixture of this release.
fn new_fixture(of: &str) -> PathBuf {
    let name = std::env::var("FIXTURE").unwrap_or_else(|_| env!("CARGO_PKG_VERSION").to_owned());
    let fixture = fixtures().join(format!("{of}-{name}"));
    assert!(!fixture.exists(), "{} is there: a fixture is never made again", fixture.display());
    fs::create_dir_all(&fixture).expect("a directory");
    fixture
}

fn pack(fixture: &Path, name: &str, bytes: &[u8]) {
    fs::write(packed(fixture, name), zstd::bulk::compress(bytes, 19).expect("packs")).expect("written");
}

fn pack_answers(fixture: &Path, server: &Server, seen: &[Seen]) {
    let first = json!({ "now": server.clock.now().0 }).to_string();
    let lines = seen.iter().map(|seen| Value::from(seen).to_string());
    pack(fixture, ANSWERS, ([first].into_iter().chain(lines).collect::<Vec<_>>().join("\n") + "\n").as_bytes());
}

/// Makes `tests/fixtures/postgres-VERSION` from this tree; FIXTURE=name names it otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes to tests/fixtures: for a release"]
async fn make_the_fixture_of_this_release_on_postgres() {
    let (fixture, postgres) = (new_fixture("postgres"), Postgres::shared());
    let url = postgres.fresh_database();
    let server = server_on(&url, BEGIN).await;
    sealed(&server).await;
    fill(&server).await;
    let seen = everything(&server, &USERS).await;
    pack(&fixture, DUMP, &postgres.dump(&url));
    pack_answers(&fixture, &server, &seen);
    server.stop().await;
}

/// Makes `tests/fixtures/sqlite-VERSION` from this tree; FIXTURE=name names it otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes to tests/fixtures: for a release"]
async fn make_the_fixture_of_this_release() {
    let fixture = new_fixture("sqlite");
    let data = tempfile::tempdir().expect("a directory");
    let server = server_at(data.path(), BEGIN).await;
    sealed(&server).await;
    let moment = server.clock.now();
    // What was written until here is in the database, the rest in the log beside it.
    server.stop().await;
    let server = server_at(data.path(), moment).await;
    fill(&server).await;
    let seen = everything(&server, &USERS).await;
    for name in FILES {
        pack(&fixture, name, &fs::read(data.path().join(name)).expect("a file"));
    }
    pack_answers(&fixture, &server, &seen);
    // Whatever the server does from now on, the files are read.
    server.stop().await;
}

/// A bit of everything that a store can hold.
async fn fill(server: &Server) {
    let (alice, bob) = (server.user("alice"), server.user("bob"));
    alice
        .put("/v1/agents/trips", json!({ "url": "http://127.0.0.1:4001/", "headers": { "X-Key": "k" } }))
        .await
        .ok(200);
    let chat =
        json!({ "kind": "openai", "baseUrl": "http://127.0.0.1:4001/v1", "model": "m", "instructions": "Bri\u{e9}f." });
    alice.put("/v1/agents/chat", chat).await.ok(200);

    let whole =
        json!({ "threadId": "active", "name": "A name \u{1F600}", "agentId": "trips", "metadata": { "k": [1, null] } });
    alice.post("/v1/threads", whole).await.ok(201);
    alice.put("/v1/threads/active/runs/first", json!([{ "type": "A" }, { "type": "RUN_FINISHED" }])).await.ok(201);
    alice.run("active", "second").await;
    server.pass(1);
    let step = |word: &str| json!([{ "type": format!("STEP_{word}"), "stepName": "a" }]);
    alice.append("active", "second", 1, step("STARTED")).await.ok(200);
    alice.append("active", "second", 2, step("FINISHED")).await.ok(200);

    for thread in ["stopping", "finishing"] {
        alice.thread(thread).await;
        alice.run(thread, "r").await;
        let open = json!([{ "type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant" }]);
        alice.append(thread, "r", 1, open).await.ok(200);
    }
    alice.act("stopping", "r", "stop").await.ok(202);
    alice.act("finishing", "r", "release").await.ok(200);

    ended(server).await;

    // Ids and payloads that are easy to spoil.
    let odd = "a/b \u{fc}%\"\\";
    let id = crate::seen::escaped(odd);
    bob.post("/v1/threads", json!({ "threadId": odd, "metadata": { "s": "\u{0}\n" } })).await.ok(201);
    let lines = "{\"type\" : \"X\", \"a\":1.0,\"a\":2, \"s\":\"\\ud800 \\u0000\\n\"}\n\
                 {\"\\u0074ype\":\"\\u0059\",\"big\":123456789012345678901234567890.10e+05}\n\
                 {\"type\":\"RUN_FINISHED\",\"usage\":[{\"model\":\"m\",\"inputTokens\":7}]}";
    bob.ndjson(Method::PUT, &format!("/v1/threads/{id}/runs/{id}"), lines).await.ok(201);
    // One event that is a row of its own, and more than one page.
    bob.thread("large").await;
    let large = json!([{ "type": "X", "text": "wide \u{e9} ".repeat(60_000) }, { "type": "RUN_FINISHED" }]);
    bob.put("/v1/threads/large/runs/r", large).await.ok(201);

    for user in [&alice, &bob] {
        eventually("the feed is written", async || {
            let list = user.get("/v1/threads?includeArchived=true").await.ok(200);
            let threads = list["threads"].as_array().map_or(0, Vec::len) as u64;
            (number(&list, "feedCursor") > threads).then_some(())
        })
        .await;
    }
}

/// Runs that ended in each way, and threads that were edited, archived, deleted and made again.
async fn ended(server: &Server) {
    let alice = server.user("alice");
    alice.thread("ended").await;
    alice
        .put("/v1/threads/ended/runs/a", json!([{ "type": "RUN_ERROR", "message": "no \u{e9}", "code": "c" }]))
        .await
        .ok(201);
    alice.post("/v1/threads/ended/runs", json!({ "runId": "b", "leaseSeconds": 1 })).await.ok(201);
    server.pass(2);
    eventually("a run is abandoned", async || {
        (alice.get("/v1/threads/ended/runs/b").await.ok(200)["status"] == "abandoned").then_some(())
    })
    .await;
    alice.run("ended", "c").await;
    alice.append("ended", "c", 1, json!([{ "type": "X" }])).await.ok(200);
    alice.act("ended", "c", "stop").await.ok(202);
    alice.append("ended", "c", 2, json!([{ "type": "RUN_FINISHED" }])).await.ok(200);
    alice.post("/v1/threads/ended/runs", json!({ "runId": "d", "leaseSeconds": 1 })).await.ok(201);
    alice
        .append("ended", "d", 1, json!([{ "type": "TOOL_CALL_START", "toolCallId": "t", "toolCallName": "n" }]))
        .await
        .ok(200);
    server.pass(2);
    eventually("a run is closed", async || {
        (alice.get("/v1/threads/ended/runs/d").await.ok(200)["errorCode"] == "lease-expired").then_some(())
    })
    .await;
    for thread in ["empty", "archived", "deleted", "again"] {
        server.pass(1);
        alice.thread(thread).await;
    }
    alice
        .patch("/v1/threads/archived", json!({ "archived": true, "name": "Old", "metadata": { "a": 1 } }))
        .await
        .ok(200);
    for thread in ["deleted", "again"] {
        alice
            .put(&format!("/v1/threads/{thread}/runs/r"), json!([{ "type": "X" }, { "type": "RUN_FINISHED" }]))
            .await
            .ok(201);
        assert_eq!(alice.delete(&format!("/v1/threads/{thread}")).await.status, 204);
    }
    alice.thread("again").await;
}

/// A thread with segments and a snapshot.
async fn sealed(server: &Server) {
    let alice = server.user("alice");
    alice.thread("sealed").await;
    for run in 0..3 {
        server.pass(7);
        alice.ndjson(Method::PUT, &format!("/v1/threads/sealed/runs/r{run}"), talk(run)).await.ok(201);
    }
    let (project, id) = (ProjectId::new("default").expect("id"), ThreadId::new("sealed").expect("id"));
    let thread = server.store.thread_named(&project, &id).await.expect("looks").thread().expect("is there");
    eventually("there is a snapshot", async || {
        let snapshots = server.store.snapshot_seqs(thread.key).await.expect("looks");
        (!snapshots.is_empty()).then_some(())
    })
    .await;
    while server.store.seal(thread.key).await.expect("seals") {}
}

/// A run of some hundred events, token by token.
fn talk(run: usize) -> String {
    let mut lines = vec![json!({ "type": "RUN_STARTED", "threadId": "sealed", "runId": format!("r{run}") })];
    let message = format!("m{run}");
    lines.push(json!({ "type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant" }));
    for word in 0..300 {
        let delta = format!("word {} \u{e9} ", word * 7919 % 1_000);
        let raw = "x".repeat(90 + word % 7);
        lines.push(json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": delta, "rawEvent": raw }));
    }
    lines.push(json!({ "type": "TEXT_MESSAGE_END", "messageId": message }));
    lines.push(json!({ "type": "STATE_SNAPSHOT", "snapshot": { "run": run } }));
    lines.push(json!({ "type": "RUN_FINISHED", "threadId": "sealed", "runId": format!("r{run}") }));
    lines.iter().map(|line| line.to_string() + "\n").collect()
}
