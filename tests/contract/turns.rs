//! Turns of runs that the server drives: claims, and takeovers.

use std::{sync::Arc, time::Duration};

use threadline_core::{DriverFence, NodeId, Run, ThreadKey, WriteFence, limits::DRIVER_TTL};
use threadline_store::{
    ActiveRuns, Append, Before, ClaimTurns, CloseOutcome, CloseWhen, Committed, HeartbeatRequest, StartRun, TakeTurn,
    Turn,
};
use tokio::task::JoinSet;

use crate::{nodes::beat, support::*};

fn claim(node: u64) -> ClaimTurns {
    ClaimTurns { node: NodeId(node), judges: true, own: Vec::new(), limit: 10 }
}

async fn claimed(env: &Env, claim: ClaimTurns) -> Vec<Turn> {
    env.store.claim_turns(&claim).await.expect("claims")
}

/// Starts a run that node 1 drives, with two events.
async fn driven(env: &Env, id: &str, run: &str) -> (ThreadKey, Run, WriteFence) {
    let key = env.create(id).await.key;
    let (run, fence) = begin(env, key, run).await;
    (key, run, fence)
}

async fn begin(env: &Env, key: ThreadKey, run: &str) -> (Run, WriteFence) {
    let start =
        StartRun { turn: Some(turn()), agent: Some(agent("a")), events: Some(events(1..=2)), ..start_run(key, run) };
    let started = env.started(start).await;
    assert!(started.run.driven && started.run.attempt == 1);
    (started.run, started.head.write_fence())
}

fn take(turn: &Turn, fence: WriteFence, tail: u64, node: u64) -> TakeTurn {
    let (key, run) = (turn.key, turn.run.clone());
    TakeTurn { key, run, fence, tail, driver: NodeId(node), events: None, futile: 0, input: None }
}

async fn taken(env: &Env, take: TakeTurn) -> Option<Committed> {
    env.store.take_turn(take).await.expect("takes").map(|taken| taken.committed)
}

async fn write(env: &Env, key: ThreadKey, fence: WriteFence) -> bool {
    let append = Append { key, fence, epoch: None, producer_seq: None, events: events([9]) };
    env.append(append).await.is_some()
}

pub async fn a_turn_that_is_given_up_is_claimed_once(env: Env) {
    let (key, run, fence) = driven(&env, "t", "r").await;
    env.running("plain", "r").await;
    assert_eq!(env.store.turns_of(NodeId(1)).await.expect("reads"), [(key, run.id.clone())]);
    assert_eq!(env.store.turns_of(NodeId(2)).await.expect("reads"), []);
    env.store.leave_turn(key, &run.id, DriverFence(fence.driver.0 + 1)).await.expect("leaves");
    assert_eq!(env.store.turns_of(NodeId(1)).await.expect("reads").len(), 1, "another driver gives nothing up");
    env.store.leave_turn(key, &run.id, fence.driver).await.expect("leaves");

    let mut found = claimed(&env, ClaimTurns { judges: false, ..claim(2) }).await;
    let turn = found.pop().expect("a turn");
    assert!(found.is_empty());
    assert_eq!((turn.key, &turn.run, turn.before, turn.driver), (key, &run.id, Before::HandedOver, fence.driver));
    assert_eq!((turn.attempt, turn.attempt_seq, turn.futile, turn.called), (1, 3, 0, false));
    assert_eq!((turn.input.as_deref(), turn.agent), (Some("input"), Some(agent("a"))));
    assert_eq!((turn.project, turn.user, turn.thread), (project(), user("u"), thread_id("t")));
    if env.dir.is_none() {
        assert!(claimed(&env, ClaimTurns { judges: false, ..claim(3) }).await.is_empty());
    }
    assert_eq!(env.store.turns_of(NodeId(2)).await.expect("reads"), [(key, run.id)]);
    assert!(write(&env, key, fence).await, "a claim alone changes nothing for the driver before");
}

