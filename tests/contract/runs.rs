//! Runs: one at a time, each ended once, judged by the store's clock.

use std::time::Duration;

use threadline_core::{
    Fence, NewThread, ProjectId, RunStatus,
    limits::{REAP_CLAIM, RELEASE_GRACE, STOP_GRACE},
};
use threadline_store::{ActiveRuns, CloseOutcome, CloseWhen, HeartbeatRequest, ListThreads, StartOutcome, StopOutcome};

use crate::{differential::Dice, support::*};

pub async fn a_start_gives_the_thread_to_one_run(env: Env) {
    let thread = env.create("t").await;
    env.clock.advance(Duration::from_millis(5));
    let mut start = start_run(thread.key, "r1");
    start.agent = Some(agent("a"));
    let started = env.started(start).await;
    assert_eq!((started.run.status, started.run.first_seq, started.run.producer_seq), (RunStatus::Running, 1, 0));
    assert_eq!(started.run.lease_until, Some(env.clock.now().plus(LEASE)));
    assert_eq!(started.run.agent, Some(agent("a")));
    assert_eq!(started.slice.count(), 0);
    assert_eq!(started.head, env.head(thread.key).await);
    let shown = env.get("t").await.expect("there");
    assert_eq!(shown.active_run, Some(started.run.clone()));
    assert_eq!(shown.last_run_at, Some(env.clock.now()));
    assert!(shown.version > thread.version);

    match env.store.start(start_run(thread.key, "r2")).await.expect("answers") {
        StartOutcome::RunActive(run, head) => assert_eq!((run, head), (started.run, started.head)),
        other => panic!("{other:?}"),
    }
    assert!(env.store.run(thread.key, &run_id("r2")).await.expect("run").is_none());
    assert_eq!(env.get("t").await, Some(shown));
    assert!(matches!(
        env.store.start(start_run(threadline_core::ThreadKey(999), "r")).await,
        Ok(StartOutcome::ThreadGone)
    ));
}

pub async fn a_thread_without_an_agent_takes_that_of_its_first_run(env: Env) {
    let listed = async |name: &str| {
        let list = ListThreads { agent: Some(agent(name)), ..list(10) };
        let page = env.store.list_threads(list).await.expect("a page");
        page.threads.into_iter().map(|thread| thread.id.to_string()).collect::<Vec<_>>()
    };
    let by = |key, run: &str, name: Option<&str>| {
        let mut start = start_run(key, run);
        start.agent = name.map(agent);
        start
    };
    let key = env.create("t").await.key;
    // One that names none leaves it as it is.
    let bare = env.started(by(key, "bare", None)).await;
    assert_eq!(env.get("t").await.expect("there").agent, None);
    env.append(append(key, bare.run.fence, 1, finished())).await.expect("ends");
    let before = env.get("t").await.expect("there");
    let first = env.started(by(key, "first", Some("a"))).await;
    let after = env.get("t").await.expect("there");
    assert_eq!((after.agent.clone(), listed("a").await), (Some(agent("a")), vec!["t".to_owned()]));
    assert!(after.version > before.version, "the feed tells it");
    // The same start again changes nothing, and a later run of another agent does not take it over.
    assert!(matches!(env.store.start(by(key, "first", Some("b"))).await, Ok(StartOutcome::Exists(..))));
    env.append(append(key, first.run.fence, 1, finished())).await.expect("ends");
    env.started(by(key, "second", Some("b"))).await;
    assert_eq!(env.get("t").await.expect("there").agent, Some(agent("a")));
    assert_eq!(listed("b").await, [""; 0]);
    // Neither does a start that is refused.
    let (held, _) = env.running("held", "r").await;
    assert!(matches!(env.store.start(by(held, "no", Some("a"))).await, Ok(StartOutcome::RunActive(..))));
    assert_eq!(env.get("held").await.expect("there").agent, None);
    // A run that is appended whole, and one that ends its predecessor, start like any other.
    let whole = env.create("whole").await.key;
    let mut start = by(whole, "r", Some("a"));
    start.events = Some(finished());
    env.started(start).await;
    env.clock.advance(LEASE);
    let mut successor = by(held, "next", Some("a"));
    successor.closing = Some(closing(&env.head(held).await, Some(run_error())));
    env.started(successor).await;
    let mut all = listed("a").await;
    all.sort();
    assert_eq!(all, ["held", "t", "whole"]);
}

