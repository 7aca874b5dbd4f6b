//! The feed: the newest change of each thread, resumable from any cursor for ever.

use threadline_core::{CreatedThread, FeedChange, FeedHead, ThreadPatch};
use threadline_store::FeedPage;

use crate::support::*;

async fn pump(env: &Env, name: &str) -> u64 {
    env.store.pump_feed(&project(), &user(name)).await.expect("pumps").position
}

async fn page(env: &Env, name: &str, after: u64, limit: usize) -> FeedPage {
    env.store.feed(&project(), &user(name), after, limit).await.expect("feed")
}

/// (position, id, whether it is there)
fn short(page: &FeedPage) -> Vec<(u64, &str, bool)> {
    let there = |change: &FeedChange| matches!(change, FeedChange::Upsert(_));
    page.entries.iter().map(|entry| (entry.cursor, entry.thread_id.as_str(), there(&entry.change))).collect()
}

async fn touch(env: &Env, id: &str) {
    let thread = env.get(id).await.expect("there");
    env.store
        .edit_thread(thread.key, thread.version, ThreadPatch::default(), None)
        .await
        .expect("edits")
        .expect("edited");
}

pub async fn the_feed_keeps_the_newest_change_of_each_thread(env: Env) {
    assert_eq!(pump(&env, "u").await, 0);
    assert_eq!((page(&env, "u", 0, 10).await.head.position, page(&env, "u", 0, 10).await.entries.len()), (0, 0));
    let (a, fence) = env.running("a", "r").await;
    env.create("b").await;
    assert_eq!(page(&env, "u", 0, 10).await.entries.len(), 0, "not pumped yet");
    assert_eq!(pump(&env, "u").await, 2);
    assert_eq!(pump(&env, "u").await, 2, "idempotent");
    assert_eq!(short(&page(&env, "u", 0, 10).await), [(1, "a", true), (2, "b", true)]);
    // Appends do not touch the feed, but it shows the thread as it is now.
    env.put(a, fence, [1, 2, 3]).await;
    assert_eq!(pump(&env, "u").await, 2);
    match &page(&env, "u", 0, 1).await.entries[0].change {
        FeedChange::Upsert(thread) => assert_eq!(Some(thread.as_ref()), env.get("a").await.as_ref()),
        FeedChange::Delete => panic!("it is there"),
    }
    env.append(append(a, fence, None, finished())).await.expect("ends");
    touch(&env, "b").await;
    touch(&env, "b").await;
    assert_eq!(pump(&env, "u").await, 4);
    assert_eq!(short(&page(&env, "u", 0, 10).await), [(3, "a", true), (4, "b", true)]);
    assert_eq!(page(&env, "other", 0, 10).await.entries.len(), 0);
}

pub async fn a_feed_resumes_from_any_cursor(env: Env) {
    for n in 0..30 {
        env.create(&format!("{n:02}")).await;
    }
    pump(&env, "u").await;
    for n in [3, 17, 3, 29] {
        touch(&env, &format!("{n:02}")).await;
        pump(&env, "u").await;
    }
    let whole = page(&env, "u", 0, 500).await;
    assert_eq!((whole.entries.len(), whole.head.position), (30, 34));
    assert_eq!(whole.entries.last().map(|entry| entry.cursor), Some(34));
    for after in 0..=36 {
        for limit in [1, 7, 500] {
            let got = page(&env, "u", after, limit).await;
            let wanted: Vec<_> = short(&whole).into_iter().filter(|entry| entry.0 > after).take(limit).collect();
            assert_eq!((short(&got), got.head.position), (wanted, 34), "after {after}, {limit}");
        }
    }
    assert_eq!(page(&env, "u", u64::MAX, 10).await.entries.len(), 0);
}

