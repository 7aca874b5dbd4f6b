//! Attempts at runs of producers.

use std::{sync::Arc, time::Duration};

use threadline_core::{
    AttemptId, DriverFence, Generation, Run, ThreadKey, WriteFence,
    limits::{ATTEMPTS_OF_A_GENERATION, MAX_DISPLACED_ATTEMPTS},
};
use threadline_store::{
    Append, CloseOutcome, CloseWhen, Closing, Committed, Displaced, HeartbeatRequest, ProducerTurn, StartRun, TakeUp,
};
use tokio::task::JoinSet;

use crate::{lineage::another_generation, support::*};

fn attempt(name: &str) -> AttemptId {
    AttemptId::new(name).expect("id")
}

/// A run with two events, of which both belong to its begin.
async fn begun(env: &Env, id: &str) -> (ThreadKey, Run, WriteFence) {
    let key = env.create(id).await.key;
    let start = StartRun { attempt_id: Some(attempt("a")), events: Some(events(1..=2)), ..start_run(key, "r") };
    let started = env.started(start).await;
    (key, started.run, started.head.write_fence())
}

fn take(key: ThreadKey, fence: WriteFence, tail: u64, number: u64) -> TakeUp {
    let (run, attempt_id) = (run_id("r"), attempt(&format!("a{number}")));
    let (generation, attempt) = (Generation::FIRST, number);
    let displaced = Displaced::default();
    TakeUp { key, run, fence, tail, generation, attempt, attempt_id, displaced, lease: None, events: None }
}

fn producer_turn(attempt: u64, opened: u64) -> ProducerTurn {
    ProducerTurn { attempt, attempt_id: None, displaced: Displaced::default(), opened }
}

async fn taken(env: &Env, take: TakeUp) -> Option<Committed> {
    env.store.take_up(take).await.expect("takes")
}

async fn turn(env: &Env, key: ThreadKey) -> Option<ProducerTurn> {
    env.store.producer_turn(key, &run_id("r")).await.expect("reads")
}

async fn write(env: &Env, key: ThreadKey, fence: WriteFence) -> bool {
    let append = Append { key, fence, epoch: None, producer_seq: None, events: events([9]) };
    env.append(append).await.is_some()
}

pub async fn a_producers_turn_names_its_attempt_and_its_begin(env: Env) {
    let (key, ..) = begun(&env, "t").await;
    let first = ProducerTurn { attempt_id: Some(attempt("a")), ..producer_turn(1, 3) };
    assert_eq!(turn(&env, key).await, Some(first));
    assert_eq!(env.store.producer_turn(key, &run_id("s")).await.expect("reads"), None);
    env.close(key, closing(&env.head(key).await, Some(run_error()))).await;
    assert_eq!(turn(&env, key).await, None, "it has ended");

    let bare = env.create("bare").await.key;
    env.started(start_run(bare, "r")).await;
    assert_eq!(turn(&env, bare).await, Some(producer_turn(1, 1)));
    let driven = env.create("driven").await.key;
    env.started(StartRun { turn: Some(crate::support::turn()), ..start_run(driven, "r") }).await;
    assert_eq!(turn(&env, driven).await, None);
    let head = env.head(driven).await;
    assert!(taken(&env, take(driven, head.write_fence(), 0, 2)).await.is_none(), "the server drives the run");
}

