//! Edits, lists, the feed, and pages that wait.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use threadline_core::{Clock, FeedChange, FeedCursor, ListOrder, ReadFrom, Thread, ThreadId, Timestamp};
use threadline_engine::{
    CreateThread, EditThread, FeedError, ListRequest, Page, PageRequest, Ports, Service, subscription::FeedDelivery,
};
use threadline_store::{DynStore, memory::MemoryStore};
use tokio::time::Instant;

use crate::{
    probe::Intercept,
    support::{Node, Rng, new_run, numbered, run_id, run_seed, seeds, settle, thread_id, user},
};

#[test]
fn concurrent_edits_lose_nothing() {
    for seed in seeds(20) {
        run_seed(seed, async {
            let clock = Clock::manual(Timestamp(0));
            let store = Arc::new(Intercept::slow(Arc::new(MemoryStore::new(clock.clone())), Rng::new(seed)));
            let service = Service::start(Ports::alone(store as DynStore, clock));
            let alice = user("alice");
            let create = CreateThread { id: Some(thread_id("t")), ..CreateThread::default() };
            let thread = service.threads.create(&alice, create).await.expect("create").thread.id;
            let edits: Vec<_> = (0..20)
                .map(|n| {
                    let (threads, alice, thread) = (service.threads.clone(), alice.clone(), thread.clone());
                    let mut metadata = serde_json::Map::new();
                    metadata.insert(format!("k{n}"), json!(n));
                    let edit = EditThread { metadata: Some(metadata), ..EditThread::default() };
                    tokio::spawn(async move { threads.edit(&alice, &thread, edit).await })
                })
                .collect();
            for edit in edits {
                edit.await.expect("task").expect("edit");
            }
            let thread = service.threads.get(&alice, &thread).await.expect("thread");
            let metadata: Value = serde_json::from_str(&thread.metadata).expect("JSON");
            assert_eq!(metadata.as_object().map(serde_json::Map::len), Some(20));
            assert_eq!(thread.version, 21);
        });
    }
}

/// What a client holds: threads by id.
type Shelf = BTreeMap<ThreadId, Thread>;

fn shelve(shelf: &mut Shelf, entries: Vec<threadline_core::FeedEntry>) {
    for entry in entries {
        match entry.change {
            FeedChange::Upsert(thread) => shelf.insert(entry.thread_id, *thread),
            FeedChange::Delete => shelf.remove(&entry.thread_id),
        };
    }
}