pub async fn a_start_repeated_is_the_same_run(env: Env) {
    let (key, fence) = env.running("t", "r1").await;
    env.put(key, fence, [1, 2]).await;
    let exists = async |expected: RunStatus| match env.store.start(start_run(key, "r1")).await.expect("answers") {
        StartOutcome::Exists(run, head) => {
            assert_eq!((run.id, run.fence, run.status, run.producer_seq >= 2), (run_id("r1"), fence, expected, true));
            assert_eq!(head, env.head(key).await);
        }
        other => panic!("{other:?}"),
    };
    exists(RunStatus::Running).await;
    env.append(append(key, fence, 3, finished())).await.expect("ends");
    exists(RunStatus::Finished).await;
    env.start(key, "r2").await;
    exists(RunStatus::Finished).await;
    assert_eq!(env.log(key).await.len(), 3);
}

pub async fn a_lapsed_run_is_closed_by_the_next_start(env: Env) {
    let (key, fence) = env.running("t", "r1").await;
    env.put(key, fence, [1, 2]).await;
    env.clock.advance(LEASE - Duration::from_millis(1));
    assert!(matches!(env.store.start(start_run(key, "r2")).await, Ok(StartOutcome::RunActive(..))));
    let mut eager = start_run(key, "r2");
    eager.closing = Some(closing(&env.head(key).await, Some(run_error())));
    assert!(matches!(env.store.start(eager).await, Ok(StartOutcome::RunActive(..))), "a closing is no way to push in");
    env.clock.advance(Duration::from_millis(1));
    match env.store.start(start_run(key, "r2")).await.expect("answers") {
        StartOutcome::LeaseExpired(run, head) => {
            assert_eq!((run.id, run.producer_seq, head.tail), (run_id("r1"), 2, 2));
        }
        other => panic!("{other:?}"),
    }
    let mut start = start_run(key, "r2");
    start.closing = Some(closing(&env.head(key).await, Some(run_error())));
    let version = env.get("t").await.expect("there").version;
    let started = env.started(start).await;
    assert_eq!((started.run.fence > fence, started.run.first_seq, started.head.tail), (true, 4, 3));
    assert_eq!((started.slice.first_seq(), started.slice.last_seq()), (Some(3), Some(3)));
    assert_eq!(started.slice.0[0].run, run_id("r1"));
    assert_eq!(started.head, env.head(key).await);
    assert!(env.get("t").await.expect("there").version > version);

    let closed = env.store.run(key, &run_id("r1")).await.expect("run").expect("there");
    assert_eq!((closed.status, closed.producer_seq), (RunStatus::Error, 3));
    assert_eq!((closed.error_code.as_deref(), closed.ended_at), (Some("producer-failed"), Some(env.clock.now())));
    assert_eq!(closed.lease_until, None);
    assert!(env.append(append(key, fence, 3, events([3]))).await.is_none(), "fenced");
    env.put(key, started.run.fence, [4]).await;
    let runs: Vec<String> = env.log(key).await.into_iter().map(|event| event.1).collect();
    assert_eq!(runs, ["r1", "r1", "r1", "r2"]);
}

pub async fn a_close_with_an_old_tail_changes_nothing(env: Env) {
    let (key, fence) = env.running("t", "r1").await;
    env.put(key, fence, [1]).await;
    let seen = env.head(key).await;
    env.put(key, fence, [2]).await;
    env.clock.advance(LEASE);
    let before = env.get("t").await;
    for stale in [
        closing(&seen, Some(run_error())),
        closing(&threadline_store::Head { fence: Fence(fence.0 + 1), ..env.head(key).await }, Some(run_error())),
    ] {
        let mut start = start_run(key, "r2");
        start.closing = Some(stale.clone());
        assert!(matches!(env.store.start(start).await, Ok(StartOutcome::LeaseExpired(..))));
        assert!(matches!(env.store.close(key, stale, CloseWhen::Always).await, Ok(CloseOutcome::Missed)));
    }
    assert_eq!(env.get("t").await, before);
    assert_eq!(env.log(key).await.len(), 2);
    // The late event came before the close: it is stored, and the run continues.
    env.put(key, fence, [3]).await;
}

