//! Plain streams move with their owners.

use std::{fs, path::Path, sync::Arc};

use serde_json::Value;
use sha2::{Digest, Sha256};
use threadline::{
    progress::Progress,
    transfer::{self, ExportedSecrets, Refusal, Selection, TransferError},
};
use threadline_core::{
    Clock, Epoch, ProjectId, Timestamp, UserId, hex,
    kv::KvOwner,
    streams::{
        Chunk, ContentType, Inherited, Life, Origin, Producer, Stream, StreamKey, StreamPath, StreamPlace, StreamRecord,
    },
};
use threadline_store::{
    MovedStream, StreamPart, StreamWrite, StreamWriteKind, TransferStore, memory::MemoryStore, postgres::PgStore,
    sqlite::SqliteStore,
};

use crate::{backing::Postgres, command::assert_same_files};

type Store = Arc<dyn TransferStore>;

/// A stream that is put into a store.
pub struct Plain {
    write: StreamWrite,
    parts: Vec<String>,
}

impl Plain {
    /// An empty stream of the user `u` with bytes.
    pub fn new(path: &str) -> Self {
        Self::of(Some("u"), path)
    }

    fn of(user: Option<&str>, path: &str) -> Self {
        let user = user.map(|name| UserId::new(name).expect("id"));
        let owner = KvOwner { project: ProjectId::new("p").expect("id"), user };
        let place = StreamPlace { owner, path: StreamPath::new(path).expect("a path") };
        let record = StreamRecord {
            epoch: Epoch::generate(),
            content_type: ContentType::binary(),
            life: None,
            closed: false,
            closed_by: None,
            tail: 0,
            last_seq: None,
            origin: None,
            inherited: Vec::new(),
        };
        let write = StreamWrite {
            key: StreamKey::generate(),
            tag: 1,
            record,
            expires_at: None,
            chunk: None,
            added: 128,
            kind: StreamWriteKind::Create { place, source: None },
        };
        Self { write, parts: Vec::new() }
    }

    /// With content: a chunk each.
    pub fn with(mut self, parts: &[&str]) -> Self {
        self.parts.extend(parts.iter().map(|part| (*part).to_owned()));
        self
    }

    /// As a fork of a stream that has content of its own, up to a position.
    pub fn fork(mut self, source: &Stream, until: u64) -> Self {
        let StreamWriteKind::Create { source: of, .. } = &mut self.write.kind else { unreachable!() };
        *of = Some(source.key);
        self.write.record.epoch = source.record.epoch;
        self.write.record.origin = Some(Origin { path: "s".to_owned(), at: until, sub: 0 });
        self.write.record.inherited = vec![Inherited { stream: source.key, until }];
        self.write.record.tail = until;
        self
    }

    fn change(mut self, change: impl FnOnce(&mut StreamWrite)) -> Self {
        change(&mut self.write);
        self
    }

    /// Puts the stream into the store; each part with an append of a producer.
    pub async fn put(self, store: &dyn TransferStore) -> Stream {
        let Self { write, parts } = self;
        let StreamWriteKind::Create { place, .. } = write.kind.clone() else { unreachable!() };
        let (key, mut record, expires_at) = (write.key, write.record.clone(), write.expires_at);
        assert!(store.write_stream(write).await.expect("writes"));
        for (seq, part) in parts.iter().enumerate() {
            let count = if record.content_type.is_json() { part.lines().count() } else { part.len() };
            let (first, seq) = (record.tail, seq as u64);
            record.tail += count as u64;
            let chunk = Chunk { first, last: record.tail, body: part.as_bytes().to_vec() };
            let producer = Some(Producer { id: format!("w{}", seq % 2), epoch: 3, seq });
            let write = StreamWrite {
                key,
                tag: 2 + seq as i64,
                record: record.clone(),
                expires_at,
                added: chunk.size(),
                chunk: Some(chunk),
                kind: StreamWriteKind::Append { former: 1 + seq as i64, producer },
            };
            assert!(store.write_stream(write).await.expect("writes"));
        }
        store.stream(&place, None).await.expect("reads").expect("a stream").0
    }
}

