//! What is idle is found, and of a user nothing is left.

use std::time::Duration;

use bytes::Bytes;
use threadline_core::{
    CreatedThread, Epoch, FeedCursor, FeedHead, Footprint, Generation, Judgement, ProjectId, ThreadKey, ThreadPatch,
    Timestamp,
};
use threadline_store::{IdlePlace, Snapshot};

use crate::support::*;

fn other() -> ProjectId {
    ProjectId::new("other").expect("id")
}

/// The ids of all that is idle, looked for in windows of this size.
async fn idle(env: &Env, project: &ProjectId, before: Timestamp, window: usize) -> Vec<String> {
    let (mut found, mut after, mut last) = (Vec::new(), None, None);
    loop {
        let page = env.store.idle_threads(project, before, after, window).await.expect("looks");
        assert!(page.threads.len() <= window);
        for thread in page.threads {
            assert_eq!(Some(&thread), env.get_of(project, thread.id.as_str()).await.as_ref(), "as it is read");
            let place = (thread.last_run_at.unwrap_or(thread.updated_at), thread.key);
            assert!(last < Some(place), "the longest unused first");
            last = Some(place);
            found.push(thread.id.to_string());
        }
        assert!(page.next.is_none() || page.next > after, "the pages advance");
        match page.next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
}

pub async fn idle_threads_are_found_the_longest_unused_first(env: Env) {
    let own = project();
    let far = Timestamp(i64::MAX);
    assert_eq!(idle(&env, &own, far, 5).await, [""; 0]);
    let made = env.clock.now();
    for id in ["edited", "used", "running", "deleted", "old"] {
        env.create(id).await;
    }
    let mut theirs = new_thread("theirs", "u");
    theirs.project = other();
    env.store.create_thread(theirs).await.expect("creates");
    env.store.create_thread(new_thread("of another user", "x")).await.expect("creates");
    let key = async |id: &str| env.get(id).await.expect("there").key;
    env.start(key("running").await, "r").await;
    env.store.delete_thread(key("deleted").await, None).await.expect("deletes");

    env.clock.advance(Duration::from_secs(10));
    let later = env.clock.now();
    let thread = env.get("edited").await.expect("there");
    env.store
        .edit_thread(thread.key, thread.version, ThreadPatch::default(), None)
        .await
        .expect("edits")
        .expect("edited");
    let fence = env.start(key("used").await, "r").await.fence;
    env.append(append(key("used").await, fence, None, finished())).await.expect("ends");
    // Its run is over, but its last use is that of the end.
    for window in [1, 2, 3, 100, usize::MAX] {
        assert_eq!(idle(&env, &own, made, window).await, [""; 0], "before, not at");
        assert_eq!(idle(&env, &own, later, window).await, ["old", "of another user"], "{window}");
        let all = ["old", "of another user", "edited", "used"];
        assert_eq!(idle(&env, &own, far, window).await, all, "{window}");
        assert_eq!(idle(&env, &other(), far, window).await, ["theirs"], "{window}");
    }
    // A page has as many places as the window, also of threads that are in use.
    let page = env.store.idle_threads(&own, far, None, 2).await.expect("looks");
    assert_eq!((page.threads.len(), page.next), (1, Some(IdlePlace { at: made, key: key("old").await })));
    for beyond in [IdlePlace { at: far, key: ThreadKey(0) }, IdlePlace { at: later, key: ThreadKey(i64::MAX) }] {
        let page = env.store.idle_threads(&own, far, Some(beyond), 2).await.expect("looks");
        assert_eq!((page.threads.len(), page.next), (0, None));
    }
    // A run that is over at last.
    let head = env.head(key("running").await).await;
    env.close(key("running").await, closing(&head, Some(run_error()))).await;
    assert_eq!(idle(&env, &own, far, 2).await.len(), 5);
}

/// A thread with this many runs of three events each, and a snapshot.
async fn used(env: &Env, id: &str, owner: &str, whose: &ProjectId, runs: u64) -> ThreadKey {
    let mut new = new_thread(id, owner);
    new.project = whose.clone();
    let CreatedThread { thread, .. } = env.store.create_thread(new).await.expect("creates");
    for run in 0..runs {
        let fence = env.start(thread.key, &format!("r{run}")).await.fence;
        env.put(thread.key, fence, 0..2).await;
        env.append(append(thread.key, fence, None, finished())).await.expect("ends");
    }
    let snapshot = Snapshot { seq: 2, version: 1, body: Bytes::from_static(b"{}") };
    env.store.put_snapshot(thread.key, snapshot, &[]).await.expect("keeps");
    for n in 0..4 {
        let noted = crate::annotations::annotation(&n.to_string(), "1");
        env.store.put_annotation(thread.key, noted).await.expect("puts");
    }
    thread.key
}

async fn footprint(env: &Env, whose: &ProjectId, owner: &str) -> Footprint {
    env.store.footprint(whose, &user(owner)).await.expect("counts")
}

async fn pump(env: &Env, whose: &ProjectId, owner: &str) -> u64 {
    env.store.pump_feed(whose, &user(owner)).await.expect("pumps").position
}

async fn purge(env: &Env) {
    while env.purge(100).await {}
}

async fn forget(env: &Env, owner: &str) {
    env.store.forget_user(&project(), &user(owner)).await.expect("forgets");
}

pub async fn a_footprint_counts_what_is_there(env: Env) {
    assert_eq!(footprint(&env, &project(), "u").await, Footprint::default());
    let key = used(&env, "a", "u", &project(), 2).await;
    used(&env, "b", "u", &project(), 1).await;
    used(&env, "c", "x", &project(), 5).await;
    used(&env, "a", "u", &other(), 7).await;
    let mut wanted = Footprint { threads: 2, runs: 3, events: 9, snapshots: 2, annotations: 8, ..Footprint::default() };
    assert_eq!(footprint(&env, &project(), "u").await, wanted);
    pump(&env, &project(), "u").await;
    wanted.feed_entries = 2;
    assert_eq!(footprint(&env, &project(), "u").await, wanted);
    env.store.delete_thread(key, None).await.expect("deletes");
    let left = Footprint {
        threads: 1,
        runs: 1,
        events: 3,
        snapshots: 1,
        annotations: 4,
        feed_entries: 2,
        tombstones: 1,
        ..Footprint::default()
    };
    assert_eq!(footprint(&env, &project(), "u").await, left);
    purge(&env).await;
    assert_eq!(footprint(&env, &project(), "u").await, left, "the feed has not heard of it");
    pump(&env, &project(), "u").await;
    assert_eq!(footprint(&env, &project(), "u").await, Footprint { tombstones: 0, ..left });
    assert_eq!(footprint(&env, &other(), "u").await.events, 21);
    assert_eq!(footprint(&env, &project(), "x").await.events, 15);
}

pub async fn nothing_is_left_of_a_user(env: Env) {
    let mut keys = Vec::new();
    for n in 0..5 {
        keys.push(used(&env, &format!("t{n}"), "u", &project(), 1).await);
    }
    used(&env, "namesake", "u", &other(), 2).await;
    used(&env, "neighbour", "x", &project(), 2).await;
    for (whose, owner) in [(project(), "u"), (other(), "u"), (project(), "x")] {
        pump(&env, &whose, owner).await;
    }
    let namesake = footprint(&env, &other(), "u").await;
    let neighbour = footprint(&env, &project(), "x").await;
    // One whose deletion is fed, one whose is not; both purged, and fed or not, before and after.
    env.store.delete_thread(keys[0], None).await.expect("deletes");
    pump(&env, &project(), "u").await;
    for key in &keys[1..] {
        env.store.delete_thread(*key, None).await.expect("deletes");
    }
    purge(&env).await;
    let before = footprint(&env, &project(), "u").await;
    assert_eq!((before.threads, before.events, before.feed_entries, before.tombstones), (0, 0, 5, 4));
    for _ in 0..2 {
        forget(&env, "u").await;
        assert_eq!(footprint(&env, &project(), "u").await, Footprint::default());
        let page = env.store.feed(&project(), &user("u"), 0, 10).await.expect("feed");
        assert_eq!((page.entries.len(), page.head), (0, FeedHead::EMPTY));
        assert_eq!(env.store.feed_heads(&[(project(), user("u"))]).await.expect("heads"), [FeedHead::EMPTY]);
        assert_eq!(pump(&env, &project(), "u").await, 0, "nothing is owed to it");
    }
    assert!(!env.store.was_deleted(&project(), &user("u"), &thread_id("t1")).await.expect("asks"), "no trace is left");
    assert!(env.store.dirty_feeds(10).await.expect("dirty").is_empty());
    assert_eq!(footprint(&env, &other(), "u").await, namesake);
    assert_eq!(footprint(&env, &project(), "x").await, neighbour);
    let theirs = env.store.feed(&other(), &user("u"), 0, 10).await.expect("feed");
    assert_eq!((theirs.entries.len(), theirs.head.position), (1, 1));
}

pub async fn a_returning_erased_user_starts_empty(env: Env) {
    for id in ["a", "b", "c"] {
        let thread = env.create(id).await;
        pump(&env, &project(), "u").await;
        env.store.delete_thread(thread.key, None).await.expect("deletes");
    }
    purge(&env).await;
    let before = env.store.feed(&project(), &user("u"), 0, 0).await.expect("feed").head;
    forget(&env, "u").await;
    let (key, fence) = env.running("b", "r").await;
    env.put(key, fence, 0..3).await;
    assert_eq!(pump(&env, &project(), "u").await, 1);
    let page = env.store.feed(&project(), &user("u"), 0, 10).await.expect("feed");
    let entries: Vec<_> = page.entries.iter().map(|entry| (entry.cursor, entry.thread_id.as_str())).collect();
    assert_eq!((page.head.position, entries), (1, vec![(1, "b")]));
    let judged = |cursor| page.head.judge(cursor, Generation::FIRST);
    assert_eq!(judged(before.cursor()), Judgement::Replaced { common_up_to: None }, "the feed is another one");
    assert_eq!(judged(FeedCursor { position: 0, ..before.cursor() }), Judgement::Replaced { common_up_to: None });
    assert_eq!(judged(page.head.cursor()), Judgement::Continues);
    assert_eq!(env.texts(key).await.len(), 3);
    for id in ["c", "d", "e"] {
        env.create(id).await;
    }
    assert_eq!(pump(&env, &project(), "u").await, 4, "no position is given twice");
}

pub async fn data_of_other_users_stays_when_a_user_is_erased(env: Env) {
    let key = used(&env, "a", "u", &project(), 2).await;
    pump(&env, &project(), "u").await;
    let before = footprint(&env, &project(), "u").await;
    forget(&env, "u").await;
    assert_eq!(footprint(&env, &project(), "u").await, Footprint { feed_entries: 0, ..before });
    assert_eq!(env.texts(key).await.len(), 6);
    let thread = env.get("a").await.expect("there");
    env.store.edit_thread(key, thread.version, ThreadPatch::default(), None).await.expect("edits").expect("edited");
    assert_eq!(pump(&env, &project(), "u").await, 1);
    assert_eq!(footprint(&env, &project(), "u").await, before);
}

pub async fn a_long_feed_is_erased_completely(env: Env) {
    let count = threadline_core::limits::FORGET_ENTRIES as u64 + 10;
    let entries = (1..=count).map(|n| (n, thread_id(&format!("t{n}")))).collect();
    let image = threadline_store::FeedImage { head: count + 5, epoch: Epoch::NONE, entries };
    assert!(env.store.put_feed(&project(), &user("u"), &image).await.expect("puts"));
    assert_eq!(footprint(&env, &project(), "u").await.feed_entries, count);
    forget(&env, "u").await;
    assert_eq!(footprint(&env, &project(), "u").await, Footprint::default());
    env.create("t7").await;
    assert_eq!(pump(&env, &project(), "u").await, 1);
}
