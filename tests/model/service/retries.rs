//! A retry is harmless, however late it comes.

use std::time::Duration;

use threadline_core::{NewEvents, RunStatus, ThreadId};
use threadline_engine::{AppendError, AppendReceipt, CreateThreadError, CreatedThread, FinishError};

use crate::support::{Node, events, new_run, numbered, run_id, run_seed};

async fn append(node: &Node, thread: &ThreadId, seq: u64, events: NewEvents) -> Result<AppendReceipt, AppendError> {
    node.service.runs.append(&node.alice, thread, &run_id("r"), Some(seq), events).await
}

fn place(receipt: Result<AppendReceipt, AppendError>) -> (u64, u64, u64) {
    let receipt = receipt.expect("receipt");
    (receipt.first_seq, receipt.last_seq, receipt.producer_seq)
}

#[test]
fn repetitions_gaps_and_conflicts_are_distinguished() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        assert_eq!(place(append(&node, &thread, 1, numbered("x", 4)).await), (1, 4, 4));
        // The same; a part of it; more than it.
        assert_eq!(place(append(&node, &thread, 1, numbered("x", 4)).await), (1, 4, 4));
        assert_eq!(place(append(&node, &thread, 1, numbered("x", 2)).await), (1, 2, 2));
        assert_eq!(place(append(&node, &thread, 1, numbered("x", 6)).await), (1, 6, 6));
        let gap = append(&node, &thread, 8, numbered("x", 1)).await;
        assert!(matches!(gap, Err(AppendError::ProducerSeqGap { expected: 7 })), "{gap:?}");
        for seq in 1..=6 {
            let other = append(&node, &thread, seq, numbered("other", 1)).await;
            assert!(matches!(other, Err(AppendError::ProducerSeqConflict { producer_seq }) if producer_seq == seq));
        }
        // The first one that differs is named, and nothing of the append is stored.
        let mut mixed: Vec<_> = (0..6).map(|n| format!(r#"{{"type":"X","name":"x","n":{n}}}"#)).collect();
        mixed[3] = r#"{"type":"Y"}"#.into();
        mixed.push(r#"{"type":"Z"}"#.into());
        let conflict = append(&node, &thread, 1, events(&mixed)).await;
        assert!(matches!(conflict, Err(AppendError::ProducerSeqConflict { producer_seq: 4 })), "{conflict:?}");
        assert_eq!(node.log(&thread).await.len(), 6);
        let zero = append(&node, &thread, 0, numbered("x", 1)).await;
        assert!(matches!(zero, Err(AppendError::InvalidRequest(_))));
    });
}

#[test]
fn a_retried_append_gets_the_same_answer_after_the_run_and_after_the_next_one_began() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        let last = || events(&[r#"{"type":"B"}"#, r#"{"type":"RUN_FINISHED"}"#]);
        let (first, second) =
            (place(append(&node, &thread, 1, numbered("x", 3)).await), place(append(&node, &thread, 4, last()).await));
        assert_eq!((first, second), ((1, 3, 3), (4, 5, 5)));
        for next in ["", "next", "and another"] {
            if !next.is_empty() {
                node.run(&thread, next).await;
                let run = run_id(next);
                node.service.runs.append(&node.alice, &thread, &run, Some(1), numbered("y", 7)).await.expect("append");
                node.service.runs.finish(&node.alice, &thread, &run, 0).await.expect("finish");
            }
            assert_eq!(place(append(&node, &thread, 1, numbered("x", 3)).await), first, "after {next}");
            assert_eq!(place(append(&node, &thread, 4, last()).await), second, "after {next}");
            let new = append(&node, &thread, 6, numbered("new", 1)).await;
            assert!(matches!(&new, Err(AppendError::RunFenced(run)) if run.status == RunStatus::Finished), "{new:?}");
            let other = append(&node, &thread, 2, numbered("other", 1)).await;
            assert!(matches!(other, Err(AppendError::ProducerSeqConflict { producer_seq: 2 })), "{other:?}");
            let unnumbered = node.service.runs.append(&node.alice, &thread, &run_id("r"), None, numbered("z", 1)).await;
            assert!(matches!(unnumbered, Err(AppendError::RunFenced(_))), "{unnumbered:?}");
        }
        // Nor do a repeated start, finish, fail and stop of it change anything.
        let before = node.log(&thread).await;
        let again = node.service.runs.start(&node.alice, &thread, new_run("r")).await.expect("start");
        assert_eq!((again.created, again.cursor, again.run.status), (false, 0, RunStatus::Finished));
        let runs = &node.service.runs;
        for run in [
            runs.finish(&node.alice, &thread, &run_id("r"), 0).await,
            runs.fail(&node.alice, &thread, &run_id("r"), None, None).await.map_err(FinishError::from),
            runs.stop(&node.alice, &thread, &run_id("r")).await.map_err(|error| -> FinishError { panic!("{error}") }),
            runs.release(&node.alice, &thread, &run_id("r")).await.map_err(FinishError::from),
        ] {
            assert_eq!(run.expect("run").status, RunStatus::Finished);
        }
        assert_eq!(node.log(&thread).await, before);
    });
}

#[test]
fn new_events_of_a_run_that_the_server_ended_are_fenced() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        append(&node, &thread, 1, events(&[r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#])).await.expect("append");
        node.pass(Duration::from_secs(25)).await;
        assert_eq!(node.types(&thread).await, ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_ERROR"]);
        // The producer never noticed. Its next number is taken by the closers, but what it sends is new.
        for (seq, what) in [(2, "next"), (3, "next but one"), (4, "after the end")] {
            let late = append(&node, &thread, seq, numbered(what, 1)).await;
            let code = late.as_ref().err().map(ToString::to_string);
            assert!(
                matches!(&late, Err(AppendError::RunFenced(run)) if run.error_code.as_deref() == Some("lease-expired")),
                "{what}: {code:?}"
            );
        }
        // Stored before, and more that is new.
        let mixed = append(
            &node,
            &thread,
            1,
            events(&[r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#, r#"{"type":"NEW"}"#]),
        );
        assert!(matches!(mixed.await, Err(AppendError::RunFenced(_))));
        // What the producer itself had stored stays comparable.
        let conflict = append(&node, &thread, 1, numbered("other", 1)).await;
        assert!(matches!(conflict, Err(AppendError::ProducerSeqConflict { producer_seq: 1 })), "{conflict:?}");
    });
}

#[test]
fn a_thread_is_created_once() {
    use threadline_engine::CreateThread;
    run_seed(0, async {
        let node = Node::start();
        let create = |name: &str| CreateThread {
            id: Some(crate::support::thread_id("t")),
            name: Some(name.into()),
            ..CreateThread::default()
        };
        let threads = &node.service.threads;
        let CreatedThread { thread: first, created: made } =
            threads.create(&node.alice, create("a")).await.expect("create");
        assert!(made);
        let edit = threadline_engine::EditThread { name: Some(Some("b".into())), ..Default::default() };
        threads.edit(&node.alice, &first.id, edit).await.expect("edit");
        let CreatedThread { thread: again, created: made } =
            threads.create(&node.alice, create("a")).await.expect("the same create");
        assert_eq!((again.key, again.name.as_deref(), made), (first.key, Some("b"), false));
        let other = threads.create(&node.alice, create("c")).await;
        assert!(matches!(other, Err(CreateThreadError::ThreadExists)));
        let foreign = threads.create(&crate::support::user("bob"), create("a")).await;
        assert!(matches!(foreign, Err(CreateThreadError::ThreadExists)));
    });
}