fn place(path: &str) -> StreamPlace {
    let owner = KvOwner { project: ProjectId::new("p").expect("id"), user: Some(UserId::new("u").expect("id")) };
    StreamPlace { owner, path: StreamPath::new(path).expect("a path") }
}

/// Appends bytes to a stream as it was read.
async fn append(store: &dyn TransferStore, stream: &Stream, text: &str) {
    let tail = stream.record.tail + text.len() as u64;
    let chunk = Chunk { first: stream.record.tail, last: tail, body: text.as_bytes().to_vec() };
    let write = StreamWrite {
        key: stream.key,
        tag: stream.tag + 1,
        record: StreamRecord { tail, ..stream.record.clone() },
        expires_at: None,
        added: chunk.size(),
        chunk: Some(chunk),
        kind: StreamWriteKind::Append { former: stream.tag, producer: None },
    };
    assert!(store.write_stream(write).await.expect("writes"));
}

async fn sqlite(path: &Path) -> Store {
    Arc::new(SqliteStore::open(path, Clock::system()).await.expect("opens"))
}

fn memory() -> Store {
    Arc::new(MemoryStore::new(Clock::system()))
}

/// Streams of the project and of two users: bytes in many chunks, messages, a closed one that expires, and forks, one of a stream that was
/// deleted.
async fn filled() -> Store {
    let store = memory();
    let large = "x".repeat(400_000);
    let whole = Plain::new("s").with(&[&large, &large, &large, "\u{0}end"]).put(store.as_ref()).await;
    Plain::new("s/fork").fork(&whole, 5).with(&["own"]).put(store.as_ref()).await;
    let gone = Plain::of(Some("ann"), "gone").with(&["kept"]).put(store.as_ref()).await;
    Plain::of(Some("ann"), "left").fork(&gone, 2).put(store.as_ref()).await;
    assert!(store.delete_stream(gone.key, None).await.expect("deletes"));
    let json = |write: &mut StreamWrite| {
        write.record.content_type = ContentType::parse("application/json").expect("a type");
    };
    Plain::of(None, "of/project é").change(json).with(&["{\"a\":1}\n[2]\n", "3\n"]).put(store.as_ref()).await;
    let over = |write: &mut StreamWrite| {
        write.record.closed = true;
        write.record.closed_by = Some(Producer { id: "w".to_owned(), epoch: 0, seq: 0 });
        write.record.last_seq = Some("a".to_owned());
        write.record.life = Some(Life::Idle(60));
        write.expires_at = Some(Timestamp(9_000_000_000_000));
    };
    Plain::of(Some("ann"), "over").change(over).with(&["all"]).put(store.as_ref()).await;
    store
}

/// All streams with their content, put together, and their producers.
async fn all(store: &Store) -> Vec<(MovedStream, String, Vec<Producer>)> {
    let mut found = Vec::new();
    for moved in store.all_streams(None, 1_000).await.expect("reads") {
        let (key, from) = (moved.stream.key, moved.stream.record.own_from());
        let chunks = store.stream_chunks(key, from, 1_000, 1 << 30).await.expect("reads");
        let content = chunks.into_iter().map(|chunk| String::from_utf8(chunk.body).expect("text")).collect();
        found.push((moved, content, store.stream_producers(key, None, 1_000).await.expect("reads")));
    }
    found
}

async fn out(store: &Store, files: &Path, selection: &Selection) {
    transfer::export(store.clone(), files, selection, ExportedSecrets::Written, Timestamp(0), &Progress::silent())
        .await
        .expect("exports");
}

async fn back(store: &Store, files: &Path, selection: &Selection) -> Result<Vec<String>, TransferError> {
    let mut refused = Vec::new();
    let refuse = |refusal: &Refusal| refused.push(refusal.what.clone());
    transfer::import(store.clone(), files, selection, &Progress::silent(), refuse).await?;
    Ok(refused)
}