pub async fn turns_of_a_lost_node_are_claimed(env: Env) {
    let alone = env.dir.is_some();
    env.store.put_beat(&beat(1)).await.expect("commits");
    driven(&env, "t", "r").await;
    driven(&env, "s", "r").await;
    env.clock.advance(DRIVER_TTL - Duration::from_millis(1));
    if !alone {
        assert!(claimed(&env, claim(2)).await.is_empty(), "the node is alive");
        env.clock.advance(Duration::from_millis(1));
        assert!(claimed(&env, ClaimTurns { judges: false, ..claim(2) }).await.is_empty());
    }
    let first = claimed(&env, ClaimTurns { limit: 1, ..claim(2) }).await;
    let second = claimed(&env, claim(2)).await;
    let names: Vec<_> = first.iter().chain(&second).map(|turn| (turn.thread.as_str(), turn.before)).collect();
    assert_eq!(names, [("t", Before::NodeLost), ("s", Before::NodeLost)]);
    assert!(claimed(&env, claim(2)).await.is_empty(), "they are its own by now");
}

pub async fn a_node_claims_turns_of_its_own_that_it_has_lost(env: Env) {
    env.store.put_beat(&beat(1)).await.expect("commits");
    let (key, ..) = driven(&env, "t", "r").await;
    driven(&env, "s", "r").await;
    assert!(claimed(&env, claim(1)).await.is_empty());
    let found = claimed(&env, ClaimTurns { own: vec![key], ..claim(1) }).await;
    assert_eq!(found.iter().map(|turn| (turn.key, turn.before)).collect::<Vec<_>>(), [(key, Before::TaskLost)]);
}

pub async fn a_takeover_displaces_the_driver_before(env: Env) {
    let (key, run, old) = driven(&env, "t", "r").await;
    env.store.leave_turn(key, &run.id, old.driver).await.expect("leaves");
    let turn = claimed(&env, claim(2)).await.pop().expect("a turn");
    let version = env.get("t").await.expect("is there").version;
    let taken = taken(&env, TakeTurn { events: Some(events([3, 4])), futile: 2, ..take(&turn, old, 2, 2) }).await;
    let Committed { run: now, head, slice } = taken.expect("takes");
    assert_eq!((slice.first_seq(), slice.last_seq(), head.tail, now.producer_seq), (Some(3), Some(4), 4, 4));
    assert_eq!((now.attempt, now.fence, head.fence), (2, run.fence, run.fence), "the run keeps its fence");
    assert!(head.driver > old.driver && env.get("t").await.expect("is there").version > version);
    assert_eq!(env.store.run(key, &run.id).await.expect("reads"), Some(now));

    let new = head.write_fence();
    assert!(!write(&env, key, old).await);
    let beat = |fence| [HeartbeatRequest { key, fence, lease: None, epoch: None }];
    assert_eq!(env.store.heartbeat(&beat(old)).await.expect("beats"), [None]);
    let close = closing(&env.head(key).await, Some(run_error()));
    let stale = threadline_store::Closing { fence: old, ..close.clone() };
    assert!(matches!(env.store.close(key, stale, CloseWhen::Always).await, Ok(CloseOutcome::Missed)));
    assert!(!env.store.mark_called(key, &run.id, old.driver).await.expect("marks"));
    env.store.leave_turn(key, &run.id, old.driver).await.expect("does nothing");

    assert!(env.store.heartbeat(&beat(new)).await.expect("beats")[0].is_some());
    assert!(env.store.mark_called(key, &run.id, new.driver).await.expect("marks"));
    assert!(write(&env, key, new).await);
    env.store.leave_turn(key, &run.id, new.driver).await.expect("leaves");
    let turn = claimed(&env, claim(3)).await.pop().expect("a turn");
    assert_eq!((turn.attempt, turn.attempt_seq, turn.futile, turn.called), (2, 5, 2, true));
    assert_eq!(env.texts(key).await.len(), 5);
}

