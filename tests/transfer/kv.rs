//! Key-value entries move with their owners and threads.

use std::{fs, path::Path, sync::Arc, time::Duration};

use threadline::{
    progress::Progress,
    transfer::{self, ExportedSecrets, Refusal, Selection, TransferError},
};
use threadline_core::{
    Clock, NewThread, ProjectId, ThreadId, ThreadKey, Timestamp, UserId,
    kv::{KvKey, KvNamespace, KvOwner, KvPlace, Tag},
    limits::AGENT_DATA_ANSWER_BYTES,
};
use threadline_store::{
    KvChange, KvPut, KvTimes, KvWrite, KvWritten, MovedKv, TransferStore, memory::MemoryStore, postgres::PgStore,
    sqlite::SqliteStore,
};

use crate::{backing::Postgres, command::assert_same_files};

type Store = Arc<dyn TransferStore>;

fn memory() -> Store {
    Arc::new(MemoryStore::new(Clock::system()))
}

fn user(name: &str) -> UserId {
    UserId::new(name).expect("id")
}

fn owner(name: Option<&str>) -> KvOwner {
    KvOwner { project: ProjectId::new("p").expect("id"), user: name.map(user) }
}

async fn thread(store: &Store, id: &str, whose: &str, claimed: bool) -> ThreadKey {
    let new = NewThread {
        project: ProjectId::new("p").expect("id"),
        id: ThreadId::new(id).expect("id"),
        user: user(whose),
        agent: None,
        name: None,
        metadata: "{}".into(),
        created_with: "digest".into(),
        request: None,
        claimed,
    };
    store.create_thread(new).await.expect("creates").thread.key
}

async fn put(store: &Store, whose: Option<&str>, key: &str, value: &str, thread: Option<ThreadKey>) {
    let ns = KvNamespace::new(&["n", "m é"]).expect("a namespace");
    let place = KvPlace { ns, key: KvKey::new(key).expect("a key") };
    let expires_at = (key == "lasts").then_some(Timestamp(9_000_000_000_000));
    let times = KvTimes { created_at: Timestamp(5), updated_at: Timestamp(6), expires_at };
    let tag = Tag::new("t").expect("a tag");
    // Not the time that is left: a touch may have come after the last write.
    let life = expires_at.map(|_| Duration::from_secs(3));
    let put = KvPut { value: value.to_owned(), tag, life, thread, times: Some(times) };
    let written = store.write_kv(&owner(whose), &[KvWrite { place, if_tag: None, change: KvChange::Put(put) }]).await;
    assert!(matches!(written, Ok(KvWritten::Done { .. })), "{written:?}");
}

/// Entries of the project, of two users, and of threads of one ID, of which nobody has claimed it; more than one commit of an import
/// stores.
async fn filled() -> Store {
    let store = memory();
    let (claimed, anns) = (thread(&store, "t", "ann", true).await, thread(&store, "x", "ann", false).await);
    let bobs = thread(&store, "x", "bob", false).await;
    put(&store, None, "own", "[1.0, \"\\ud800 \\u0000\"]", None).await;
    for n in 0..250 {
        put(&store, Some("ann"), &format!("{n:03}"), &format!("{n}"), None).await;
    }
    put(&store, Some("ann"), "lasts", "{\"a\" : 1,\"a\":2}", Some(claimed)).await;
    put(&store, Some("ann"), "of x", "1", Some(anns)).await;
    put(&store, Some("bob"), "of x", "2", Some(bobs)).await;
    put(&store, Some("bob"), "free", "3", None).await;
    store
}

async fn all(store: &Store) -> Vec<MovedKv> {
    store.all_kv(None, 1_000, AGENT_DATA_ANSWER_BYTES).await.expect("reads")
}

async fn out(store: &Store, files: &Path, selection: &Selection) {
    transfer::export(store.clone(), files, selection, ExportedSecrets::Written, Timestamp(0), &Progress::silent())
        .await
        .expect("exports");
}

