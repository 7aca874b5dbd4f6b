//! Files that are not as they were written: refused with their place, and nothing of their thread is imported.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    command::{export, import},
    harness::{Backend, Options, Server},
};

/// Two threads, and the export of them: its directory, and the files of both.
async fn exported(home: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let data = home.join("data");
    let server = Server::in_directory(&data, Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    for thread in ["good", "bad"] {
        dev.thread(thread).await;
        for run in ["r", "s"] {
            let events = json!([{ "type": "A", "n": 1.0 }, { "type": "B" }, { "type": "RUN_FINISHED" }]);
            dev.put(&format!("/v1/threads/{thread}/runs/{run}"), events).await.ok(201);
        }
    }
    dev.put("/v1/agents/a", json!({ "url": "http://127.0.0.1:4001/" })).await.ok(200);
    server.stop().await;
    let files = home.join("moved");
    export(&data, &files).done();
    let manifest = fs::read_to_string(files.join("manifest.ndjson")).expect("a manifest");
    let file = |thread: &str| {
        let line = manifest.lines().find(|line| line.contains(&format!("\"threadId\":\"{thread}\""))).expect("a line");
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        files.join(line["thread"]["file"].as_str().expect("a file"))
    };
    let (good, bad) = (file("good"), file("bad"));
    (files, good, bad)
}

/// Replaces a text that is there once.
fn replace(file: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(file).expect("a file");
    assert_eq!(text.matches(old).count(), 1, "{old} in {text}");
    fs::write(file, text.replace(old, new)).expect("written");
}

/// Imports into a new directory: only the sound thread is there, and the other one is reported with its place.
async fn only_the_good_one(home: &Path, files: &Path, what: &str, place: &str) {
    let data = home.join(format!("into-{}", what.replace(' ', "-")));
    let error = import(&data, files).failed();
    assert!(error.contains("rejected: thread bad of project default: threads/"), "{what}: {error}");
    assert!(error.contains(place) && error.contains("1 rejected"), "{what}: {error}");
    let server = Server::in_directory(&data, Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    assert_eq!(dev.types("good").await.len(), 6);
    dev.get("/v1/threads/bad").await.problem(404, "thread-not-found");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_a_thread() {
    let home = tempfile::tempdir().expect("a directory");
    let (files, good, bad) = exported(home.path()).await;
    let whole = fs::read(&bad).expect("a file");
    let cut = |bytes: usize| {
        File::options().write(true).open(&bad).and_then(|file| file.set_len(bytes as u64)).expect("cut");
    };
    let line =
        |number: usize| whole.split_inclusive(|byte| *byte == b'\n').take(number).map(<[u8]>::len).sum::<usize>();
    assert_eq!(line(100), whole.len());
    let cases: [(&str, &str, &dyn Fn()); 11] = [
        ("cut in a line", "line 6: the file is truncated here", &|| cut(line(6) - 10)),
        ("cut between lines", "line 6: the file is truncated after this line", &|| cut(line(6))),
        ("cut before its events", "line 2: the file is truncated after this line", &|| cut(line(2))),
        ("empty", "the file is truncated", &|| cut(0)),
        ("gone", "No such file", &|| fs::remove_file(&bad).expect("removed")),
        ("a byte of an event", "its SHA-256 differs from the manifest", &|| {
            let mut bytes = whole.clone();
            let at = line(4) + bytes[line(4)..].iter().position(|byte| *byte == b'B').expect("an event");
            bytes[at] = b'C';
            fs::write(&bad, bytes).expect("written");
        }),
        ("no JSON", "line 5: ", &|| {
            let mut bytes = whole.clone();
            bytes[line(4)] = b'(';
            fs::write(&bad, bytes).expect("written");
        }),
        ("an event left out", "line 5: seq 3, but expected 2", &|| {
            fs::write(&bad, [&whole[..line(4)], &whole[line(5)..]].concat()).expect("written");
        }),
        ("more than there was", "line 10: seq 1, but expected 7", &|| {
            fs::write(&bad, [&whole[..], &whole[line(3)..line(4)]].concat()).expect("written");
        }),
        ("a run left out", "line 3: the runs have 3 events, the thread has 6", &|| {
            fs::write(&bad, [&whole[..line(1)], &whole[line(2)..]].concat()).expect("written");
        }),
        ("another thread's", "line 1: the manifest names another thread", &|| {
            fs::copy(&good, &bad).expect("copied");
        }),
    ];
    for (what, place, spoil) in cases {
        spoil();
        only_the_good_one(home.path(), &files, what, place).await;
        fs::write(&bad, &whole).expect("written");
    }
    assert!(import(&home.path().join("sound"), &files).done().starts_with("imported 2 threads with 12 events"));
    // A repeated export finds the damage, and writes the thread again.
    cut(line(6) - 10);
    let again = export(&home.path().join("data"), &files).done();
    assert!(again.starts_with("exported 1 thread with 6 events") && again.contains("1 existed already"), "{again}");
    assert_eq!(fs::read(&bad).expect("a file"), whole);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_to_the_manifest_is_found() {
    let home = tempfile::tempdir().expect("a directory");
    let (files, _, _) = exported(home.path()).await;
    let manifest = files.join("manifest.ndjson");
    let (agents, feeds) = (files.join("agents.ndjson"), files.join("feeds.ndjson"));
    let whole = [&manifest, &agents, &feeds].map(|file| (file.clone(), fs::read(file).expect("a file")));
    let lines: Vec<_> = String::from_utf8(whole[0].1.clone()).expect("text").lines().map(str::to_owned).collect();
    let cases: [(&str, &str, &dyn Fn()); 8] = [
        ("cut", "manifest.ndjson, line 5: the end is missing", &|| {
            fs::write(&manifest, lines[..5].join("\n") + "\n").expect("written");
        }),
        ("a line left out", "manifest.ndjson, line 5: the previous lines were changed after the export", &|| {
            fs::write(&manifest, [&lines[..2], &lines[3..]].concat().join("\n") + "\n").expect("written");
        }),
        ("a line more", "line 7: unexpected data after the end", &|| {
            fs::write(&manifest, [&lines[..], &lines[1..2]].concat().join("\n") + "\n").expect("written");
        }),
        ("another file", "line 2: the file has an unexpected name", &|| {
            let other = lines[1].replace("threads/", "../threads/");
            fs::write(&manifest, [&lines[..1], &[other], &lines[2..]].concat().join("\n") + "\n").expect("written");
        }),
        ("of the future", "line 1: version 2 of the format, but this program supports 1", &|| {
            replace(&manifest, "\"version\":1,\"madeBy\"", "\"version\":2,\"madeBy\"");
        }),
        ("of another program", "line 1: not the manifest", &|| replace(&manifest, "threadline-export", "else")),
        ("agents", "agents.ndjson", &|| replace(&agents, "127.0.0.1", "127.0.0.2")),
        ("unfinished", "run the same `threadline export` again", &|| {
            fs::rename(&manifest, files.join("manifest.partial.ndjson")).expect("renamed");
        }),
    ];
    for (number, (what, place, spoil)) in cases.into_iter().enumerate() {
        spoil();
        let data = home.path().join(format!("into-{number}"));
        let error = import(&data, &files).failed();
        assert!(error.contains(place), "{what}: {error}");
        let server = Server::in_directory(&data, Options::new(Backend::Sqlite)).await;
        assert_eq!(server.client().get("/v1/threads").await.ok(200)["threads"], json!([]), "{what}");
        server.stop().await;
        let _ = fs::remove_file(files.join("manifest.partial.ndjson"));
        for (file, bytes) in &whole {
            fs::write(file, bytes).expect("written");
        }
    }
    // Feeds come last: the threads are there, and the command can be given again.
    let text = fs::read_to_string(&feeds).expect("a file");
    fs::write(&feeds, text.replacen("\"entry\":{\"cursor\":", "\"entry\":{\"cursor\":99", 1)).expect("written");
    let data = home.path().join("feeds");
    let error = import(&data, &files).failed();
    assert!(error.contains("feeds.ndjson, line 2: positions must increase"), "{error}");
    fs::write(&feeds, &whole[2].1).expect("written");
    assert!(import(&data, &files).done().contains("; 2 existed already"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_another_one_stays() {
    let home = tempfile::tempdir().expect("a directory");
    let (files, _, _) = exported(home.path()).await;
    let data = home.path().join("into");
    let server = Server::in_directory(&data, Options::new(Backend::Sqlite)).await;
    server.client().put("/v1/agents/a", json!({ "url": "http://127.0.0.1:4002/" })).await.ok(200);
    server.stop().await;
    let error = import(&data, &files).failed();
    assert!(error.contains("rejected: agent a of project default: another agent has this name"), "{error}");
    let server = Server::in_directory(&data, Options::new(Backend::Sqlite)).await;
    assert_eq!(server.client().get("/v1/agents/a").await.ok(200)["url"], "http://127.0.0.1:4002/");
    assert_eq!(server.client().types("bad").await.len(), 6);
    server.stop().await;
}