/// All pages of the list, with concurrent changes between them; the feed cursor of the first page.
async fn list(service: &Service, who: &threadline_core::Principal, order: ListOrder) -> (Shelf, FeedCursor) {
    let mut request = ListRequest { include_archived: true, order, limit: 2, ..ListRequest::default() };
    let (mut shelf, mut feed) = (Shelf::new(), None);
    loop {
        let page = service.threads.list(who, request.clone()).await.expect("list");
        feed.get_or_insert(page.feed_cursor);
        shelf.extend(page.threads.into_iter().map(|thread| (thread.id.clone(), thread)));
        request.after = page.next;
        if request.after.is_none() {
            return (shelf, feed.expect("a first page"));
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Changes threads at random, `steps` times.
async fn churn(service: Service, who: threadline_core::Principal, clock: Clock, mut rng: Rng, steps: usize) {
    for _ in 0..steps {
        clock.advance(Duration::from_millis(1 + rng.below(50)));
        tokio::time::sleep(rng.millis(4)).await;
        let id = thread_id(&format!("t{}", rng.below(8)));
        // Whether it is there or not: what is refused changes nothing.
        match rng.below(10) {
            0..=2 => {
                let create = CreateThread { id: Some(id), ..CreateThread::default() };
                let _ = service.threads.create(&who, create).await;
            }
            3..=4 => {
                let name = Some(Some(format!("n{}", rng.below(1_000))));
                let _ = service.threads.edit(&who, &id, EditThread { name, ..EditThread::default() }).await;
            }
            5 => {
                let _ = service.threads.delete(&who, &id).await;
            }
            6..=7 => {
                let _ = service.runs.start(&who, &id, new_run(&format!("r{}", rng.next()))).await;
            }
            _ => {
                if let Ok(Page { items: runs, .. }) = service.runs.list(&who, &id, None, 1, None).await
                    && let Some(run) = runs.first()
                {
                    let _ = service.runs.finish(&who, &id, &run.id, 0).await;
                }
            }
        }
    }
}

#[test]
fn the_list_and_the_feed_after_its_cursor_are_complete_while_threads_change() {
    for seed in seeds(100) {
        run_seed(seed, async {
            let mut rng = Rng::new(seed);
            let clock = Clock::manual(Timestamp(0));
            let store = Arc::new(Intercept::slow(Arc::new(MemoryStore::new(clock.clone())), rng.fork()));
            let service = Service::start(Ports::alone(store as DynStore, clock.clone()));
            let alice = user("alice");
            churn(service.clone(), alice.clone(), clock.clone(), rng.fork(), 20).await;
            let work = tokio::spawn(churn(service.clone(), alice.clone(), clock, rng.fork(), 60));
            tokio::time::sleep(rng.millis(100)).await;
            // Only the order by creation does not shift while it is paged.
            let (mut shelf, cursor) = list(&service, &alice, ListOrder::Created).await;
            let mut paged = shelf.clone();
            let mut live = service.feed.subscribe(&alice, None, cursor).await.expect("subscribe");
            let follow = async {
                loop {
                    match live.next().await.expect("feed") {
                        FeedDelivery::Entries(entries) => shelve(&mut shelf, entries),
                        FeedDelivery::CaughtUp(_) | FeedDelivery::Rebased { .. } => {}
                        FeedDelivery::Ended(_) => panic!("no user was erased"),
                    }
                }
            };
            let over = async {
                work.await.expect("churn");
                tokio::time::sleep(Duration::from_secs(6)).await;
            };
            tokio::select! {
                () = follow => {}
                () = over => {}
            }
            let (want, _) = list(&service, &alice, ListOrder::Created).await;
            assert_eq!(shelf, want, "list, then live feed");
            let mut at = cursor;
            loop {
                let page = service.feed.page(&alice, None, at, 3, None).await.expect("feed");
                shelve(&mut paged, page.entries);
                at = page.cursor;
                if !page.has_more {
                    break;
                }
            }
            assert_eq!(paged, want, "list, then pages of the feed");
        });
    }
}

#[test]
fn the_feed_has_runs_and_edits_but_no_appends() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.pass(Duration::from_millis(100)).await;
        let read = |after| node.service.feed.page(&node.alice, None, after, 10, None);
        let head = || async { read(FeedCursor::START).await.expect("feed").cursor };
        let mut positions = vec![head().await];
        node.run(&thread, "r").await;
        settle().await;
        positions.push(head().await);
        for _ in 0..5 {
            node.service.runs.append(&node.alice, &thread, &run_id("r"), None, numbered("x", 1)).await.expect("append");
        }
        settle().await;
        assert_eq!(head().await, positions[1], "appends do not touch the feed");
        node.service.runs.finish(&node.alice, &thread, &run_id("r"), 0).await.expect("finish");
        settle().await;
        positions.push(head().await);
        node.service.threads.delete(&node.alice, &thread).await.expect("delete");
        settle().await;
        positions.push(head().await);
        assert!(positions.is_sorted_by(|a, b| a.epoch == b.epoch && a.position < b.position), "{positions:?}");
        let ahead = read(FeedCursor { position: 100, ..positions[0] }).await;
        assert!(matches!(ahead, Err(FeedError::CursorAhead { .. })));
    });
}

/// Asks for a page after `after` and waits up to 30 s; something happens after one second.
async fn waited(run: Option<&str>, after: u64, happens: impl AsyncFnOnce(&Node, &ThreadId)) -> (Vec<u64>, Duration) {
    let node = Node::start();
    let thread = node.thread("t").await;
    node.run(&thread, "r").await;
    if after > 0 {
        let events = numbered("before", after as usize);
        node.service.runs.append(&node.alice, &thread, &run_id("r"), None, events).await.expect("append");
    }
    let wait = Some(Duration::from_secs(30));
    let request = PageRequest { from: ReadFrom::After(after), limit: 10, epoch: None, run: run.map(run_id), wait };
    let begin = Instant::now();
    let (events, alice, id) = (node.service.events.clone(), node.alice.clone(), thread.clone());
    let page = tokio::spawn(async move {
        let page = events.page(&alice, &id, request).await.expect("page");
        (page.slice.events().map(|(seq, ..)| seq).collect(), begin.elapsed())
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    happens(&node, &thread).await;
    page.await.expect("task")
}

#[test]
fn a_page_that_waits_has_the_events_that_it_waited_for() {
    let append = async |node: &Node, thread: &ThreadId| {
        node.service.runs.append(&node.alice, thread, &run_id("r"), None, numbered("x", 2)).await.expect("append");
    };
    for after in [0, 3] {
        let second = Duration::from_secs(1);
        assert_eq!(run_seed(0, waited(None, after, append)), (vec![after + 1, after + 2], second));
        assert_eq!(run_seed(0, waited(Some("r"), after, append)), (vec![after + 1, after + 2], second), "of a run");
        let nothing = async |_: &Node, _: &ThreadId| {};
        assert_eq!(run_seed(0, waited(None, after, nothing)), (vec![], Duration::from_secs(30)));
    }
}
