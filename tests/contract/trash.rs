//! Threads that retention takes are out of reach, and come back as they were.

use std::time::Duration;

use bytes::Bytes;
use threadline_core::{
    AuditEntry, FeedChange, ListOrder, ProjectId, ReadFrom, ThreadKey, ThreadPatch, Timestamp, TrashPosition,
};
use threadline_store::{
    CloseOutcome, CloseWhen, JobKind, Packing, Purging, Restoration, RetentionHold, Snapshot, StartOutcome, StopOutcome,
};

use crate::support::*;

const DAY: Duration = Duration::from_secs(24 * 3_600);
const GRACE: Duration = Duration::from_secs(7 * 24 * 3_600);

/// A thread with a run that has ended, of four events.
async fn used(env: &Env, id: &str) -> ThreadKey {
    let (key, fence) = env.running(id, "r").await;
    env.put(key, fence, 0..3).await;
    env.append(append(key, fence, None, finished())).await.expect("ends");
    key
}

/// Puts what is idle for a day in the trash.
async fn trash(env: &Env, keys: &[ThreadKey]) -> Vec<ThreadKey> {
    env.store.trash(&project(), keys, env.clock.now().minus(DAY), GRACE).await.expect("trashes")
}

/// An entry of the audit.
pub fn entry(action: &str) -> AuditEntry {
    let (actor, action, facts) = ("operator".to_owned(), action.to_owned(), "{}".to_owned());
    AuditEntry { project: project(), at: Timestamp(5), actor, action, facts }
}

/// Actions in the audit, the first one first.
async fn audited(env: &Env) -> Vec<String> {
    let audit = env.store.audit(&project(), None, 100).await.expect("reads");
    audit.into_iter().rev().map(|(_, entry)| entry.action).collect()
}

async fn restore(env: &Env, id: &str) -> Restoration {
    env.store.restore(&project(), None, &thread_id(id), &entry("thread.restored")).await.expect("restores")
}

/// The ids in the trash, on one page.
async fn trashed(env: &Env) -> Vec<String> {
    let page = env.store.trashed(&project(), None, 100).await.expect("lists");
    page.threads.iter().map(|trashed| trashed.thread.id.to_string()).collect()
}

/// The newest entries of the feed: id, and true for a thread that exists.
async fn feed(env: &Env) -> Vec<(String, bool)> {
    env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
    let page = env.store.feed(&project(), &user("u"), 0, 100).await.expect("feed");
    let entry = |entry: &threadline_core::FeedEntry| {
        (entry.thread_id.to_string(), matches!(entry.change, FeedChange::Upsert(_)))
    };
    page.entries.iter().map(entry).collect()
}

