//! Plain streams.

use std::time::Duration;

use threadline_core::{
    Epoch, Timestamp, UsageOwner, UserId,
    kv::KvOwner,
    streams::{
        AppendDone, Chunk, ContentType, NewAppend, Producer, ProducerState, Stream, StreamKey, StreamPath, StreamPlace,
        StreamRecord, StreamState, append, counted,
    },
};
use threadline_store::{StreamWrite, StreamWriteKind, SweptStreams};
use tokio::task::JoinSet;

use crate::support::*;

fn owner(user: Option<&str>) -> KvOwner {
    KvOwner { project: project(), user: user.map(|name| UserId::new(name).expect("id")) }
}

fn at(path: &str) -> StreamPlace {
    StreamPlace { owner: owner(Some("u")), path: StreamPath::new(path).expect("a path") }
}

fn record(tail: u64) -> StreamRecord {
    StreamRecord {
        epoch: Epoch::from_i64(7),
        content_type: ContentType::binary(),
        life: None,
        closed: false,
        closed_by: None,
        tail,
        last_seq: None,
        origin: None,
        inherited: Vec::new(),
    }
}

fn tag() -> i64 {
    Epoch::generate().to_i64()
}

fn chunk(first: u64, body: &str) -> Chunk {
    Chunk { first, last: first + body.len() as u64, body: body.as_bytes().to_vec() }
}

/// Creation of a stream with this content.
fn new(place: StreamPlace, source: Option<StreamKey>, body: &str) -> StreamWrite {
    let chunk = (!body.is_empty()).then(|| chunk(0, body));
    StreamWrite {
        key: StreamKey::generate(),
        tag: tag(),
        record: record(body.len() as u64),
        expires_at: None,
        added: counted(0) + chunk.as_ref().map_or(0, Chunk::size),
        chunk,
        kind: StreamWriteKind::Create { place, source },
    }
}

async fn create(env: &Env, write: StreamWrite) -> StreamKey {
    let key = write.key;
    assert!(env.store.write_stream(write).await.expect("writes"));
    key
}

async fn find(env: &Env, place: &StreamPlace) -> Option<Stream> {
    env.store.stream(place, None).await.expect("reads").map(|(stream, _)| stream)
}

/// Append to a stream as it was read.
fn added(stream: &Stream, body: &str, producer: Option<Producer>) -> StreamWrite {
    let chunk = chunk(stream.record.tail, body);
    StreamWrite {
        key: stream.key,
        tag: tag(),
        record: StreamRecord { tail: chunk.last, ..stream.record.clone() },
        expires_at: None,
        added: chunk.size(),
        chunk: Some(chunk),
        kind: StreamWriteKind::Append { former: stream.tag, producer },
    }
}

async fn text(env: &Env, key: StreamKey) -> String {
    let chunks = env.store.stream_chunks(key, 0, 1_000, 1 << 20).await.expect("reads");
    chunks.into_iter().map(|chunk| String::from_utf8(chunk.body).expect("text")).collect()
}

