//! A run as one stream of lines.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use threadline_core::{
    Principal, RunStatus, ThreadId,
    limits::{BODY_ROOM_WAIT, WRITE_BUFFER_BYTES},
};
use threadline_engine::{
    StreamRunError, StreamValidation, StreamedRun,
    limits::{BudgetOwner, MemoryKind},
};
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};

use crate::support::{Node, client, new_run, project, run_id, run_seed, settle};

type Answer = Result<StreamedRun, StreamRunError>;

/// A body that the test sends piece by piece; `Err` breaks it.
struct Body {
    pieces: Option<mpsc::UnboundedSender<Result<Bytes, &'static str>>>,
    answer: JoinHandle<Answer>,
}

impl Body {
    fn open(node: &Node, thread: &ThreadId, run: &str, producer_seq: u64) -> Self {
        Self::of(&node.alice, node, thread, run, producer_seq)
    }

    fn of(producer: &Principal, node: &Node, thread: &ThreadId, run: &str, producer_seq: u64) -> Self {
        Self::with(producer, node, thread, run, producer_seq, None)
    }

    /// A new run of which the events are validated.
    async fn validated(node: &Node, thread: &ThreadId, run: &str) -> Self {
        let validation = node.service.validations.of_stream(&node.alice, thread, None, 1).await.expect("begins");
        Self::with(&node.alice, node, thread, run, 1, Some(validation))
    }

    fn with(
        producer: &Principal,
        node: &Node,
        thread: &ThreadId,
        run: &str,
        from: u64,
        validation: Option<StreamValidation>,
    ) -> Self {
        let (pieces, receiver) = mpsc::unbounded_channel();
        let body = stream::unfold(receiver, async |mut receiver| receiver.recv().await.map(|piece| (piece, receiver)));
        let (runs, producer, thread) = (node.service.runs.clone(), producer.clone(), thread.clone());
        let new = new_run(run);
        let answer = tokio::spawn(async move { runs.stream(&producer, &thread, new, from, validation, body).await });
        Self { pieces: Some(pieces), answer }
    }

    fn send(&self, text: &str) {
        let pieces = self.pieces.as_ref().expect("open");
        pieces.send(Ok(Bytes::copy_from_slice(text.as_bytes()))).expect("the body is read");
    }

    fn break_off(&self) {
        self.pieces.as_ref().expect("open").send(Err("reset")).expect("the body is read");
    }

    async fn end(mut self) -> Answer {
        self.pieces = None;
        self.answer().await
    }

    async fn answer(self) -> Answer {
        tokio::time::timeout(Duration::from_secs(60), self.answer).await.expect("an answer").expect("task")
    }
}

/// Streams pieces as they are; the types in the log afterwards, and how it ended.
async fn streamed(pieces: Vec<Bytes>) -> (Vec<String>, Result<(RunStatus, bool), String>) {
    let node = Node::start();
    let thread = node.thread("t").await;
    let body = stream::iter(pieces.into_iter().map(Ok::<_, Infallible>));
    let answer = node.service.runs.stream(&node.alice, &thread, new_run("r"), 1, None, body).await;
    let end = answer.map(|done| (done.run.run.status, done.early)).map_err(|error| error.to_string());
    (node.types(&thread).await, end)
}

#[test]
fn a_body_may_be_split_anywhere() {
    let bodies = [
        "{\"type\":\"A\"}\n\n{\"type\":\"B\",\"s\":\"é\"}\r\n{\"type\":\"C\"}",
        "{\"type\":\"A\"}\n{\"type\":\"RUN_FINISHED\"}\n",
        "{\"type\":\"A\"}\n{\"type\":\"RUN_ERROR\",\"code\":\"c\"}\n\n",
        "{\"type\":\"A\"}\nnonsense\n{\"type\":\"B\"}\n",
        "\n\n\n",
        "",
    ];
    for body in bodies {
        let bytes = Bytes::copy_from_slice(body.as_bytes());
        let whole = run_seed(0, streamed(vec![bytes.clone()]));
        for cut in 1..bytes.len() {
            let pieces = vec![bytes.slice(..cut), bytes.slice(cut..)];
            assert_eq!(run_seed(0, streamed(pieces)), whole, "{body:?} cut at {cut}");
        }
        let single = bytes.chunks(1).map(Bytes::copy_from_slice).collect();
        assert_eq!(run_seed(0, streamed(single)), whole, "{body:?} byte by byte");
    }
}

