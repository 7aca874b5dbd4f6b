//! Every run ends: leases, stops, successors, deletion.

use std::time::Duration;

use threadline_core::{Run, RunStatus, ThreadId};
use threadline_engine::{
    AppendError, HeartbeatError, StartError,
    subscription::{Delivery, EndReason},
};

use crate::support::{Node, events, new_run, numbered, run_id, run_seed, settle};

async fn get(node: &Node, thread: &ThreadId, run: &str) -> Run {
    node.service.runs.get(&node.alice, thread, &run_id(run)).await.expect("run")
}

async fn append(node: &Node, thread: &ThreadId, run: &str, kind: &str) -> Result<(), AppendError> {
    let events = events(&[format!(r#"{{"type":"{kind}","messageId":"m"}}"#)]);
    node.service.runs.append(&node.alice, thread, &run_id(run), None, events).await.map(drop)
}

#[test]
fn a_silent_run_is_closed_within_its_lease_and_five_seconds() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        append(&node, &thread, "r", "TEXT_MESSAGE_START").await.expect("append");
        let mut reader = node
            .service
            .events
            .subscribe(&node.alice, &thread, 1, None, None, threadline_engine::subscription::FollowMethod::Socket)
            .await
            .expect("subscribe");
        assert!(matches!(reader.next().await, Ok(Some(Delivery::CaughtUp(1)))));
        node.pass(Duration::from_millis(19_900)).await;
        assert_eq!(get(&node, &thread, "r").await.status, RunStatus::Running);
        node.pass(Duration::from_millis(5_100)).await;
        let run = get(&node, &thread, "r").await;
        assert_eq!((run.status, run.error_code.as_deref()), (RunStatus::Error, Some("lease-expired")));
        assert_eq!((run.lease_until, run.producer_seq), (None, 3));
        let Ok(Some(Delivery::Events(slice))) = reader.next().await else { panic!("no events came") };
        assert_eq!(slice.count(), 2, "closer and terminal event come in one commit");
        assert_eq!(node.types(&thread).await, ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_ERROR"]);
        node.run(&thread, "next").await;
    });
}

#[test]
fn appends_and_heartbeats_keep_the_lease() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        for _ in 0..3 {
            node.pass(Duration::from_secs(15)).await;
            append(&node, &thread, "r", "A").await.expect("append");
            node.pass(Duration::from_secs(15)).await;
            node.service.runs.heartbeat(&node.alice, &thread, &run_id("r"), None).await.expect("heartbeat");
        }
        let lease = Some(Duration::from_secs(100));
        node.service.runs.heartbeat(&node.alice, &thread, &run_id("r"), lease).await.expect("heartbeat");
        node.pass(Duration::from_secs(99)).await;
        assert_eq!(get(&node, &thread, "r").await.status, RunStatus::Running);
        node.pass(Duration::from_secs(6)).await;
        assert_eq!(get(&node, &thread, "r").await.status, RunStatus::Error);
        let late = node.service.runs.heartbeat(&node.alice, &thread, &run_id("r"), None).await;
        assert!(matches!(late, Err(HeartbeatError::RunFenced(_))), "{late:?}");
    });
}

#[test]
fn a_run_without_events_is_abandoned_without_a_terminal_event() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        node.pass(Duration::from_secs(25)).await;
        assert_eq!(get(&node, &thread, "r").await.status, RunStatus::Abandoned);
        assert!(node.log(&thread).await.is_empty());
        // The same when it is the next start that ends it.
        node.run(&thread, "s").await;
        node.clock.advance(Duration::from_secs(21));
        let next = node.run(&thread, "next").await;
        assert_eq!((get(&node, &thread, "s").await.status, next.cursor), (RunStatus::Abandoned, 0));
    });
}

#[test]
fn a_stop_before_the_first_event_ends_in_a_terminal_event() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        for _ in 0..2 {
            node.service.runs.stop(&node.alice, &thread, &run_id("r")).await.expect("stop");
        }
        node.pass(Duration::from_millis(9_900)).await;
        assert_eq!(get(&node, &thread, "r").await.status, RunStatus::Running);
        node.pass(Duration::from_millis(2_000)).await;
        assert_eq!(get(&node, &thread, "r").await.status, RunStatus::Stopped);
        assert_eq!(node.types(&thread).await, ["RUN_STARTED", "RUN_FINISHED"]);
    });
}

