//! Feeds that several nodes write at once, in an order that only locks held elsewhere bring about.

use threadline_core::{Epoch, FeedChange, limits::FEED_CHUNK};
use threadline_store::{
    Arrival, ExportStore, FeedImage, MovedThread, Published, StagedPart, Staging, StagingStore, TransferStore,
};

use super::*;

async fn pump(store: &PgStore) -> u64 {
    threadline_store::FeedStore::pump_feed(store, &project(), &user("u")).await.expect("pumps").position
}

/// The pump that saw the deletion is held up until the one that saw the thread made again is through.
#[tokio::test]
async fn a_recreated_thread_is_not_reported_as_deleted() {
    let url = Postgres::shared().fresh_database();
    let ((one, store), (_, other)) = (node(&url, &clock()).await, node(&url, &clock()).await);
    let before = [one.create("t").await, one.create("beside").await];
    pump(&store).await;
    for thread in before {
        assert!(one.store.delete_thread(thread.key, None).await.expect("deletes"));
    }
    // A pump of two threads takes its time before it gets its positions.
    let hold_up = "CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN IF NEW.head = 2 THEN PERFORM pg_sleep(1.5); END IF; RETURN NEW; END $$;
        CREATE TRIGGER hold_up BEFORE INSERT ON feed_heads FOR EACH ROW EXECUTE FUNCTION hold_up()";
    execute(&mut session(&url).await, hold_up).await;
    let late = tokio::spawn(async move { pump(&store).await });
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()";
    within(10, async { while ask(&url, asleep).await == 0 {} }).await;
    one.create("t").await;
    let early = pump(&other).await;
    let late = within(10, late).await.expect("task");
    assert!(early < late, "the deletion was placed behind the new thread: {early}, {late}");
    let page = one.store.feed(&project(), &user("u"), 0, 10).await.expect("feed");
    let there = |id: &str| {
        let entry = page.entries.iter().find(|entry| entry.thread_id == thread_id(id)).expect("an entry");
        matches!(entry.change, FeedChange::Upsert(_))
    };
    assert!(there("t"), "{page:?}");
    assert!(!there("beside"), "{page:?}");
}

/// A feed that is brought in and one that is written meet, each with what the other one wants.
#[tokio::test]
async fn a_feed_import_and_a_pump_do_not_block_each_other() {
    let url = Postgres::shared().fresh_database();
    let (from, (to, store)) = (Env::memory(), node(&url, &clock()).await);
    to.create("before").await;
    let head = pump(&store).await;
    for id in ["a", "b"] {
        let moved = MovedThread {
            thread: from.create(id).await,
            fence: threadline_core::Fence(0),
            interrupts: None,
            request: None,
        };
        let Staging::Staged(key) = store.stage(&moved, StagedPart::default()).await.expect("stages") else {
            panic!("it is free");
        };
        assert_eq!(store.publish(key, &moved, Arrival::Import).await.expect("publishes"), Published::Done);
    }
    let mut holder = session(&url).await;
    execute(&mut holder, "BEGIN; SELECT head FROM feed_heads FOR UPDATE").await;
    let waiting = async |count: i64| {
        let text =
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
        within(10, async { while ask(&url, text).await < count {} }).await;
    };
    let image =
        FeedImage { head: head + 9, epoch: Epoch::generate(), entries: vec![(5, thread_id("a")), (6, thread_id("b"))] };
    let putting = tokio::spawn({
        let store = store.clone();
        async move { store.put_feed(&project(), &user("u"), &image).await }
    });
    waiting(1).await;
    let pumping = tokio::spawn({
        let store = store.clone();
        async move { threadline_store::FeedStore::pump_feed(&store, &project(), &user("u")).await }
    });
    waiting(2).await;
    execute(&mut holder, "ROLLBACK").await;
    assert!(within(10, putting).await.expect("task").expect("puts"));
    within(10, pumping).await.expect("task").expect("pumps");
    pump(&store).await;
    let page = to.store.feed(&project(), &user("u"), head + 9, 10).await.expect("feed");
    assert_eq!(page.entries.len(), 3, "all of it is above what was given: {page:?}");
    assert_eq!(ask(&url, "SELECT count(*) FROM threads WHERE version > fed_version").await, 0);
}

#[tokio::test]
async fn a_large_feed_comes_in_piece_by_piece() {
    let url = Postgres::shared().fresh_database();
    let (env, store) = node(&url, &clock()).await;
    let entries =
        |from: u64| (1..=3 * FEED_CHUNK as u64).map(|n| (from + 2 * n, thread_id(&format!("t{n}")))).collect();
    let image = FeedImage { head: 10_000, epoch: Epoch::generate(), entries: entries(0) };
    assert!(store.put_feed(&project(), &user("u"), &image).await.expect("puts"));
    assert_eq!(store.feed_image(&project(), &user("u")).await.expect("an image"), image);
    assert!(!store.put_feed(&project(), &user("u"), &image).await.expect("answers"));
    // Into one that went on: each thread once, above all that either has given.
    env.create("own").await;
    let floor = pump(&store).await;
    let newer = FeedImage { head: 20_000, epoch: Epoch::generate(), entries: entries(10_000) };
    assert!(store.put_feed(&project(), &user("u"), &newer).await.expect("puts"));
    let taken = store.feed_image(&project(), &user("u")).await.expect("an image");
    assert_eq!(taken.entries.len(), image.entries.len() + 1);
    assert!(taken.entries.iter().all(|entry| entry.0 > floor.max(newer.head)));
}