pub async fn a_takeover_needs_the_log_that_it_has_seen(env: Env) {
    let (key, run, fence) = driven(&env, "t", "r").await;
    env.store.leave_turn(key, &run.id, fence.driver).await.expect("leaves");
    let turn = claimed(&env, claim(2)).await.pop().expect("a turn");
    assert!(write(&env, key, fence).await, "the driver before is alive");
    assert!(taken(&env, take(&turn, fence, 2, 2)).await.is_none(), "another tail");
    let other = WriteFence { driver: DriverFence(fence.driver.0 + 1), ..fence };
    assert!(taken(&env, take(&turn, other, 3, 2)).await.is_none(), "another driver");
    assert!(taken(&env, TakeTurn { run: run_id("s"), ..take(&turn, fence, 3, 2) }).await.is_none(), "another run");
    let head = taken(&env, take(&turn, fence, 3, 2)).await.expect("takes").head;
    assert_eq!(head.tail, 3, "without events");
    assert!(taken(&env, take(&turn, fence, 3, 3)).await.is_none(), "it was taken");

    env.store.request_stop(key, &run.id, None, true).await.expect("asks");
    assert!(taken(&env, take(&turn, head.write_fence(), 3, 3)).await.is_none(), "a stop was requested");
    env.close(key, closing(&env.head(key).await, Some(run_error()))).await;
    assert!(taken(&env, take(&turn, head.write_fence(), 4, 3)).await.is_none(), "it has ended");
    assert_eq!(env.store.turns_of(NodeId(2)).await.expect("reads"), []);
    assert!(claimed(&env, ClaimTurns { own: vec![key], ..claim(2) }).await.is_empty());
}

pub async fn a_takeover_tells_of_a_call_that_the_claim_did_not_see(env: Env) {
    let (key, run, fence) = driven(&env, "t", "r").await;
    env.store.leave_turn(key, &run.id, fence.driver).await.expect("leaves");
    let turn = claimed(&env, claim(2)).await.pop().expect("a turn");
    assert!(env.store.mark_called(key, &run.id, fence.driver).await.expect("marks"), "the driver before is alive");
    let taken = env.store.take_turn(take(&turn, fence, 2, 2)).await.expect("takes").expect("is taken");
    assert_eq!((turn.called, taken.called), (false, true));
}

pub async fn of_concurrent_takeovers_one_succeeds(env: Env) {
    let (key, run, fence) = driven(&env, "t", "r").await;
    env.store.leave_turn(key, &run.id, fence.driver).await.expect("leaves");
    let turn = claimed(&env, claim(2)).await.pop().expect("a turn");
    let (env, mut tasks) = (Arc::new(env), JoinSet::new());
    for node in 2..10 {
        let (env, take) = (env.clone(), TakeTurn { events: Some(events([node])), ..take(&turn, fence, 2, node) });
        tasks.spawn(async move { taken(&env, take).await.is_some() });
    }
    assert_eq!(tasks.join_all().await.iter().filter(|taken| **taken).count(), 1);
    assert_eq!((env.texts(key).await.len(), env.head(key).await.tail), (3, 3));
}

pub async fn a_turn_ends_with_its_run(env: Env) {
    let (key, run, fence) = driven(&env, "t", "r").await;
    let last = Append { key, fence, epoch: None, producer_seq: None, events: finished() };
    env.append(last).await.expect("appended");
    assert_eq!(env.store.turns_of(NodeId(1)).await.expect("reads"), []);
    assert!(!env.store.mark_called(key, &run.id, fence.driver).await.expect("marks"));
    // The next run of the thread is driven by somebody else.
    let (next, second) = begin(&env, key, "s").await;
    assert!(second.run > fence.run && !write(&env, key, fence).await && write(&env, key, second).await);
    env.store.delete_thread(key, None).await.expect("deletes");
    assert_eq!(env.store.turns_of(NodeId(1)).await.expect("reads"), []);
    assert!(!env.store.mark_called(key, &next.id, second.driver).await.expect("marks"));
}

pub async fn nobody_writes_into_a_driven_run_without_the_fence_of_its_driver(env: Env) {
    let (key, run, fence) = driven(&env, "t", "r").await;
    assert!(!write(&env, key, run.fence.into()).await);
    assert!(write(&env, key, fence).await);
}

pub async fn a_purge_leaves_no_turn_of_a_start_that_met_the_deletion(env: Env) {
    for round in 0..30 {
        let key = env.create(&format!("t{round}")).await.key;
        let (starting, deleting) = (env.store.clone(), env.store.clone());
        let start = tokio::spawn(async move { starting.start(start_run(key, "r")).await });
        let delete = tokio::spawn(async move { deleting.delete_thread(key, None).await });
        // The start may find that the thread is gone.
        let _ = start.await.expect("ends");
        assert!(delete.await.expect("ends").expect("deletes"));
    }
    while env.purge(100).await {}
    assert_eq!(env.store.turns(None, 100).await.expect("reads"), []);
    let active = env.store.active_runs(&project(), None, ActiveRuns { project: 100, user: 100 }).await.expect("counts");
    assert_eq!(active.project, 0);
}