#[test]
fn an_overdue_stop_is_closed_while_the_producer_continues_appending() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        append(&node, &thread, "r", "A").await.expect("append");
        node.service.runs.stop(&node.alice, &thread, &run_id("r")).await.expect("stop");
        let (mut good, mut refused) = (0, 0);
        for _ in 0..150 {
            match append(&node, &thread, "r", "A").await {
                Ok(()) => good += 1,
                Err(AppendError::RunFenced(run)) => {
                    assert!(run.stop_requested_at.is_some());
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
            node.pass(Duration::from_millis(100)).await;
        }
        assert_eq!((good, refused), (100, 50), "it has ten seconds");
        assert_eq!(get(&node, &thread, "r").await.status, RunStatus::Stopped);
        assert_eq!(node.types(&thread).await.last().map(String::as_str), Some("RUN_FINISHED"));
        assert_eq!(node.log(&thread).await.len(), 102);
    });
}

#[test]
fn finishing_and_failing_close_what_is_open_even_if_an_append_comes_in_between() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        append(&node, &thread, "r", "TEXT_MESSAGE_START").await.expect("append");
        // The closer has read the head and waits for the log.
        node.store.read_gate.hold();
        let (runs, alice, id) = (node.service.runs.clone(), node.alice.clone(), thread.clone());
        let ending = tokio::spawn(async move {
            runs.fail(&alice, &id, &run_id("r"), Some("c".into()), Some("m".into())).await.expect("fail")
        });
        settle().await;
        append(&node, &thread, "r", "TEXT_MESSAGE_END").await.expect("append");
        append(&node, &thread, "r", "THINKING_START").await.expect("append");
        node.store.read_gate.open();
        let run = ending.await.expect("task");
        assert_eq!((run.status, run.error_code.as_deref()), (RunStatus::Error, Some("c")));
        let want = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "THINKING_START", "THINKING_END", "RUN_ERROR"];
        assert_eq!(node.types(&thread).await, want);
    });
}

#[test]
fn a_start_is_refused_while_a_run_is_active_with_its_details() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let first = node.run(&thread, "r").await;
        append(&node, &thread, "r", "A").await.expect("append");
        let refused = node.service.runs.start(&node.alice, &thread, new_run("s")).await;
        let Err(StartError::RunActive(active)) = refused else { panic!("{refused:?}") };
        assert_eq!((active.run.id.as_str(), active.epoch, active.cursor, active.tail), ("r", first.epoch, 0, 1));
        assert!(active.run.lease_until.is_some());
        let again = node.run(&thread, "r").await;
        assert_eq!((again.created, again.run.fence), (false, first.run.fence));
    });
}

#[test]
fn a_start_over_a_lapsed_lease_closes_the_predecessor_in_its_own_commit() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        append(&node, &thread, "r", "TEXT_MESSAGE_START").await.expect("append");
        let mut reader = node
            .service
            .events
            .subscribe(&node.alice, &thread, 1, None, None, threadline_engine::subscription::FollowMethod::Socket)
            .await
            .expect("subscribe");
        assert!(matches!(reader.next().await, Ok(Some(Delivery::CaughtUp(1)))));
        // Only the store's clock moves: the reaper gets no turn.
        node.clock.advance(Duration::from_secs(20));
        let next = node.run(&thread, "next").await;
        assert_eq!((next.created, next.cursor), (true, 3));
        assert_eq!(get(&node, &thread, "r").await.error_code.as_deref(), Some("lease-expired"));
        let Ok(Some(Delivery::Events(slice))) = reader.next().await else { panic!("no events came") };
        assert_eq!(slice.count(), 2);
        // The one that lost its lease can append nothing more.
        let late = node.service.runs.append(&node.alice, &thread, &run_id("r"), Some(4), numbered("late", 1)).await;
        assert!(matches!(late, Err(AppendError::RunFenced(_))), "{late:?}");
        append(&node, &thread, "next", "B").await.expect("append");
        assert_eq!(node.types(&thread).await, ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_ERROR", "B"]);
    });
}