#[test]
fn bytes_after_the_terminal_event_are_not_read_wherever_the_body_is_split() {
    let text = "{\"type\":\"A\"}\n{\"type\":\"RUN_FINISHED\"}\n{\"type\":\"B\"}\nnonsense\n";
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    let want = (vec!["A".to_owned(), "RUN_FINISHED".to_owned()], Ok((RunStatus::Finished, true)));
    for cut in 0..=bytes.len() {
        let pieces = vec![bytes.slice(..cut), bytes.slice(cut..)];
        assert_eq!(run_seed(0, streamed(pieces)), want, "cut at {cut}");
    }
}

#[test]
fn the_end_of_the_body_closes_what_is_open() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let body = Body::open(&node, &thread, "r", 1);
        body.send("{\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"m\"}\n");
        let done = body.end().await.expect("done");
        assert_eq!((done.run.run.status, done.early, done.run.created), (RunStatus::Finished, false, true));
        assert_eq!(node.types(&thread).await, ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"]);
    });
}

#[test]
fn a_stream_goes_on_if_another_user_gives_the_same_id_to_a_thread() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread_of(&client("alice"), "t").await;
        let body = Body::of(&Principal::project(project()), &node, &thread, "r", 1);
        body.send("{\"type\":\"A\"}\n");
        settle().await;
        node.thread_of(&client("bob"), "t").await;
        body.send("{\"type\":\"B\"}\n");
        assert_eq!(body.end().await.expect("done").run.run.status, RunStatus::Finished);
        assert_eq!(node.types(&thread).await, ["A", "B", "RUN_FINISHED"]);
    });
}

#[test]
fn a_body_that_only_blinks_keeps_the_lease() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let body = Body::open(&node, &thread, "r", 1);
        body.send("{\"type\":\"A\"}\n");
        for _ in 0..30 {
            node.pass(Duration::from_secs(10)).await;
            body.send("\n");
        }
        let run = node.service.runs.get(&node.alice, &thread, &run_id("r")).await.expect("run");
        assert_eq!(run.status, RunStatus::Running);
        body.send("{\"type\":\"B\"}\n");
        body.end().await.expect("done");
        assert_eq!(node.types(&thread).await, ["A", "B", "RUN_FINISHED"]);
    });
}

#[test]
fn a_body_that_falls_silent_leaves_the_run_to_its_lease() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let body = Body::open(&node, &thread, "r", 1);
        body.send("{\"type\":\"A\"}\n{\"type\":");
        node.pass(Duration::from_secs(599)).await;
        assert!(!body.answer.is_finished());
        node.pass(Duration::from_secs(2)).await;
        assert!(matches!(body.answer().await, Err(StreamRunError::InvalidRequest(_))));
        node.pass(Duration::from_secs(26)).await;
        assert_eq!(node.types(&thread).await, ["A", "RUN_ERROR"]);
    });
}

#[test]
fn a_bad_line_ends_the_run_and_keeps_the_good_ones() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let body = Body::open(&node, &thread, "r", 1);
        body.send(
            "{\"type\":\"A\"}\n{\"type\":\"STEP_STARTED\",\"stepName\":\"s\"}\n{\"no\":\"type\"}\n{\"type\":\"C\"}\n",
        );
        let error = body.answer().await.expect_err("a bad line");
        assert!(matches!(&error, StreamRunError::InvalidEvent(error) if error.index == 2), "{error}");
        assert_eq!(node.types(&thread).await, ["A", "STEP_STARTED", "STEP_FINISHED", "RUN_ERROR"]);
        let run = node.service.runs.get(&node.alice, &thread, &run_id("r")).await.expect("run");
        assert_eq!((run.status, run.error_code.as_deref()), (RunStatus::Error, Some("invalid-event")));
    });
}

