//! No caller sees the data of others: each method of the use cases, with each kind of caller without access.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use threadline_core::{FeedCursor, Principal, ProjectId, ReadFrom, ThreadId, UserId};
use threadline_engine::{
    CreateThread, EditThread, FeedError, ListError, ListRequest, Page, PageRequest, Service, ServiceError,
};

use super::annotations::annotation;
use crate::support::{Node, client, complete_run, new_run, numbered, run_id, run_seed, user};

fn page(run: Option<&str>, wait: Option<Duration>) -> PageRequest {
    PageRequest { from: ReadFrom::After(0), limit: 10, epoch: None, run: run.map(run_id), wait }
}

const METHODS: usize = 25;
/// `threads.delete` is the third of them.
const DELETE: usize = 2;

/// What each method that names a thread answers.
async fn everything(service: &Service, who: &Principal, thread: &ThreadId) -> Vec<(&'static str, ServiceError)> {
    let mut answers = Vec::new();
    for method in 0..METHODS {
        answers.extend(one(service, who, thread, method).await);
    }
    answers
}

/// What one method answers.
async fn one(
    service: &Service,
    who: &Principal,
    thread: &ThreadId,
    method: usize,
) -> Vec<(&'static str, ServiceError)> {
    let (runs, run) = (&service.runs, &run_id("r"));
    let mut answers = Vec::new();
    let mut number = 0..;
    macro_rules! ask {
        ($($name:literal: $call:expr;)*) => {$(
            if number.next() == Some(method) {
                match $call.await {
                    Ok(_) => panic!("{} was allowed", $name),
                    Err(error) => answers.push(($name, error.into())),
                }
            }
        )*};
    }
    let body = || stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"{\"type\":\"A\"}\n"))]);
    let soon = Some(Duration::from_secs(1));
    ask! {
        "threads.get": service.threads.get(who, thread);
        "threads.edit": service.threads.edit(who, thread, EditThread { archived: Some(true), ..EditThread::default() });
        "threads.delete": service.threads.delete(who, thread);
        "runs.start": runs.start(who, thread, new_run("r"));
        "runs.start of another": runs.start(who, thread, new_run("other"));
        "runs.start complete": runs.start(who, thread, complete_run("w", numbered("w", 1)));
        "runs.submit": async { runs.submit(who, thread, run, None, numbered("x", 1)).await?.receipt().await };
        "runs.append": runs.append(who, thread, run, Some(1), numbered("x", 1));
        "runs.heartbeat": runs.heartbeat(who, thread, run, None);
        "runs.finish": runs.finish(who, thread, run, 0);
        "runs.fail": runs.fail(who, thread, run, None, None);
        "runs.stop": runs.stop(who, thread, run);
        "runs.release": runs.release(who, thread, run);
        "runs.get": runs.get(who, thread, run);
        "runs.get of none": runs.get(who, thread, &run_id("none"));
        "runs.list": runs.list(who, thread, None, 10, None);
        "runs.stream": runs.stream(who, thread, new_run("r"), 1, None, body());
        "events.page": service.events.page(who, thread, page(None, None));
        "events.page of a run": service.events.page(who, thread, page(Some("r"), None));
        "events.page, waiting": service.events.page(who, thread, page(None, soon));
        "events.subscribe": service.events.subscribe(who, thread, 0, None, None, threadline_engine::subscription::FollowMethod::Socket);
        "events.subscribe to a run": service.events.subscribe(who, thread, 0, None, Some(run), threadline_engine::subscription::FollowMethod::Socket);
        "events.watch_run": service.events.watch_run(who, thread, run);
        "followers.list": service.followers.list(who, thread);
        "annotations.put": service.annotations.put(who, thread, annotation("a"));
        "annotations.list": service.annotations.list(who, thread, None, 10);
    }
    answers
}

