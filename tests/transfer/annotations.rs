//! Annotations move with their threads.

use std::{fs, path::Path, sync::Arc, time::Duration};

use serde_json::value::RawValue;
use threadline::{
    progress::Progress,
    transfer::{self, ExportedSecrets, Refusal, Selection, TransferError, Transferred},
};
use threadline_core::{
    Annotation, AnnotationId, Clock, NewAnnotation, NewThread, ProjectId, ThreadId, ThreadKey, Timestamp, UserId,
};
use threadline_store::{TransferStore, memory::MemoryStore, postgres::PgStore, sqlite::SqliteStore};

use crate::{backing::Postgres, command::assert_same_files};

type Store = Arc<dyn TransferStore>;

fn memory() -> Store {
    Arc::new(MemoryStore::new(Clock::system()))
}

fn thread_id(id: &str) -> ThreadId {
    ThreadId::new(id).expect("id")
}

fn project(id: &str) -> ProjectId {
    ProjectId::new(id).expect("id")
}

async fn thread(store: &Store, whose: &str, id: &str) -> ThreadKey {
    let new = NewThread {
        project: project(whose),
        id: thread_id(id),
        user: UserId::new(format!("user of {id}")).expect("id"),
        agent: None,
        name: None,
        metadata: "{}".into(),
        created_with: "digest".into(),
        request: None,
        claimed: true,
    };
    store.create_thread(new).await.expect("creates").thread.key
}

async fn put(store: &Store, key: ThreadKey, id: &str, payload: &str) -> bool {
    let payload = RawValue::from_string(payload.to_owned()).expect("JSON");
    let occurred_at = (id == "a0").then_some(Timestamp(-5));
    let id = AnnotationId::new(id).expect("id");
    let new = NewAnnotation::new(id, "t \u{e9}\n".into(), Some(&payload), occurred_at).expect("an annotation");
    store.put_annotation(key, new).await.expect("puts").expect("is there")
}

/// Two projects with a thread of one id, one of which has more annotations than a page; and one without.
async fn filled() -> Store {
    let store = memory();
    for (whose, id, count) in [("q", "t", 120), ("p", "z", 2), ("p", "t", 1), ("p", "without", 0)] {
        let key = thread(&store, whose, id).await;
        for n in 0..count {
            put(&store, key, &format!("a{n}"), "{\"a\" : 1.0,\"a\":2,\"half\":\"\\ud800 \\u0000\"}").await;
        }
    }
    store
}

async fn read(store: &Store, whose: &str, id: &str) -> Vec<(u64, Annotation)> {
    let thread = store.thread_named(&project(whose), &thread_id(id)).await.expect("reads").thread().expect("is there");
    store.annotations(thread.key, 0, 1_000).await.expect("reads").expect("is there")
}

async fn all(store: &Store) -> Vec<Vec<(u64, Annotation)>> {
    let mut all = Vec::new();
    for (whose, id) in [("p", "t"), ("p", "without"), ("p", "z"), ("q", "t")] {
        all.push(read(store, whose, id).await);
    }
    all
}

async fn out(store: &Store, files: &Path, selection: &Selection) -> Transferred {
    transfer::export(store.clone(), files, selection, ExportedSecrets::Written, Timestamp(0), &Progress::silent())
        .await
        .expect("exports")
}

/// Imports; what was refused.
async fn back(store: &Store, files: &Path, selection: &Selection) -> Vec<String> {
    let mut refused = Vec::new();
    let refuse = |refusal: &Refusal| refused.push(refusal.what.clone());
    transfer::import(store.clone(), files, selection, &Progress::silent(), refuse).await.expect("imports");
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotations_go_through_every_store() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let everything = Selection::default();
    let source = filled().await;
    let wanted = all(&source).await;
    assert_eq!(wanted.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 2, 120]);
    out(&source, &at("0"), &everything).await;
    let first = SqliteStore::open(&at("first"), Clock::system()).await.expect("opens");
    let postgres = PgStore::open(&Postgres::shared().fresh_database(), Clock::system()).await.expect("opens");
    let second = SqliteStore::open(&at("second"), Clock::system()).await.expect("opens");
    let stores: [Store; 4] = [Arc::new(first.clone()), Arc::new(postgres.clone()), Arc::new(second.clone()), memory()];
    for (n, store) in stores.iter().enumerate() {
        for _ in 0..2 {
            assert_eq!(back(store, &at(&n.to_string()), &everything).await, [""; 0], "also a second time");
            assert_eq!(all(store).await, wanted, "numbers, times and bytes");
        }
        let next = at(&(n + 1).to_string());
        out(store, &next, &everything).await;
        assert_same_files(&at("0"), &next);
    }
    first.close().await;
    postgres.close().await;
    second.close().await;
}

