//! What holds for a store in a file: it is there again after the process, for one process at a time.

use std::sync::Arc;

use sqlx::{Connection, SqliteConnection};
use threadline_core::ReadFrom;
use threadline_store::{
    LogStore,
    sqlite::{OpenError, SqliteStore},
};

use crate::support::*;

#[tokio::test]
async fn all_data_is_there_after_reopening() {
    let (dir, clock) = (tempfile::tempdir().expect("temp dir"), clock());
    let open = async || {
        let store = SqliteStore::open(dir.path(), clock.clone()).await.expect("opens");
        Env { store: Arc::new(store.clone()), clock: clock.clone(), ..Env::memory() }
    };
    let env = open().await;
    let (key, fence) = env.running("t", "r").await;
    env.put(key, fence, 0..300).await;
    assert!(env.store.seal(key).await.expect("seals"));
    env.put(key, fence, 300..310).await;
    env.store.request_stop(key, &run_id("r"), None, true).await.expect("stop");
    let deleted = env.create("deleted").await;
    env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
    env.store.delete_thread(deleted.key, None).await.expect("deletes");
    let seen = async |env: &Env| {
        let feed = env.store.feed(&project(), &user("u"), 0, 10).await.expect("feed");
        let runs = env.store.runs(key, None, 10).await.expect("runs");
        (env.log(key).await, env.get("t").await, env.get("deleted").await, env.head(key).await, feed.entries, runs)
    };
    let before = seen(&env).await;
    // Not closed, only dropped, as after a crash.
    drop(env);
    let env = loop {
        // The connections' OS threads release the lock's owner a moment later.
        match SqliteStore::open(dir.path(), clock.clone()).await {
            Ok(store) => break Env { store: Arc::new(store), clock: clock.clone(), ..Env::memory() },
            Err(OpenError::Locked { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(seen(&env).await, before);
    assert_eq!(env.put(key, fence, [310]).await.first_seq, 311);
    assert!(env.create("next").await.key > deleted.key);
    assert_eq!(env.store.dirty_feeds(10).await.expect("dirty").len(), 1);
}

#[tokio::test]
async fn a_second_open_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().expect("temp dir");
    let inside = dir.path().join("made/on/the/way");
    let first = SqliteStore::open(&inside, clock()).await.expect("opens");
    let error = SqliteStore::open(&inside, clock()).await.expect_err("locked");
    assert!(matches!(error, OpenError::Locked { .. }), "{error:?}");
    assert!(error.to_string().contains("another process"), "{error}");
    first.close().await;
    SqliteStore::open(&inside, clock()).await.expect("free again");
}

#[tokio::test]
async fn huge_and_tiny_batches_of_random_bytes() {
    let env = Env::sqlite().await;
    let (key, fence) = env.running("t", "r").await;
    let mut wanted = Vec::new();
    let mut state = 88_172_645_463_325_252_u64;
    for size in [1, 4_000, 4_096, 70_000, 3, 2_500_000, 12, 1_000_000] {
        let text: String = (0..size)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                char::from_u32(0x20 + (state % 0x2000) as u32).filter(|c| !matches!(c, '"' | '\\')).unwrap_or('x')
            })
            .collect();
        let event = format!("{{\"type\":\"X\",\"text\":\"{text}\"}}");
        env.append(append(key, fence, None, ndjson(&event))).await.expect("appended");
        wanted.push(event);
    }
    assert!(env.texts(key).await == wanted);
    let page = env.store.read(key, ReadFrom::Before(7), 3).await.expect("reads").expect("there");
    assert!(page.slice.last_seq() == Some(6));
}

#[tokio::test]
async fn a_clone_is_the_same_store() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = SqliteStore::open(dir.path(), clock()).await.expect("opens");
    let clone = store.clone();
    store.close().await;
    assert!(clone.heads(&[]).await.is_err());
}

#[tokio::test]
async fn claims_that_are_over_are_removed() {
    let mut env = Env::sqlite().await;
    crate::tool_claims::make_claims_that_are_over(&env).await;
    env.store.shut_down().await;
    let dir = env.dir.take().expect("a directory");
    let url = format!("sqlite://{}/threadline.db", dir.path().display());
    let mut session = SqliteConnection::connect(&url).await.expect("connects");
    let left: i64 =
        sqlx::query_scalar("SELECT count(*) FROM tool_claims").fetch_one(&mut session).await.expect("counts");
    assert_eq!(left, 4);
}