#[test]
fn one_of_many_starts_over_a_lapsed_lease_wins() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        append(&node, &thread, "r", "A").await.expect("append");
        node.clock.advance(Duration::from_secs(20));
        node.store.read_gate.hold();
        let starts: Vec<_> = (0..20)
            .map(|n| {
                let (runs, alice, thread) = (node.service.runs.clone(), node.alice.clone(), thread.clone());
                tokio::spawn(async move { runs.start(&alice, &thread, new_run(&format!("s{n}"))).await })
            })
            .collect();
        settle().await;
        node.store.read_gate.open();
        let mut won = 0;
        for start in starts {
            match start.await.expect("task") {
                Ok(_) => won += 1,
                Err(StartError::RunActive(active)) => assert!(active.run.id.as_str().starts_with('s')),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(won, 1);
        assert_eq!(node.types(&thread).await, ["A", "RUN_ERROR"]);
    });
}

#[test]
fn a_released_run_may_continue_until_its_end_or_the_next_start() {
    for overtaken in [false, true] {
        run_seed(0, async {
            let node = Node::start();
            let thread = node.thread("t").await;
            node.run(&thread, "r").await;
            append(&node, &thread, "r", "A").await.expect("append");
            let run = node.service.runs.release(&node.alice, &thread, &run_id("r")).await.expect("release");
            assert_eq!(run.status, RunStatus::Finishing);
            append(&node, &thread, "r", "B").await.expect("append");
            if overtaken {
                node.run(&thread, "next").await;
                assert_eq!(get(&node, &thread, "r").await.error_code.as_deref(), Some("lock-released"));
                assert!(matches!(append(&node, &thread, "r", "C").await, Err(AppendError::RunFenced(_))));
                assert_eq!(node.types(&thread).await, ["A", "B", "RUN_ERROR"]);
            } else {
                append(&node, &thread, "r", "RUN_FINISHED").await.expect("append");
                assert_eq!(get(&node, &thread, "r").await.status, RunStatus::Finished);
                node.run(&thread, "next").await;
                assert_eq!(node.types(&thread).await, ["A", "B", "RUN_FINISHED"]);
            }
        });
    }
}

#[test]
fn deleting_a_thread_ends_its_run_and_its_readers_and_frees_the_id() {
    run_seed(0, async {
        let node = Node::start();
        let other = node.another();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        append(&node, &thread, "r", "A").await.expect("append");
        let here = node
            .service
            .events
            .subscribe(&node.alice, &thread, 0, None, None, threadline_engine::subscription::FollowMethod::Socket)
            .await
            .expect("subscribe");
        let there = other
            .events
            .subscribe(
                &node.alice,
                &thread,
                0,
                None,
                Some(&run_id("r")),
                threadline_engine::subscription::FollowMethod::Socket,
            )
            .await
            .expect("subscribe");
        node.service.threads.delete(&node.alice, &thread).await.expect("delete");
        node.pass(Duration::from_secs(3)).await;
        for mut reader in [here, there] {
            let end = loop {
                match reader.next().await.expect("store") {
                    Some(Delivery::Ended(reason)) => break reason,
                    Some(_) => {}
                    None => panic!("no end came"),
                }
            };
            assert_eq!(end, EndReason::ThreadDeleted);
            assert!(matches!(reader.next().await, Ok(None)));
        }
        assert!(matches!(append(&node, &thread, "r", "B").await, Err(AppendError::ThreadNotFound)));
        node.thread("t").await;
        assert!(matches!(append(&node, &thread, "r", "B").await, Err(AppendError::RunNotFound)));
        assert!(node.log(&thread).await.is_empty());
        // The reaper finds nothing to do.
        node.pass(Duration::from_secs(30)).await;
        assert!(node.log(&thread).await.is_empty());
    });
}