pub async fn a_released_run_may_continue_until_the_next_start(env: Env) {
    let (key, fence) = env.running("t", "r1").await;
    assert!(!env.store.release(key, Fence(fence.0 + 1), None).await.expect("release"));
    assert!(env.store.release(key, fence, None).await.expect("release"));
    assert!(env.store.release(key, fence, None).await.expect("release"), "again is the same");
    let run = env.store.run(key, &run_id("r1")).await.expect("run").expect("there");
    assert_eq!(run.status, RunStatus::Finishing);
    assert!(env.head(key).await.active.expect("active").finishing);
    env.put(key, fence, [1]).await;
    match env.store.start(start_run(key, "r2")).await.expect("answers") {
        StartOutcome::LeaseExpired(run, _) => assert_eq!(run.status, RunStatus::Finishing),
        other => panic!("{other:?}"),
    }
    let mut start = start_run(key, "r2");
    start.closing = Some(closing(&env.head(key).await, Some(run_error())));
    let second = env.started(start).await.run;
    assert_eq!(second.status, RunStatus::Running);
    assert!(!env.head(key).await.active.expect("active").finishing, "the next run is not finishing");
    assert!(env.append(append(key, fence, None, events([2]))).await.is_none());
    assert!(!env.store.release(key, fence, None).await.expect("release"), "not active any more");

    // Released and ended by itself: the record says finished.
    assert!(env.store.release(key, second.fence, None).await.expect("release"));
    env.append(append(key, second.fence, 1, finished())).await.expect("ends");
    let run = env.store.run(key, &run_id("r2")).await.expect("run").expect("there");
    assert_eq!(run.status, RunStatus::Finished);
    assert!(!env.store.release(key, second.fence, None).await.expect("release"));
}

pub async fn a_released_run_is_soon_due(env: Env) {
    let (key, fence) = env.running("t", "r1").await;
    assert!(env.store.release(key, fence, None).await.expect("release"));
    env.clock.advance(RELEASE_GRACE - Duration::from_millis(1));
    // Released again, it has no more time.
    assert!(env.store.release(key, fence, None).await.expect("release"));
    assert!(env.store.claim_due(10).await.expect("claims").due.is_empty());
    // What it still appends is a sign of life.
    env.put(key, fence, [1]).await;
    env.clock.advance(Duration::from_millis(1));
    assert!(env.store.claim_due(10).await.expect("claims").due.is_empty());
    assert!(env.store.release(key, fence, None).await.expect("release"));
    env.clock.advance(RELEASE_GRACE);
    assert_eq!(env.store.claim_due(10).await.expect("claims").due.len(), 1);
}

pub async fn a_run_without_events_is_abandoned(env: Env) {
    let (key, _) = env.running("t", "r1").await;
    env.clock.advance(LEASE);
    let committed = env.close(key, closing(&env.head(key).await, None)).await;
    assert_eq!((committed.run.status, committed.slice.count(), committed.head.tail), (RunStatus::Abandoned, 0, 0));
    assert_eq!(committed.head.active, None);
    assert_eq!(env.store.run(key, &run_id("r1")).await.expect("run"), Some(committed.run));
    assert_eq!(env.log(key).await, []);
    assert_eq!(env.start(key, "r2").await.first_seq, 1);
}

pub async fn a_close_compares_and_sets(env: Env) {
    let (key, fence) = env.running("t", "r1").await;
    env.put(key, fence, [1, 2]).await;
    env.store.request_stop(key, &run_id("r1"), None, true).await.expect("stop");
    let head = env.head(key).await;
    env.clock.advance(Duration::from_millis(3));
    let mut end = closing(&head, Some(finished()));
    (end.status, end.error_code, end.error_message) = (RunStatus::Stopped, None, None);
    let closed = env.close(key, end.clone()).await;
    assert_eq!((closed.run.status, closed.run.producer_seq, closed.head.tail), (RunStatus::Stopped, 3, 3));
    assert_eq!(closed.run.stop_requested_at, Some(env.clock.now().minus(Duration::from_millis(3))));
    assert_eq!((closed.slice.first_seq(), closed.slice.count()), (Some(3), 1));
    assert_eq!(env.store.run(key, &run_id("r1")).await.expect("run"), Some(closed.run));
    assert_eq!(env.head(key).await, closed.head);
    assert_eq!(env.get("t").await.expect("there").last_run_at, Some(env.clock.now()));
    // A second closer comes too late, with the old view and with the new one.
    assert!(matches!(env.store.close(key, end, CloseWhen::Always).await, Ok(CloseOutcome::Missed)));
    let again = closing(&env.head(key).await, Some(finished()));
    assert!(matches!(env.store.close(key, again, CloseWhen::Always).await, Ok(CloseOutcome::Missed)));
    assert!(env.append(append(key, fence, None, events([3]))).await.is_none());
    assert_eq!(env.log(key).await.len(), 3);
}