#[tokio::test]
async fn there_is_a_file_only_if_a_thread_of_the_export_has_any() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let listed = |name: &str| {
        let manifest = fs::read_to_string(at(name).join("manifest.ndjson")).expect("a manifest");
        let line = manifest.lines().find_map(|line| line.strip_prefix("{\"annotations\":{\"count\":"));
        let count = line.map(|rest| rest[..rest.find(',').expect("more")].parse::<u64>().expect("a number"));
        assert_eq!(at(name).join("annotations.ndjson").exists(), count.is_some());
        count
    };
    let only = |ids: &[&str]| Selection { threads: ids.iter().map(|id| thread_id(id)).collect(), user: None };
    let store = filled().await;
    out(&store, &at("without"), &only(&["without"])).await;
    assert_eq!(listed("without"), None, "a program that does not know them can read it");
    out(&store, &at("some"), &only(&["z", "without"])).await;
    assert_eq!(listed("some"), Some(2));
    let user = Some(UserId::new("user of z").expect("id"));
    out(&store, &at("user"), &Selection { user, ..Selection::default() }).await;
    assert_eq!(listed("user"), Some(2));
    // Part of an export, and what came since: a thread that has not changed is passed over, its annotations are not.
    out(&store, &at("all"), &Selection::default()).await;
    assert_eq!(listed("all"), Some(123));
    let part = memory();
    assert_eq!(back(&part, &at("all"), &only(&["z", "without"])).await, [""; 0]);
    assert_eq!((read(&part, "p", "z").await.len(), read(&part, "p", "without").await.len()), (2, 0));
    let key =
        store.thread_named(&project("p"), &thread_id("without")).await.expect("reads").thread().expect("is there").key;
    assert!(put(&store, key, "late", "1").await);
    assert_eq!(out(&store, &at("all"), &Selection::default()).await.threads, 0);
    assert_eq!(listed("all"), Some(124));
    assert_eq!(back(&part, &at("all"), &only(&["z", "without"])).await, [""; 0]);
    assert_eq!((read(&part, "p", "z").await.len(), read(&part, "p", "without").await.len()), (2, 1));
    // Nothing is left of those that are gone.
    for id in ["without", "z", "t"] {
        let key =
            store.thread_named(&project("p"), &thread_id(id)).await.expect("reads").thread().expect("is there").key;
        assert!(store.delete_thread(key, None).await.expect("deletes"));
    }
    let key = store.thread_named(&project("q"), &thread_id("t")).await.expect("reads").thread().expect("is there").key;
    assert!(store.delete_thread(key, None).await.expect("deletes"));
    thread(&store, "p", "new").await;
    out(&store, &at("all"), &Selection::default()).await;
    assert_eq!(listed("all"), None);
}

#[tokio::test]
async fn existing_annotations_stay_and_another_thread_gets_none() {
    let home = tempfile::tempdir().expect("a directory");
    let (files, everything) = (home.path().join("files"), Selection::default());
    let source = filled().await;
    out(&source, &files, &everything).await;
    let target = memory();
    let another = thread(&target, "p", "z").await;
    assert_eq!(back(&target, &files, &everything).await, ["thread z of project p"]);
    assert_eq!(target.annotations(another, 0, 10).await.expect("reads"), Some(vec![]));
    assert_eq!(read(&target, "q", "t").await, read(&source, "q", "t").await);

    // One of the same id says something else, and one came that the export has not.
    let mixed = memory();
    let only = Selection { threads: vec![thread_id("without")], user: None };
    back(&mixed, &files, &only).await;
    let key =
        mixed.thread_named(&project("p"), &thread_id("without")).await.expect("reads").thread().expect("is there").key;
    put(&mixed, key, "own", "1").await;
    let key =
        source.thread_named(&project("p"), &thread_id("without")).await.expect("reads").thread().expect("is there").key;
    put(&source, key, "own", "2").await;
    put(&source, key, "theirs", "3").await;
    out(&source, &files, &everything).await;
    for _ in 0..2 {
        assert_eq!(back(&mixed, &files, &only).await, [""; 0]);
        let found = read(&mixed, "p", "without").await;
        let found: Vec<_> = found.iter().map(|(n, own)| (*n, own.id.as_str(), own.payload.as_str())).collect();
        assert_eq!(found, [(1, "own", "1"), (2, "theirs", "3")]);
    }
}

#[tokio::test]
async fn a_file_that_was_changed_is_not_used() {
    let home = tempfile::tempdir().expect("a directory");
    let files = home.path().join("files");
    out(&filled().await, &files, &Selection::default()).await;
    let path = files.join("annotations.ndjson");
    let whole = fs::read_to_string(&path).expect("a file");
    let longer = format!("\"type\":\"{}", "x".repeat(300));
    let changes = [
        ("\"a119\"", "\"a118\"", "annotations.ndjson: it was changed after the export"),
        ("\"annotationId\":\"a119\"", "\"annotationID\":\"a119\"", "annotations.ndjson, line 1"),
        ("\"type\":\"t", longer.as_str(), "annotations.ndjson, line 1: the type of an annotation must have"),
    ];
    for (from, to, place) in changes {
        assert!(whole.contains(from));
        fs::write(&path, whole.replace(from, to)).expect("written");
        let into = memory();
        let refuse = |refusal: &Refusal| panic!("{refusal}");
        let error = loop {
            let (store, everything, silent) = (into.clone(), Selection::default(), Progress::silent());
            match transfer::import(store, &files, &everything, &silent, refuse).await.expect_err("damaged") {
                // The one before may hold the directory for a moment longer.
                TransferError::InUse(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                damaged => break damaged.to_string(),
            }
        };
        assert!(error.starts_with(place), "{error}");
        assert!(all(&into).await.iter().all(Vec::is_empty), "threads are there, and none of these");
    }
    fs::write(&path, &whole).expect("written");
    while let Err(TransferError::InUse(_)) =
        transfer::import(memory(), &files, &Selection::default(), &Progress::silent(), |_: &Refusal| {}).await
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let into = memory();
    assert_eq!(back(&into, &files, &Selection::default()).await, [""; 0]);
    assert_eq!(read(&into, "q", "t").await.len(), 120);
}
