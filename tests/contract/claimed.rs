//! Ids of threads are unique per user, and claimed ids are unique in the project.

use std::time::Duration;

use threadline_core::{CreatedThread, NewThread, Thread, ThreadKey, TrashPosition};
use threadline_store::{Arrival, Named, Published, Restoration, StagedPart, Staging};
use tokio::task::JoinSet;

use crate::{support::*, trash::entry};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// A thread that is to claim its id, as one of a key, or not, as one of an untrusted client.
fn wanted(id: &str, owner: &str, claimed: bool) -> NewThread {
    NewThread { claimed, ..new_thread(id, owner) }
}

async fn create(env: &Env, id: &str, owner: &str, claimed: bool) -> (Thread, bool) {
    let CreatedThread { thread, created } = env.store.create_thread(wanted(id, owner, claimed)).await.expect("creates");
    (thread, created)
}

async fn made(env: &Env, id: &str, owner: &str, claimed: bool) -> Thread {
    let (thread, created) = create(env, id, owner, claimed).await;
    assert!(created && thread.claimed == claimed && thread.user == user(owner), "{thread:?}");
    thread
}

async fn of(env: &Env, owner: &str, id: &str) -> Option<ThreadKey> {
    env.store.thread_of(&project(), &user(owner), &thread_id(id)).await.expect("looks").map(|thread| thread.key)
}

async fn named(env: &Env, id: &str) -> Named {
    env.store.thread_named(&project(), &thread_id(id)).await.expect("looks")
}

/// Key of the thread that an id names without a user.
async fn alone(env: &Env, id: &str) -> Option<ThreadKey> {
    named(env, id).await.thread().map(|thread| thread.key)
}

async fn delete(env: &Env, key: ThreadKey) {
    assert!(env.store.delete_thread(key, None).await.expect("deletes"));
}

pub async fn users_have_ids_of_their_own(env: Env) {
    let ann = made(&env, "chat", "ann", false).await;
    assert_eq!(alone(&env, "chat").await, Some(ann.key), "the only one");
    let bob = made(&env, "chat", "bob", false).await;
    assert!(bob.key != ann.key && bob.epoch != ann.epoch);
    assert_eq!((of(&env, "ann", "chat").await, of(&env, "bob", "chat").await), (Some(ann.key), Some(bob.key)));
    assert_eq!((of(&env, "eve", "chat").await, of(&env, "ann", "other").await), (None, None));
    assert_eq!(named(&env, "chat").await, Named::Ambiguous);
    assert_eq!(named(&env, "other").await, Named::Absent);
    // A retry, and a key that names the same user: the thread is the user's, and stays unclaimed.
    for claimed in [false, true] {
        let (again, created) = create(&env, "chat", "ann", claimed).await;
        assert_eq!((again, created), (ann.clone(), false));
    }
    // Each user's log, list and feed hold the user's own thread.
    env.start(ann.key, "r").await;
    assert_eq!(env.store.runs(bob.key, None, 10).await.expect("runs"), []);
    for (who, key) in [("ann", ann.key), ("bob", bob.key)] {
        env.store.pump_feed(&project(), &user(who)).await.expect("pumps");
        let feed = env.store.feed(&project(), &user(who), 0, 10).await.expect("feed");
        assert_eq!(feed.entries.len(), 1, "{who}: {feed:?}");
        assert!(format!("{feed:?}").contains(&format!("key: {key:?}")), "{who}: {feed:?}");
    }
    delete(&env, ann.key).await;
    let was_deleted =
        async |who: &str| env.store.was_deleted(&project(), &user(who), &thread_id("chat")).await.expect("asks");
    assert!(was_deleted("ann").await && !was_deleted("bob").await && !was_deleted("eve").await);
    assert_eq!((of(&env, "ann", "chat").await, alone(&env, "chat").await), (None, Some(bob.key)));
    while env.purge(100).await {}
    assert_eq!(of(&env, "bob", "chat").await, Some(bob.key));
}

pub async fn a_claimed_id_is_taken_for_the_project(env: Env) {
    let ann = made(&env, "chat", "ann", false).await;
    made(&env, "chat", "bob", false).await;
    // Threads of users do not keep a key from claiming the id.
    let cat = made(&env, "chat", "cat", true).await;
    assert_eq!(alone(&env, "chat").await, Some(cat.key), "the claimed one of three");
    let (met, created) = create(&env, "chat", "dan", true).await;
    assert_eq!((met.key, created), (cat.key, false), "nobody else claims it");
    assert_eq!(of(&env, "dan", "chat").await, None);
    // An untrusted client does not meet the claimed thread of another user.
    let dan = made(&env, "chat", "dan", false).await;
    assert_eq!(alone(&env, "chat").await, Some(cat.key));
    let (own, created) = create(&env, "chat", "ann", true).await;
    assert_eq!((own.key, own.claimed, created), (ann.key, false, false), "the user's own comes first");
    let (own, created) = create(&env, "chat", "cat", false).await;
    assert_eq!((own.key, own.claimed, created), (cat.key, true, false));
    delete(&env, cat.key).await;
    assert_eq!(named(&env, "chat").await, Named::Ambiguous);
    delete(&env, dan.key).await;
    made(&env, "chat", "eve", true).await;
    // Another project has ids of its own.
    let elsewhere = threadline_core::ProjectId::new("other").expect("id");
    let new = NewThread { project: elsewhere.clone(), ..wanted("chat", "eve", true) };
    assert!(env.store.create_thread(new).await.expect("creates").created);
}

