//! Item lists move with their threads.

use std::{fs, path::Path, sync::Arc};

use threadline::{
    progress::Progress,
    transfer::{self, ExportedSecrets, Refusal, Selection, TransferError},
};
use threadline_core::{
    Clock, NewThread, ProjectId, ThreadId, ThreadKey, Timestamp, UserId,
    items::{Item, ItemRange, ListName, ListState},
    kv::Tag,
    limits::AGENT_DATA_ANSWER_BYTES,
};
use threadline_store::{TransferStore, memory::MemoryStore, postgres::PgStore, sqlite::SqliteStore};

use crate::{backing::Postgres, command::assert_same_files};

type Store = Arc<dyn TransferStore>;

fn memory() -> Store {
    Arc::new(MemoryStore::new(Clock::system()))
}

fn project() -> ProjectId {
    ProjectId::new("p").expect("id")
}

fn name(list: &str) -> ListName {
    ListName::new(list).expect("a name")
}

async fn thread(store: &Store, id: &str) -> ThreadKey {
    let new = NewThread {
        project: project(),
        id: ThreadId::new(id).expect("id"),
        user: UserId::new("u").expect("id"),
        agent: None,
        name: None,
        metadata: "{}".into(),
        created_with: "digest".into(),
        request: None,
        claimed: true,
    };
    store.create_thread(new).await.expect("creates").thread.key
}

async fn put(store: &Store, key: ThreadKey, list: &str, tag: &str, items: &[Item], next_pos: u64) -> bool {
    let state = ListState { tag: Tag::new(tag).expect("a tag"), count: items.len() as u64, next_pos };
    store.put_list(key, &name(list), &state, items).await.expect("puts")
}

/// Lists with gaps between the positions, one of more than a page and of items larger than a part, and an empty one.
async fn filled() -> Store {
    let store = memory();
    let (t, z) = (thread(&store, "t").await, thread(&store, "z").await);
    thread(&store, "without").await;
    let body = |n: u64| format!("{{\"n\" : {n}.0,\"n\":2,\"half\":\"\\ud800 \\u0000\"}}");
    let many: Vec<_> = (1..1_200).map(|n| Item { pos: 3 * n, body: body(n) }).collect();
    let large: Vec<_> = (1..4).map(|pos| Item { pos, body: format!("\"{}\"", "x".repeat(700_000)) }).collect();
    assert!(put(&store, t, "many", "m", &many, 9_999).await);
    assert!(put(&store, t, "empty", "e", &[], 5).await);
    assert!(put(&store, z, "large", "l", &large, 4).await);
    store
}

async fn all(store: &Store) -> Vec<(String, ListName, ListState, Vec<Item>)> {
    let mut all = Vec::new();
    for id in ["t", "without", "z"] {
        let thread = store.thread_named(&project(), &ThreadId::new(id).expect("id")).await.expect("reads");
        let Some(thread) = thread.thread() else { continue };
        for (list, state) in store.lists(thread.key).await.expect("reads") {
            let items = store.items(thread.key, &list, ItemRange::After(0), 10_000, AGENT_DATA_ANSWER_BYTES).await;
            all.push((id.to_owned(), list, state, items.expect("reads").expect("is there").1));
        }
    }
    all
}

async fn out(store: &Store, files: &Path, selection: &Selection) {
    transfer::export(store.clone(), files, selection, ExportedSecrets::Written, Timestamp(0), &Progress::silent())
        .await
        .expect("exports");
}

async fn back(store: &Store, files: &Path) -> Result<(), TransferError> {
    let refuse = |_: &Refusal| {};
    transfer::import(store.clone(), files, &Selection::default(), &Progress::silent(), refuse).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_go_through_every_store() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let source = filled().await;
    let wanted = all(&source).await;
    assert_eq!(wanted.iter().map(|list| list.3.len()).collect::<Vec<_>>(), [0, 1_199, 3]);
    out(&source, &at("0"), &Selection::default()).await;
    let sqlite = SqliteStore::open(&at("sqlite"), Clock::system()).await.expect("opens");
    let postgres = PgStore::open(&Postgres::shared().fresh_database(), Clock::system()).await.expect("opens");
    let stores: [Store; 3] = [Arc::new(sqlite.clone()), Arc::new(postgres.clone()), memory()];
    for (n, store) in stores.iter().enumerate() {
        for _ in 0..2 {
            back(store, &at(&n.to_string())).await.expect("imports, also a second time");
            assert!(all(store).await == wanted, "tags, positions and bytes in store {n}");
        }
        let next = at(&(n + 1).to_string());
        out(store, &next, &Selection::default()).await;
        assert_same_files(&at("0"), &next);
    }
    sqlite.close().await;
    postgres.close().await;
}

#[tokio::test]
async fn a_list_that_exists_stays_and_a_damaged_file_stores_none() {
    let home = tempfile::tempdir().expect("a directory");
    let files = home.path().join("files");
    let one = Selection { threads: vec![ThreadId::new("t").expect("id")], user: None };
    out(&filled().await, &files, &one).await;
    let target = memory();
    back(&target, &files).await.expect("imports");
    assert_eq!(all(&target).await.len(), 2, "those of the exported thread");
    let key = target.thread_named(&project(), &ThreadId::new("t").expect("id")).await.expect("reads").thread();
    let key = key.expect("is there").key;
    let change = threadline_store::ListOp {
        thread: key,
        list: name("empty"),
        op: threadline_core::items::OpKey::new("k").expect("a key"),
        digest: threadline_core::Digest([0; 32]),
        if_tag: None,
        edit: threadline_store::ListEdit::Append(vec!["\"newer\"".into()]),
        kv: None,
    };
    target.change_list(&change).await.expect("changes");
    let newer = all(&target).await;
    back(&target, &files).await.expect("imports");
    assert!(all(&target).await == newer, "what was changed since stays");

    let path = files.join("items.ndjson");
    let text = fs::read_to_string(&path).expect("a file");
    for damaged in [text.replace("\"pos\":3,", "\"pos\":4,"), text[..text.len() - 10].to_owned()] {
        fs::write(&path, damaged).expect("writes");
        let target = memory();
        let refused = back(&target, &files).await;
        assert!(matches!(refused, Err(TransferError::Damaged(_))), "{refused:?}");
        assert!(all(&target).await.is_empty(), "the file is validated first");
    }
}
