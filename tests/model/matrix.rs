//! Every cell of: a log that is empty or has ten events × where the cursor stands × what happens next, through the
//! use case and straight at the subscription. Each cell is an exact sequence of deliveries.

use std::time::Duration;

use threadline_core::{Epoch, Seq, ThreadId, limits::RING_BATCHES};
use threadline_engine::{
    ReadError,
    subscription::{Delivery, FollowError, FollowMethod, ReplacedLog, Subscription},
};
use threadline_store::DynStore;
use tokio::time::timeout;

use crate::support::{Node, events, numbered, run_id, run_seed, settle};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Cursor {
    Zero,
    BeforeTail,
    Tail,
    BeyondTail,
    ForeignEpoch,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Live {
    Append,
    AppendMoreThanTheRing,
    RunEnds,
    ThreadDeleted,
    FallsBehindAndCatchesUp,
}

const CURSORS: [Cursor; 5] = [Cursor::Zero, Cursor::BeforeTail, Cursor::Tail, Cursor::BeyondTail, Cursor::ForeignEpoch];
const LIVES: [Live; 5] =
    [Live::Append, Live::AppendMoreThanTheRing, Live::RunEnds, Live::ThreadDeleted, Live::FallsBehindAndCatchesUp];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Api {
    Service,
    ServiceBoundToTheRun,
    Subscription,
}

/// Opens through one of the APIs; a refusal as text.
async fn open(
    node: &Node,
    api: Api,
    thread: &ThreadId,
    cursor: Seq,
    epoch: Option<Epoch>,
) -> Result<Subscription, String> {
    let events = &node.service.events;
    let refused = |error: ReadError| match error {
        ReadError::LogReplaced(ReplacedLog { tail, .. }) => format!("replaced {tail}"),
        ReadError::CursorAhead { epoch: Some(_), tail } => format!("ahead {tail}"),
        other => format!("{other}"),
    };
    match api {
        Api::Service => {
            events.subscribe(&node.alice, thread, cursor, epoch, None, FollowMethod::Socket).await.map_err(refused)
        }
        Api::ServiceBoundToTheRun => events
            .subscribe(&node.alice, thread, cursor, epoch, Some(&run_id("r")), FollowMethod::Socket)
            .await
            .map_err(refused),
        Api::Subscription => {
            let (key, store) = (node.key(thread).await, node.store.clone() as DynStore);
            Subscription::open(node.service.hub(), store, key, cursor, epoch, None).await.map_err(|error| match error {
                FollowError::LogReplaced(ReplacedLog { tail, .. }) => format!("replaced {tail}"),
                FollowError::CursorAhead { tail, .. } => format!("ahead {tail}"),
                other => format!("{other}"),
            })
        }
    }
}

/// The deliveries that are ready, in a short form.
async fn drain(reader: &mut Subscription) -> Vec<String> {
    let mut seen = Vec::new();
    while let Ok(delivery) = timeout(Duration::from_millis(1), reader.next()).await {
        match delivery.expect("store") {
            Some(Delivery::Events(slice)) => {
                let (first, last) = (slice.first_seq().expect("first"), slice.last_seq().expect("last"));
                assert_eq!(slice.events().map(|(seq, ..)| seq).collect::<Vec<_>>(), (first..=last).collect::<Vec<_>>());
                seen.push(format!("{first}-{last}"));
            }
            Some(Delivery::CaughtUp(at)) => seen.push(format!("caught up {at}")),
            Some(Delivery::FellBehind(at)) => seen.push(format!("fell behind {at}")),
            Some(Delivery::Rebased { .. }) => seen.push("rebased".to_owned()),
            Some(Delivery::Queue(queue)) => seen.push(format!("{queue:?}")),
            Some(Delivery::Ended(reason)) => seen.push(format!("{reason:?}")),
            None => {
                seen.push("end".into());
                break;
            }
        }
    }
    seen
}

/// Appends `count` batches of one event; the reader looks after each one, or only at the end.
async fn append(
    node: &Node,
    thread: &ThreadId,
    count: usize,
    mut reader: Option<(&mut Subscription, &mut Vec<String>)>,
) {
    for _ in 0..count {
        let appended = node.service.runs.append(&node.alice, thread, &run_id("r"), None, numbered("x", 1)).await;
        appended.expect("append");
        if let Some((reader, seen)) = &mut reader {
            seen.extend(drain(reader).await);
        }
    }
}

async fn cell(api: Api, tail: Seq, cursor: Cursor, live: Live) {
    let node = Node::start();
    let thread = node.thread("t").await;
    node.run(&thread, "r").await;
    if tail > 0 {
        let first = numbered("first", tail as usize);
        node.service.runs.append(&node.alice, &thread, &run_id("r"), None, first).await.expect("append");
    }
    let (at, epoch) = match cursor {
        Cursor::Zero => (0, None),
        Cursor::BeforeTail => (tail.saturating_sub(1), None),
        Cursor::Tail => (tail, None),
        Cursor::BeyondTail => (tail + 1, None),
        Cursor::ForeignEpoch => (tail, Some(Epoch::generate())),
    };
    let name = format!("{api:?}, {tail} events, {cursor:?}, {live:?}");
    let opened = open(&node, api, &thread, at, epoch).await;
    let refused = match cursor {
        Cursor::BeyondTail => Some(format!("ahead {tail}")),
        Cursor::ForeignEpoch => Some(format!("replaced {tail}")),
        _ => None,
    };
    if let Some(refused) = refused {
        assert_eq!(opened.err(), Some(refused), "{name}");
        return;
    }
    let mut reader = opened.expect("open");
    let mut want = Vec::new();
    if at < tail {
        want.push(format!("{}-{tail}", at + 1));
    }
    want.push(format!("caught up {tail}"));
    assert_eq!(drain(&mut reader).await, want, "{name}: before");

    let mut got = Vec::new();
    let many = RING_BATCHES + 10;
    let mut want = Vec::new();
    match live {
        Live::Append => {
            append(&node, &thread, 3, Some((&mut reader, &mut got))).await;
            want.extend((tail + 1..=tail + 3).map(|seq| format!("{seq}-{seq}")));
        }
        Live::AppendMoreThanTheRing => {
            append(&node, &thread, many, Some((&mut reader, &mut got))).await;
            want.extend((tail + 1..=tail + many as u64).map(|seq| format!("{seq}-{seq}")));
        }
        Live::RunEnds => {
            let end = events(&[r#"{"type":"X"}"#, r#"{"type":"RUN_FINISHED"}"#]);
            node.service.runs.append(&node.alice, &thread, &run_id("r"), None, end).await.expect("append");
            // What another run does is not for a reader that is bounded to the first one.
            node.run(&thread, "next").await;
            node.service
                .runs
                .append(&node.alice, &thread, &run_id("next"), None, numbered("y", 1))
                .await
                .expect("append");
            if api == Api::ServiceBoundToTheRun {
                want = vec![format!("{}-{}", tail + 1, tail + 2), "RunEnded".into(), "end".into()];
            } else {
                want = vec![format!("{}-{}", tail + 1, tail + 3)];
            }
        }
        Live::ThreadDeleted => {
            node.service.threads.delete(&node.alice, &thread).await.expect("delete");
            want = vec!["ThreadDeleted".into(), "end".into()];
        }
        Live::FallsBehindAndCatchesUp => {
            append(&node, &thread, many, None).await;
            let end = tail + many as u64;
            want = vec![format!("fell behind {tail}"), format!("{}-{end}", tail + 1), format!("caught up {end}")];
        }
    }
    settle().await;
    got.extend(drain(&mut reader).await);
    assert_eq!(got, want, "{name}: after");
}

#[test]
fn every_cell_of_the_matrix() {
    for api in [Api::Service, Api::ServiceBoundToTheRun, Api::Subscription] {
        for tail in [0, 10] {
            for cursor in CURSORS {
                for live in LIVES {
                    run_seed(0, cell(api, tail, cursor, live));
                }
            }
        }
    }
}

#[test]
fn a_cursor_of_a_deleted_thread_is_refused_by_a_recreated_one() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        let old = node.service.threads.get(&node.alice, &thread).await.expect("thread").epoch;
        node.service.threads.delete(&node.alice, &thread).await.expect("delete");
        assert_eq!(
            open(&node, Api::Service, &thread, 0, Some(old)).await.err(),
            Some("the thread does not exist".into())
        );
        node.thread("t").await;
        assert_eq!(open(&node, Api::Service, &thread, 0, Some(old)).await.err(), Some("replaced 0".into()));
        assert_eq!(open(&node, Api::Subscription, &thread, 0, Some(old)).await.err(), Some("replaced 0".into()));
    });
}

#[test]
fn a_reader_bounded_to_a_run_without_events_ends_with_it() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        let mut reader = open(&node, Api::ServiceBoundToTheRun, &thread, 0, None).await.expect("open");
        assert_eq!(drain(&mut reader).await, ["caught up 0"]);
        node.pass(Duration::from_secs(25)).await;
        assert_eq!(drain(&mut reader).await, ["RunEnded", "end"]);
        // And so does one that comes later, also after another run.
        node.run(&thread, "next").await;
        node.service.runs.append(&node.alice, &thread, &run_id("next"), None, numbered("y", 2)).await.expect("append");
        for cursor in 0..=2 {
            let mut late = open(&node, Api::ServiceBoundToTheRun, &thread, cursor, None).await.expect("open");
            assert_eq!(drain(&mut late).await, ["RunEnded", "end"], "cursor {cursor}");
        }
    });
}
