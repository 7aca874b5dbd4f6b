//! Drivers of runs, and those that were displaced.

use std::time::Duration;

use threadline_core::{AgentId, Run, RunStatus, ThreadId};
use threadline_engine::{ClaimedTurn, DriveRight, NextAttempt, Opening, Service, StartRequest};

use crate::support::{Node, events, new_run, run_id, run_seed};

async fn get(node: &Node, thread: &ThreadId) -> Run {
    node.service.runs.get(&node.alice, thread, &run_id("r")).await.expect("run")
}

/// A run that this node drives, with an open message.
async fn driven(node: &Node, thread: &ThreadId) -> DriveRight {
    let first = events(&[r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#]);
    let request = StartRequest {
        agent: Some(AgentId::new("a").expect("id")),
        opening: Opening::Driven { first, input: None },
        ..new_run("r")
    };
    let started =
        node.service.runs.start_driven(&node.alice, thread, request, 0).await.expect("starts").expect("at the tail");
    started.right.expect("the right of a new run")
}

async fn claimed(service: &Service) -> Option<ClaimedTurn> {
    service.runs.claim_turns(10).await.expect("claims").pop()
}

#[test]
fn a_displaced_driver_ends_nothing() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let first = driven(&node, &thread).await;
        first.clone().give_up().await.expect("gives up");
        let other = node.another();
        let mut turn = claimed(&other).await.expect("a turn");
        // A claim alone displaces nobody, but who has given up has nothing more to give.
        assert!(claimed(&other).await.is_none());
        let state = turn.look().await.expect("looks").expect("is active");
        let NextAttempt { right: second, run, .. } =
            turn.take(&state, None, 0, None).await.expect("takes").expect("nobody else did");
        assert_eq!((run.attempt, second.attempt()), (2, 2));

        let failed = first.fail("store-unavailable".into(), "no".into()).await.expect("is answered");
        assert_eq!(failed.status, RunStatus::Running);
        assert_eq!(first.finish().await.expect("is answered").status, RunStatus::Running);
        assert!(!first.mark_called().await.expect("is answered"));
        first.give_up().await.expect("is answered");
        assert!(claimed(&node.service).await.is_none());
        assert_eq!(
            (get(&node, &thread).await, node.types(&thread).await),
            (run, vec!["TEXT_MESSAGE_START".to_owned()])
        );

        assert!(second.mark_called().await.expect("marks"));
        assert_eq!(second.finish().await.expect("finishes").status, RunStatus::Finished);
        assert_eq!(node.types(&thread).await, ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"]);
    });
}

#[test]
fn a_run_whose_node_is_alive_is_not_taken_after_an_outage_of_the_store() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let right = driven(&node, &thread).await;
        let other = node.another();
        node.pass(Duration::from_secs(10)).await;
        assert!(claimed(&other).await.is_none(), "both commit their beats");
        // The store commits no beat of either.
        node.store.node_beats.hold();
        node.pass(Duration::from_secs(10)).await;
        assert!(claimed(&other).await.is_none(), "the newest beats of both are as old");
        node.store.node_beats.open();
        node.pass(Duration::from_millis(100)).await;
        assert!(claimed(&other).await.is_none());
        node.pass(Duration::from_secs(10)).await;
        assert_eq!(get(&node, &thread).await.attempt, 1);
        right.finish().await.expect("finishes");
    });
}
