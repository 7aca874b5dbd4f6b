//! Threads move from one store to another as they are. Each back-end gives and takes.

use std::{sync::Arc, time::Duration};

use threadline_core::{
    FeedChange, NameSource, ProjectId, QueueState, ReadFrom, RunStatus, Thread, ThreadKey, ThreadPatch,
    limits::STAGING_TIMEOUT,
};
use threadline_store::{
    Arrival, FeedImage, MovedThread, Published, StagedPart, Staging, StartRun, memory::MemoryStore, staging::Packer,
};

use crate::support::*;

/// The thread, and all that belongs to it.
pub async fn taken_out(from: &Env, key: ThreadKey) -> (MovedThread, StagedPart) {
    let all = from.store.all_threads(None, 1_000).await.expect("threads");
    let moved = all.into_iter().find(|moved| moved.thread.key == key).expect("is there");
    let runs = from.store.runs(key, None, 1_000).await.expect("runs");
    let (mut packer, mut rows, mut after) = (Packer::new(&runs), Vec::new(), 0);
    while after < moved.thread.tail {
        let page = from.store.read(key, ReadFrom::After(after), 1_000).await.expect("reads").expect("is there");
        after = page.slice.last_seq().expect("events");
        for batch in page.slice.0 {
            rows.extend(packer.push(batch).expect("packs"));
        }
    }
    rows.extend(packer.finish().expect("packs"));
    (moved, StagedPart { runs, rows })
}

fn staged(staging: Staging) -> ThreadKey {
    match staging {
        Staging::Staged(key) => key,
        Staging::Taken(thread) => panic!("{} is there", thread.id),
    }
}

/// Moves a thread in steps: runs first, then row by row.
pub async fn moved(from: &Env, key: ThreadKey, to: &Env) -> ThreadKey {
    let (moved, part) = taken_out(from, key).await;
    let runs = StagedPart { runs: part.runs, rows: Vec::new() };
    let key = staged(to.store.stage(&moved, runs).await.expect("stages"));
    for row in part.rows {
        let part = StagedPart { runs: Vec::new(), rows: vec![row] };
        assert!(to.store.stage_more(key, part).await.expect("stages"));
    }
    assert_eq!(to.store.publish(key, &moved, Arrival::Import).await.expect("publishes"), Published::Done);
    key
}

/// Without what belongs to one store.
fn plain(thread: Thread) -> Thread {
    Thread { key: ThreadKey(0), ..thread }
}

/// A thread that has been through much, with a run under way.
async fn eventful(env: &Env, id: &str) -> ThreadKey {
    let (key, fence) = env.running(id, "first").await;
    env.put(key, fence, 0..400).await;
    assert!(env.store.seal(key).await.expect("seals"));
    env.clock.advance(Duration::from_secs(1));
    env.append(append(key, fence, None, run_error())).await.expect("appended");
    let abandoned = env.start(key, "abandoned").await;
    env.close(key, closing(&env.head(key).await, None)).await;
    assert!(abandoned.fence > fence);
    let used = ndjson("{\"type\":\"RUN_FINISHED\",\"usage\":[{\"model\":\"m\"}]}");
    env.started(StartRun {
        events: Some(used),
        agent: Some(agent("a")),
        turn: Some(turn()),
        ..start_run(key, "whole")
    })
    .await;
    env.clock.advance(Duration::from_secs(1));
    let patch = ThreadPatch {
        name: Some(Some(("N \u{e9}".into(), NameSource::Title))),
        metadata: Some("{\"b\":1,\"a\":[1.0,null]}".into()),
        archived: Some(true),
    };
    let thread = env.get(id).await.expect("is there");
    env.store.edit_thread(key, thread.version, patch, None).await.expect("edits").expect("fits");
    env.clock.advance(Duration::from_secs(1));
    let fence = env.start(key, "active").await.fence;
    env.put(key, fence, 400..410).await;
    env.store.mark_read(key, 405, None).await.expect("marks").expect("marked");
    env.clock.advance(Duration::from_secs(1));
    env.put(key, fence, 410..412).await;
    key
}

/// From this back-end to the reference, and the other way.
async fn both_ways(env: Env, test: impl AsyncFn(&Env, &Env, Way)) {
    test(&env, &other(&env), Way::Out).await;
    test(&other(&env), &env, Way::In).await;
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// From the back-end under test to an empty reference.
    Out,
    /// From a reference to the back-end under test, which holds what was moved out of it.
    In,
}

/// An empty reference with the same clock.
fn other(env: &Env) -> Env {
    Env { clock: env.clock.clone(), store: Arc::new(MemoryStore::new(env.clock.clone())), dir: None }
}