pub async fn a_thread_in_the_trash_is_gone_and_comes_back_as_it_was(env: Env) {
    let key = used(&env, "t").await;
    let snapshot = Snapshot { seq: 2, version: 1, body: Bytes::from_static(b"{}") };
    env.store.put_snapshot(key, snapshot.clone(), &[]).await.expect("keeps");
    env.store.put_annotation(key, crate::annotations::annotation("a", "1")).await.expect("puts");
    let (before, head, log) = (env.get("t").await.expect("there"), env.head(key).await, env.log(key).await);
    env.clock.advance(DAY + Duration::from_millis(1));
    let at = env.clock.now();
    assert_eq!(trash(&env, &[key, ThreadKey(404)]).await, [key]);
    assert_eq!(trash(&env, &[key]).await, [], "once");

    // The key leads to nothing.
    assert_eq!(env.get("t").await, None);
    assert_eq!(env.list(ListOrder::Recent, 10).await, [""; 0]);
    assert_eq!(env.list(ListOrder::Created, 10).await, [""; 0]);
    assert!(env.store.heads(&[key]).await.expect("heads").is_empty());
    assert!(env.store.read(key, ReadFrom::After(0), 10).await.expect("reads").is_none());
    assert!(matches!(env.store.start(start_run(key, "r")).await, Ok(StartOutcome::ThreadGone)));
    assert!(matches!(env.store.start(start_run(key, "s")).await, Ok(StartOutcome::ThreadGone)));
    assert!(env.append(append(key, head.fence, None, events([9]))).await.is_none());
    let close = env.store.close(key, closing(&head, None), CloseWhen::Always).await.expect("close");
    assert!(matches!(close, CloseOutcome::Gone), "{close:?}");
    let stop = env.store.request_stop(key, &run_id("r"), None, true).await.expect("stop");
    assert!(matches!(stop, StopOutcome::Gone), "{stop:?}");
    let beat = threadline_store::HeartbeatRequest { key, fence: head.write_fence(), lease: None, epoch: None };
    assert_eq!(env.store.heartbeat(&[beat]).await.expect("beats"), [None]);
    assert_eq!(env.store.run(key, &run_id("r")).await.expect("reads"), None);
    assert!(env.store.runs(key, None, 10).await.expect("reads").is_empty());
    let patch = || ThreadPatch { archived: Some(true), ..ThreadPatch::default() };
    for version in [before.version, before.version + 1] {
        assert_eq!(env.store.edit_thread(key, version, patch(), None).await.expect("edits"), None);
    }
    assert_eq!(env.store.mark_read(key, 1, None).await.expect("marks"), None);
    assert!(!env.store.delete_thread(key, None).await.expect("deletes"));
    let noted = crate::annotations::annotation("b", "2");
    assert_eq!(env.store.put_annotation(key, noted).await.expect("puts"), None);
    assert_eq!(env.store.annotations(key, 0, 9).await.expect("reads"), None);
    env.store.put_snapshot(key, Snapshot { seq: 3, ..snapshot }, &[]).await.expect("ignored");
    assert_eq!(env.store.pack(key, Duration::ZERO).await.expect("packs"), Packing::Gone);

    let page = env.store.trashed(&project(), None, 10).await.expect("lists");
    let [found] = &page.threads[..] else { panic!("{page:?}") };
    assert_eq!((found.at, found.purge_at, &page.next), (at, at.plus(GRACE), &None));
    assert_eq!((found.thread.key, &found.thread.id, found.thread.tail), (key, &before.id, before.tail));

    // The thread is back with the same key, epoch and events, and continues.
    env.clock.advance(DAY);
    let Restoration::Restored(back) = restore(&env, "t").await else { panic!("not restored") };
    assert_eq!(Some(&*back), env.get("t").await.as_ref());
    assert_eq!(*back, threadline_core::Thread { version: before.version + 2, ..before });
    assert_eq!((env.head(key).await, env.log(key).await), (head, log));
    assert_eq!(env.store.annotations(key, 0, 9).await.expect("reads").map(|found| found.len()), Some(1));
    assert_eq!(env.store.snapshot_seqs(key).await.expect("reads"), [(2, 1)]);
    assert!(env.store.was_request_deleted(&project(), &thread_id("t")).await.is_ok_and(|deleted| !deleted));
    assert_eq!(trashed(&env).await, [""; 0]);
    let again = restore(&env, "t").await;
    assert_eq!(again, Restoration::Restored(back), "a repetition is the same");
    assert_eq!(audited(&env).await, ["thread.restored"], "no entry without a change");
    let fence = env.start(key, "s").await.fence;
    env.put(key, fence, 5..7).await;
    assert_eq!(env.texts(key).await.len(), 6);
    // The purge leaves its rows.
    env.clock.advance(GRACE);
    assert!(!env.purge(100).await);
    assert_eq!(env.texts(key).await.len(), 6);
}