#[test]
fn a_broken_body_can_be_continued_under_the_same_run_id() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let body = Body::open(&node, &thread, "r", 1);
        body.send("{\"type\":\"A\"}\n{\"type\":\"B\"}\n{\"type\":\"C");
        body.break_off();
        assert!(matches!(body.answer().await, Err(StreamRunError::InvalidRequest(_))));
        let run = node.service.runs.get(&node.alice, &thread, &run_id("r")).await.expect("run");
        assert_eq!((run.status, run.producer_seq), (RunStatus::Running, 2));
        // From the line that was not stored, or all of it again.
        let body = Body::open(&node, &thread, "r", 3);
        body.send("{\"type\":\"C\"}\n");
        body.break_off();
        assert!(body.answer().await.is_err());
        let whole = "{\"type\":\"A\"}\n{\"type\":\"B\"}\n{\"type\":\"C\"}\n{\"type\":\"D\"}\n";
        for _ in 0..2 {
            let body = Body::open(&node, &thread, "r", 1);
            body.send(whole);
            let done = body.end().await.expect("done");
            assert_eq!((done.run.created, done.run.run.status), (false, RunStatus::Finished));
            assert_eq!(node.types(&thread).await, ["A", "B", "C", "D", "RUN_FINISHED"]);
        }
    });
}

#[test]
fn a_stop_ends_a_streamed_run_at_once() {
    for before in [false, true] {
        run_seed(0, async {
            let node = Node::start();
            let thread = node.thread("t").await;
            let body = Body::open(&node, &thread, "r", 1);
            settle().await;
            if !before {
                body.send("{\"type\":\"A\"}\n{\"type\":\"TOOL_CALL_START\",\"toolCallId\":\"c\"}\n");
                settle().await;
            }
            node.service.runs.stop(&node.alice, &thread, &run_id("r")).await.expect("stop");
            settle().await;
            assert!(body.answer.is_finished(), "before the first event: {before}");
            let done = body.answer().await.expect("done");
            assert_eq!((done.run.run.status, done.early), (RunStatus::Stopped, true));
            let want: &[&str] = if before {
                &["RUN_STARTED", "RUN_FINISHED"]
            } else {
                &["A", "TOOL_CALL_START", "TOOL_CALL_END", "RUN_FINISHED"]
            };
            assert_eq!(node.types(&thread).await, want);
        });
    }
}

#[test]
fn a_failed_heartbeat_is_retried_before_the_lease_expires() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let body = Body::open(&node, &thread, "r", 1);
        body.send("{\"type\":\"A\"}\n");
        settle().await;
        node.store.failing_beats.store(20, SeqCst);
        node.pass(Duration::from_secs(60)).await;
        assert_eq!(node.store.failing_beats.load(SeqCst), 0, "it was tried again");
        body.send("{\"type\":\"B\"}\n");
        let done = body.end().await.expect("done");
        assert_eq!(done.run.run.status, RunStatus::Finished);
        assert_eq!(node.types(&thread).await, ["A", "B", "RUN_FINISHED"]);
    });
}

#[test]
fn a_stop_from_another_node_ends_it_within_a_recheck() {
    run_seed(0, async {
        let node = Node::start();
        let other = node.another();
        let thread = node.thread("t").await;
        let body = Body::open(&node, &thread, "r", 1);
        body.send("{\"type\":\"A\"}\n");
        settle().await;
        other.runs.stop(&node.alice, &thread, &run_id("r")).await.expect("stop");
        node.pass(Duration::from_millis(2_100)).await;
        assert_eq!(body.answer().await.expect("done").run.run.status, RunStatus::Stopped);
        assert_eq!(node.types(&thread).await, ["A", "RUN_FINISHED"]);
    });
}

#[test]
fn a_thread_deleted_under_a_stream_ends_it_with_an_error() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let body = Body::open(&node, &thread, "r", 1);
        body.send("{\"type\":\"A\"}\n");
        settle().await;
        node.service.threads.delete(&node.alice, &thread).await.expect("delete");
        body.send("{\"type\":\"B\"}\n");
        let error = body.answer().await.expect_err("deleted");
        assert!(matches!(error, StreamRunError::ThreadNotFound), "{error}");
    });
}