pub async fn a_thread_moves_as_it_is(env: Env) {
    both_ways(env, async |from, to, way| {
        let id = if way == Way::Out { "t" } else { "other" };
        let key = eventful(from, id).await;
        let there = moved(from, key, to).await;
        let (was, is) = (from.get(id).await.expect("is there"), to.get(id).await.expect("is there"));
        let active = is.active_run.clone().expect("an active run");
        assert_eq!(active.lease_until, Some(to.clock.now()), "its lease is over");
        assert_eq!(Thread { active_run: was.active_run.clone(), ..plain(is) }, plain(was));
        assert_eq!(from.log(key).await, to.log(there).await);
        let runs = async |env: &Env, key| {
            let mut runs = env.store.runs(key, None, 100).await.expect("runs");
            runs.iter_mut().for_each(|run| run.lease_until = None);
            runs
        };
        assert_eq!(runs(from, key).await, runs(to, there).await);
        let (was, is) = (from.head(key).await, to.head(there).await);
        assert_eq!((was.epoch, was.tail, was.fence), (is.epoch, is.tail, is.fence));
        for before in [3, 257, 412] {
            let page = async |env: &Env, key| {
                let page = env.store.read(key, ReadFrom::Before(before), 5).await.expect("reads").expect("is there");
                page.slice.events().map(|(seq, event, _)| (seq, event.to_vec())).collect::<Vec<_>>()
            };
            assert_eq!(page(from, key).await, page(to, there).await);
        }

        // The thread continues where it was: the numbers of the run, its end when its lease has expired, the next fence.
        let due = to.store.claim_due(10).await.expect("claims").due;
        assert_eq!(due.iter().map(|due| due.key).collect::<Vec<_>>(), [there]);
        let fence = is.fence;
        assert!(to.append(append(there, fence, 12, events([0]))).await.is_none(), "taken");
        assert_eq!(to.append(append(there, fence, 13, events([412]))).await.expect("appended").first_seq, is.tail + 1);
        let closed = to.close(there, closing(&to.head(there).await, Some(run_error()))).await;
        assert_eq!((closed.run.status, closed.run.id.as_str()), (RunStatus::Error, "active"));
        assert_eq!(to.start(there, "next").await.fence.0, fence.0 + 1);
        assert!(to.store.create_thread(new_thread(id, "u")).await.is_ok_and(|made| !made.created));
        to.store.seal(there).await.expect("seals");
        assert_eq!(to.log(there).await.len() as u64, to.head(there).await.tail);
    })
    .await;
}

pub async fn a_requested_stop_is_transferred_with_its_run(env: Env) {
    both_ways(env, async |from, to, way| {
        let id = if way == Way::Out { "t" } else { "other" };
        let (key, fence) = from.running(id, "r").await;
        from.put(key, fence, 0..2).await;
        from.store.request_stop(key, &run_id("r"), None, true).await.expect("asks");
        assert!(from.store.release(key, fence, None).await.expect("releases"));
        let there = moved(from, key, to).await;
        let (was, is) = (from.head(key).await.active.expect("active"), to.head(there).await.active.expect("active"));
        assert_eq!((was.stop_requested_at, was.producer_seq), (is.stop_requested_at, is.producer_seq));
        assert!(was.finishing && is.finishing && is.stop_requested_at.is_some());
    })
    .await;
}

/// Inputs of queued turns may hold secrets: they stay where they are.
pub async fn a_queue_is_not_transferred(env: Env) {
    both_ways(env, async |from, to, way| {
        let id = if way == Way::Out { "t" } else { "other" };
        let (key, fence) = from.running(id, "r").await;
        from.put(key, fence, 0..2).await;
        crate::queue::enqueue(from, key, "a").await.expect("enqueues");
        let there = moved(from, key, to).await;
        assert_eq!((from.head(key).await.queue.queued, to.head(there).await.queue), (1, QueueState::default()));
        assert!(to.store.queue(there).await.expect("reads").expect("is there").turns.is_empty());
        assert_eq!(to.get(id).await.expect("is there").queue, QueueState::default());
        let closed = to.close(there, closing(&to.head(there).await, Some(run_error()))).await;
        assert!(closed.head.active.is_none());
    })
    .await;
}

