//! Group commit and the order of pipelined appends.

use std::time::Duration;

use threadline_core::NewEvents;
use threadline_engine::{AppendError, AppendReceipt, PendingAppend};

use crate::support::{Node, Rng, events, numbered, run_id, run_seed, seeds, settle};

/// Hands in an append of the run `r` of `t`.
async fn submit(node: &Node, producer_seq: Option<u64>, events: NewEvents) -> PendingAppend {
    let thread = crate::support::thread_id("t");
    node.service.runs.submit(&node.alice, &thread, &run_id("r"), producer_seq, events).await.expect("submit")
}

fn span(receipt: &AppendReceipt) -> (u64, u64, u64) {
    (receipt.first_seq, receipt.last_seq, receipt.producer_seq)
}

#[test]
fn appends_that_arrive_during_a_commit_share_the_next_one() {
    run_seed(0, async {
        let node = Node::start();
        let mut threads = Vec::new();
        for name in ["t", "u", "v"] {
            let thread = node.thread(name).await;
            node.run(&thread, "r").await;
            threads.push(thread);
        }
        node.store.append_gate.hold();
        let mut pending = Vec::new();
        for round in 0..10 {
            for thread in &threads {
                let append = numbered(&format!("{round}"), 2);
                pending
                    .push(node.service.runs.submit(&node.alice, thread, &run_id("r"), None, append).await.expect("in"));
            }
            settle().await;
        }
        node.store.append_gate.open();
        for (index, pending) in pending.into_iter().enumerate() {
            let receipt = pending.receipt().await.expect("receipt");
            let first = 1 + 2 * (index as u64 / 3);
            assert_eq!(span(&receipt), (first, first + 1, first + 1), "append {index}");
        }
        // The first append waited for no other; all others shared one commit, one entry per thread.
        let mut commits = node.store.take_appends();
        assert_eq!(commits.len(), 2, "{commits:?}");
        let mut last = commits.pop().expect("commit");
        last.sort_unstable();
        assert_eq!((commits[0].iter().sum::<usize>() + last.iter().sum::<usize>(), last.len()), (60, 3));
        let log = node.log(&threads[0]).await;
        let want: Vec<_> = (0..10).flat_map(|round| lines(&numbered(&format!("{round}"), 2))).collect();
        assert_eq!(log, want);
    });
}

fn lines(events: &NewEvents) -> Vec<String> {
    events.body().split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}

#[test]
fn an_append_that_does_not_fit_delays_and_fails_no_other() {
    run_seed(0, async {
        let node = Node::start();
        let (bad, good) = (node.thread("t").await, node.thread("u").await);
        node.run(&bad, "r").await;
        node.run(&good, "r").await;
        node.store.append_gate.hold();
        let first = submit(&node, Some(5), numbered("gap", 1)).await;
        let second =
            node.service.runs.submit(&node.alice, &good, &run_id("r"), Some(1), numbered("x", 1)).await.expect("in");
        // Working out what was wrong with the first one hangs; the second one does not wait for it.
        node.store.run_gate.hold();
        node.store.append_gate.open();
        assert_eq!(span(&second.receipt().await.expect("receipt")), (1, 1, 1));
        node.store.run_gate.open();
        let error = first.receipt().await.expect_err("gap");
        assert!(matches!(error, AppendError::ProducerSeqGap { expected: 1 }), "{error}");
    });
}