#[test]
fn events_that_arrive_during_an_append_share_the_next_one() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let body = Body::open(&node, &thread, "r", 1);
        let appends = &node.store.pass;
        appends.append_gate.hold();
        for kind in ["A", "B", "C", "D"] {
            body.send(&format!("{{\"type\":\"{kind}\"}}\n"));
            settle().await;
        }
        appends.append_gate.open();
        let done = body.end().await.expect("done");
        assert_eq!(done.run.run.status, RunStatus::Finished);
        assert_eq!(appends.take_appends(), [[1], [3]]);
        assert_eq!(node.types(&thread).await, ["A", "B", "C", "D", "RUN_FINISHED"]);
    });
}

#[test]
fn a_body_is_read_no_faster_than_the_store_takes_its_events() {
    const PIECE: usize = 64 * 1_024;
    const PIECES: usize = 64;
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = taken.clone();
        let body = stream::iter(0..PIECES).map(move |_| {
            counted.fetch_add(1, SeqCst);
            let line = format!("{{\"type\":\"A\",\"text\":\"{}\"}}\n", "x".repeat(PIECE));
            Ok::<_, Infallible>(Bytes::from(line))
        });
        node.store.pass.append_gate.hold();
        let (runs, alice, id) = (node.service.runs.clone(), node.alice.clone(), thread.clone());
        let answer = tokio::spawn(async move { runs.stream(&alice, &id, new_run("r"), 1, None, body).await });
        settle().await;
        // One piece is being appended; the others fill the buffer, which the last one may exceed.
        let most = 1 + WRITE_BUFFER_BYTES.div_ceil(PIECE);
        assert!((2..=most).contains(&taken.load(SeqCst)), "{} of at most {most}", taken.load(SeqCst));
        node.store.pass.append_gate.open();
        let done = answer.await.expect("task").expect("done");
        // RUN_FINISHED is the last one.
        assert_eq!(done.run.run.producer_seq, PIECES as u64 + 1);
    });
}

/// Events of a run with more ids than a client may hold without memory that is counted.
fn many_ids() -> String {
    let starts = (0..2_000).map(|n| {
        let id = format!("{n}-{}", "x".repeat(200));
        format!("{{\"type\":\"ACTIVITY_SNAPSHOT\",\"messageId\":\"{id}\",\"activityType\":\"a\",\"content\":{{}}}}\n")
    });
    let begin = "{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n".to_owned();
    [begin].into_iter().chain(starts).collect()
}

#[test]
fn the_validation_of_a_stream_takes_memory_of_its_producers_share() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let held = || node.service.memory.held()[MemoryKind::Fold as usize].1;
        let body = Body::validated(&node, &thread, "r").await;
        assert_eq!(held(), 0);
        body.send(&many_ids());
        settle().await;
        assert!(held() > 2_000 * 200, "{} bytes", held());
        body.send("{\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n");
        assert_eq!(body.end().await.expect("done").run.run.status, RunStatus::Finished);
        assert_eq!(held(), 0);
    });
}

#[test]
fn a_validated_stream_without_memory_waits_and_is_refused() {
    run_seed(0, async {
        for comes in [true, false] {
            let node = Node::start();
            let thread = node.thread("t").await;
            // Another request of the same owner has all of its share.
            let mut other = node.service.memory.place(MemoryKind::Fold, &BudgetOwner::of(&node.alice));
            let most = other.most() - 1_024;
            other.take(most, Instant::now()).await.expect("is free");
            let body = Body::validated(&node, &thread, "r").await;
            body.send(&many_ids());
            settle().await;
            body.send("{\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n");
            node.pass(BODY_ROOM_WAIT / 2).await;
            assert_eq!(node.types(&thread).await.len(), 2_001, "what was read is stored, and no more is read");
            if comes {
                drop(other);
                assert_eq!(body.answer().await.expect("done").run.run.status, RunStatus::Finished);
                continue;
            }
            node.pass(BODY_ROOM_WAIT).await;
            let refused = body.answer().await.expect_err("there is no memory");
            assert!(matches!(refused, StreamRunError::Limited(_)), "{refused}");
            let run = node.service.runs.get(&node.alice, &thread, &run_id("r")).await.expect("run");
            assert_eq!((run.status, run.producer_seq), (RunStatus::Running, 2_001), "it may be continued");
        }
    });
}