pub async fn a_take_up_displaces_the_attempt_before(env: Env) {
    let (key, run, old) = begun(&env, "t").await;
    assert!(write(&env, key, old).await);
    let version = env.get("t").await.expect("is there").version;
    let lease = Some(LEASE * 3);
    let take = TakeUp { events: Some(events([4, 5])), lease, ..take(key, old, 3, 2) };
    let Committed { run: now, head, slice } = taken(&env, take).await.expect("takes");
    assert_eq!((slice.first_seq(), slice.last_seq(), head.tail, now.producer_seq), (Some(4), Some(5), 5, 5));
    assert_eq!((now.attempt, now.fence, head.fence), (2, run.fence, run.fence), "the run keeps its fence");
    assert_eq!(head.driver, DriverFence::of_attempt(2));
    assert_eq!(now.lease_until, Some(env.clock.now().plus(LEASE * 3)));
    assert!(env.get("t").await.expect("is there").version > version);
    assert_eq!(env.store.run(key, &run.id).await.expect("reads"), Some(now));
    assert_eq!(turn(&env, key).await, Some(ProducerTurn { attempt_id: Some(attempt("a2")), ..producer_turn(2, 3) }));

    let new = head.write_fence();
    assert!(!write(&env, key, old).await);
    let beat = |fence| [HeartbeatRequest { key, fence, lease: None, epoch: None }];
    assert_eq!(env.store.heartbeat(&beat(old)).await.expect("beats"), [None]);
    let close = closing(&env.head(key).await, Some(run_error()));
    let stale = Closing { fence: old, ..close.clone() };
    assert!(matches!(env.store.close(key, stale, CloseWhen::Always).await, Ok(CloseOutcome::Missed)));
    assert!(!env.store.release(key, run.fence, None).await.expect("is refused"));

    assert!(env.store.heartbeat(&beat(new)).await.expect("beats")[0].is_some());
    assert!(write(&env, key, new).await);
    assert_eq!(env.texts(key).await.len(), 6);
    let last = Append { key, fence: new, epoch: None, producer_seq: None, events: finished() };
    env.append(last).await.expect("appended");
    assert_eq!((turn(&env, key).await, env.head(key).await.active), (None, None));
    let next = env.started(start_run(key, "s")).await;
    assert_eq!(
        (next.run.attempt, next.head.driver),
        (1, DriverFence::NONE),
        "the next run begins at its first attempt"
    );
}

pub async fn a_take_up_needs_the_log_that_it_has_seen(env: Env) {
    let (key, run, fence) = begun(&env, "t").await;
    assert!(write(&env, key, fence).await, "the attempt before is alive");
    let stale = WriteFence { driver: DriverFence::of_attempt(2), ..fence };
    for (what, refused) in [
        ("another tail", take(key, fence, 2, 2)),
        ("another attempt", take(key, stale, 3, 3)),
        ("another run", TakeUp { run: run_id("s"), ..take(key, fence, 3, 2) }),
        ("another generation", TakeUp { generation: Generation(2), ..take(key, fence, 3, 2) }),
    ] {
        assert!(taken(&env, refused).await.is_none(), "{what}");
    }
    let before = (env.head(key).await, env.store.run(key, &run.id).await.expect("reads"));
    assert_eq!((before.0.write_fence(), before.1.map(|run| run.attempt)), (fence, Some(1)), "nothing was changed");
    let head = taken(&env, take(key, fence, 3, 2)).await.expect("takes").head;
    assert_eq!(head.tail, 3, "without events");
    assert!(taken(&env, take(key, fence, 3, 3)).await.is_none(), "it was taken up");
    // A lease that has expired is extended, if nobody has ended the run.
    env.clock.advance(LEASE + Duration::from_secs(1));
    let head = taken(&env, take(key, head.write_fence(), 3, 3)).await.expect("takes").head;
    let until = head.active.as_ref().map(|active| active.lease_until);
    assert_eq!(until, Some(env.clock.now().plus(LEASE)));
    env.store.request_stop(key, &run.id, None, true).await.expect("asks");
    assert!(taken(&env, take(key, head.write_fence(), 3, 4)).await.is_none(), "a stop was requested");
    env.close(key, closing(&env.head(key).await, Some(run_error()))).await;
    assert!(taken(&env, take(key, head.write_fence(), 4, 4)).await.is_none(), "it has ended");
}