pub async fn a_close_if_due_asks_the_clock(env: Env) {
    let (key, _) = env.running("t", "r1").await;
    let end = closing(&env.head(key).await, Some(run_error()));
    env.clock.advance(LEASE - Duration::from_millis(1));
    assert!(matches!(env.store.close(key, end.clone(), CloseWhen::IfDue).await, Ok(CloseOutcome::Missed)));
    env.clock.advance(Duration::from_millis(1));
    assert!(matches!(env.store.close(key, end, CloseWhen::IfDue).await, Ok(CloseOutcome::Closed(_))));

    let long = threadline_store::StartRun { lease: LEASE * 10, ..start_run(key, "r2") };
    env.started(long).await;
    env.store.request_stop(key, &run_id("r2"), None, true).await.expect("stop");
    let end = closing(&env.head(key).await, Some(run_error()));
    env.clock.advance(STOP_GRACE - Duration::from_millis(1));
    assert!(matches!(env.store.close(key, end.clone(), CloseWhen::IfDue).await, Ok(CloseOutcome::Missed)));
    env.clock.advance(Duration::from_millis(1));
    assert!(matches!(env.store.close(key, end, CloseWhen::IfDue).await, Ok(CloseOutcome::Closed(_))));
}

pub async fn a_stop_is_remembered_once(env: Env) {
    let (key, fence) = env.running("t", "r1").await;
    let asked_at = env.clock.now();
    for _ in 0..2 {
        match env.store.request_stop(key, &run_id("r1"), None, true).await.expect("stop") {
            StopOutcome::Asked(run, head) => {
                assert_eq!(run.stop_requested_at, Some(asked_at));
                assert_eq!(head.active.and_then(|active| active.stop_requested_at), Some(asked_at));
            }
            other => panic!("{other:?}"),
        }
        env.clock.advance(Duration::from_millis(7));
    }
    assert!(matches!(env.store.request_stop(key, &run_id("r9"), None, true).await, Ok(StopOutcome::NoRun)));
    // The run still appends, and its own end counts as stopped.
    env.put(key, fence, [1]).await;
    env.append(append(key, fence, 2, finished())).await.expect("ends");
    match env.store.request_stop(key, &run_id("r1"), None, true).await.expect("stop") {
        StopOutcome::Ended(run) => {
            assert_eq!((run.status, run.stop_requested_at), (RunStatus::Stopped, Some(asked_at)));
        }
        other => panic!("{other:?}"),
    }
    let next = env.start(key, "r2").await;
    assert_eq!(next.stop_requested_at, None);
    assert_eq!(env.head(key).await.active.and_then(|active| active.stop_requested_at), None);
}

/// The closer works by compare-and-set on the tail: without this a producer that never pauses could outrun it.
pub async fn nothing_is_appended_once_a_stop_is_overdue(env: Env) {
    let (key, fence) = env.running("t", "r1").await;
    let (other, other_fence) = env.running("u", "r1").await;
    env.put(key, fence, [1]).await;
    env.store.request_stop(key, &run_id("r1"), None, true).await.expect("stop");
    env.clock.advance(STOP_GRACE - Duration::from_millis(1));
    env.append(append(key, fence, 2, events([2]))).await.expect("still in time");
    env.clock.advance(Duration::from_millis(1));
    assert!(env.append(append(key, fence, 3, events([3]))).await.is_none());
    assert!(env.append(append(key, fence, None, events([3]))).await.is_none());
    assert!(env.append(append(key, fence, 3, finished())).await.is_none());
    // In one commit with a healthy one, which is not touched by it.
    let group = [append(key, fence, 3, events([3])), append(other, other_fence, 1, events([1]))];
    let answers = env.store.append(&group).await.expect("commits");
    assert!(answers[0].is_none() && answers[1].is_some());
    let end = closing(&env.head(key).await, Some(run_error()));
    assert!(matches!(env.store.close(key, end, CloseWhen::IfDue).await, Ok(CloseOutcome::Closed(_))));
    assert_eq!(env.head(key).await.tail, 3);
}

pub async fn a_heartbeat_extends_the_lease(env: Env) {
    let (a, a_fence) = env.running("a", "r").await;
    let (b, b_fence) = env.running("b", "r").await;
    env.clock.advance(Duration::from_secs(5));
    let beat = |key, fence: Fence| HeartbeatRequest { key, fence: fence.into(), lease: None, epoch: None };
    let beats = [beat(b, Fence(b_fence.0 + 1)), beat(a, a_fence), beat(threadline_core::ThreadKey(99), a_fence)];
    let answers = env.store.heartbeat(&beats).await.expect("beats");
    assert_eq!((&answers[0], &answers[2]), (&None, &None));
    let until = env.clock.now().plus(LEASE);
    assert_eq!(answers[1].as_ref().map(|active| active.lease_until), Some(until));
    assert_eq!(env.head(a).await.active, answers[1]);
    assert!(env.head(b).await.active.expect("active").lease_until < until, "b was not renewed");
    env.clock.advance(LEASE);
    // An expired lease can still be renewed while the run is not closed.
    let answers = env.store.heartbeat(&[beat(a, a_fence), beat(b, b_fence)]).await.expect("beats");
    assert!(answers.iter().flatten().all(|active| active.lease_until == env.clock.now().plus(LEASE)));
    env.append(append(a, a_fence, None, finished())).await.expect("ends");
    assert_eq!(env.store.heartbeat(&[beat(a, a_fence)]).await.expect("beats"), [None]);
    assert_eq!(env.store.heartbeat(&[]).await.expect("beats"), []);
}