pub async fn of_concurrent_creations_one_takes_an_id(env: Env) {
    for round in 0..4 {
        let id = format!("t{round}");
        // Keys for four users want the id, and the first user's client does so too.
        let mut making = JoinSet::new();
        for (owner, claimed) in [("a", true), ("b", true), ("c", true), ("d", true), ("a", false), ("e", false)] {
            let (store, new) = (env.store.clone(), wanted(&id, owner, claimed));
            making.spawn(async move { store.create_thread(new).await.expect("creates") });
        }
        let made = making.join_all().await;
        let created: Vec<_> = made.iter().filter(|made| made.created).map(|made| &made.thread).collect();
        assert!(created.iter().filter(|thread| thread.claimed).count() <= 1, "{created:?}");
        for owner in ["a", "e"] {
            assert!(of(&env, owner, &id).await.is_some(), "{owner} has the id");
        }
        let mut owners: Vec<_> = created.iter().map(|thread| &thread.user).collect();
        owners.sort();
        owners.dedup();
        assert_eq!(owners.len(), created.len(), "no user has two");
    }
}

pub async fn the_trash_keeps_ids_of_users_apart(env: Env) {
    let (ann, bob) = (made(&env, "chat", "ann", false).await, made(&env, "chat", "bob", false).await);
    let cat = made(&env, "chat", "cat", true).await;
    env.clock.advance(2 * DAY);
    let before = env.clock.now().minus(DAY);
    let trashed = env.store.trash(&project(), &[ann.key, bob.key, cat.key], before, 7 * DAY).await.expect("trashes");
    assert_eq!(trashed.len(), 3);
    // Three threads of one id that were put there at one time are all listed.
    for limit in 1..=4 {
        let (mut found, mut after): (Vec<String>, Option<TrashPosition>) = Default::default();
        loop {
            let page = env.store.trashed(&project(), after.as_ref(), limit).await.expect("lists");
            found.extend(page.threads.iter().map(|trashed| trashed.thread.user.to_string()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, ["ann", "bob", "cat"], "pages of {limit}");
    }
    let restore = async |who: Option<&str>| {
        let who = who.map(user);
        let entry = entry("thread.restored");
        env.store.restore(&project(), who.as_ref(), &thread_id("chat"), &entry).await.expect("restores")
    };
    let is = |restored: Restoration, key| matches!(restored, Restoration::Restored(thread) if thread.key == key);
    assert_eq!(restore(None).await, Restoration::Ambiguous);
    assert_eq!(restore(Some("eve")).await, Restoration::Absent);
    assert!(is(restore(Some("bob")).await, bob.key) && is(restore(Some("bob")).await, bob.key));
    assert_eq!(restore(None).await, Restoration::Ambiguous, "two are left");
    // The id was claimed for another user meanwhile: the claimed thread stays in the trash, the unclaimed one comes back.
    let dan = made(&env, "chat", "dan", true).await;
    assert_eq!(restore(Some("cat")).await, Restoration::Taken);
    assert!(is(restore(Some("ann")).await, ann.key));
    assert_eq!(restore(None).await, Restoration::Taken, "the last one in the trash");
    delete(&env, dan.key).await;
    assert!(is(restore(None).await, cat.key));
    assert!(is(restore(Some("ann")).await, ann.key), "it is there");
}

pub async fn ids_of_users_move_with_their_threads(env: Env) {
    for (owner, claimed) in [("ann", false), ("bob", false), ("cat", true)] {
        let key = made(&env, "chat", owner, claimed).await.key;
        let annotation = crate::annotations::annotation("note", "1");
        env.store.put_annotation(key, annotation).await.expect("puts");
    }
    let all = env.store.all_threads(None, 10).await.expect("threads");
    let claimed: Vec<_> = all.iter().map(|moved| (moved.thread.user.as_str(), moved.thread.claimed)).collect();
    assert_eq!(claimed, [("ann", false), ("bob", false), ("cat", true)]);
    let annotated = env.store.annotated_threads(None, 10).await.expect("lists");
    let annotated: Vec<_> = annotated.iter().map(|thread| (thread.user.as_str(), thread.claimed)).collect();
    assert_eq!(annotated, claimed);
    // A taken thread is not staged; one of another user is, also while one is staged.
    let moved = |owner: &str, claimed| {
        let mut moved = all[0].clone();
        (moved.thread.user, moved.thread.claimed) = (user(owner), claimed);
        moved
    };
    for (owner, claimed) in [("ann", false), ("ann", true), ("dan", true)] {
        let staging = env.store.stage(&moved(owner, claimed), StagedPart::default()).await.expect("stages");
        assert!(matches!(staging, Staging::Taken(_)), "{owner}: {staging:?}");
    }
    let mut keys = Vec::new();
    for owner in ["dan", "eve", "dan"] {
        match env.store.stage(&moved(owner, false), StagedPart::default()).await.expect("stages") {
            Staging::Staged(key) => keys.push(key),
            Staging::Taken(thread) => panic!("{thread:?}"),
        }
    }
    let mut published = Vec::new();
    for (key, owner) in keys.iter().zip(["dan", "eve", "dan"]) {
        published.push(env.store.publish(*key, &moved(owner, false), Arrival::Import).await.expect("publishes"));
    }
    assert_eq!(published, [Published::Gone, Published::Done, Published::Done]);
    assert_eq!((of(&env, "dan", "chat").await, of(&env, "eve", "chat").await), (Some(keys[2]), Some(keys[1])));
    // A claimed thread that was staged before another one claimed the id is not published.
    let cat = of(&env, "cat", "chat").await.expect("is there");
    delete(&env, cat).await;
    let staged = env.store.stage(&moved("fay", true), StagedPart::default()).await.expect("stages");
    let Staging::Staged(key) = staged else { panic!("{staged:?}") };
    made(&env, "chat", "gus", true).await;
    assert_eq!(
        env.store.publish(key, &moved("fay", true), Arrival::Import).await.expect("publishes"),
        Published::Taken
    );
}