pub async fn a_thread_in_use_is_not_put_in_the_trash(env: Env) {
    let [edited, ended, restored, idle] = ["edited", "ended", "restored", "idle"];
    let mut keys = vec![env.running("running", "r").await.0];
    for id in [ended, restored, idle] {
        keys.push(used(&env, id).await);
    }
    keys.push(env.create(edited).await.key);
    let mut theirs = new_thread("theirs", "u");
    theirs.project = ProjectId::new("other").expect("id");
    keys.push(env.store.create_thread(theirs).await.expect("creates").thread.key);
    env.clock.advance(2 * DAY);
    assert_eq!(trash(&env, &keys[2..3]).await, [keys[2]]);
    assert!(matches!(restore(&env, restored).await, Restoration::Restored(_)));
    let thread = env.get(edited).await.expect("there");
    env.store.edit_thread(thread.key, thread.version, ThreadPatch::default(), None).await.expect("edits");
    let fence = env.start(keys[1], "s").await.fence;
    env.append(append(keys[1], fence, None, finished())).await.expect("ends");
    env.clock.advance(DAY);
    let found = env.store.idle_threads(&project(), env.clock.now().minus(DAY), None, 100).await.expect("looks");
    assert_eq!(found.threads.iter().map(|thread| thread.key).collect::<Vec<_>>(), [keys[3]], "as retention finds it");
    assert_eq!(trash(&env, &keys).await, [keys[3]]);
    // All are idle by now, but one has a run, and one is of another project.
    env.clock.advance(Duration::from_millis(1));
    let mut rest = vec![keys[1], keys[2], keys[4]];
    rest.sort();
    assert_eq!(trash(&env, &keys).await, rest);
    assert!(env.get("running").await.is_some());
}

pub async fn the_feed_reports_the_trash_and_the_restoration(env: Env) {
    let keys = [used(&env, "a").await, used(&env, "b").await];
    assert_eq!(feed(&env).await, [("a".into(), true), ("b".into(), true)]);
    env.clock.advance(2 * DAY);
    trash(&env, &keys[..1]).await;
    // Also before the feed has heard of it.
    let page = env.store.feed(&project(), &user("u"), 0, 100).await.expect("feed");
    assert!(matches!(page.entries[0].change, FeedChange::Delete), "{page:?}");
    assert!(env.store.was_deleted(&project(), &user("u"), &thread_id("a")).await.expect("asks"));
    assert_eq!(feed(&env).await, [("b".into(), true), ("a".into(), false)]);
    assert!(env.store.dirty_feeds(10).await.expect("dirty").is_empty(), "the feed is settled");
    assert!(env.store.was_deleted(&project(), &user("u"), &thread_id("a")).await.expect("asks"));
    let settled = env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
    assert_eq!(settled, env.store.pump_feed(&project(), &user("u")).await.expect("pumps"));
    restore(&env, "a").await;
    assert_eq!(feed(&env).await, [("b".into(), true), ("a".into(), true)]);
    assert!(!env.store.was_deleted(&project(), &user("u"), &thread_id("a")).await.expect("asks"));
    // In the trash and back before the feed has heard of either.
    trash(&env, &keys[1..]).await;
    restore(&env, "b").await;
    assert_eq!(feed(&env).await, [("a".into(), true), ("b".into(), true)]);
    assert!(env.store.dirty_feeds(10).await.expect("dirty").is_empty());
}

