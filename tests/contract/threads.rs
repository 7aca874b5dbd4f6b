//! Threads: made once, listed, edited by compare-and-set, deleted for good.

use std::time::Duration;

use threadline_core::{
    CreatedThread, FeedChange, ListOrder, NameSource, NewThread, ProjectId, ReadFrom, Thread, ThreadPatch,
    limits::REQUEST_KEPT,
};
use threadline_store::{ListThreads, StartOutcome};

use crate::support::*;

const MS: Duration = Duration::from_millis(1);

pub async fn a_create_is_idempotent(env: Env) {
    let mut new = new_thread("t", "u");
    (new.agent, new.name, new.metadata) = (Some(agent("a")), Some("Name".into()), "{\"a\":1}".into());
    let CreatedThread { thread: first, created: made } = env.store.create_thread(new.clone()).await.expect("creates");
    assert!(made);
    assert_eq!((first.version, first.tail, first.archived), (1, 0, false));
    assert_eq!((first.name.as_deref(), first.name_source), (Some("Name"), Some(NameSource::Person)));
    assert_eq!((first.created_at, first.updated_at, first.last_run_at), (env.clock.now(), env.clock.now(), None));
    env.clock.advance(MS);
    let CreatedThread { thread: again, created: made } = env.store.create_thread(new).await.expect("creates");
    assert!(!made);
    assert_eq!(again, first);
    assert_eq!(env.get("t").await, Some(first.clone()));

    // Another user requests the same id: the existing thread is returned, nothing is changed.
    let CreatedThread { thread: foreign, created: made } =
        env.store.create_thread(new_thread("t", "someone else")).await.expect("creates");
    assert!(!made);
    assert_eq!(foreign, first);
}

pub async fn a_thread_belongs_to_its_project_and_user(env: Env) {
    let ours = env.create("t").await;
    let mut other = new_thread("t", "u");
    other.project = ProjectId::new("other").expect("id");
    let CreatedThread { thread: theirs, created: made } =
        env.store.create_thread(other.clone()).await.expect("creates");
    assert!(made && theirs.key != ours.key && theirs.epoch != ours.epoch);
    assert_eq!(env.store.thread_named(&other.project, &thread_id("t")).await.expect("looks").thread(), Some(theirs));
    assert_eq!(env.get("t").await, Some(ours));
    assert_eq!(env.get("unknown").await, None);

    env.store.create_thread(new_thread("v", "other user")).await.expect("creates");
    assert_eq!(env.list(ListOrder::Recent, 10).await, ["t"]);
}

pub async fn lists_are_ordered_and_paged(env: Env) {
    for id in ["c", "a", "b", "e", "d"] {
        env.create(id).await;
    }
    // Same moment: by id.
    for limit in [1, 2, 3, 5, 6] {
        assert_eq!(env.list(ListOrder::Recent, limit).await, ["a", "b", "c", "d", "e"]);
    }
    env.clock.advance(MS);
    let b = env.get("b").await.expect("there");
    env.start(b.key, "r").await;
    env.clock.advance(MS);
    let d = env.get("d").await.expect("there");
    env.store.edit_thread(d.key, d.version, ThreadPatch::default(), None).await.expect("edits").expect("edited");
    env.clock.advance(MS);
    env.create("0").await;
    for limit in [1, 2, 4, 10] {
        assert_eq!(env.list(ListOrder::Recent, limit).await, ["0", "d", "b", "a", "c", "e"]);
        assert_eq!(env.list(ListOrder::Created, limit).await, ["a", "b", "c", "d", "e", "0"]);
    }
    // Appends do not move a thread, the end of its run does.
    env.clock.advance(MS);
    let head = env.head(b.key).await;
    env.put(b.key, head.fence, [1]).await;
    assert_eq!(env.list(ListOrder::Recent, 10).await[0], "0");
    env.append(append(b.key, head.fence, 2, finished())).await.expect("ends");
    assert_eq!(env.list(ListOrder::Recent, 10).await[0], "b");
    // A thread that has run is sorted by its runs, an edit does not move it.
    env.clock.advance(MS);
    env.create("1").await;
    env.clock.advance(MS);
    let b = env.get("b").await.expect("there");
    env.store.edit_thread(b.key, b.version, ThreadPatch::default(), None).await.expect("edits").expect("edited");
    assert_eq!(env.list(ListOrder::Recent, 10).await[..2], ["1", "b"]);
}

