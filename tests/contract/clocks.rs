//! The store's clock is set while runs are active.

use std::time::Duration;

use threadline_core::{
    ThreadKey, Timestamp,
    limits::{MAX_LOG_AHEAD, RELEASE_GRACE, STOP_GRACE},
};
use threadline_store::{CloseOutcome, CloseWhen, Renewal, Renewed, StartOutcome, StartRun};

use crate::{
    nodes,
    support::{Env, LEASE, append, closing, events, finished, ndjson, run_error, run_id, start_run},
};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3_600);

async fn due(env: &Env) -> usize {
    env.store.claim_due(10).await.expect("claims").due.len()
}

async fn renew(env: &Env, which: Renewal) -> Renewed {
    env.store.renew_leases(which, None).await.expect("renews")
}

/// True if a run that is due could be closed.
async fn closes(env: &Env, key: ThreadKey) -> bool {
    let end = closing(&env.head(key).await, Some(run_error()));
    match env.store.close(key, end, CloseWhen::IfDue).await.expect("answers") {
        CloseOutcome::Closed(_) => true,
        CloseOutcome::Missed => false,
        CloseOutcome::Gone => panic!("gone"),
    }
}

pub async fn a_clock_that_jumps_ahead_ends_no_run(env: Env) {
    let (key, _) = env.running("t", "r").await;
    let (stopped, _) = env.running("stopped", "r").await;
    env.store.request_stop(stopped, &run_id("r"), None, true).await.expect("asks");
    // The store's clock jumps. This process expects the time of before.
    let before = env.clock.now();
    env.clock.advance(400 * DAY);
    let clock = env.store.clock();
    clock.anchor(before, clock.steady());
    assert_eq!(due(&env).await, 0, "it is not looked at");
    assert!(!closes(&env, key).await && !closes(&env, stopped).await);
    let mut next = StartRun { closing: Some(closing(&env.head(key).await, None)), ..start_run(key, "next") };
    let outcome = env.store.start(next.clone()).await.expect("answers");
    assert!(matches!(outcome, StartOutcome::RunActive(..)), "{outcome:?}");

    // The step is noticed: a data directory follows its clock with a beat, other stores are told to.
    env.store.put_beat(&nodes::beat(1)).await.expect("beats");
    renew(&env, Renewal::All).await;
    assert_eq!(renew(&env, Renewal::All).await, Renewed::default(), "a second node has nothing to renew");
    clock.anchor(env.clock.now(), clock.steady());
    assert_eq!(due(&env).await, 0);
    assert!(!closes(&env, key).await && !closes(&env, stopped).await);
    env.clock.advance(STOP_GRACE);
    assert!(closes(&env, stopped).await && !closes(&env, key).await);
    env.clock.advance(LEASE - STOP_GRACE - SECOND);
    assert!(!closes(&env, key).await, "the lease has a second to go");
    // The producer is dead.
    env.clock.advance(SECOND);
    assert_eq!(due(&env).await, 1);
    next.closing = Some(closing(&env.head(key).await, None));
    assert!(matches!(env.store.start(next).await, Ok(StartOutcome::Started(_))));
}

pub async fn a_clock_that_is_set_back_leaves_no_lease_for_ever(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    let (stopped, _) = env.running("stopped", "r").await;
    let (finishing, last) = env.running("finishing", "r").await;
    env.store.request_stop(stopped, &run_id("r"), None, true).await.expect("asks");
    assert!(env.store.release(finishing, last, None).await.expect("releases"));
    let now = env.clock.now().minus(400 * DAY);
    env.clock.set(now);
    // An append keeps the lease of the future.
    env.put(key, fence, [1]).await;
    assert_eq!(env.head(key).await.active.expect("active").lease_until, now.plus(400 * DAY).plus(LEASE));
    let after = env.store.renew_leases(Renewal::Overlong, Some(key)).await.expect("renews");
    assert_eq!(after, Renewed { leases: 2, next: None }, "those with greater keys");
    assert_eq!(renew(&env, Renewal::Overlong).await, Renewed { leases: 1, next: None });
    assert_eq!(renew(&env, Renewal::Overlong).await, Renewed::default());
    assert_eq!(env.head(key).await.active.expect("active").lease_until, now.plus(LEASE));
    let asked = env.head(stopped).await.active.expect("active").stop_requested_at;
    assert_eq!(asked, Some(now), "the grace begins again");
    env.clock.advance(RELEASE_GRACE);
    assert_eq!(due(&env).await, 1, "the one that was finishing");
    assert!(closes(&env, finishing).await);
    env.clock.advance(STOP_GRACE - RELEASE_GRACE);
    assert_eq!(due(&env).await, 1);
    assert!(closes(&env, stopped).await && !closes(&env, key).await);
    env.clock.advance(LEASE - STOP_GRACE);
    assert_eq!(due(&env).await, 1);
    assert!(closes(&env, key).await);
}

