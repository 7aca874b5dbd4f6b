//! Projects and API keys move with everything else: a key that works before the move works after it.

use std::{fs, path::Path, sync::Arc};

use threadline_core::{ApiKey, Born, Clock, Cutoff, CutoffKind, Digest, KeyId, ProjectId, Scope, Scopes, Timestamp};
use threadline_store::{StoredProject, TransferStore, memory::MemoryStore, postgres::PgStore, sqlite::SqliteStore};

use threadline::{
    progress::Progress,
    transfer::{self, ExportedSecrets, Refusal, Selection, Transferred},
};

use crate::{backing::Postgres, command::files};

type Store = Arc<dyn TransferStore>;

fn memory() -> Store {
    Arc::new(MemoryStore::new(Clock::system()))
}

fn project(id: &str) -> ProjectId {
    ProjectId::new(id).expect("id")
}

fn key(whose: &str, id: &str) -> ApiKey {
    ApiKey {
        id: KeyId::new(id).expect("id"),
        project: project(whose),
        scopes: Scopes::of(&[Scope::Read, Scope::Metrics]),
        created_at: Timestamp(1_795_000_000_001),
        expires_at: None,
        revoked_at: None,
        born: Born::Authenticated,
        made_by: None,
        last_used: None,
    }
}

fn digest(n: u8) -> Digest {
    Digest([n; 32])
}

/// Two projects, of which one was changed, and keys of all kinds.
async fn fill(store: &Store) {
    for (id, version, settings) in [("a", 1, "{}"), ("a", 2, "{\"retention\":{}}"), ("b", 1, "{}")] {
        let secrets = Some("[\"s\\u0000é\"]".to_owned());
        let put = StoredProject { id: project(id), version, settings: settings.to_owned(), secrets, sealed: false };
        assert!(store.put_project(&put, None).await.expect("puts"));
    }
    for (n, kind) in [CutoffKind::User, CutoffKind::Key].into_iter().enumerate() {
        let (not_before, at) = (Timestamp(1_795_000_000_002 + n as i64), Timestamp(7));
        let cutoff = Cutoff { project: project("a"), kind, subject: digest(1), not_before, at, actor: "x".to_owned() };
        store.put_cutoff(&cutoff, None).await.expect("puts");
    }
    let made_by = Some(KeyId::new("k").expect("id"));
    let old = ApiKey { made_by, expires_at: Some(Timestamp(9)), revoked_at: Some(Timestamp(7)), ..key("a", "old") };
    let tried = ApiKey { born: Born::Development, ..key("b", "k") };
    for (n, key) in [(0x0f, key("a", "k")), (0xf0, old), (3, tried), (4, key("no settings", "k"))] {
        assert!(store.put_key(&key, &digest(n), None).await.expect("puts"));
    }
}

async fn out(store: &Store, files: &Path, selection: &Selection) -> Transferred {
    transfer::export(store.clone(), files, selection, ExportedSecrets::Written, Timestamp(0), &Progress::silent())
        .await
        .expect("exports")
}

/// Imports; what was refused.
async fn back(store: &Store, files: &Path) -> Vec<Refusal> {
    let mut refused = Vec::new();
    let refuse = |refusal: &Refusal| refused.push(refusal.clone());
    transfer::import(store.clone(), files, &Selection::default(), &Progress::silent(), refuse).await.expect("imports");
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_and_projects_go_through_every_store() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let source = memory();
    fill(&source).await;
    out(&source, &at("0"), &Selection::default()).await;
    let sqlite = SqliteStore::open(&at("data"), Clock::system()).await.expect("opens");
    let postgres = PgStore::open(&Postgres::shared().fresh_database(), Clock::system()).await.expect("opens");
    let stores: [Store; 3] = [Arc::new(sqlite.clone()), Arc::new(postgres.clone()), memory()];
    for (n, store) in stores.iter().enumerate() {
        for _ in 0..2 {
            assert_eq!(back(store, &at(&n.to_string())).await, [], "also a second time");
        }
        let next = at(&(n + 1).to_string());
        out(store, &next, &Selection::default()).await;
        assert_eq!(files(&at("0")), files(&next));
        for (n, _) in [(0x0f, "k"), (0xf0, "old"), (3, "k"), (4, "k")] {
            let there = store.key(&digest(n)).await.expect("reads");
            assert!(there.is_some() && there == source.key(&digest(n)).await.expect("reads"), "{n}");
        }
        // Every sign-out has become one of the project, since its subject has no name here.
        let cutoffs = store.cutoffs(Timestamp(i64::MIN)).await.expect("reads");
        let [Cutoff { project: of, kind: CutoffKind::Project, not_before, .. }] = &cutoffs[..] else {
            panic!("{cutoffs:?}");
        };
        assert_eq!((of, *not_before), (&project("a"), Timestamp(1_795_000_000_003)));
        let projects = store.projects().await.expect("reads");
        let settings: Vec<_> = projects.iter().map(|project| (project.version, project.settings.as_str())).collect();
        assert_eq!(settings, [(1, "{\"retention\":{}}"), (1, "{}")], "made anew, as they are");
    }
    sqlite.close().await;
    postgres.close().await;
}