fn assert_not_found(answers: Vec<(&'static str, ServiceError)>, who: &str) {
    assert!(!answers.is_empty());
    for (name, error) in answers {
        assert!(matches!(error, ServiceError::ThreadNotFound), "{name} as {who}: {error:?}");
    }
}

#[test]
fn a_caller_without_access_finds_no_thread_in_any_method() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        node.service.runs.append(&node.alice, &thread, &run_id("r"), None, numbered("x", 3)).await.expect("append");
        let (before, log) =
            (node.service.threads.get(&node.alice, &thread).await.expect("thread"), node.log(&thread).await);
        let elsewhere = ProjectId::new("other").expect("id");
        let alice = UserId::new("alice").expect("id");
        let others = [user("bob"), Principal::user(elsewhere.clone(), alice), Principal::project(elsewhere)];
        // Once on a node that has the thread cached, once on a node that never saw it.
        for service in [node.service.clone(), node.another()] {
            for who in &others {
                assert_not_found(everything(&service, who, &thread).await, &format!("{who:?}"));
            }
        }
        assert_eq!(node.service.threads.get(&node.alice, &thread).await.expect("thread"), before);
        assert_eq!(node.log(&thread).await, log);
        // The project itself has access.
        let project = Principal::project(before.project);
        node.service.threads.get(&project, &thread).await.expect("the project's own");
        node.service.events.page(&project, &thread, page(Some("r"), None)).await.expect("the project's own");
    });
}

#[test]
fn a_project_that_names_no_user_finds_the_only_thread_of_an_id_or_is_asked_for_the_user() {
    run_seed(0, async {
        let node = Node::start();
        let whole = Principal::project(crate::support::project());
        let thread = node.thread_of(&client("alice"), "t").await;
        node.service.runs.start(&client("alice"), &thread, new_run("r")).await.expect("start");
        let nodes = [node.service.clone(), node.another()];
        let read = async |service: &Service| service.events.page(&whole, &thread, page(Some("r"), None)).await;
        for service in &nodes {
            read(service).await.expect("the only one");
        }
        // No node remembers which one was the only one.
        node.thread_of(&client("bob"), "t").await;
        for service in &nodes {
            for (name, error) in everything(service, &whole, &thread).await {
                assert!(matches!(error, ServiceError::ThreadAmbiguous), "{name}: {error:?}");
            }
            service.events.page(&client("alice"), &thread, page(Some("r"), None)).await.expect("the user's own");
        }
        // A thread that claims the id has it, also on nodes that have read it, until it is deleted.
        let cat = user("cat");
        node.thread_of(&cat, "t").await;
        for service in &nodes {
            let error: ServiceError = read(service).await.expect_err("the claimed thread has no run").into();
            assert!(matches!(error, ServiceError::RunNotFound), "{error:?}");
        }
        node.service.threads.delete(&cat, &thread).await.expect("deletes");
        for service in &nodes {
            let error: ServiceError = read(service).await.expect_err("several again").into();
            assert!(matches!(error, ServiceError::ThreadAmbiguous), "{error:?}");
        }
        node.service.threads.delete(&client("bob"), &thread).await.expect("deletes");
        for service in &nodes {
            read(service).await.expect("the only one again");
        }
    });
}

#[test]
fn an_unknown_and_a_deleted_thread_look_the_same_on_every_node() {
    run_seed(0, async {
        let node = Node::start();
        let unknown = everything(&node.service, &node.alice, &ThreadId::new("none").expect("id")).await;
        assert_eq!(unknown.len(), METHODS);
        assert_not_found(unknown, "owner");
        // A delete sent again by the owner is answered as before; everything else finds nothing.
        for method in (0..METHODS).filter(|method| *method != DELETE) {
            let other = node.another();
            let thread = node.thread("t").await;
            // Both nodes remember the thread and its run.
            node.run(&thread, "r").await;
            other.runs.heartbeat(&node.alice, &thread, &run_id("r"), None).await.expect("heartbeat");
            node.service.threads.delete(&node.alice, &thread).await.expect("delete");
            assert_not_found(one(&node.service, &node.alice, &thread, method).await, "owner, here");
            assert_not_found(one(&other, &node.alice, &thread, method).await, "owner, elsewhere");
        }
    });
}

