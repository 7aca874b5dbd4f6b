//! Checkpoints move with their threads.

use std::{fs, path::Path, sync::Arc};

use threadline::{
    progress::Progress,
    transfer::{self, ExportedSecrets, Refusal, Selection, TransferError},
};
use threadline_core::{
    Clock, NewThread, ProjectId, RunId, ThreadId, ThreadKey, Timestamp, UserId,
    checkpoints::{
        Blob, Channel, ChannelAt, ChannelVersion, Checkpoint, CheckpointId, CheckpointNs, CheckpointParts,
        CheckpointPosition, DataType, TaskId, TaskPath, TaskWrite, TaskWrites, TypedData,
    },
    limits::AGENT_DATA_ANSWER_BYTES,
};
use threadline_store::{
    CheckpointBound, CheckpointDone, CheckpointScope, PutCheckpoint, TransferStore, memory::MemoryStore,
    postgres::PgStore, sqlite::SqliteStore,
};

use crate::{backing::Postgres, command::assert_same_files};

type Store = Arc<dyn TransferStore>;

fn memory() -> Store {
    Arc::new(MemoryStore::new(Clock::system()))
}

fn project() -> ProjectId {
    ProjectId::new("p").expect("id")
}

fn ns(text: &str) -> CheckpointNs {
    CheckpointNs::new(text).expect("a namespace")
}

fn id(text: &str) -> CheckpointId {
    CheckpointId::new(text).expect("an id")
}

fn data(body: &[u8]) -> TypedData {
    TypedData { kind: DataType::new("x").expect("a type"), body: body.to_vec() }
}

fn at(channel: &str, version: &str) -> ChannelAt {
    let channel = Channel::new(channel).expect("a channel");
    ChannelAt { channel, version: ChannelVersion::new(version).expect("a version") }
}