pub async fn lists_can_leave_out_and_pick(env: Env) {
    let mut with_agent = new_thread("by agent", "u");
    with_agent.agent = Some(agent("a"));
    env.store.create_thread(with_agent).await.expect("creates");
    let hidden = env.create("hidden").await;
    let patch = ThreadPatch { archived: Some(true), ..ThreadPatch::default() };
    env.store.edit_thread(hidden.key, hidden.version, patch, None).await.expect("edits").expect("edited");
    let ids = async |list: ListThreads| -> Vec<String> {
        let page = env.store.list_threads(list).await.expect("lists");
        page.threads.iter().map(|thread| thread.id.to_string()).collect()
    };
    assert_eq!(ids(list(10)).await, ["by agent"]);
    assert_eq!(ids(ListThreads { include_archived: true, ..list(10) }).await, ["by agent", "hidden"]);
    assert_eq!(ids(ListThreads { agent: Some(agent("b")), ..list(10) }).await, [""; 0]);
    let both = ListThreads { agent: Some(agent("a")), include_archived: true, ..list(10) };
    assert_eq!(ids(both).await, ["by agent"]);
    assert_eq!(ids(ListThreads { user: user("nobody"), ..list(10) }).await, [""; 0]);
}

/// While pages are read, threads jump to the top, behind the reader's back. The list together with the feed after
/// its first page's cursor must know every thread.
pub async fn a_list_and_its_feed_miss_no_thread_that_jumps(env: Env) {
    for n in 0..20 {
        env.create(&format!("{n:02}")).await;
        env.clock.advance(MS);
    }
    env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
    let (mut seen, mut after, mut cursor) = (std::collections::BTreeSet::new(), None, None);
    let mut jumper = 0;
    loop {
        let page = env.store.list_threads(ListThreads { after, ..list(3) }).await.expect("lists");
        cursor = cursor.or(Some(page.feed_cursor));
        seen.extend(page.threads.iter().map(|thread| thread.id.to_string()));
        after = page.next;
        env.clock.advance(MS);
        // An old thread, not shown yet, jumps over the reader; and a new one is made.
        let thread = env.get(&format!("{jumper:02}")).await.expect("there");
        env.start(thread.key, "r").await;
        env.create(&format!("new {jumper:02}")).await;
        jumper += 1;
        if after.is_none() {
            break;
        }
    }
    let listed = seen.len();
    env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
    let feed = env.store.feed(&project(), &user("u"), cursor.expect("a page").position, 500).await.expect("feed");
    seen.extend(feed.entries.iter().map(|entry| entry.thread_id.to_string()));
    assert!(listed < 20, "the list alone missed some, else this shows nothing");
    assert_eq!(seen.len(), 20 + jumper);
}

pub async fn an_edit_needs_the_version_it_saw(env: Env) {
    let thread = env.create("t").await;
    env.clock.advance(MS);
    let name = ThreadPatch { name: Some(Some(("N".into(), NameSource::Title))), ..ThreadPatch::default() };
    let named =
        env.store.edit_thread(thread.key, thread.version, name.clone(), None).await.expect("edits").expect("edited");
    assert_eq!((named.name.as_deref(), named.name_source), (Some("N"), Some(NameSource::Title)));
    assert!(named.version > thread.version && named.updated_at == env.clock.now());
    assert_eq!(env.store.edit_thread(thread.key, thread.version, name.clone(), None).await.expect("edits"), None);
    assert_eq!(env.get("t").await, Some(named.clone()));

    let patch = ThreadPatch { name: Some(None), metadata: Some("{\"m\":2}".into()), archived: Some(true) };
    let edited = env.store.edit_thread(thread.key, named.version, patch, None).await.expect("edits").expect("edited");
    assert_eq!((edited.name, edited.name_source, edited.archived), (None, None, true));
    assert_eq!(edited.metadata, "{\"m\":2}");
    // What the patch leaves out stays.
    let only = ThreadPatch { archived: Some(false), ..ThreadPatch::default() };
    let kept = env.store.edit_thread(thread.key, edited.version, only, None).await.expect("edits").expect("edited");
    assert_eq!((kept.metadata.as_str(), kept.archived), ("{\"m\":2}", false));

    assert!(env.store.delete_thread(thread.key, None).await.expect("deletes"));
    assert_eq!(env.store.edit_thread(thread.key, kept.version, name.clone(), None).await.expect("edits"), None);
    assert_eq!(env.store.edit_thread(thread.key, kept.version + 1, name, None).await.expect("edits"), None);
}

