//! Finished runs appended whole.

use std::time::Duration;

use threadline_core::{NewEvents, RunStatus, ThreadId};
use threadline_engine::{StartError, StartedRun};
use tokio::{task::JoinHandle, time::Instant};

use crate::support::{Node, complete_run, events, numbered, run_id, run_seed, settle};

type Answer = Result<StartedRun, StartError>;

fn whole(node: &Node, thread: &ThreadId, run: &str, events: NewEvents) -> JoinHandle<Answer> {
    let (runs, alice, thread) = (node.service.runs.clone(), node.alice.clone(), thread.clone());
    let start = complete_run(run, events);
    tokio::spawn(async move { runs.start(&alice, &thread, start).await })
}

#[test]
fn a_complete_run_waits_for_the_active_run() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        let answer = whole(&node, &thread, "w", numbered("w", 2));
        node.pass(Duration::from_secs(9)).await;
        assert!(!answer.is_finished());
        node.service.runs.finish(&node.alice, &thread, &run_id("r"), 0).await.expect("finish");
        settle().await;
        assert!(answer.is_finished(), "it does not wait for a recheck");
        let done = answer.await.expect("task").expect("appended");
        assert_eq!((done.run.status, done.cursor, done.created), (RunStatus::Finished, 2, true));
        assert_eq!(node.types(&thread).await, ["RUN_STARTED", "RUN_FINISHED", "X", "X", "RUN_FINISHED"]);
    });
}

#[test]
fn a_complete_run_replaces_a_run_whose_lock_is_released_meanwhile() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        let answer = whole(&node, &thread, "w", numbered("w", 2));
        node.pass(Duration::from_secs(1)).await;
        node.service.runs.release(&node.alice, &thread, &run_id("r")).await.expect("release");
        node.pass(Duration::from_secs(2)).await;
        assert!(answer.is_finished(), "a release is not announced: the start polls for it");
        assert_eq!(answer.await.expect("task").expect("appended").run.status, RunStatus::Finished);
    });
}

#[test]
fn a_complete_run_waits_ten_seconds_and_names_the_active_run() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let started = node.run(&thread, "r").await;
        let begin = Instant::now();
        let answer = whole(&node, &thread, "w", numbered("w", 1)).await.expect("task");
        let Err(StartError::RunActive(active)) = answer else { panic!("{answer:?}") };
        assert_eq!((active.run.id, active.cursor), (started.run.id, started.cursor));
        assert_eq!(begin.elapsed().as_secs(), 10);
        assert!(node.log(&thread).await.is_empty());
    });
}

#[test]
fn several_at_once_all_succeed_and_are_not_mixed() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        let answers: Vec<_> =
            (0..8).map(|n| whole(&node, &thread, &format!("w{n}"), numbered(&format!("w{n}"), 5))).collect();
        settle().await;
        node.service.runs.finish(&node.alice, &thread, &run_id("r"), 0).await.expect("finish");
        for answer in answers {
            answer.await.expect("task").expect("appended");
        }
        let log = node.log(&thread).await;
        assert_eq!(log.len(), 2 + 8 * 6);
        for run in log[2..].chunks(6) {
            let name = run[0].split('"').nth(7).expect("name");
            assert!(run[..5].iter().all(|event| event.contains(name)), "{run:?}");
            assert!(run[5].contains("RUN_FINISHED"));
        }
    });
}

#[test]
fn the_same_again_is_the_same_and_other_events_are_a_conflict() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let open = || events(&[r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#]);
        let first = whole(&node, &thread, "w", open()).await.expect("task").expect("appended");
        let closed = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"];
        assert_eq!(node.types(&thread).await, closed);
        for active in [false, true] {
            if active {
                // A repetition does not wait: it wants nothing of the thread.
                node.run(&thread, "r").await;
            }
            let begin = Instant::now();
            let again = whole(&node, &thread, "w", open()).await.expect("task").expect("the same");
            assert_eq!((again.created, again.cursor, &again.run), (false, first.cursor, &first.run));
            for other in [
                numbered("other", 1),
                events(&[r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#, r#"{"type":"A"}"#]),
                events(&[r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#, r#"{"type":"RUN_FINISHED"}"#]),
                events(&[r#"{"type":"RUN_FINISHED"}"#]),
            ] {
                let conflict = whole(&node, &thread, "w", other).await.expect("task");
                assert!(matches!(conflict, Err(StartError::ProducerSeqConflict { .. })), "{conflict:?}");
            }
            assert_eq!(begin.elapsed(), Duration::ZERO);
            assert_eq!(node.types(&thread).await, closed);
        }
        let running = whole(&node, &thread, "r", numbered("r", 1)).await.expect("task");
        assert!(matches!(running, Err(StartError::ProducerSeqConflict { .. })), "{running:?}");
    });
}

#[test]
fn a_complete_run_replaces_a_run_with_an_expired_lease_in_one_commit() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        node.service.runs.append(&node.alice, &thread, &run_id("r"), None, numbered("r", 1)).await.expect("append");
        node.clock.advance(Duration::from_secs(21));
        whole(&node, &thread, "w", numbered("w", 1)).await.expect("task").expect("appended");
        assert_eq!(node.types(&thread).await, ["X", "RUN_ERROR", "X", "RUN_FINISHED"]);
    });
}

#[test]
fn a_thread_deleted_while_it_waits_is_not_found() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        let answer = whole(&node, &thread, "w", numbered("w", 1));
        settle().await;
        node.service.threads.delete(&node.alice, &thread).await.expect("delete");
        assert!(matches!(answer.await.expect("task"), Err(StartError::ThreadNotFound)));
    });
}