async fn back(store: &Store, files: &Path, selection: &Selection) -> Result<(), TransferError> {
    transfer::import(store.clone(), files, selection, &Progress::silent(), |_: &Refusal| {}).await.map(drop)
}

fn places(all: &[MovedKv]) -> Vec<(Option<&str>, &str)> {
    all.iter().map(|moved| (moved.owner.user.as_ref().map(UserId::as_str), moved.entry.place.key.as_str())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_go_through_every_store() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let everything = Selection::default();
    let source = filled().await;
    let wanted = all(&source).await;
    assert_eq!(wanted.len(), 255);
    out(&source, &at("0"), &everything).await;
    let sqlite = SqliteStore::open(&at("sqlite"), Clock::system()).await.expect("opens");
    let postgres = PgStore::open(&Postgres::shared().fresh_database(), Clock::system()).await.expect("opens");
    let stores: [Store; 3] = [Arc::new(sqlite.clone()), Arc::new(postgres.clone()), memory()];
    for (n, store) in stores.iter().enumerate() {
        for _ in 0..2 {
            back(store, &at(&n.to_string()), &everything).await.expect("imports, also a second time");
            assert_eq!(all(store).await, wanted, "tags, times, threads and bytes");
        }
        let next = at(&(n + 1).to_string());
        out(store, &next, &everything).await;
        assert_same_files(&at("0"), &next);
    }
    sqlite.close().await;
    postgres.close().await;
}

#[tokio::test]
async fn a_part_has_the_entries_that_belong_to_it() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let source = filled().await;
    let of = |threads: &[&str], whose: Option<&str>| Selection {
        threads: threads.iter().map(|id| ThreadId::new(id).expect("id")).collect(),
        user: whose.map(user),
    };
    for (name, selection, wanted) in [
        ("thread", of(&["t"], None), vec![(Some("ann"), "lasts")]),
        ("threads", of(&["x"], None), vec![(Some("ann"), "of x"), (Some("bob"), "of x")]),
        ("user", of(&[], Some("bob")), vec![(Some("bob"), "free"), (Some("bob"), "of x")]),
    ] {
        out(&source, &at(name), &selection).await;
        let target = memory();
        back(&target, &at(name), &Selection::default()).await.expect("imports");
        assert_eq!(places(&all(&target).await), wanted, "{name}");
        // The same part of an export of everything.
        out(&source, &at(&format!("all-{name}")), &Selection::default()).await;
        let target = memory();
        back(&target, &at(&format!("all-{name}")), &selection).await.expect("imports");
        assert_eq!(places(&all(&target).await), wanted, "{name} of everything");
    }
}

#[tokio::test]
async fn an_entry_that_exists_stays_and_a_damaged_file_stores_none() {
    let home = tempfile::tempdir().expect("a directory");
    let files = home.path().join("files");
    out(&filled().await, &files, &Selection::default()).await;
    let target = memory();
    put(&target, Some("bob"), "free", "\"newer\"", None).await;
    back(&target, &files, &Selection::default()).await.expect("imports");
    let entries = all(&target).await;
    let kept = entries.iter().find(|moved| moved.entry.place.key.as_str() == "free").expect("an entry");
    assert_eq!((&*kept.entry.value, entries.len()), ("\"newer\"", 255));

    let path = files.join("kv.ndjson");
    let text = fs::read_to_string(&path).expect("a file");
    for damaged in [text.replace("\"key\":\"free\"", "\"key\":\"other\""), text[..text.len() - 10].to_owned()] {
        fs::write(&path, damaged).expect("writes");
        let target = memory();
        let refused = back(&target, &files, &Selection::default()).await;
        assert!(matches!(refused, Err(TransferError::Damaged(_))), "{refused:?}");
        assert_eq!(all(&target).await, [], "the file is validated first");
    }
}