pub async fn a_run_remembers_whom_it_has_displaced(env: Env) {
    let (key, _, mut fence) = begun(&env, "t").await;
    let mut expected = Displaced::default();
    for number in 2..MAX_DISPLACED_ATTEMPTS as u64 + 4 {
        let ProducerTurn { attempt_id, displaced, .. } = turn(&env, key).await.expect("is there");
        assert_eq!(displaced, expected);
        expected = displaced.with(attempt_id);
        let take = TakeUp { displaced: expected.clone(), ..take(key, fence, 2, number) };
        fence = taken(&env, take).await.expect("takes").head.write_fence();
    }
    let last = turn(&env, key).await.expect("is there").displaced;
    assert_eq!(last, expected);
    let newest = MAX_DISPLACED_ATTEMPTS as u64 + 2;
    let known = |number: u64| last.has(&attempt(&format!("a{number}")));
    assert!(known(newest) && known(newest + 1 - MAX_DISPLACED_ATTEMPTS as u64), "the newest ones");
    assert!(!known(newest + 1) && !last.has(&attempt("a")), "not the present one, and not those before");
    // The next run begins without them.
    env.close(key, closing(&env.head(key).await, Some(run_error()))).await;
    env.started(start_run(key, "s")).await;
    let next = env.store.producer_turn(key, &run_id("s")).await.expect("reads");
    assert_eq!(next.map(|turn| turn.displaced), Some(Displaced::default()));
}

/// The store may have lost another start of the same run, whose process speaks for the first attempt, too.
pub async fn the_first_attempt_has_the_number_of_its_generation(env: Env) {
    let (old, ..) = begun(&env, "old").await;
    let generation = another_generation(&env).await;
    let (key, run, fence) = begun(&env, "t").await;
    let first = ATTEMPTS_OF_A_GENERATION + 1;
    assert_eq!((run.attempt, run.fence.first_attempt(), fence), (first, first, run.fence.into()));
    assert_eq!(env.store.run(key, &run.id).await.expect("reads").map(|run| run.attempt), Some(first));
    assert_eq!(turn(&env, key).await.map(|turn| (turn.attempt, turn.attempt_id)), Some((first, Some(attempt("a")))));
    let lost = WriteFence { driver: DriverFence::of_attempt(1), ..fence };
    assert!(!write(&env, key, lost).await, "the process whose start was lost");
    assert!(write(&env, key, fence).await);
    let beat = |fence| [HeartbeatRequest { key, fence, lease: None, epoch: None }];
    assert_eq!(env.store.heartbeat(&beat(lost)).await.expect("beats"), [None]);
    assert!(env.store.heartbeat(&beat(fence)).await.expect("beats")[0].is_some());
    let (attempt, take) = (generation.next_attempt(first), take(key, fence, 3, 0));
    let taken = taken(&env, TakeUp { generation, attempt, ..take }).await.expect("takes");
    assert_eq!((taken.run.attempt, taken.head.driver), (first + 1, DriverFence::of_attempt(first + 1)));
    assert!(!env.store.release(key, run.fence, None).await.expect("is refused"), "only the first attempt is released");

    // A run that has survived keeps the number that its process knows.
    let survivor = env.head(old).await.write_fence();
    assert_eq!(survivor.driver, DriverFence::of_attempt(1));
    assert!(write(&env, old, survivor).await);
    // The same for a complete run and for one without events, and not for one that the server drives.
    let complete = env.create("complete").await.key;
    let start = StartRun { events: Some(finished()), ..start_run(complete, "r") };
    assert_eq!(env.started(start).await.run.attempt, first);
    let bare = env.create("bare").await.key;
    let released = env.started(start_run(bare, "r")).await.run;
    assert!(env.store.release(bare, released.fence, None).await.expect("released"));
    let driven = env.create("driven").await.key;
    let run = env.started(StartRun { turn: Some(crate::support::turn()), ..start_run(driven, "r") }).await.run;
    assert_eq!(run.attempt, 1);
    assert_eq!(env.store.run(driven, &run.id).await.expect("reads").map(|run| run.attempt), Some(1));
}

pub async fn of_concurrent_take_ups_one_succeeds(env: Env) {
    let (key, _, fence) = begun(&env, "t").await;
    let (env, mut tasks) = (Arc::new(env), JoinSet::new());
    for number in 0..8 {
        let attempt_id = attempt(&format!("process {number}"));
        let take = TakeUp { events: Some(events([number])), attempt_id, ..take(key, fence, 2, 2) };
        let env = env.clone();
        tasks.spawn(async move { taken(&env, take).await.is_some() });
    }
    assert_eq!(tasks.join_all().await.iter().filter(|taken| **taken).count(), 1);
    assert_eq!((env.texts(key).await.len(), env.head(key).await.tail), (3, 3));
}