pub async fn leases_that_are_right_are_not_renewed(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    env.clock.advance(4 * SECOND);
    let head = env.head(key).await;
    assert_eq!(renew(&env, Renewal::All).await, Renewed::default());
    env.clock.advance(4 * SECOND);
    assert_eq!(renew(&env, Renewal::Overlong).await, Renewed::default());
    assert_eq!(env.head(key).await, head);
    assert_eq!(renew(&env, Renewal::All).await.leases, 1, "it is 8 s shorter than a full one");
    // Runs that have ended have no lease.
    env.append(append(key, fence, None, finished())).await.expect("ends");
    env.clock.set(env.clock.now().minus(DAY));
    assert_eq!(renew(&env, Renewal::All).await, Renewed::default());
}

/// Times of a log, in order.
async fn times(env: &Env, key: ThreadKey) -> Vec<i64> {
    env.log(key).await.into_iter().map(|event| event.2).collect()
}

pub async fn time_in_a_log_never_goes_back(env: Env) {
    let start = env.clock.now();
    let (a, a_fence) = env.running("a", "r").await;
    let (b, b_fence) = env.running("b", "r").await;
    let both = |n: u64| [append(a, a_fence, None, events([n])), append(b, b_fence, None, events([n]))];
    env.put(a, a_fence, [1]).await;
    env.clock.advance(SECOND);
    env.store.append(&both(2)).await.expect("appends");
    let newest = env.clock.now();
    env.clock.set(start.minus(600 * SECOND));
    // Each way to write: alone, in a group, large, with an end, as a start, as a close.
    assert_eq!(env.put(a, a_fence, [3]).await.at, newest);
    let answers = env.store.append(&both(4)).await.expect("appends");
    assert_eq!(answers.iter().flatten().map(|done| done.at).collect::<Vec<_>>(), [newest; 2]);
    let large = ndjson(&format!("{{\"type\":\"X\",\"pad\":\"{}\"}}", "x".repeat(100_000)));
    let mixed = [append(a, a_fence, None, large), append(b, b_fence, None, finished())];
    let answers = env.store.append(&mixed).await.expect("appends");
    assert_eq!(answers.iter().flatten().map(|done| done.at).collect::<Vec<_>>(), [newest; 2]);
    let closed = env.close(a, closing(&env.head(a).await, Some(run_error()))).await;
    assert_eq!(closed.slice.0.iter().map(|batch| batch.at).collect::<Vec<_>>(), [newest]);
    let whole = ndjson("{\"type\":\"X\"}\n{\"type\":\"RUN_FINISHED\"}");
    let begun = env.started(StartRun { events: Some(whole), ..start_run(a, "whole") }).await;
    assert_eq!(begun.slice.0.iter().map(|batch| batch.at).collect::<Vec<_>>(), [newest]);
    let begun = env.started(StartRun { events: Some(events([1])), ..start_run(a, "open") }).await;
    assert_eq!(begun.slice.0[0].at, newest);
    for key in [a, b] {
        let times = times(&env, key).await;
        assert!(times.is_sorted() && times.last() == Some(&newest.0), "{times:?}");
    }
    // The clock shows the time of the newest event again.
    env.clock.set(newest.plus(SECOND));
    assert_eq!(env.put(a, begun.run.fence, [2]).await.at, newest.plus(SECOND));
}

pub async fn a_log_that_is_more_than_an_hour_ahead_gets_the_time_of_the_store(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    let newest = env.put(key, fence, [1]).await.at;
    let back = |by: Duration| Timestamp(newest.minus(by).0);
    env.clock.set(back(MAX_LOG_AHEAD));
    assert_eq!(env.put(key, fence, [2]).await.at, newest);
    env.clock.set(back(MAX_LOG_AHEAD + Duration::from_millis(1)));
    assert_eq!(env.put(key, fence, [3]).await.at, env.clock.now());
    assert_eq!(times(&env, key).await, [newest.0, newest.0, env.clock.now().0]);
}