pub async fn a_write_of_a_stream_needs_the_row_that_it_has_read(env: Env) {
    let place = at("a/b");
    assert_eq!(find(&env, &place).await, None);
    let key = create(&env, new(place.clone(), None, "one")).await;
    assert!(!env.store.write_stream(new(place.clone(), None, "two")).await.expect("writes"), "the place is taken");
    let other = StreamPlace { owner: owner(Some("v")), path: place.path.clone() };
    let (of_other, of_project) = (new(other.clone(), None, ""), StreamPlace { owner: owner(None), ..other.clone() });
    create(&env, of_other).await;
    create(&env, new(of_project, None, "")).await;
    let stream = find(&env, &place).await.expect("a stream");
    assert_eq!((stream.key, stream.state, stream.has_forks, stream.record.tail), (key, StreamState::Live, false, 3));
    assert_eq!(stream.size, counted(0) + counted(3));
    let by = |seq| Some(Producer { id: "w".to_owned(), epoch: 2, seq });
    assert!(env.store.write_stream(added(&stream, "!", by(0))).await.expect("writes"));
    assert!(!env.store.write_stream(added(&stream, "?", by(9))).await.expect("writes"), "the row has changed");
    let (stream, known) = env.store.stream(&place, Some("w")).await.expect("reads").expect("a stream");
    assert_eq!((stream.record.tail, known), (4, Some(ProducerState { epoch: 2, seq: 0 })));
    assert_eq!(stream.size, counted(0) + counted(3) + counted(1));
    assert!(env.store.write_stream(added(&stream, "\0", by(1))).await.expect("writes"));
    assert_eq!(
        env.store.stream(&place, Some("w")).await.expect("reads").expect("a stream").1.map(|by| by.seq),
        Some(1)
    );
    assert_eq!(env.store.stream(&place, Some("x")).await.expect("reads").expect("a stream").1, None);
    assert_eq!(text(&env, key).await, "one!\0");
    // A deleted stream takes no write, and its place is free.
    let stream = find(&env, &place).await.expect("a stream");
    assert!(env.store.delete_stream(key, None).await.expect("deletes"));
    assert!(!env.store.delete_stream(key, None).await.expect("deletes"));
    assert!(!env.store.write_stream(added(&stream, "x", None)).await.expect("writes"));
    assert_eq!(find(&env, &place).await, None);
    let next = create(&env, new(place.clone(), None, "new")).await;
    assert_eq!(text(&env, next).await, "new");
    assert!(find(&env, &other).await.is_some());
}

pub async fn of_concurrent_appends_to_a_stream_none_is_lost(env: Env) {
    const WRITERS: usize = 6;
    let place = at("s");
    let key = create(&env, new(place.clone(), None, "")).await;
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let (store, place) = (env.store.clone(), place.clone());
        writers.spawn(async move {
            let body = number.to_string();
            let append_one = NewAppend { content_type: None, count: 1, seq: None, producer: None, closes: false };
            loop {
                let (stream, _) = store.stream(&place, None).await.expect("reads").expect("a stream");
                let Ok(AppendDone::Accepted(record)) = append(&stream.record, None, &append_one) else { panic!() };
                let write = StreamWrite { record: *record, ..added(&stream, &body, None) };
                if store.write_stream(write).await.expect("writes") {
                    return;
                }
            }
        });
    }
    writers.join_all().await;
    let mut found: Vec<char> = text(&env, key).await.chars().collect();
    found.sort_unstable();
    assert_eq!(found.iter().collect::<String>(), "012345");
    assert_eq!(find(&env, &place).await.map(|stream| stream.record.tail), Some(WRITERS as u64));
}

pub async fn chunks_of_a_stream_are_read_in_pages(env: Env) {
    let place = at("s");
    let key = create(&env, new(place.clone(), None, "aaaa")).await;
    for body in ["bb", "c", "dddd"] {
        let stream = find(&env, &place).await.expect("a stream");
        assert!(env.store.write_stream(added(&stream, body, None)).await.expect("writes"));
    }
    let read = async |after, limit, bytes| {
        let chunks = env.store.stream_chunks(key, after, limit, bytes).await.expect("reads");
        chunks.into_iter().map(|chunk| (chunk.first, chunk.last)).collect::<Vec<_>>()
    };
    assert_eq!(read(0, 10, 100).await, [(0, 4), (4, 6), (6, 7), (7, 11)]);
    // The chunk in which the position lies is the first one.
    assert_eq!(read(5, 10, 100).await, [(4, 6), (6, 7), (7, 11)]);
    assert_eq!(read(0, 2, 100).await, [(0, 4), (4, 6)]);
    assert_eq!(read(0, 10, 5).await, [(0, 4), (4, 6)], "the one that reaches the bytes is the last one");
    assert_eq!(read(0, 10, 1).await, [(0, 4)]);
    assert_eq!(read(11, 10, 100).await, []);
}

