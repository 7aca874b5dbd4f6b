//! Out of a store and into another: all that clients see is the same, on every way that leads there.

use std::{path::Path, sync::Arc};

use serde_json::json;
use threadline::{
    progress::Progress,
    transfer::{self, ExportedSecrets, Selection, Transferred},
};
use threadline_core::{Clock, Timestamp};
use threadline_store::{TransferStore, memory::MemoryStore, sqlite::SqliteStore};

use crate::{
    backing::Postgres,
    command::{assert_same_files, command, export, import, run},
    fixture::{placed, server_at, server_on},
    harness::{Backend, Options, Server, after, eventually, number, text},
    seen::{Seen, assert_same, everything},
};

const USERS: [&str; 3] = ["alice", "bob", "somebody-else"];

/// The data of the first release, with every run ended and one thread read: nothing of it changes by itself.
async fn quiet(data: &Path) -> (Timestamp, Vec<Seen>) {
    let (moment, _) = placed("sqlite-0.1.0", data);
    let server = server_at(data, moment).await;
    let alice = server.user("alice");
    alice.append("active", "second", 3, json!([{ "type": "RUN_FINISHED" }])).await.ok(200);
    for thread in ["stopping", "finishing"] {
        alice.append(thread, "r", 2, json!([{ "type": "RUN_FINISHED" }])).await.ok(200);
    }
    alice.put("/v1/threads/sealed/read", json!({ "seq": 300 })).await.ok(200);
    let mut head = 0;
    eventually("the feed is quiet", async || {
        let list = alice.get("/v1/threads").await.ok(200);
        let before = std::mem::replace(&mut head, number(&list, "feedCursor"));
        let dirty = server.store.dirty_feeds(1).await.expect("looks");
        (before == head && dirty.is_empty()).then_some(())
    })
    .await;
    let seen = everything(&server, &USERS).await;
    server.stop().await;
    (moment, seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_moves_to_postgres_with_two_commands_and_back_with_two() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let (moment, seen) = quiet(&at("first")).await;
    let url = Postgres::shared().fresh_database();
    let on_postgres = |verb: &str, files: &str| {
        let mut command = command(verb, Path::new("/nowhere"), &at(files));
        command.env("THREADLINE_STORE", &url).args((verb == "export").then_some("--with-secrets"));
        run(command).done()
    };
    export(&at("first"), &at("moved")).done();
    let imported = on_postgres("import", "moved");
    assert!(imported.starts_with("imported 10 threads with "), "{imported}");
    let again = on_postgres("import", "moved");
    assert!(again.starts_with("imported 0 threads") && again.contains("10 existed already"), "{again}");
    let server = server_on(&url, moment).await;
    assert_same(&server, &seen).await;
    let alice = server.user("alice");
    let retried = alice.append("active", "second", 3, json!([{ "type": "RUN_FINISHED" }])).await.ok(200);
    assert_eq!(number(&retried, "firstSeq"), 5);
    server.stop().await;
    let exported = on_postgres("export", "back");
    assert!(exported.starts_with("exported 10 threads"), "{exported}");
    assert_same_files(&at("moved"), &at("back"));
    import(&at("second"), &at("back")).done();
    let server = server_at(&at("second"), moment).await;
    assert_same(&server, &seen).await;
    server.stop().await;
}

async fn opened(data: &Path, moment: Timestamp) -> SqliteStore {
    SqliteStore::open(data, Clock::manual(moment)).await.expect("opens")
}

async fn out(store: &Arc<dyn TransferStore>, files: &Path) -> Transferred {
    let (all, now) = (Selection::default(), Timestamp(0));
    transfer::export(store.clone(), files, &all, ExportedSecrets::Written, now, &Progress::silent())
        .await
        .expect("exports")
}

async fn back(store: &Arc<dyn TransferStore>, files: &Path) -> Transferred {
    let refused = |refusal: &transfer::Refusal| panic!("{refusal}");
    transfer::import(store.clone(), files, &Selection::default(), &Progress::silent(), refused).await.expect("imports")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_see_the_same_data_after_a_transfer() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let (moment, seen) = quiet(&at("first")).await;
    assert_eq!(
        export(&at("first"), &at("moved")).done().split(' ').take(3).collect::<Vec<_>>(),
        ["exported", "10", "threads"]
    );
    let imported = import(&at("second"), &at("moved")).done();
    assert!(imported.starts_with("imported 10 threads with "), "{imported}");
    let server = server_at(&at("second"), moment).await;
    assert_same(&server, &seen).await;
    // Its readers and writers continue: retries, feeds, and new events.
    let alice = server.user("alice");
    let again = alice.append("active", "second", 3, json!([{ "type": "RUN_FINISHED" }])).await.ok(200);
    assert_eq!(number(&again, "firstSeq"), 5);
    let list = alice.get("/v1/threads").await.ok(200);
    let (feed, epoch, place) = (number(&list, "feedCursor"), text(&list, "feedEpoch"), after(&list));
    alice.get(&format!("/v1/feed?after={}&epoch={epoch}", feed + 1)).await.problem(416, "cursor-ahead");
    alice.run("sealed", "next").await;
    eventually("the feed continues", async || {
        let page = alice.get(&format!("/v1/feed?{place}")).await.ok(200);
        (page["entries"].as_array()?.len() == 1 && page["entries"][0]["threadId"] == "sealed").then_some(())
    })
    .await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_between_every_pair_of_stores_exports_the_same_files() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let (moment, seen) = quiet(&at("data")).await;
    let first = opened(&at("data"), moment).await;
    let source: Arc<dyn TransferStore> = Arc::new(first.clone());
    let moved = out(&source, &at("a")).await;
    assert_eq!((moved.threads, moved.present, moved.refused), (10, 0, 0));
    let memory = Arc::new(MemoryStore::new(Clock::manual(moment)));
    let reference: Arc<dyn TransferStore> = memory.clone();
    assert_eq!(back(&reference, &at("a")).await.threads, 10);
    out(&reference, &at("b")).await;
    assert_same_files(&at("a"), &at("b"));
    let second = opened(&at("other"), moment).await;
    let target: Arc<dyn TransferStore> = Arc::new(second.clone());
    back(&target, &at("b")).await;
    out(&target, &at("c")).await;
    assert_same_files(&at("a"), &at("c"));
    // And through the eyes of clients.
    let server = Server::over(memory, Options { clock: Clock::manual(moment), ..Options::memory() }).await;
    assert_same(&server, &seen).await;
    server.stop().await;
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_again_changes_nothing_and_what_has_changed_is_written() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let (moment, _) = quiet(&at("data")).await;
    export(&at("data"), &at("moved")).done();
    let again = export(&at("data"), &at("moved")).done();
    assert!(again.starts_with("exported 0 threads with 0 events") && again.contains("10 existed already"), "{again}");
    import(&at("other"), &at("moved")).done();
    let again = import(&at("other"), &at("moved")).done();
    assert!(again.starts_with("imported 0 threads with 0 events") && again.contains("10 existed already"), "{again}");

    let server = server_at(&at("data"), moment).await;
    let alice = server.user("alice");
    alice.patch("/v1/threads/empty", json!({ "name": "Not so empty" })).await.ok(200);
    alice.put("/v1/threads/sealed/runs/more", json!([{ "type": "X" }, { "type": "RUN_FINISHED" }])).await.ok(201);
    assert_eq!(alice.delete("/v1/threads/ended").await.status, 204);
    assert_eq!(alice.delete("/v1/threads/archived").await.status, 204);
    alice.thread("archived").await;
    server.stop().await;
    let third = export(&at("data"), &at("moved")).done();
    assert!(third.starts_with("exported 3 threads") && third.contains("; 6 existed already"), "{third}");
    export(&at("data"), &at("fresh")).done();
    assert_same_files(&at("moved"), &at("fresh"));
    // Over the older import: what is as it was is passed over, what went on or is another one is refused, by name.
    let refused = import(&at("other"), &at("moved")).failed();
    for line in [
        "rejected: thread sealed of project default: it exists already, and its event with seq 916 is missing",
        "rejected: thread archived of project default: another thread with this ID exists",
        "2 rejected",
    ] {
        assert!(refused.contains(line), "{line} in {refused}");
    }
    let server = server_at(&at("other"), moment).await;
    assert_eq!(server.user("alice").types("sealed").await.len(), 915);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_active_run_is_ended_at_its_position() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let server = Server::in_directory(&at("data"), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    dev.thread("t").await;
    dev.run("t", "r").await;
    dev.append("t", "r", 1, json!([{ "type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant" }]))
        .await
        .ok(200);
    server.stop().await;
    export(&at("data"), &at("moved")).done();
    import(&at("other"), &at("moved")).done();
    let server = Server::in_directory(&at("other"), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    let run = eventually("the reaper ends it", async || {
        let run = dev.get("/v1/threads/t/runs/r").await.ok(200);
        (run["status"] == "error").then_some(run)
    })
    .await;
    assert_eq!(text(&run, "errorCode"), "lease-expired");
    assert_eq!(dev.types("t").await, ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_ERROR"]);
    server.stop().await;
    // The import is a prefix of what is there now: again it has nothing to do.
    assert!(import(&at("other"), &at("moved")).done().contains("; 1 existed already"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn some_threads_or_one_users() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let (moment, seen) = quiet(&at("data")).await;
    let selected = |verb: &str, data: &str, files: &str, options: &[&str]| {
        let mut command = command(verb, &at(data), &at(files));
        command.args(options);
        run(command)
    };
    let one = selected("export", "data", "one", &["--thread", "sealed"]);
    assert!(one.err.contains("only the thread sealed") && one.out.starts_with("exported 1 thread"), "{one:?}");
    assert!(!at("one").join("feeds.ndjson").exists() && !at("one").join("agents.ndjson").exists());
    let missing = selected("export", "data", "none", &["--thread", "nowhere"]).failed();
    assert!(missing.contains("thread not found: nowhere"), "{missing}");
    let other = selected("export", "data", "one", &["--user", "bob"]).failed();
    assert!(other.contains("contains an export of the thread sealed"), "{other}");
    let bobs = selected("export", "data", "bobs", &["--user", "bob"]);
    assert!(
        bobs.err.contains("only all threads of user bob") && bobs.out.starts_with("exported 2 threads"),
        "{bobs:?}"
    );

    import(&at("from-one"), &at("one")).done();
    let server = server_at(&at("from-one"), moment).await;
    let logs = |seen: &[Seen]| -> Vec<Seen> {
        seen.iter().filter(|seen| seen.path.starts_with("/v1/threads/sealed")).cloned().collect()
    };
    assert_same(&server, &logs(&seen)).await;
    // Its feed is a new one, and has it.
    eventually("it is fed", async || {
        let feed = server.user("alice").get("/v1/feed?after=0").await.ok(200);
        (feed["entries"].as_array()?.len() == 1).then_some(())
    })
    .await;
    server.stop().await;

    import(&at("from-bob"), &at("bobs")).done();
    let server = server_at(&at("from-bob"), moment).await;
    let bob: Vec<_> = seen.iter().filter(|seen| seen.user == "bob" && seen.path != "/v1/agents").cloned().collect();
    assert_same(&server, &bob).await;
    assert_eq!(server.user("alice").get("/v1/threads").await.ok(200)["threads"], json!([]));
    server.stop().await;

    export(&at("data"), &at("all")).done();
    let part = selected("import", "part", "all", &["--thread", "large", "--thread", "empty"]).done();
    assert!(part.starts_with("imported 2 threads"), "{part}");
    let missing = selected("import", "part", "all", &["--thread", "nowhere"]).failed();
    assert!(missing.contains("thread not found: nowhere in this export"), "{missing}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_export_and_import_name_the_next_step() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let nothing = export(&at("nowhere"), &at("moved")).failed();
    assert!(nothing.contains("contains no data") && !at("nowhere").exists(), "{nothing}");
    let server = Server::in_directory(&at("data"), Options::new(Backend::Sqlite)).await;
    server.client().thread("t").await;
    for error in [export(&at("data"), &at("moved")).failed(), import(&at("data"), &at("moved")).failed()] {
        assert!(error.contains("probably by a running server: stop it"), "{error}");
    }
    server.stop().await;
    std::fs::create_dir(at("full")).expect("made");
    std::fs::write(at("full").join("something.txt"), "of value").expect("written");
    let full = export(&at("data"), &at("full")).failed();
    assert!(full.contains("is not empty and contains no export"), "{full}");
    let nothing = import(&at("new"), &at("full")).failed();
    assert!(nothing.contains("contains no export"), "{nothing}");
    let nothing = import(&at("new"), &at("nowhere")).failed();
    assert!(nothing.contains("contains no export"), "{nothing}");
    // Another one at work in the same directory.
    export(&at("data"), &at("moved")).done();
    let held = std::fs::File::open(at("moved")).expect("opens");
    held.lock().expect("locks");
    for error in [export(&at("data"), &at("moved")).failed(), import(&at("new"), &at("moved")).failed()] {
        assert!(error.contains("another export or import is using"), "{error}");
    }
}