pub async fn an_id_in_use_is_not_restored(env: Env) {
    assert_eq!(restore(&env, "t").await, Restoration::Absent);
    let first = used(&env, "t").await;
    assert_eq!(restore(&env, "t").await, Restoration::Absent, "it is not in the trash");
    env.clock.advance(2 * DAY);
    trash(&env, &[first]).await;
    let second = env.create("t").await.key;
    assert!(second > first);
    for _ in 0..2 {
        assert_eq!(restore(&env, "t").await, Restoration::Taken);
    }
    assert_eq!(env.get("t").await.map(|thread| thread.key), Some(second));
    // The last of two threads under one id comes back.
    env.clock.advance(2 * DAY);
    trash(&env, &[second]).await;
    assert_eq!(trashed(&env).await, ["t", "t"]);
    assert!(matches!(restore(&env, "t").await, Restoration::Restored(thread) if thread.key == second));
    assert_eq!(trashed(&env).await, ["t"]);
    assert!(matches!(restore(&env, "t").await, Restoration::Restored(thread) if thread.key == second));
    env.store.delete_thread(second, None).await.expect("deletes");
    assert!(matches!(restore(&env, "t").await, Restoration::Restored(thread) if thread.key == first));
    let elsewhere = env
        .store
        .restore(&ProjectId::new("other").expect("id"), None, &thread_id("t"), &entry("thread.restored"))
        .await;
    assert_eq!(elsewhere.expect("restores"), Restoration::Absent);
    // Many at once: it comes back once.
    env.clock.advance(2 * DAY);
    trash(&env, &[first]).await;
    let many = (0..8).map(|_| restore(&env, "t"));
    for one in futures_util::future::join_all(many).await {
        assert!(matches!(one, Restoration::Restored(thread) if thread.key == first));
    }
    assert_eq!(env.texts(first).await.len(), 4);
}