pub async fn deletions_are_fed(env: Env) {
    for id in ["a", "b", "c"] {
        env.create(id).await;
    }
    pump(&env, "u").await;
    let key = env.get("b").await.expect("there").key;
    env.store.delete_thread(key, None).await.expect("deletes");
    // Before the pump the old entry stands, but says already that the thread is gone.
    assert_eq!(short(&page(&env, "u", 0, 10).await), [(1, "a", true), (2, "b", false), (3, "c", true)]);
    let was_deleted =
        async |id, who| env.store.was_deleted(&project(), &user(who), &thread_id(id)).await.expect("asks");
    assert!(was_deleted("b", "u").await, "before it is fed");
    assert_eq!(pump(&env, "u").await, 4);
    assert_eq!(pump(&env, "u").await, 4);
    assert!(was_deleted("b", "u").await && !was_deleted("b", "other").await);
    assert!(!was_deleted("a", "u").await && !was_deleted("never", "u").await);
    assert_eq!(short(&page(&env, "u", 0, 10).await), [(1, "a", true), (3, "c", true), (4, "b", false)]);
    while env.purge(100).await {}
    assert_eq!(pump(&env, "u").await, 4, "the purge is no change");
    assert_eq!(short(&page(&env, "u", 3, 10).await), [(4, "b", false)]);

    // Purged before it was fed: the deletion is not lost.
    let key = env.get("c").await.expect("there").key;
    env.store.delete_thread(key, None).await.expect("deletes");
    while env.purge(100).await {}
    assert_eq!(pump(&env, "u").await, 5);
    assert_eq!(short(&page(&env, "u", 0, 10).await), [(1, "a", true), (4, "b", false), (5, "c", false)]);

    // Made and deleted between two pumps, and made again: one entry, of the newest.
    let first = env.create("d").await;
    env.store.delete_thread(first.key, None).await.expect("deletes");
    env.create("d").await;
    env.create("b").await;
    assert!(!was_deleted("d", "u").await && !was_deleted("b", "u").await, "they are there again");
    pump(&env, "u").await;
    let page = page(&env, "u", 0, 10).await;
    let mut ids: Vec<_> = short(&page).into_iter().map(|entry| (entry.1.to_owned(), entry.2)).collect();
    ids.sort();
    let wanted = [("a", true), ("b", true), ("c", false), ("d", true)];
    assert_eq!(ids, wanted.map(|(id, there)| (id.to_owned(), there)));
    assert_eq!(page.entries.last().map(|entry| entry.cursor), Some(page.head.position));
}

pub async fn a_thread_recreated_by_another_user_keeps_the_record_of_the_deletion(env: Env) {
    let first = env.create("t").await;
    for pumped in [true, false] {
        if pumped {
            pump(&env, "u").await;
        }
        let key = if pumped { first.key } else { env.create("t").await.key };
        env.store.delete_thread(key, None).await.expect("deletes");
        let CreatedThread { thread: theirs, created: made } =
            env.store.create_thread(new_thread("t", "other")).await.expect("creates");
        assert!(made);
        pump(&env, "other").await;
        pump(&env, "u").await;
        let ours = page(&env, "u", 0, 10).await;
        assert_eq!(short(&ours), [(ours.head.position, "t", false)]);
        let others = page(&env, "other", 0, 10).await;
        assert_eq!(short(&others), [(others.head.position, "t", true)]);
        env.store.delete_thread(theirs.key, None).await.expect("deletes");
        pump(&env, "other").await;
        let others = page(&env, "other", 0, 10).await;
        assert_eq!(short(&others), [(others.head.position, "t", false)]);
    }
}

pub async fn dirty_feeds_are_found(env: Env) {
    let dirty = async |limit| {
        let dirty = env.store.dirty_feeds(limit).await.expect("dirty");
        dirty.into_iter().map(|(_, user)| user.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(dirty(10).await, [""; 0]);
    for name in ["c", "a", "b"] {
        for n in 0..3 {
            env.store.create_thread(new_thread(&format!("{name}{n}"), name)).await.expect("creates");
        }
    }
    assert_eq!(dirty(10).await, ["a", "b", "c"]);
    assert_eq!(dirty(2).await.len(), 2);
    pump(&env, "b").await;
    assert_eq!(dirty(10).await, ["a", "c"]);
    pump(&env, "a").await;
    pump(&env, "c").await;
    assert_eq!(dirty(10).await, [""; 0]);
    let thread = env.get("b1").await.expect("there");
    env.store.delete_thread(thread.key, None).await.expect("deletes");
    while env.purge(10).await {}
    assert_eq!(dirty(10).await, ["b"]);
    pump(&env, "b").await;
    assert_eq!(dirty(10).await, [""; 0]);
}

pub async fn the_heads_of_feeds_are_read_in_one_query(env: Env) {
    let (one, two, absent) = (user("one"), user("two"), user("nobody"));
    for (id, owner) in [("a", "one"), ("b", "two"), ("c", "two")] {
        env.store.create_thread(new_thread(id, owner)).await.expect("creates");
    }
    for owner in [&one, &two] {
        env.store.pump_feed(&project(), owner).await.expect("pumps");
    }
    let asked: Vec<_> = [&two, &absent, &one, &two].map(|owner| (project(), owner.clone())).to_vec();
    let heads = env.store.feed_heads(&asked).await.expect("reads");
    assert_eq!(heads.iter().map(|head| head.position).collect::<Vec<_>>(), [2, 0, 1, 2]);
    assert_eq!((heads[0], heads[1]), (heads[3], FeedHead::EMPTY));
    assert_ne!(heads[0].history.epoch, heads[2].history.epoch);
    assert_eq!(heads[0], page(&env, "two", 0, 0).await.head);
    assert!(env.store.feed_heads(&[]).await.expect("reads").is_empty());
}
