//! Identity on several nodes, and a user who is erased while other nodes write the feed.

use threadline_core::{CreatedThread, Footprint, limits::FOOTPRINT_THREADS};
use threadline_store::{DynStore, ErasureStore, FeedStore};
use tokio::task::JoinSet;

use super::*;
use crate::identity::check_races;

async fn pump(store: &PgStore) -> u64 {
    store.pump_feed(&project(), &user("u")).await.expect("pumps").position
}

/// Until so many sessions wait for a lock.
async fn waiting(url: &str, count: i64) {
    let text = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    within(10, async { while ask(url, text).await < count {} }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_all_on_two_nodes_one_wins() {
    let (url, clock) = (Postgres::shared().fresh_database(), clock());
    let ((_, one), (_, other)) = (node(&url, &clock).await, node(&url, &clock).await);
    let stores: [DynStore; 2] = [Arc::new(one), Arc::new(other)];
    within(60, check_races(&stores)).await;
    let CreatedThread { thread, .. } = stores[0].create_thread(new_thread("t", "u")).await.expect("creates");
    within(60, crate::annotations::check_races(&stores, thread.key)).await;
    within(60, crate::tool_claims::check_races(&stores, thread.key)).await;
}

/// A pump that has the feed's head puts entries that the statement which waits for it does not see.
#[tokio::test]
async fn entries_of_a_concurrent_pump_are_erased_too() {
    for purged in [false, true] {
        let (url, clock) = (Postgres::shared().fresh_database(), clock());
        let ((env, one), (_, other)) = (node(&url, &clock).await, node(&url, &clock).await);
        env.create("before").await;
        pump(&one).await;
        let thread = env.create("t").await;
        if purged {
            env.store.delete_thread(thread.key, None).await.expect("deletes");
            while env.purge(100).await {}
        }
        let mut holder = session(&url).await;
        execute(&mut holder, "BEGIN; SELECT head FROM feed_heads FOR UPDATE").await;
        let pumping = tokio::spawn(async move { pump(&other).await });
        waiting(&url, 1).await;
        let forgetting = tokio::spawn({
            let one = one.clone();
            async move { one.forget_user(&project(), &user("u")).await }
        });
        waiting(&url, 2).await;
        execute(&mut holder, "ROLLBACK").await;
        within(10, pumping).await.expect("task");
        within(10, forgetting).await.expect("task").expect("forgets");
        for table in ["feed_entries", "feed_heads", "threads WHERE deleted > 0"] {
            assert_eq!(ask(&url, &format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
        }
        env.create("after").await;
        assert_eq!(pump(&one).await, 1);
    }
}

/// Concurrent operations of all kinds: no deadlock, no position is given twice, and in the end no data is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_is_forgotten_while_nodes_write_and_purge() {
    let (url, clock) = (Postgres::shared().fresh_database(), clock());
    let ((env, one), (_, other)) = (node(&url, &clock).await, node(&url, &clock).await);
    let (env, nodes) = (Arc::new(env), [one.clone(), other]);
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        let (env, store) = (env.clone(), nodes[n % 2].clone());
        tasks.spawn(async move {
            for round in 0..12 {
                let thread = env.create(&format!("t{n}-{round}")).await;
                pump(&store).await;
                env.store.delete_thread(thread.key, None).await.expect("deletes");
                if round % 3 == 0 {
                    pump(&store).await;
                }
                while env.purge(100).await {}
            }
        });
    }
    for store in nodes.clone() {
        tasks.spawn(async move {
            let mut done = 0;
            while done < 40 {
                // The store may ask for a retry; then the test retries.
                done += i32::from(store.forget_user(&project(), &user("u")).await.is_ok());
            }
        });
    }
    within(60, tasks.join_all()).await;
    while one.footprint(&project(), &user("u")).await.expect("counts") != Footprint::default() {
        while env.purge(100).await {}
        one.forget_user(&project(), &user("u")).await.expect("forgets");
    }
    assert_eq!(ask(&url, "SELECT (SELECT count(*) FROM threads) + (SELECT count(*) FROM feed_heads)").await, 0);
}

#[tokio::test]
async fn threads_beyond_the_limit_of_one_statement_are_counted() {
    let (url, clock) = (Postgres::shared().fresh_database(), clock());
    let (_, store) = node(&url, &clock).await;
    let count = 2 * FOOTPRINT_THREADS as i64 + 500;
    // Many of them made at one moment.
    let many = format!(
        "INSERT INTO threads (project, id, user_id, created_at, updated_at, sort_at, created_with, metadata)
           SELECT 'p', 't' || n, 'u', n / 7000, 0, 0, '', '{{}}' FROM generate_series(1, {count}) n;
         INSERT INTO heads (key, epoch, tail, fence) SELECT key, 1, 3, 1 FROM threads;
         INSERT INTO runs (key, fence, id, status, first_seq, producer_seq, started_at)
           SELECT key, n, 'r' || n, 2, 1, 3, 0 FROM threads, generate_series(1, 2) n"
    );
    for statement in many.split(';') {
        execute(&mut session(&url).await, statement).await;
    }
    let counted = store.footprint(&project(), &user("u")).await.expect("counts");
    let count = count as u64;
    assert_eq!((counted.threads, counted.runs, counted.events), (count, 2 * count, 3 * count));
}