fn paths(all: &[(MovedStream, String, Vec<Producer>)]) -> Vec<&str> {
    let mut paths: Vec<_> = all.iter().map(|(moved, ..)| moved.place.path.as_str()).collect();
    paths.sort_unstable();
    paths
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_go_through_every_store() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let everything = Selection::default();
    let source = filled().await;
    let wanted = all(&source).await;
    assert_eq!(paths(&wanted), ["gone", "left", "of/project é", "over", "s", "s/fork"]);
    out(&source, &at("0"), &everything).await;
    let sqlite = SqliteStore::open(&at("sqlite"), Clock::system()).await.expect("opens");
    let postgres = PgStore::open(&Postgres::shared().fresh_database(), Clock::system()).await.expect("opens");
    let stores: [Store; 3] = [Arc::new(sqlite.clone()), Arc::new(postgres.clone()), memory()];
    for (n, store) in stores.iter().enumerate() {
        // An import that was interrupted has staged a part of a stream.
        let (mut moved, ..) = wanted[0].clone();
        moved.stream.record.tail = 9;
        assert!(store.stage_stream(&moved).await.expect("stages"));
        let stale = Chunk { first: 0, last: 9, body: b"leftovers".to_vec() };
        let part = StreamPart::Chunk(stale);
        store.stage_stream_part(moved.stream.key, part).await.expect("stages");
        assert!(all(store).await.is_empty(), "nothing staged is seen");
        for _ in 0..2 {
            let refused = back(store, &at(&n.to_string()), &everything).await.expect("imports, also a second time");
            assert_eq!((refused, all(store).await), (Vec::new(), wanted.clone()), "keys, tags, producers and bytes");
        }
        let next = at(&(n + 1).to_string());
        out(store, &next, &everything).await;
        assert_same_files(&at("0"), &next);
    }
    sqlite.close().await;
    postgres.close().await;
}

#[tokio::test]
async fn a_part_has_the_streams_of_its_user() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let source = filled().await;
    let of_ann = Selection { user: Some(UserId::new("ann").expect("id")), ..Selection::default() };
    out(&source, &at("ann"), &of_ann).await;
    let store = memory();
    back(&store, &at("ann"), &Selection::default()).await.expect("imports");
    assert_eq!(paths(&all(&store).await), ["gone", "left", "over"]);
    // An import may take less than an export has.
    out(&source, &at("all"), &Selection::default()).await;
    let store = memory();
    back(&store, &at("all"), &of_ann).await.expect("imports");
    assert_eq!(paths(&all(&store).await), ["gone", "left", "over"]);
}

#[tokio::test]
async fn a_stream_that_exists_stays_and_one_whose_path_is_taken_is_named() {
    let home = tempfile::tempdir().expect("a directory");
    let files = home.path().join("files");
    let source = filled().await;
    out(&source, &files, &Selection::default()).await;
    let store = memory();
    let own = Plain::new("s").with(&["mine"]).put(store.as_ref()).await;
    let mut refused = back(&store, &files, &Selection::default()).await.expect("imports");
    refused.sort();
    assert_eq!(refused, ["stream s of user u in project p", "stream s/fork of user u in project p"], "and its fork");
    let there = all(&store).await;
    assert_eq!(paths(&there), ["gone", "left", "of/project é", "over", "s"]);
    let kept = there.iter().find(|(moved, ..)| moved.stream.key == own.key).expect("the stream");
    assert_eq!((kept.1.as_str(), &kept.0.stream.record), ("mine", &own.record));
    // Once the path is free, the same import stores them.
    assert!(store.delete_stream(own.key, None).await.expect("deletes"));
    assert_eq!(back(&store, &files, &Selection::default()).await.expect("imports"), Vec::<String>::new());
    assert_eq!(all(&store).await, all(&source).await);
}