#[test]
fn the_next_owner_of_an_id_finds_the_thread_on_a_node_that_remembers_the_last_one() {
    run_seed(0, async {
        let node = Node::start();
        let other = node.another();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        other.runs.list(&node.alice, &thread, None, 10, None).await.expect("runs");
        node.service.threads.delete(&node.alice, &thread).await.expect("delete");
        let bob = user("bob");
        let create = CreateThread { id: Some(thread.clone()), ..CreateThread::default() };
        node.service.threads.create(&bob, create).await.expect("create");
        node.service.runs.start(&bob, &thread, new_run("b")).await.expect("start");
        // The other node heard nothing of it.
        let Page { items: runs, .. } = other.runs.list(&bob, &thread, None, 10, None).await.expect("bob's thread");
        assert_eq!(runs.len(), 1);
        other.events.page(&bob, &thread, page(None, None)).await.expect("bob's thread");
        other.runs.append(&bob, &thread, &run_id("b"), None, numbered("x", 1)).await.expect("bob's run");
        for method in (0..METHODS).filter(|method| *method != DELETE) {
            assert_not_found(one(&other, &node.alice, &thread, method).await, "the last owner");
        }
        // The last owner's delete, sent again, is answered as before and does nothing to what is there now.
        other.threads.delete(&node.alice, &thread).await.expect("the same answer");
        other.threads.get(&bob, &thread).await.expect("bob's thread");
    });
}

#[test]
fn the_same_owner_finds_the_new_thread_on_a_node_that_remembers_the_old_one() {
    run_seed(0, async {
        let node = Node::start();
        for name in ["list", "get", "heartbeat", "append", "page of a run", "finish", "release"] {
            let other = node.another();
            let thread = node.thread(name).await;
            node.run(&thread, "r").await;
            other.runs.heartbeat(&node.alice, &thread, &run_id("r"), None).await.expect("heartbeat");
            node.service.threads.delete(&node.alice, &thread).await.expect("delete");
            node.thread(name).await;
            node.run(&thread, "r").await;
            let (alice, run) = (&node.alice, &run_id("r"));
            let answer = match name {
                "list" => other
                    .runs
                    .list(alice, &thread, None, 10, None)
                    .await
                    .map(|page| page.items.len())
                    .map_err(ServiceError::from),
                "get" => other.runs.get(alice, &thread, run).await.map(|_| 1).map_err(ServiceError::from),
                "heartbeat" => {
                    other.runs.heartbeat(alice, &thread, run, None).await.map(|_| 1).map_err(ServiceError::from)
                }
                "append" => other
                    .runs
                    .append(alice, &thread, run, None, numbered("x", 1))
                    .await
                    .map(|_| 1)
                    .map_err(ServiceError::from),
                "page of a run" => other
                    .events
                    .page(alice, &thread, page(Some("r"), None))
                    .await
                    .map(|_| 1)
                    .map_err(ServiceError::from),
                "finish" => other.runs.finish(alice, &thread, run, 0).await.map(|_| 1).map_err(ServiceError::from),
                _ => other.runs.release(alice, &thread, run).await.map(|_| 1).map_err(ServiceError::from),
            };
            assert_eq!(answer.ok(), Some(1), "{name}");
        }
    });
}

#[test]
fn lists_and_feeds_are_those_of_the_caller() {
    run_seed(0, async {
        let node = Node::start();
        node.thread("t").await;
        node.pass(Duration::from_millis(200)).await;
        let list = |who, user| {
            let request = ListRequest { user, limit: 10, ..ListRequest::default() };
            node.service.threads.list(who, request)
        };
        let (bob, alice_id) = (user("bob"), node.alice.user.clone());
        assert_eq!(list(&node.alice, None).await.expect("list").threads.len(), 1);
        assert!(list(&bob, None).await.expect("list").threads.is_empty());
        assert!(matches!(list(&bob, alice_id.clone()).await, Err(ListError::InvalidRequest(_))));
        let feed = &node.service.feed;
        assert_eq!(feed.page(&node.alice, None, FeedCursor::START, 10, None).await.expect("feed").entries.len(), 1);
        assert!(feed.page(&bob, None, FeedCursor::START, 10, None).await.expect("feed").entries.is_empty());
        let page = feed.page(&bob, alice_id.clone(), FeedCursor::START, 10, None).await;
        assert!(matches!(page, Err(FeedError::InvalidRequest(_))));
        let followed = feed.subscribe(&bob, alice_id, FeedCursor::START).await;
        assert!(matches!(followed, Err(FeedError::InvalidRequest(_))));
    });
}