pub async fn a_lease_can_be_made_shorter(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    let short = Duration::from_secs(2);
    let beats = [Some(short), None].map(|lease| HeartbeatRequest { key, fence: fence.into(), lease, epoch: None });
    let answers = env.store.heartbeat(&beats).await.expect("beats");
    assert_eq!(answers.len(), 2);
    for answer in answers {
        assert_eq!(answer.map(|active| active.lease_until), Some(env.clock.now().plus(short)));
    }
    // The new length holds for appends as well.
    env.clock.advance(Duration::from_secs(1));
    let appended = env.put(key, fence, [1]).await;
    assert_eq!(appended.head.active.map(|active| active.lease_until), Some(env.clock.now().plus(short)));
}

pub async fn runs_that_are_due_are_found(env: Env) {
    let (quiet, _) = env.running("quiet", "r").await;
    let (busy, busy_fence) = env.running("busy", "r").await;
    let (stopped, _) = env.running("stopped", "r").await;
    let (_, idle_fence) = env.running("ended", "r").await;
    let ended = env.get("ended").await.expect("there").key;
    env.append(append(ended, idle_fence, 1, finished())).await.expect("ends");
    env.store.request_stop(stopped, &run_id("r"), None, true).await.expect("stop");
    let due = async |limit| {
        let claimed = env.store.claim_due(limit).await.expect("claims");
        let mut due: Vec<String> = claimed.due.into_iter().map(|due| due.thread.to_string()).collect();
        due.sort();
        due
    };
    assert_eq!(due(10).await, [""; 0]);
    env.clock.advance(STOP_GRACE - Duration::from_millis(1));
    assert_eq!(due(10).await, [""; 0]);
    env.clock.advance(Duration::from_millis(1));
    assert_eq!(due(10).await, ["stopped"]);
    env.put(busy, busy_fence, [1]).await;
    env.clock.advance(LEASE - STOP_GRACE);
    assert_eq!(due(10).await, ["quiet", "stopped"]);
    assert_eq!(due(10).await, [""; 0], "they are claimed");
    env.clock.advance(REAP_CLAIM);
    assert_eq!((due(1).await.len(), due(10).await.len()), (1, 1));
    env.clock.advance(REAP_CLAIM);
    let claimed = env.store.claim_due(10).await.expect("claims");
    assert!(!claimed.more);
    let found = claimed.due.into_iter().find(|due| due.key == quiet).expect("quiet");
    assert_eq!((found.project, found.user, found.thread), (project(), user("u"), thread_id("quiet")));
    for key in [quiet, stopped] {
        env.close(key, closing(&env.head(key).await, Some(run_error()))).await;
    }
    env.clock.advance(REAP_CLAIM);
    assert_eq!(due(10).await, [""; 0]);
}