pub async fn a_deleted_source_stays_until_its_last_fork_is_gone(env: Env) {
    let [a, b, c] = ["a", "b", "c"].map(at);
    let root = create(&env, new(a.clone(), None, "root")).await;
    let fork = create(&env, new(b.clone(), Some(root), "")).await;
    let last = create(&env, new(c.clone(), Some(fork), "")).await;
    assert!(find(&env, &a).await.is_some_and(|stream| stream.has_forks));
    for key in [root, fork] {
        assert!(env.store.delete_stream(key, None).await.expect("deletes"));
    }
    let state = async |place| find(&env, place).await.map(|stream| (stream.state, stream.has_forks));
    assert_eq!(
        (state(&a).await, state(&b).await),
        (Some((StreamState::Deleted, true)), Some((StreamState::Deleted, true)))
    );
    // A deleted stream gets no fork, and its place stays taken.
    assert!(!env.store.write_stream(new(at("d"), Some(root), "")).await.expect("writes"));
    assert!(!env.store.write_stream(new(a.clone(), None, "")).await.expect("writes"));
    assert_eq!(env.store.sweep_streams(env.clock.now(), 10).await.expect("sweeps"), SweptStreams::default());
    assert_eq!(text(&env, root).await, "root");
    assert!(env.store.delete_stream(last, None).await.expect("deletes"));
    assert_eq!((state(&a).await, state(&b).await, state(&c).await), (None, None, None));
    create(&env, new(a.clone(), None, "again")).await;
    let swept = env.store.sweep_streams(env.clock.now(), 100).await.expect("sweeps");
    assert_eq!((swept.removed.len(), swept.more), (3, false));
    assert_eq!(text(&env, root).await, "");
    assert!(find(&env, &a).await.is_some());
}

pub async fn expired_streams_are_swept(env: Env) {
    let until = env.clock.now().plus(Duration::from_secs(60));
    let lasting = |place, source| StreamWrite { expires_at: Some(until), ..new(place, source, "x") };
    let key = create(&env, lasting(at("a"), None)).await;
    let source = create(&env, lasting(at("b"), None)).await;
    create(&env, new(at("fork"), Some(source), "")).await;
    let read = create(&env, lasting(at("c"), None)).await;
    let later = until.plus(Duration::from_secs(60));
    env.store.touch_stream(read, later).await.expect("touches");
    env.store.touch_stream(read, until).await.expect("touches");
    assert_eq!(find(&env, &at("c")).await.and_then(|stream| stream.expires_at), Some(later), "never back");
    assert!(!env.store.delete_stream(key, Some(Timestamp(until.0 - 1))).await.expect("deletes"), "not expired yet");
    let swept = env.store.sweep_streams(until, 100).await.expect("sweeps");
    assert_eq!(swept.removed, [(owner(Some("u")), counted(0) + counted(1))]);
    assert!(find(&env, &at("a")).await.is_none() && find(&env, &at("c")).await.is_some());
    assert_eq!(find(&env, &at("b")).await.map(|stream| stream.state), Some(StreamState::Deleted), "its fork needs it");
}

pub async fn streams_are_counted_and_erased_with_their_user(env: Env) {
    let key = create(&env, new(at("a"), None, "12345")).await;
    create(&env, new(at("b"), Some(key), "")).await;
    create(&env, new(StreamPlace { owner: owner(None), ..at("p") }, None, "1234567")).await;
    create(&env, new(StreamPlace { owner: owner(Some("v")), ..at("a") }, None, "")).await;
    let print = async |name| env.store.footprint(&project(), &user(name)).await.expect("counts").streams;
    assert_eq!((print("u").await, print("v").await), (2, 1));
    let bytes = async |owner| env.store.count_usage(&owner).await.expect("counts").bytes;
    let own = UsageOwner::user(&project(), &user("u"));
    assert_eq!(bytes(own.clone()).await, 2 * counted(0) + counted(5));
    assert_eq!(bytes(UsageOwner::user(&project(), &user("v"))).await, counted(0));
    let of_project = counted(0) + counted(7);
    assert_eq!(bytes(UsageOwner::project(&project())).await, 3 * counted(0) + counted(5) + of_project);
    env.store.forget_user(&project(), &user("u")).await.expect("forgets");
    assert_eq!((print("u").await, print("v").await), (0, 1));
    assert_eq!(text(&env, key).await, "");
    assert_eq!(bytes(UsageOwner::project(&project())).await, counted(0) + of_project);
    create(&env, new(at("a"), None, "")).await;
}
