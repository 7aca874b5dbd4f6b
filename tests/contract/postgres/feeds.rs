//! Feeds that several nodes write at once, in an order that only locks held elsewhere bring about.

use threadline::domain::FeedChange;

use super::*;

async fn pump(store: &PgStore) -> u64 {
    threadline::store::FeedStore::pump_feed(store, &project(), &user("u")).await.expect("pumps")
}

/// The pump that saw the deletion is held up until the one that saw the thread made again is through.
#[tokio::test]
async fn a_thread_made_again_is_not_said_to_be_deleted() {
    let url = Postgres::shared().fresh_database();
    let ((one, store), (_, other)) = (node(&url, &clock()).await, node(&url, &clock()).await);
    let before = [one.create("t").await, one.create("beside").await];
    pump(&store).await;
    for thread in before {
        assert!(one.store.delete_thread(thread.key).await.expect("deletes"));
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