/// Whatever happens to threads, the runs that are counted are those that are active, and no run is due unseen.
pub async fn a_run_is_counted_exactly_while_it_is_active(env: Env) {
    let seed = std::env::var("CONTRACT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut dice = Dice(seed);
    let mut runs = 0;
    for step in 0..400 {
        let at = format!("seed {seed}, step {step}");
        let (id, owner) = [("a", "u"), ("b", "u"), ("c", "v"), ("d", "v")][dice.roll(4) as usize];
        let key = env.store.create_thread(new_thread(id, owner)).await.expect("creates").thread.key;
        let head = env.head(key).await;
        let end = dice.chance(30).then(finished);
        let lease = Duration::from_secs(1 + dice.roll(30));
        match dice.roll(12) {
            0 => drop(env.store.delete_thread(key, None).await.expect("deletes")),
            1..=4 => {
                runs += 1;
                let whole = if dice.chance(20) { Some(finished()) } else { dice.chance(50).then(|| events([1])) };
                let closing = head.active.is_some().then(|| closing(&head, dice.chance(50).then(run_error)));
                let run = format!("r{runs}");
                let start = threadline_store::StartRun { lease, events: whole, closing, ..start_run(key, &run) };
                env.store.start(start).await.expect("answers");
            }
            5..=6 => drop(env.append(append(key, head.fence, None, end.unwrap_or_else(|| events([2])))).await),
            7 => drop(env.store.close(key, closing(&head, end), CloseWhen::IfDue).await.expect("answers")),
            8 => {
                for run in env.store.runs(key, None, 1).await.expect("runs") {
                    env.store.request_stop(key, &run.id, None, true).await.expect("answers");
                }
            }
            9 => drop(env.store.release(key, head.fence, None).await.expect("answers")),
            10 => {
                let beat = HeartbeatRequest {
                    key,
                    fence: head.write_fence(),
                    lease: dice.chance(50).then_some(lease),
                    epoch: None,
                };
                env.store.heartbeat(&[beat]).await.expect("answers");
            }
            _ => env.clock.advance(lease / 2),
        }
        let active = async |owner: &str| {
            let mut active = Vec::new();
            for id in if owner == "u" { ["a", "b"] } else { ["c", "d"] } {
                active.extend(env.get(id).await.filter(|thread| thread.active_run.is_some()));
            }
            active
        };
        let (of_u, of_v) = (active("u").await, active("v").await);
        for (owner, own) in [("u", of_u.len() as u64), ("v", of_v.len() as u64)] {
            let all = (of_u.len() + of_v.len()) as u64;
            for (project_bound, user_bound) in [(10, 10), (1, 2), (0, 1)] {
                let bound = ActiveRuns { project: project_bound, user: user_bound };
                let counted = env.store.active_runs(&project(), Some(&user(owner)), bound).await.expect("counts");
                assert_eq!((counted.project, counted.user), (all.min(project_bound), own.min(user_bound)), "{at}");
            }
        }
        // A look claims the runs that are due now, unless a claim of them is not over.
        if dice.chance(30) {
            env.clock.advance(REAP_CLAIM);
            let now = env.clock.now();
            let due = |thread: &&threadline_core::Thread| {
                let run = thread.active_run.as_ref().expect("active");
                run.lease_until.is_some_and(|until| until <= now) || run.stop_overdue(now)
            };
            let mut expected: Vec<_> = of_u.iter().chain(&of_v).filter(due).map(|thread| thread.key).collect();
            let claimed = env.store.claim_due(100).await.expect("claims");
            let mut found: Vec<_> = claimed.due.into_iter().map(|due| due.key).collect();
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{at}");
        }
    }
    assert!(runs > 80, "{runs} starts");
}

pub async fn a_due_run_is_claimed_once(env: Env) {
    for n in 0..40 {
        env.running(&format!("t{n}"), "r").await;
    }
    env.clock.advance(LEASE);
    let claim = async || {
        let mut keys = Vec::new();
        loop {
            let claimed = env.store.claim_due(3).await.expect("claims");
            keys.extend(claimed.due.into_iter().map(|due| due.key));
            if !claimed.more {
                return keys;
            }
        }
    };
    let (one, two, three) = tokio::join!(claim(), claim(), claim());
    let mut all = [one, two, three].concat();
    // A look that skipped what another was claiming has ended early.
    all.extend(claim().await);
    all.sort();
    let claimed = all.len();
    all.dedup();
    assert_eq!((all.len(), claimed), (40, 40));
}

pub async fn active_runs_are_counted_by_project_and_user(env: Env) {
    let count = async |name: &str, owner: Option<&str>| {
        let id = ProjectId::new(name).expect("id");
        let owner = owner.map(user);
        let bound = ActiveRuns { project: 100, user: 100 };
        let active = env.store.active_runs(&id, owner.as_ref(), bound).await.expect("counts");
        (active.project, active.user)
    };
    assert_eq!(count("p", Some("alice")).await, (0, 0));
    let mut keys = Vec::new();
    for (project, id, owner) in [("p", "a", "alice"), ("p", "b", "alice"), ("p", "c", "bob"), ("q", "d", "alice")] {
        let project = ProjectId::new(project).expect("id");
        let made = env.store.create_thread(NewThread { project, ..new_thread(id, owner) }).await.expect("made");
        keys.push(made.thread.key);
        env.start(made.thread.key, "r").await;
    }
    assert_eq!(count("p", Some("alice")).await, (3, 2));
    assert_eq!(count("p", Some("bob")).await, (3, 1));
    assert_eq!(count("p", Some("nobody")).await, (3, 0));
    assert_eq!(count("p", None).await, (3, 0));
    assert_eq!((count("q", Some("alice")).await, count("none", None).await), ((1, 1), (0, 0)));
    // Whatever ends a run counts it no more; a lease that is over does not end it, its closing does.
    let head = env.head(keys[0]).await;
    env.append(append(keys[0], head.fence, None, finished())).await.expect("ends");
    env.store.delete_thread(keys[2], None).await.expect("deleted");
    env.clock.advance(2 * LEASE);
    assert_eq!(count("p", Some("alice")).await, (1, 1));
    let head = env.head(keys[1]).await;
    env.store.close(keys[1], closing(&head, None), CloseWhen::IfDue).await.expect("closes");
    assert_eq!(count("p", Some("alice")).await, (0, 0));
}

pub async fn a_whole_run_is_one_commit(env: Env) {
    let thread = env.create("t").await;
    let whole =
        |run: &str, text: &str| threadline_store::StartRun { events: Some(ndjson(text)), ..start_run(thread.key, run) };
    let text = "{\"type\":\"A\"}\n{\"type\":\"RUN_ERROR\",\"message\":\"m\",\"code\":\"c\"}";
    let done = env.started(whole("r1", text)).await;
    assert_eq!((done.run.status, done.run.first_seq, done.run.producer_seq), (RunStatus::Error, 1, 2));
    assert_eq!((done.run.error_code.as_deref(), done.run.error_message.as_deref()), (Some("c"), Some("m")));
    assert_eq!((done.run.lease_until, done.run.ended_at), (None, Some(env.clock.now())));
    assert_eq!((done.head.tail, done.head.active.clone(), done.slice.count()), (2, None, 2));
    assert_eq!(env.head(thread.key).await, done.head);
    assert_eq!(env.store.run(thread.key, &run_id("r1")).await.expect("run"), Some(done.run));
    assert_eq!(env.texts(thread.key).await.join("\n"), text);
    // Again: the same run, nothing more.
    assert!(matches!(env.store.start(whole("r1", text)).await, Ok(StartOutcome::Exists(..))));
    assert_eq!(env.log(thread.key).await.len(), 2);
    // While another run is active it waits outside.
    let active = env.start(thread.key, "r2").await;
    assert!(matches!(env.store.start(whole("r3", text)).await, Ok(StartOutcome::RunActive(..))));
    env.put(thread.key, active.fence, [1]).await;
    env.clock.advance(LEASE);
    let mut over = whole("r3", text);
    over.closing = Some(closing(&env.head(thread.key).await, Some(run_error())));
    let done = env.started(over).await;
    assert_eq!((done.slice.first_seq(), done.slice.count(), done.head.tail), (Some(4), 3, 6));
    let runs: Vec<String> = env.log(thread.key).await.into_iter().map(|event| event.1).collect();
    assert_eq!(runs, ["r1", "r1", "r2", "r2", "r3", "r3"]);
}

pub async fn a_start_may_ask_for_a_tail(env: Env) {
    let thread = env.create("t").await;
    let text = "{\"type\":\"A\"}\n{\"type\":\"RUN_FINISHED\"}";
    let whole = |run: &str, at: u64| threadline_store::StartRun {
        events: Some(ndjson(text)),
        at: Some(at),
        ..start_run(thread.key, run)
    };
    let moved = async |run: &str, at: u64| match env.store.start(whole(run, at)).await.expect("answers") {
        StartOutcome::TailMismatch(head) => head.tail,
        other => panic!("{other:?}"),
    };
    assert_eq!(moved("r1", 1).await, 0);
    assert_eq!(env.started(whole("r1", 0)).await.head.tail, 2);
    // A repetition is one, whatever the tail is now.
    assert!(matches!(env.store.start(whole("r1", 0)).await, Ok(StartOutcome::Exists(..))));
    for at in [0, 1, 3] {
        assert_eq!(moved("r2", at).await, 2);
    }
    // Of several at once that saw the same one begins.
    let starts = (0..8).map(|n| {
        let (store, start) = (env.store.clone(), whole(&format!("w{n}"), 2));
        tokio::spawn(async move { store.start(start).await.expect("answers") })
    });
    let mut begun = 0;
    for start in starts.collect::<Vec<_>>() {
        match start.await.expect("no panic") {
            StartOutcome::Started(_) => begun += 1,
            StartOutcome::TailMismatch(head) => assert_eq!(head.tail, 4),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((begun, env.texts(thread.key).await.len()), (1, 4));
    // The refusal names the holder of the thread first. With a predecessor to close, the tail is the one before its end.
    let active = env.start(thread.key, "active").await;
    env.put(thread.key, active.fence, [1]).await;
    assert!(matches!(env.store.start(whole("r3", 5)).await, Ok(StartOutcome::RunActive(..))));
    env.clock.advance(LEASE);
    assert!(matches!(env.store.start(whole("r3", 5)).await, Ok(StartOutcome::LeaseExpired(..))));
    let closing = closing(&env.head(thread.key).await, Some(run_error()));
    let over = |at: u64| threadline_store::StartRun { closing: Some(closing.clone()), ..whole("r3", at) };
    assert!(matches!(env.store.start(over(4)).await, Ok(StartOutcome::TailMismatch(head)) if head.tail == 5));
    let done = env.started(over(5)).await;
    assert_eq!((done.slice.count(), done.head.tail), (3, 8));
}

pub async fn a_run_starts_with_its_first_events(env: Env) {
    let thread = env.create("t").await;
    let first = |run: &str| threadline_store::StartRun { events: Some(events([1, 2])), ..start_run(thread.key, run) };
    let begun = env.started(first("r1")).await;
    assert_eq!((begun.run.status, begun.run.first_seq, begun.run.producer_seq), (RunStatus::Running, 1, 2));
    assert_eq!((begun.head.tail, begun.slice.count()), (2, 2));
    assert_eq!(begun.head.active.as_ref().map(|active| active.producer_seq), Some(2));
    assert_eq!(env.head(thread.key).await, begun.head);
    assert_eq!(env.store.run(thread.key, &run_id("r1")).await.expect("run"), Some(begun.run.clone()));
    // A repetition adds nothing; the run continues after its first events.
    assert!(matches!(env.store.start(first("r1")).await, Ok(StartOutcome::Exists(run, _)) if run == begun.run));
    assert!(env.append(append(thread.key, begun.run.fence, 2, events([9]))).await.is_none());
    let next = env.append(append(thread.key, begun.run.fence, 3, events([3]))).await.expect("appended");
    assert_eq!((next.first_seq, next.producer_seq), (3, 3));
    // The next run closes it and begins in one commit.
    env.clock.advance(LEASE);
    let mut over = first("r2");
    over.closing = Some(closing(&env.head(thread.key).await, Some(run_error())));
    let begun = env.started(over).await;
    assert_eq!((begun.slice.first_seq(), begun.slice.count(), begun.head.tail), (Some(4), 3, 6));
    assert_eq!((begun.run.first_seq, begun.run.producer_seq), (5, 2));
    let runs: Vec<String> = env.log(thread.key).await.into_iter().map(|event| event.1).collect();
    assert_eq!(runs, ["r1", "r1", "r1", "r1", "r2", "r2"]);
}

pub async fn a_run_keeps_its_token_usage(env: Env) {
    let thread = env.create("t").await;
    let used = r#"[{"model":"m","inputTokens":7}]"#;
    let run = env.start(thread.key, "r1").await;
    let last = ndjson(&format!("{{\"type\":\"RUN_FINISHED\",\"usage\":{used}}}"));
    env.append(append(thread.key, run.fence, 1, last)).await.expect("ends");
    let error = ndjson(&format!("{{\"type\":\"RUN_ERROR\",\"message\":\"m\",\"usage\":{used}}}"));
    env.started(threadline_store::StartRun { events: Some(error), ..start_run(thread.key, "r2") }).await;
    let run = env.start(thread.key, "r3").await;
    env.append(append(thread.key, run.fence, 1, finished())).await.expect("ends");
    let runs = env.store.runs(thread.key, None, 10).await.expect("runs");
    let used_by: Vec<_> = runs.iter().map(|run| run.usage.as_deref()).collect();
    assert_eq!(used_by, [None, Some(used), Some(used)]);
}

pub async fn run_records_are_kept_and_paged(env: Env) {
    let thread = env.create("t").await;
    for n in 0..7 {
        let run = env.start(thread.key, &format!("r{n}")).await;
        env.put(thread.key, run.fence, 0..n + 1).await;
        env.append(append(thread.key, run.fence, n + 2, finished())).await.expect("ends");
    }
    env.start(thread.key, "r7").await;
    let (mut ids, mut before) = (Vec::new(), None);
    loop {
        let page = env.store.runs(thread.key, before, 3).await.expect("runs");
        let Some(last) = page.last() else { break };
        before = Some(last.fence);
        ids.extend(page.into_iter().map(|run| run.id.to_string()));
    }
    assert_eq!(ids, ["r7", "r6", "r5", "r4", "r3", "r2", "r1", "r0"]);
    let log = env.log(thread.key).await;
    for run in env.store.runs(thread.key, None, 100).await.expect("runs") {
        assert_eq!(env.store.run(thread.key, &run.id).await.expect("run"), Some(run.clone()));
        for (seq, owner, ..) in &log {
            let inside = *seq >= run.first_seq && *seq <= run.last_seq();
            assert_eq!(inside, *owner == run.id.as_str(), "{run:?} at {seq}");
        }
    }
}