/// Sends one run's events in random cuts, many appends under way at once, with repetitions of what was sent before;
/// the commits are held up at random, so that appends merge in all ways.
async fn pipeline(mut rng: Rng) {
    let node = Node::start();
    let thread = node.thread("t").await;
    node.run(&thread, "r").await;
    // So that from now on only looking at what does not fit needs the run's record.
    node.service.runs.heartbeat(&node.alice, &thread, &run_id("r"), None).await.expect("heartbeat");
    let total = 60;
    let all = numbered("x", total);
    let cut = |from: usize, to: usize| {
        let lines = lines(&all);
        events(&lines[from..to])
    };
    let (mut sent, mut pending) = (0, Vec::new());
    while sent < total {
        match rng.below(8) {
            0 => node.store.append_gate.hold(),
            1 => node.store.append_gate.open(),
            2 => settle().await,
            3 => node.store.run_gate.hold(),
            4 => node.store.run_gate.open(),
            _ => {}
        }
        // A producer that lost its answers goes back some way and sends again from there, in other cuts.
        let from = if rng.chance(25) { sent - rng.below(sent as u64 + 1) as usize } else { sent };
        let to = (from + 1 + rng.below(6) as usize).min(total);
        pending.push((from, to, submit(&node, Some(from as u64 + 1), cut(from, to)).await));
        sent = to;
    }
    node.store.append_gate.open();
    node.store.run_gate.open();
    for (from, to, pending) in pending {
        let receipt = pending.receipt().await.expect("every append in order is good");
        assert_eq!(span(&receipt), (from as u64 + 1, to as u64, to as u64));
    }
    assert_eq!(node.log(&thread).await, lines(&all));
}

#[test]
fn pipelined_appends_keep_their_order_whatever_is_sent_again() {
    for seed in seeds(200) {
        run_seed(seed, pipeline(Rng::new(seed)));
    }
}

#[test]
fn appends_wait_for_an_earlier_one_that_is_being_checked() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        let all = lines(&numbered("x", 6));
        submit(&node, Some(1), events(&all[..2])).await.receipt().await.expect("receipt");
        // 1..=3 overlaps stored events, so it is checked separately; 4..=6 comes in meanwhile.
        node.store.run_gate.hold();
        let overlapping = submit(&node, Some(1), events(&all[..3])).await;
        settle().await;
        let next = submit(&node, Some(4), events(&all[3..])).await;
        settle().await;
        node.store.run_gate.open();
        assert_eq!(span(&overlapping.receipt().await.expect("receipt")), (1, 3, 3));
        assert_eq!(span(&next.receipt().await.expect("no gap: what it follows was handed in before")), (4, 6, 6));
        assert_eq!(node.log(&thread).await, all);
    });
}

#[test]
fn appends_without_a_number_keep_the_order_in_which_they_were_handed_in() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        let all = lines(&numbered("x", 40));
        let mut pending = Vec::new();
        for (index, line) in all.iter().enumerate() {
            if index % 7 == 3 {
                settle().await;
            }
            pending.push(submit(&node, None, events(&[line])).await);
        }
        for (index, pending) in pending.into_iter().enumerate() {
            assert_eq!(pending.receipt().await.expect("receipt").first_seq, index as u64 + 1);
        }
        assert_eq!(node.log(&thread).await, all);
    });
}

#[test]
fn a_stopping_node_commits_the_submitted_appends() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        node.store.append_gate.hold();
        let mut pending = Vec::new();
        for seq in 1..=5 {
            pending.push(submit(&node, Some(seq), numbered("x", 1)).await);
        }
        let service = node.service.clone();
        let stop = tokio::spawn(async move { service.stop().await });
        settle().await;
        node.store.append_gate.open();
        for pending in pending {
            pending.receipt().await.expect("receipt");
        }
        tokio::time::timeout(Duration::from_secs(5), stop).await.expect("the node ends").expect("stop");
        assert_eq!(node.log(&thread).await.len(), 5);
        let late = node.service.runs.append(&node.alice, &thread, &run_id("r"), None, numbered("x", 1)).await;
        assert!(matches!(late, Err(AppendError::Draining)));
    });
}

#[test]
fn a_cached_run_is_valid_until_its_thread_is_deleted() {
    run_seed(0, async {
        let node = Node::start();
        let thread = node.thread("t").await;
        node.run(&thread, "r").await;
        let runs = &node.service.runs;
        let first = runs.look_up(&node.alice, &thread, &run_id("r")).await.expect("a run");
        submit(&node, Some(1), numbered("x", 1)).await.receipt().await.expect("receipt");
        assert!(runs.is_current(&first));
        node.service.threads.delete(&node.alice, &thread).await.expect("delete");
        assert!(!runs.is_current(&first), "another thread may be made under this id");
        node.thread("t").await;
        node.run(&thread, "r").await;
        let second = runs.look_up(&node.alice, &thread, &run_id("r")).await.expect("a run");
        assert!(runs.is_current(&second) && !runs.is_current(&first));
    });
}