#[tokio::test]
async fn an_export_without_secrets_has_none_and_gets_new_ones() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let store = memory();
    fill(&store).await;
    let agent = threadline_core::AgentId::new("agent").expect("id");
    store.put_agent(&project("a"), &agent, "{\"url\":\"https://a.example/?key=s3cret\"}", None).await.expect("puts");
    let named = ["projects.ndjson", "agents.ndjson"];
    let has = |text: &str| {
        let read = |name: &&str| fs::read_to_string(at("files").join(name)).unwrap_or_default();
        named.iter().map(read).any(|file| file.contains(text))
    };
    out(&store, &at("files"), &Selection::default()).await;
    assert!(has("s3cret") && has("\"secrets\":[\"s"), "with secrets");
    // Into the same directory, which had them.
    let (all, left_out) = (Selection::default(), ExportedSecrets::LeftOut);
    let (files, progress) = (at("files"), Progress::silent());
    transfer::export(store.clone(), &files, &all, left_out, Timestamp(0), &progress).await.expect("exports");
    assert!(!has("s3cret") && !has("\"secrets\"") && has("\"retention\"") && has("\"sha256\""));
    let target = memory();
    for _ in 0..2 {
        assert_eq!(back(&target, &at("files")).await, [], "also a second time");
    }
    let (old, new) = (store.projects().await.expect("reads"), target.projects().await.expect("reads"));
    for (old, new) in old.iter().zip(&new) {
        assert_eq!((&old.id, &old.settings), (&new.id, &new.settings));
        let secrets: Vec<String> = serde_json::from_str(new.secrets.as_deref().expect("secrets")).expect("a list");
        assert!(secrets.len() == 1 && secrets[0].len() == 43 && old.secrets != new.secrets, "{secrets:?}");
    }
    assert_ne!(new[0].secrets, new[1].secrets);
    assert!(target.all_agents().await.expect("reads").is_empty());
    assert!(target.key(&digest(0x0f)).await.expect("reads").is_some(), "keys are only digests");
}

#[tokio::test]
async fn only_an_export_of_everything_has_them_and_only_if_there_are_any() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let listed = |name: &str| {
        let manifest = fs::read_to_string(at(name).join("manifest.ndjson")).expect("a manifest");
        (at(name).join("projects.ndjson").exists(), manifest.contains("{\"projects\":{\"count\":6,"))
    };
    let store = memory();
    out(&store, &at("empty"), &Selection::default()).await;
    assert_eq!(listed("empty"), (false, false), "a program that does not know them can read it");
    assert_eq!(back(&memory(), &at("empty")).await, []);
    fill(&store).await;
    let user = Some(threadline_core::UserId::new("u").expect("id"));
    out(&store, &at("user"), &Selection { user, ..Selection::default() }).await;
    assert_eq!(listed("user"), (false, false));
    out(&store, &at("empty"), &Selection::default()).await;
    assert_eq!(listed("empty"), (true, true), "brought up to date");
    out(&memory(), &at("empty"), &Selection::default()).await;
    assert_eq!(listed("empty"), (false, false));
}

#[tokio::test]
async fn existing_keys_stay_and_a_key_revoked_on_either_side_is_revoked() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let (source, target) = (memory(), memory());
    fill(&source).await;
    out(&source, &at("before"), &Selection::default()).await;
    assert_eq!(back(&target, &at("before")).await, []);
    let revoke = async |store: &Store, whose: &str, at: i64| {
        let id = KeyId::new("k").expect("id");
        store.revoke_key(&project(whose), &id, Timestamp(at), None).await.expect("revokes").expect("is there");
    };
    revoke(&source, "a", 50).await;
    revoke(&target, "b", 60).await;
    out(&source, &at("after"), &Selection::default()).await;
    for files in ["after", "before"] {
        assert_eq!(back(&target, &at(files)).await, []);
        let mut times = Vec::new();
        for n in [0x0f, 3, 4] {
            times.push(target.key(&digest(n)).await.expect("reads").expect("is there").revoked_at);
        }
        assert_eq!(times, [Some(Timestamp(50)), Some(Timestamp(60)), None]);
    }

    let other = memory();
    let theirs = StoredProject {
        id: project("a"),
        version: 1,
        settings: "{}".into(),
        secrets: Some("[]".into()),
        sealed: false,
    };
    assert!(other.put_project(&theirs, None).await.expect("puts"));
    assert!(other.put_key(&key("a", "k"), &digest(9), None).await.expect("puts"));
    assert!(other.put_key(&key("b", "another"), &digest(3), None).await.expect("puts"));
    let refused: Vec<_> = back(&other, &at("before")).await.into_iter().map(|refusal| refusal.what).collect();
    assert_eq!(refused, ["project a", "key k of project a", "key k of project b"]);
    assert_eq!(other.projects().await.expect("reads")[0], theirs);
    assert_eq!(other.key(&digest(0x0f)).await.expect("reads"), None);
    assert_eq!(other.key(&digest(3)).await.expect("reads"), Some(key("b", "another")));
    assert!(other.key(&digest(4)).await.expect("reads").is_some() && other.projects().await.expect("reads").len() == 2);
}

#[tokio::test]
async fn a_file_that_was_changed_is_not_used() {
    let home = tempfile::tempdir().expect("a directory");
    let (files, store) = (home.path().join("files"), memory());
    fill(&store).await;
    out(&store, &files, &Selection::default()).await;
    let path = files.join("projects.ndjson");
    let whole = fs::read_to_string(&path).expect("a file");
    let changes = [("read metrics", "read admin"), ("0f0f", "0f0g"), ("\"keyId\"", "\"keyID\"")];
    for (from, to) in changes {
        assert!(whole.contains(from));
        fs::write(&path, whole.replace(from, to)).expect("written");
        let into = memory();
        let refuse = |refusal: &Refusal| panic!("{refusal}");
        let error = transfer::import(into.clone(), &files, &Selection::default(), &Progress::silent(), refuse).await;
        let error = error.expect_err("damaged").to_string();
        assert!(error.starts_with("projects.ndjson"), "{error}");
        assert!(into.all_keys().await.expect("reads").is_empty() && into.projects().await.expect("reads").is_empty());
    }
}