async fn thread(store: &Store, name: &str) -> ThreadKey {
    let new = NewThread {
        project: project(),
        id: ThreadId::new(name).expect("id"),
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

fn checkpoint(space: &str, name: &str, channels: &[(&str, &str)]) -> Checkpoint {
    Checkpoint {
        ns: ns(space),
        id: id(name),
        parent: (name > "c01").then(|| id("c01")),
        run: (name > "c02").then(|| RunId::new("r").expect("id")),
        data: data(&[0, 255]),
        metadata: format!("{{\"n\" : 1.0,\"n\":2,\"id\":\"{name}\"}}"),
        channels: channels.iter().map(|(channel, version)| at(channel, version)).collect(),
    }
}

async fn put(store: &Store, key: ThreadKey, time: i64, new: &Checkpoint) {
    let blob = |at: &ChannelAt| {
        let size = if at.channel.as_str() == "large" { 700_000 } else { 3 };
        Blob { at: at.clone(), data: data(&vec![7; size]) }
    };
    let blobs: Vec<_> = new.channels.iter().map(blob).collect();
    store.put_blobs(key, &new.ns, &blobs).await.expect("puts");
    let done = store.put_checkpoint(key, new, PutCheckpoint::Keep(Timestamp(time))).await.expect("puts");
    assert!(matches!(done, CheckpointDone::Done { .. }), "{done:?}");
}

async fn write(store: &Store, key: ThreadKey, place: (&str, &str), task: &str, idx: i64, body: &[u8]) {
    let (task, path) = (TaskId::new(task).expect("an id"), TaskPath::new("a path").expect("a path"));
    let writes = vec![TaskWrite { idx, channel: Channel::new("c").expect("a channel"), data: data(body) }];
    let writes = TaskWrites { task, path, writes };
    store.put_writes(key, &ns(place.0), &id(place.1), &writes).await.expect("puts");
}

/// Checkpoints that share blobs, more than a page, with blobs and writes larger than a part.
async fn filled() -> Store {
    let store = memory();
    let (t, z) = (thread(&store, "t").await, thread(&store, "z").await);
    thread(&store, "without").await;
    for n in 0..60 {
        let (name, version) = (format!("c{n:02}"), format!("{}", n / 20));
        put(&store, t, n, &checkpoint("", &name, &[("a", &version), ("both", "1")])).await;
    }
    put(&store, t, 99, &checkpoint("n|1", "c02", &[("a", "1")])).await;
    write(&store, t, ("", "c02"), "k", 0, b"0").await;
    write(&store, t, ("", "c02"), "k", -1, b"").await;
    let versions: Vec<_> = (0..4).map(|n| n.to_string()).collect();
    let large: Vec<_> = versions.iter().map(|version| ("large", &**version)).collect();
    put(&store, z, 7, &checkpoint("", "c01", &large)).await;
    write(&store, z, ("", "c01"), "k", 0, &vec![1; 1_500_000]).await;
    store
}

async fn all(store: &Store) -> Vec<(String, Checkpoint, Timestamp, CheckpointParts)> {
    let mut all = Vec::new();
    for name in ["t", "without", "z"] {
        let thread = store.thread_named(&project(), &ThreadId::new(name).expect("id")).await.expect("reads");
        let Some(thread) = thread.thread() else { continue };
        let bound = CheckpointBound { limit: 1_000, bytes: AGENT_DATA_ANSWER_BYTES, data: true };
        let scope = CheckpointScope::Thread(thread.key);
        let found = store.checkpoints(&scope, &CheckpointPosition::newest(), bound).await.expect("reads");
        let parts = store.checkpoint_parts(&found, AGENT_DATA_ANSWER_BYTES).await.expect("reads");
        all.extend(
            found
                .into_iter()
                .zip(parts)
                .map(|(found, parts)| (name.to_owned(), found.stored.checkpoint, found.stored.at, parts)),
        );
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
async fn checkpoints_go_through_every_store() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let source = filled().await;
    let wanted = all(&source).await;
    assert_eq!(wanted.len(), 62);
    assert!(
        wanted
            .iter()
            .all(|(_, checkpoint, _, parts)| parts.blobs.len() == checkpoint.channels.len() && parts.has_all())
    );
    out(&source, &at("0"), &Selection::default()).await;
    let text = fs::read_to_string(at("0").join("checkpoints.ndjson")).expect("a file");
    assert_eq!(text.matches("{\"blob\":").count(), 3 + 1 + 1 + 4, "each blob once");
    let sqlite = SqliteStore::open(&at("sqlite"), Clock::system()).await.expect("opens");
    let postgres = PgStore::open(&Postgres::shared().fresh_database(), Clock::system()).await.expect("opens");
    let stores: [Store; 3] = [Arc::new(sqlite.clone()), Arc::new(postgres.clone()), memory()];
    for (n, store) in stores.iter().enumerate() {
        for _ in 0..2 {
            back(store, &at(&n.to_string())).await.expect("imports, also a second time");
            assert!(all(store).await == wanted, "checkpoints, times and bytes in store {n}");
        }
        let next = at(&(n + 1).to_string());
        out(store, &next, &Selection::default()).await;
        assert_same_files(&at("0"), &next);
    }
    sqlite.close().await;
    postgres.close().await;
}

#[tokio::test]
async fn a_checkpoint_that_exists_stays_and_a_damaged_file_stores_none() {
    let home = tempfile::tempdir().expect("a directory");
    let files = home.path().join("files");
    let one = Selection { threads: vec![ThreadId::new("t").expect("id")], user: None };
    out(&filled().await, &files, &one).await;
    let target = memory();
    back(&target, &files).await.expect("imports");
    assert_eq!(all(&target).await.len(), 61, "those of the exported thread");
    let key = target.thread_named(&project(), &ThreadId::new("t").expect("id")).await.expect("reads").thread();
    let key = key.expect("is there").key;
    let newer = Checkpoint { metadata: "{\"newer\":1}".into(), ..checkpoint("", "c05", &[("a", "0")]) };
    target.put_checkpoint(key, &newer, PutCheckpoint::Replace).await.expect("puts");
    let changed = all(&target).await;
    back(&target, &files).await.expect("imports");
    assert!(all(&target).await == changed, "what was changed since stays");

    let path = files.join("checkpoints.ndjson");
    let text = fs::read_to_string(&path).expect("a file");
    let blob = text.lines().find(|line| line.starts_with("{\"blob\":")).expect("a blob");
    for damaged in [text.replace(&format!("{blob}\n"), ""), text[..text.len() - 10].to_owned()] {
        fs::write(&path, damaged).expect("writes");
        let target = memory();
        let refused = back(&target, &files).await;
        assert!(matches!(refused, Err(TransferError::Damaged(_))), "{refused:?}");
        assert!(all(&target).await.is_empty(), "the file is validated first");
    }
}