pub async fn a_read_marker_only_moves_forward(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    let fresh = env.get("t").await.expect("there");
    assert_eq!(fresh.read_seq, 0);
    let mark = async |seq| env.store.mark_read(key, seq, None).await.expect("marks");
    assert_eq!(mark(0).await, Some(fresh.clone()), "nothing is read, and nothing written");
    assert_eq!(mark(1).await, None, "beyond the tail");
    env.put(key, fence, 1..=5).await;
    env.clock.advance(MS);
    let three = mark(3).await.expect("marked");
    assert_eq!(three.read_seq, 3);
    assert_eq!(env.get("t").await, Some(three.clone()));
    // Not an edit: only the marker and the version are others.
    assert_eq!(three.version, fresh.version + 1);
    let plain = |thread: &Thread| Thread { read_seq: 0, version: 0, tail: 0, active_run: None, ..thread.clone() };
    assert_eq!(plain(&three), plain(&fresh));
    for seq in [3, 2, 0] {
        assert_eq!(mark(seq).await, Some(three.clone()), "{seq}");
    }
    for seq in [6, i64::MAX.unsigned_abs(), u64::MAX] {
        assert_eq!(mark(seq).await, None, "{seq}");
    }
    assert_eq!(env.get("t").await, Some(three));
    assert_eq!(mark(5).await.map(|thread| (thread.read_seq, thread.tail)), Some((5, 5)));
    // What comes later is not read, and an edit leaves the marker where it is.
    env.append(append(key, fence, None, finished())).await.expect("ends");
    let ended = env.get("t").await.expect("there");
    assert_eq!((ended.read_seq, ended.tail), (5, 6));
    let patch = ThreadPatch { archived: Some(true), ..ThreadPatch::default() };
    let edited = env.store.edit_thread(key, ended.version, patch, None).await.expect("edits").expect("edited");
    assert_eq!(edited.read_seq, 5);

    assert!(env.store.delete_thread(key, None).await.expect("deletes"));
    assert_eq!((mark(1).await, mark(6).await), (None, None));
    assert_eq!(env.create("t").await.read_seq, 0, "another thread");
    assert_eq!(mark(6).await, None);
}

pub async fn a_read_marker_is_in_the_feed_and_moves_no_thread(env: Env) {
    let (key, fence) = env.running("read", "r").await;
    env.put(key, fence, 1..=2).await;
    env.clock.advance(MS);
    env.create("newer").await;
    let pump = async || env.store.pump_feed(&project(), &user("u")).await.expect("pumps").position;
    let before = pump().await;
    env.clock.advance(MS);
    env.store.mark_read(key, 2, None).await.expect("marks").expect("marked");
    assert_eq!(env.store.dirty_feeds(10).await.expect("dirty"), [(project(), user("u"))]);
    assert_eq!(pump().await, before + 1);
    let fed = env.store.feed(&project(), &user("u"), before, 10).await.expect("feed").entries;
    let upsert = FeedChange::Upsert(Box::new(env.get("read").await.expect("there")));
    assert_eq!(fed.into_iter().map(|entry| entry.change).collect::<Vec<_>>(), [upsert]);
    for seq in [2, 1] {
        env.store.mark_read(key, seq, None).await.expect("marks").expect("is there");
    }
    assert!(env.store.dirty_feeds(10).await.expect("dirty").is_empty());
    assert_eq!(env.list(ListOrder::Recent, 10).await, ["newer", "read"]);
    let listed = env.store.list_threads(list(10)).await.expect("lists").threads;
    assert_eq!(listed.iter().map(|thread| thread.read_seq).collect::<Vec<_>>(), [0, 2]);
}