pub async fn staged_data_is_invisible(env: Env) {
    let source = other(&env);
    let key = eventful(&source, "t").await;
    let (moved, part) = taken_out(&source, key).await;
    let key = staged(env.store.stage(&moved, part.clone()).await.expect("stages"));
    assert!(env.get("t").await.is_none());
    assert!(env.store.read(key, ReadFrom::After(0), 10).await.expect("reads").is_none());
    assert!(env.store.heads(&[key]).await.expect("heads").is_empty());
    assert!(env.store.runs(key, None, 10).await.expect("runs").is_empty());
    assert!(env.store.claim_due(10).await.expect("claims").due.is_empty());
    assert!(env.store.dirty_feeds(10).await.expect("dirty").is_empty());
    assert!(env.store.all_threads(None, 10).await.expect("threads").is_empty());
    assert_eq!(env.store.count_threads().await.expect("counts"), 0);
    assert!(!env.store.was_deleted(&project(), &user("u"), &thread_id("t")).await.expect("looks"));
    assert!(!env.store.delete_thread(key, None).await.expect("deletes"));
    let page = env.store.list_threads(list(10)).await.expect("lists");
    assert!(page.threads.is_empty());
    // A thread that is made meanwhile is not touched.
    let own = env.create("t").await;
    assert_eq!(env.store.publish(key, &moved, Arrival::Import).await.expect("answers"), Published::Taken);
    assert!(matches!(env.store.stage(&moved, part).await.expect("answers"), Staging::Taken(thread) if *thread == own));
    assert_eq!(env.get("t").await, Some(own.clone()));
    assert!(env.texts(own.key).await.is_empty());
}

pub async fn earlier_staged_data_is_discarded(env: Env) {
    let source = other(&env);
    let key = eventful(&source, "t").await;
    let (moved, part) = taken_out(&source, key).await;
    let first = staged(env.store.stage(&moved, part.clone()).await.expect("stages"));
    let second = staged(env.store.stage(&moved, part.clone()).await.expect("stages"));
    assert!(!env.store.stage_more(first, StagedPart::default()).await.expect("answers"));
    assert_eq!(env.store.publish(first, &moved, Arrival::Import).await.expect("answers"), Published::Gone);
    env.store.unstage(second).await.expect("gives up");
    env.store.unstage(second).await.expect("again");
    assert_eq!(env.store.publish(second, &moved, Arrival::Import).await.expect("answers"), Published::Gone);

    // The purge removes abandoned staged parts, and keeps those in use.
    let left = staged(env.store.stage(&moved, part.clone()).await.expect("stages"));
    env.clock.advance(STAGING_TIMEOUT - Duration::from_secs(1));
    while env.purge(3).await {}
    assert!(env.store.stage_more(left, StagedPart::default()).await.expect("is there"));
    env.clock.advance(Duration::from_secs(2));
    while env.purge(3).await {}
    assert!(env.store.stage_more(left, StagedPart::default()).await.expect("is there"));
    env.clock.advance(STAGING_TIMEOUT);
    while env.purge(3).await {}
    assert!(!env.store.stage_more(left, StagedPart::default()).await.expect("answers"));

    let last = staged(env.store.stage(&moved, part).await.expect("stages"));
    assert_eq!(env.store.publish(last, &moved, Arrival::Import).await.expect("publishes"), Published::Done);
    env.store.unstage(last).await.expect("does nothing");
    while env.purge(3).await {}
    assert_eq!(env.log(last).await, source.log(key).await);
}

pub async fn an_incomplete_log_is_not_published(env: Env) {
    let source = other(&env);
    let key = eventful(&source, "t").await;
    let (moved, mut part) = taken_out(&source, key).await;
    let last = part.rows.pop().expect("rows");
    let key = staged(env.store.stage(&moved, part).await.expect("stages"));
    env.store.publish(key, &moved, Arrival::Import).await.expect_err("the end is missing");
    assert!(env.get("t").await.is_none());
    let again =
        staged(env.store.stage(&moved, StagedPart { runs: Vec::new(), rows: vec![last] }).await.expect("stages"));
    assert_ne!(again, key);
}

pub async fn everything_is_listed_in_order(env: Env) {
    for n in 0..5 {
        env.create(&format!("t{n}")).await;
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = env.store.all_threads(after, 2).await.expect("threads");
        let Some(last) = page.last() else { break };
        after = Some(last.thread.key);
        seen.extend(page.into_iter().map(|moved| moved.thread.id.to_string()));
    }
    assert_eq!(seen, ["t0", "t1", "t2", "t3", "t4"]);
    assert_eq!(env.store.count_threads().await.expect("counts"), 5);
    let other = ProjectId::new("another").expect("id");
    for (project, id) in [(project(), "b"), (project(), "a"), (other.clone(), "z")] {
        env.store.put_agent(&project, &agent(id), "{}", None).await.expect("puts");
    }
    let agents = env.store.all_agents().await.expect("agents");
    let agents: Vec<_> = agents.iter().map(|(project, id, _)| format!("{project}/{id}")).collect();
    assert_eq!(agents, ["another/z", "p/a", "p/b"]);
    assert!(env.store.all_feeds(None, 10).await.expect("feeds").is_empty());
    for owner in ["w", "v"] {
        env.store.create_thread(new_thread(owner, owner)).await.expect("creates");
    }
    for owner in ["u", "v", "w"] {
        env.store.pump_feed(&project(), &user(owner)).await.expect("pumps");
    }
    let first = env.store.all_feeds(None, 2).await.expect("feeds");
    let rest = env.store.all_feeds(first.last(), 2).await.expect("feeds");
    let owners: Vec<_> = first.iter().chain(&rest).map(|(_, user)| user.as_str()).collect();
    assert_eq!(owners, ["u", "v", "w"]);
}