pub async fn the_trash_is_listed_newest_first(env: Env) {
    let mut keys = Vec::new();
    for id in ["c", "a", "b", "e", "d"] {
        keys.push(used(&env, id).await);
    }
    env.clock.advance(2 * DAY);
    trash(&env, &keys[..3]).await;
    env.clock.advance(Duration::from_millis(1));
    trash(&env, &keys[3..]).await;
    for limit in 1..=6 {
        let (mut found, mut after): (Vec<String>, Option<TrashPosition>) = Default::default();
        loop {
            let page = env.store.trashed(&project(), after.as_ref(), limit).await.expect("lists");
            assert!(page.threads.len() <= limit && (page.next.is_none() || page.threads.len() == limit));
            found.extend(page.threads.iter().map(|trashed| trashed.thread.id.to_string()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, ["d", "e", "a", "b", "c"], "pages of {limit}");
    }
    let other = ProjectId::new("other").expect("id");
    assert!(env.store.trashed(&other, None, 10).await.expect("lists").threads.is_empty());
}

pub async fn the_trash_is_purged_when_its_time_has_come(env: Env) {
    let (key, kept) = (used(&env, "t").await, used(&env, "kept").await);
    env.clock.advance(2 * DAY);
    trash(&env, &[key, kept]).await;
    env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
    assert!(!env.purge(100).await, "not due");
    assert_eq!(env.store.purge(key, 100).await.expect("purges"), Purging::Trashed(GRACE));
    assert!(!env.store.discard(key, false).await.expect("discards"));
    env.clock.advance(GRACE - Duration::from_millis(1));
    assert!(!env.purge(100).await && !env.store.discard(key, false).await.expect("discards"));
    restore(&env, "kept").await;
    env.clock.advance(Duration::from_millis(1));
    assert_eq!(
        env.store.purge(key, 100).await.expect("purges"),
        Purging::Trashed(Duration::ZERO),
        "by itself nothing goes"
    );
    while env.purge(1).await {}
    assert_eq!(trashed(&env).await, [""; 0]);
    assert_eq!(restore(&env, "t").await, Restoration::Absent);
    assert!(!env.store.discard(key, true).await.expect("discards"));
    assert_eq!(env.store.purge(key, 100).await.expect("purges"), Purging::Done);
    assert!(env.store.take_jobs(JobKind::Purge, 10).await.expect("takes").is_empty());
    let print = env.store.footprint(&project(), &user("u")).await.expect("counts");
    assert_eq!((print.threads, print.events, print.tombstones), (1, 4, 0));
    assert_eq!(env.texts(kept).await.len(), 4);
    assert!(env.create("t").await.key > kept);
}

pub async fn the_trash_of_a_user_is_erased(env: Env) {
    let mut keys = Vec::new();
    for id in ["a", "b"] {
        keys.push(used(&env, id).await);
    }
    let theirs = env.store.create_thread(new_thread("theirs", "x")).await.expect("creates").thread.key;
    env.clock.advance(2 * DAY);
    env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
    trash(&env, &[keys[0], keys[1], theirs]).await;
    let of = async |name: &str| env.store.trash_of(&project(), &user(name), 10).await.expect("finds");
    let mut found = of("u").await;
    found.sort();
    assert_eq!((found, of("x").await, of("y").await), (keys.clone(), vec![theirs], vec![]));
    assert_eq!(env.store.trash_of(&project(), &user("u"), 1).await.expect("finds").len(), 1);
    let tombstones = async || env.store.footprint(&project(), &user("u")).await.expect("counts").tombstones;
    assert_eq!(tombstones().await, 2, "what is in the trash counts");
    assert!(env.store.tombstones(&project(), &user("u"), 10).await.expect("finds").is_empty());
    for key in &keys {
        assert!(env.store.discard(*key, true).await.expect("discards"));
        assert!(!env.store.discard(*key, true).await.expect("discards"), "once");
        while env.store.purge(*key, 1).await.expect("purges") == Purging::More {}
    }
    assert_eq!(of("u").await, []);
    env.store.forget_user(&project(), &user("u")).await.expect("forgets");
    assert_eq!(tombstones().await, 0);
    assert_eq!(restore(&env, "a").await, Restoration::Absent);
    assert_eq!(trashed(&env).await, ["theirs"]);
}

pub async fn the_trash_is_not_exported(env: Env) {
    let (key, kept) = (used(&env, "gone").await, used(&env, "kept").await);
    for key in [key, kept] {
        env.store.put_annotation(key, crate::annotations::annotation("a", "1")).await.expect("puts");
    }
    feed(&env).await;
    env.clock.advance(2 * DAY);
    trash(&env, &[key]).await;
    assert_eq!(feed(&env).await, [("kept".into(), true), ("gone".into(), false)]);
    let moved = env.store.all_threads(None, 10).await.expect("threads");
    let ids: Vec<_> = moved.iter().map(|moved| moved.thread.id.as_str()).collect();
    assert_eq!((ids, env.store.count_threads().await.expect("counts")), (vec!["kept"], 1));
    let annotated = env.store.annotated_threads(None, 10).await.expect("threads");
    assert_eq!(annotated.iter().map(|found| found.key).collect::<Vec<_>>(), [kept]);
    // The positions of the feed go along: what was trashed stays deleted there.
    let image = env.store.feed_image(&project(), &user("u")).await.expect("an image");
    assert_eq!(image.entries.iter().map(|(_, id)| id.as_str()).collect::<Vec<_>>(), ["kept", "gone"]);
}

pub async fn retention_waits_until_a_number_is_approved(env: Env) {
    for id in ["a", "b", "c"] {
        used(&env, id).await;
    }
    env.running("running", "r").await;
    env.clock.advance(DAY);
    env.create("new").await;
    let before = env.clock.now();
    let idle = async |bound: usize| env.store.count_idle(&project(), before, bound).await.expect("counts");
    assert_eq!((idle(100).await, idle(2).await, env.store.count_own(&project()).await.expect("counts")), (3, 2, 5));
    trash(&env, &[env.get("a").await.expect("there").key]).await;
    assert_eq!(idle(100).await, 3, "it was used a day ago, not longer");
    let other = ProjectId::new("other").expect("id");
    assert_eq!(env.store.count_own(&other).await.expect("counts"), 0);

    let held = |idle, approved| RetentionHold { project: project(), idle, threads: 5, approved };
    let holds = async || env.store.holds().await.expect("lists");
    assert_eq!(env.store.approve(&project(), 7, &entry("retention.approved")).await.expect("approves"), None);
    assert!(env.store.hold(&held(3, 0), &entry("retention.held")).await.expect("holds"));
    assert!(!env.store.hold(&held(4, 0), &entry("retention.held")).await.expect("holds"), "once");
    assert_eq!(holds().await, [held(4, 0)]);
    assert_eq!(audited(&env).await, ["retention.held"], "no entry without a change");
    assert_eq!(
        env.store.approve(&project(), 7, &entry("retention.approved")).await.expect("approves"),
        Some(held(4, 7))
    );
    assert!(!env.store.hold(&held(5, 0), &entry("retention.held")).await.expect("holds"), "the approval stays");
    assert_eq!(audited(&env).await, ["retention.held", "retention.approved"]);
    env.store.spend(&project(), 3).await.expect("spends");
    assert_eq!(holds().await, [held(5, 4)]);
    env.store.spend(&project(), 4).await.expect("spends");
    assert_eq!(holds().await, []);
    env.store.hold(&held(3, 0), &entry("retention.held")).await.expect("holds");
    env.store
        .hold(&RetentionHold { project: other.clone(), ..held(1, 0) }, &entry("retention.held"))
        .await
        .expect("holds");
    env.store.end_hold(&project()).await.expect("ends");
    assert_eq!(holds().await.iter().map(|hold| &hold.project).collect::<Vec<_>>(), [&other]);
}

pub async fn no_run_and_no_event_gets_into_the_trash(env: Env) {
    let mut trashed_first = 0;
    for round in 0..60 {
        let id = format!("t{round}");
        let key = used(&env, &id).await;
        let old = env.head(key).await;
        env.clock.advance(2 * DAY);
        // A start, an append over an old look-up, and an edit in the same instant.
        let version = env.get(&id).await.expect("there").version;
        let patch = ThreadPatch { archived: Some(true), ..ThreadPatch::default() };
        let whole = threadline_store::StartRun { events: Some(finished()), ..start_run(key, "s") };
        let start = async {
            match round % 3 {
                0 => env
                    .store
                    .start(start_run(key, "s"))
                    .await
                    .map(|outcome| matches!(outcome, StartOutcome::Started(_))),
                1 => env.store.start(whole).await.map(|outcome| matches!(outcome, StartOutcome::Started(_))),
                _ => env.store.edit_thread(key, version, patch, None).await.map(|edited| edited.is_some()),
            }
        };
        let late = append(key, old.fence, None, events([9]));
        let gone = async {
            if round % 2 == 0 {
                tokio::task::yield_now().await;
            }
            trash(&env, &[key]).await
        };
        let (gone, done, late) = tokio::join!(gone, start, env.append(late));
        assert!(late.is_none(), "its run is over");
        let done = done.expect("answers");
        assert!(
            gone.is_empty() || !done || round % 3 == 2,
            "round {round}: a run was started in a thread in the trash"
        );
        let live = env.get(&id).await;
        assert_eq!(gone.is_empty(), live.is_some(), "round {round}: it is in one place");
        let in_trash = env.store.trashed(&project(), None, 1_000).await.expect("lists").threads;
        let mine = in_trash.iter().find(|trashed| trashed.thread.key == key);
        assert_eq!(gone.is_empty(), mine.is_none(), "round {round}");
        if let Some(mine) = mine {
            trashed_first += 1;
            assert_eq!((mine.thread.tail, &mine.thread.active_run), (4, &None), "round {round}");
            assert!(matches!(env.store.start(start_run(key, "late")).await, Ok(StartOutcome::ThreadGone)));
            assert!(matches!(restore(&env, &id).await, Restoration::Restored(_)));
            assert_eq!(env.store.runs(key, None, 10).await.expect("reads").len(), 1, "round {round}");
        }
    }
    assert!(trashed_first > 0, "the trash was never first");
    assert!(env.store.trash(&project(), &[], Timestamp(i64::MAX), GRACE).await.expect("nothing").is_empty());
}