pub async fn a_deleted_thread_is_gone_at_once(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    env.put(key, fence, 1..4).await;
    let head = env.head(key).await;
    assert!(env.store.delete_thread(key, None).await.expect("deletes"));
    assert!(!env.store.delete_thread(key, None).await.expect("deletes"));

    assert_eq!(env.get("t").await, None);
    assert!(env.store.read(key, ReadFrom::After(0), 10).await.expect("reads").is_none());
    assert!(env.store.read(key, ReadFrom::Before(10), 10).await.expect("reads").is_none());
    assert!(env.store.heads(&[key]).await.expect("heads").is_empty());
    assert!(env.append(append(key, fence, None, events([4]))).await.is_none());
    assert!(env.store.run(key, &run_id("r")).await.expect("run").is_none());
    assert!(env.store.runs(key, None, 10).await.expect("runs").is_empty());
    assert!(matches!(env.store.start(start_run(key, "r2")).await, Ok(StartOutcome::ThreadGone)));
    assert!(matches!(env.store.start(start_run(key, "r")).await, Ok(StartOutcome::ThreadGone)));
    assert!(!env.store.release(key, fence, None).await.expect("release"));
    assert!(!env.store.seal(key).await.expect("seals"));
    let beat = threadline_store::HeartbeatRequest { key, fence: fence.into(), lease: None, epoch: None };
    assert_eq!(env.store.heartbeat(&[beat]).await.expect("beats"), [None]);
    use threadline_store::{CloseOutcome, CloseWhen, StopOutcome};
    let stop = env.store.request_stop(key, &run_id("r"), None, true).await.expect("stop");
    assert!(matches!(stop, StopOutcome::Gone), "{stop:?}");
    let close = env.store.close(key, closing(&head, None), CloseWhen::Always).await.expect("close");
    assert!(matches!(close, CloseOutcome::Gone), "{close:?}");
    env.clock.advance(LEASE * 2);
    assert!(env.store.claim_due(10).await.expect("claims").due.is_empty());
    assert_eq!(env.list(ListOrder::Recent, 10).await, [""; 0]);
    assert_eq!(env.list(ListOrder::Created, 10).await, [""; 0]);
}

pub async fn a_deleted_thread_is_purged_in_chunks(env: Env) {
    let (kept, kept_fence) = env.running("kept", "r").await;
    env.put(kept, kept_fence, 1..=5).await;
    for id in ["a", "b"] {
        let (key, fence) = env.running(id, "r").await;
        for n in 0..50 {
            env.put(key, fence, [n]).await;
        }
        assert!(env.store.delete_thread(key, None).await.expect("deletes"));
    }
    let mut steps = 0;
    while env.purge(10).await {
        steps += 1;
        assert!(steps < 100, "it ends");
    }
    assert!(!env.purge(10).await);
    assert_eq!(env.log(kept).await.len(), 5);
    assert!(env.append(append(kept, kept_fence, 6, events([6]))).await.is_some());
}

pub async fn a_recreated_thread_is_a_new_thread(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    let old = env.get("t").await.expect("there");
    env.put(key, fence, 1..=300).await;
    env.store.delete_thread(key, None).await.expect("deletes");
    let (again_key, again_fence) = env.running("t", "r").await;
    let again = env.get("t").await.expect("there");
    assert!(again.key != old.key && again.epoch != old.epoch && again.tail == 0);
    // Whatever the old one still does cannot touch the new one, purged or not.
    for purged in [false, true] {
        assert!(env.append(append(key, fence, None, events([9]))).await.is_none());
        assert!(env.append(append(key, again_fence, None, events([9]))).await.is_none());
        assert!(!env.store.seal(key).await.expect("seals"));
        assert_eq!(env.log(again_key).await, []);
        while !purged && env.purge(7).await {}
    }
    env.put(again_key, again_fence, [1]).await;
    assert_eq!(env.texts(again_key).await, ["{\"type\":\"X\",\"n\":1}"]);
    // The last key is free, and not used again.
    env.store.delete_thread(again_key, None).await.expect("deletes");
    env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
    while env.purge(1_000).await {}
    assert!(env.create("t").await.key > again_key);
}

pub async fn the_deletion_of_a_requested_thread_is_remembered_for_a_day(env: Env) {
    let was_deleted = async |id: &str| env.store.was_request_deleted(&project(), &thread_id(id)).await.expect("looks");
    for (id, request) in [("a", Some("key")), ("b", None)] {
        let new = NewThread { request: request.map(str::to_owned), ..new_thread(id, "u") };
        let made = env.store.create_thread(new).await.expect("creates");
        assert!(made.created && !was_deleted(id).await);
        assert!(env.store.delete_thread(made.thread.key, None).await.expect("deletes"));
        assert_eq!(was_deleted(id).await, request.is_some());
    }
    let purge = async || {
        while env.purge(100).await {}
        env.store.forget_requests().await.expect("forgets");
    };
    env.clock.advance(REQUEST_KEPT - MS);
    purge().await;
    assert!(was_deleted("a").await, "as long as a retry may come");
    env.clock.advance(MS);
    purge().await;
    assert!(!was_deleted("a").await);
}