async fn feed(env: &Env) -> Vec<(u64, String, bool)> {
    let page = env.store.feed(&project(), &user("u"), 0, 100).await.expect("feed");
    let entry = |entry: &threadline_core::FeedEntry| {
        (entry.cursor, entry.thread_id.to_string(), matches!(entry.change, FeedChange::Upsert(_)))
    };
    page.entries.iter().map(entry).collect()
}

async fn image(env: &Env) -> FeedImage {
    env.store.feed_image(&project(), &user("u")).await.expect("an image")
}

pub async fn a_feed_moves_with_its_positions(env: Env) {
    both_ways(env, async |from, to, way| {
        let names = if way == Way::Out { ["a", "b", "c", "d"] } else { ["e", "f", "g", "h"] };
        let pump = async |env: &Env| env.store.pump_feed(&project(), &user("u")).await.expect("pumps").position;
        let mut keys = Vec::new();
        for name in names {
            keys.push(from.create(name).await.key);
            pump(from).await;
        }
        assert!(from.store.delete_thread(keys[1], None).await.expect("deletes"));
        from.start(keys[0], "r").await;
        pump(from).await;
        let before = feed(from).await;
        if way == Way::In {
            // Both have a feed by now: nothing of either is missed, whatever cursor comes.
            let (own, head) = (feed(to).await, image(to).await.head);
            for key in [keys[0], keys[2], keys[3]] {
                moved(from, key, to).await;
            }
            assert!(to.store.put_feed(&project(), &user("u"), &image(from).await).await.expect("puts"));
            let both = feed(to).await;
            let floor = head.max(image(from).await.head);
            assert!(both.iter().all(|entry| entry.0 > floor), "{both:?}");
            for (_, name, alive) in own.iter().chain(&before) {
                assert!(both.iter().any(|entry| entry.1 == *name && entry.2 == *alive), "{name} in {both:?}");
            }
            assert_eq!(both.len(), own.len() + before.len());
        } else {
            for key in [keys[0], keys[2]] {
                moved(from, key, to).await;
            }
            assert!(to.store.put_feed(&project(), &user("u"), &image(from).await).await.expect("puts"));
            assert_eq!(image(to).await, image(from).await);
            // The one that did not come reads as deleted; when it comes, it is fed.
            let gone = |entry: (u64, String, bool)| (entry.0, entry.1.clone(), entry.2 && entry.1 != names[3]);
            assert_eq!(feed(to).await, before.iter().cloned().map(gone).collect::<Vec<_>>());
            let head = image(to).await.head;
            assert_eq!(pump(to).await, head, "nothing is owed");
            moved(from, keys[3], to).await;
            assert_eq!(pump(to).await, head + 1);
            assert_eq!(feed(to).await.last(), Some(&(head + 1, names[3].to_owned(), true)));
        }
        let now = (image(to).await, feed(to).await);
        assert!(!to.store.put_feed(&project(), &user("u"), &image(from).await).await.expect("answers"));
        assert_eq!((image(to).await, feed(to).await), now, "again is no change");
    })
    .await;
}

pub async fn changes_before_the_feed_was_imported_are_fed(env: Env) {
    let source = other(&env);
    let key = source.create("t").await.key;
    source.store.pump_feed(&project(), &user("u")).await.expect("pumps");
    let there = moved(&source, key, &env).await;
    env.start(there, "r").await;
    assert!(env.store.put_feed(&project(), &user("u"), &image(&source).await).await.expect("puts"));
    assert_eq!(env.store.dirty_feeds(10).await.expect("dirty").len(), 1);
    let head = env.store.pump_feed(&project(), &user("u")).await.expect("pumps").position;
    assert_eq!(feed(&env).await, [(head, "t".to_owned(), true)]);
    assert!(head > image(&source).await.head);
}
