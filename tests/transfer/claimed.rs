//! Threads of several users with one id move as they are.

use std::{fs, path::Path, sync::Arc};

use serde_json::value::RawValue;
use threadline::{
    progress::Progress,
    transfer::{self, ExportedSecrets, Refusal, Selection},
};
use threadline_core::{AnnotationId, Clock, NewAnnotation, NewThread, ProjectId, ThreadId, Timestamp, UserId};
use threadline_store::{TransferStore, memory::MemoryStore, postgres::PgStore, sqlite::SqliteStore};

use crate::{backing::Postgres, command::assert_same_files};

type Store = Arc<dyn TransferStore>;

const OWNERS: [(&str, bool); 3] = [("ann", false), ("bob", false), ("cat", true)];

fn memory() -> Store {
    Arc::new(MemoryStore::new(Clock::system()))
}

fn project() -> ProjectId {
    ProjectId::new("p").expect("id")
}

fn chat() -> ThreadId {
    ThreadId::new("chat").expect("id")
}

fn user(name: &str) -> UserId {
    UserId::new(name).expect("id")
}

/// Creates a thread `chat` of this user, with an annotation that names the user.
async fn thread(store: &Store, owner: &str, claimed: bool) {
    let new = NewThread {
        project: project(),
        id: chat(),
        user: user(owner),
        claimed,
        agent: None,
        name: None,
        metadata: "{}".into(),
        created_with: "digest".into(),
        request: None,
    };
    let made = store.create_thread(new).await.expect("creates");
    assert!(made.created, "{owner}");
    let payload = RawValue::from_string(format!("\"{owner}\"")).expect("JSON");
    let id = AnnotationId::new("note").expect("id");
    let note = NewAnnotation::new(id, "note".into(), Some(&payload), None).expect("an annotation");
    store.put_annotation(made.thread.key, note).await.expect("puts").expect("is there");
}

/// Whether the user's thread has claimed its id, and the texts of its annotations; `None` if the user has none.
async fn found(store: &Store, owner: &str) -> Option<(bool, Vec<String>)> {
    let thread = store.thread_of(&project(), &user(owner), &chat()).await.expect("looks")?;
    let notes = store.annotations(thread.key, 0, 10).await.expect("reads").expect("is there");
    Some((thread.claimed, notes.into_iter().map(|(_, note)| note.payload).collect()))
}

async fn all(store: &Store) -> Vec<Option<(bool, Vec<String>)>> {
    let mut all = Vec::new();
    for (owner, _) in OWNERS {
        all.push(found(store, owner).await);
    }
    all
}

async fn out(store: &Store, files: &Path) {
    let (all, secrets) = (Selection::default(), ExportedSecrets::Written);
    transfer::export(store.clone(), files, &all, secrets, Timestamp(0), &Progress::silent()).await.expect("exports");
}

/// Imports; what was refused.
async fn back(store: &Store, files: &Path, selection: &Selection) -> Vec<String> {
    let mut refused = Vec::new();
    let refuse = |refusal: &Refusal| refused.push(refusal.why.clone());
    transfer::import(store.clone(), files, selection, &Progress::silent(), refuse).await.expect("imports");
    refused
}

async fn filled() -> Store {
    let store = memory();
    for (owner, claimed) in OWNERS {
        thread(&store, owner, claimed).await;
    }
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_of_one_id_go_through_every_store() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let everything = Selection::default();
    let source = filled().await;
    let wanted = all(&source).await;
    assert_eq!(wanted, OWNERS.map(|(owner, claimed)| Some((claimed, vec![format!("\"{owner}\"")]))));
    out(&source, &at("0")).await;
    let sqlite = SqliteStore::open(&at("sqlite"), Clock::system()).await.expect("opens");
    let postgres = PgStore::open(&Postgres::shared().fresh_database(), Clock::system()).await.expect("opens");
    let stores: [Store; 3] = [Arc::new(sqlite.clone()), Arc::new(postgres.clone()), memory()];
    for (n, store) in stores.iter().enumerate() {
        for _ in 0..2 {
            assert_eq!(back(store, &at(&n.to_string()), &everything).await, [""; 0], "also a second time");
            assert_eq!(all(store).await, wanted);
        }
        let next = at(&(n + 1).to_string());
        out(store, &next).await;
        assert_same_files(&at("0"), &next);
    }
    sqlite.close().await;
    postgres.close().await;
}

#[tokio::test]
async fn a_claimed_id_is_imported_once_and_ids_of_users_always() {
    let home = tempfile::tempdir().expect("a directory");
    let files = home.path().join("files");
    out(&filled().await, &files).await;
    let manifest = fs::read_to_string(files.join("manifest.ndjson")).expect("a manifest");
    assert_eq!(manifest.matches("\"claimed\":false").count(), 2, "absent: claimed");
    assert!(!manifest.contains("\"claimed\":true"));
    let store = memory();
    thread(&store, "dan", true).await;
    let refused = back(&store, &files, &Selection::default()).await;
    assert_eq!(refused.len(), 1);
    assert!(refused[0].contains("another thread with this ID exists"), "{refused:?}");
    assert_eq!(found(&store, "cat").await, None);
    for (owner, _) in &OWNERS[..2] {
        assert_eq!(found(&store, owner).await, Some((false, vec![format!("\"{owner}\"")])));
    }
    // Selection of one user's threads.
    let store = memory();
    assert_eq!(back(&store, &files, &Selection { user: Some(user("bob")), ..Selection::default() }).await, [""; 0]);
    assert_eq!(all(&store).await.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
}