#[tokio::test]
async fn a_stream_that_has_less_than_the_export_or_is_being_removed_is_named() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let source = memory();
    let whole = Plain::new("s").with(&["one", "two"]).put(source.as_ref()).await;
    out(&source, &at("1"), &Selection::default()).await;
    for store in [memory(), sqlite(&at("db")).await] {
        back(&store, &at("1"), &Selection::default()).await.expect("imports");
        // The stream goes on in the source, where it gets a fork, and not in the other store.
        let more = Plain::new("t").fork(&whole, 6);
        let longer = memory();
        back(&longer, &at("1"), &Selection::default()).await.expect("imports");
        let (row, _) = longer.stream(&place("s"), None).await.expect("reads").expect("a stream");
        append(longer.as_ref(), &row, "!").await;
        more.put(longer.as_ref()).await;
        Plain::new("u").fork(&row, 7).put(longer.as_ref()).await;
        out(&longer, &at("2"), &Selection::default()).await;
        let mut refused = back(&store, &at("2"), &Selection::default()).await.expect("imports");
        refused.sort();
        assert_eq!(refused, ["stream s of user u in project p", "stream u of user u in project p"]);
        assert_eq!(paths(&all(&store).await), ["s", "t"]);
        // A stream that went on here is no conflict.
        let (row, _) = store.stream(&place("s"), None).await.expect("reads").expect("a stream");
        append(store.as_ref(), &row, "more").await;
        assert_eq!(back(&store, &at("1"), &Selection::default()).await.expect("imports"), Vec::<String>::new());
        fs::remove_dir_all(at("2")).expect("removes");
    }
    let store = sqlite(&at("gone")).await;
    back(&store, &at("1"), &Selection::default()).await.expect("imports");
    assert!(store.delete_stream(whole.key, None).await.expect("deletes"));
    let refused = back(&store, &at("1"), &Selection::default()).await.expect("imports");
    assert_eq!(refused, ["stream s of user u in project p"], "its rows are not removed yet");
    while store.sweep_streams(Timestamp(0), 10).await.expect("sweeps").more {}
    assert_eq!(back(&store, &at("1"), &Selection::default()).await.expect("imports"), Vec::<String>::new());
    assert_eq!(all(&store).await, all(&source).await);
}

/// Has the manifest name this content of the file.
fn record(manifest: &Path, content: &[u8]) {
    let digest = |bytes: &[u8]| hex(&Sha256::digest(bytes));
    let text = fs::read_to_string(manifest).expect("text");
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let mut end = lines.pop().expect("an end");
    for line in lines.iter_mut().filter(|line| line["streams"].is_object()) {
        line["streams"]["bytes"] = content.len().into();
        line["streams"]["sha256"] = digest(content).into();
    }
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    end["complete"]["sha256"] = digest(text.as_bytes()).into();
    text.push_str(&format!("{end}\n"));
    fs::write(manifest, text).expect("writes");
}

#[tokio::test]
async fn a_damaged_file_stores_no_stream() {
    let home = tempfile::tempdir().expect("a directory");
    let source = filled().await;
    for (name, from, to) in [
        ("gap", "\"first\":0", "\"first\":1"),
        ("end", "\"tail\":3", "\"tail\":4"),
        ("lines", "\"last\":3", "\"last\":2"),
        ("form", "\"deleted\":true", "\"deleted\":true,\"more\":1"),
    ] {
        let files = home.path().join(name);
        out(&source, &files, &Selection::default()).await;
        let (streams, manifest) = (files.join("streams.ndjson"), files.join("manifest.ndjson"));
        let text = fs::read_to_string(&streams).expect("text");
        assert!(text.contains(from), "{name}");
        let changed = text.replace(from, to);
        fs::write(&streams, &changed).expect("writes");
        let store = memory();
        let refused = back(&store, &files, &Selection::default()).await;
        assert!(matches!(refused, Err(TransferError::Damaged(_))), "{name}: {refused:?}");
        // Also if the manifest was written for it.
        record(&manifest, changed.as_bytes());
        let refused = back(&store, &files, &Selection::default()).await;
        assert!(matches!(refused, Err(TransferError::Damaged(_))), "{name}: {refused:?}");
        assert!(all(&store).await.is_empty());
    }
}
