//! Claims of tool calls: one client holds a call, until its lease is over.

use std::time::Duration;

use threadline_core::{
    ClientId, ThreadKey, Timestamp, ToolCallId, ToolClaim,
    limits::{MAX_CLAIM_LEASE, SWEPT_CLAIMS},
};
use threadline_store::{ClaimOutcome, DynStore};
use tokio::task::JoinSet;

use crate::support::*;

pub fn claim(call: &str, holder: &str) -> ToolClaim {
    ToolClaim { call: ToolCallId::new(call).expect("id"), holder: ClientId::new(holder).expect("id") }
}

async fn claimed(env: &Env, key: ThreadKey, call: &str, holder: &str, lease: Duration) -> ClaimOutcome {
    env.store.claim_tool_call(key, &claim(call, holder), lease).await.expect("claims")
}

async fn give_up(env: &Env, key: ThreadKey, call: &str, holder: &str) {
    env.store.drop_tool_claim(key, &claim(call, holder)).await.expect("drops");
}

pub async fn a_call_is_held_until_the_lease_is_over(env: Env) {
    let (key, other) = (env.create("t").await.key, env.create("other").await.key);
    let first = env.clock.now().plus(LEASE);
    assert_eq!(claimed(&env, key, "c", "a", LEASE).await, ClaimOutcome::Held(first));
    env.clock.advance(LEASE / 2);
    assert_eq!(claimed(&env, key, "c", "b", LEASE).await, ClaimOutcome::Taken(first));
    let later = env.clock.now().plus(LEASE);
    assert_eq!(claimed(&env, key, "c", "a", LEASE).await, ClaimOutcome::Held(later), "the holder renews");
    // Calls are of one thread each, and each has a claim of its own.
    for (key, call) in [(other, "c"), (key, "C"), (key, "d")] {
        assert_eq!(claimed(&env, key, call, "b", LEASE).await, ClaimOutcome::Held(later));
    }
    env.clock.advance(LEASE - Duration::from_millis(1));
    assert_eq!(claimed(&env, key, "c", "b", LEASE).await, ClaimOutcome::Taken(later));
    env.clock.advance(Duration::from_millis(1));
    let next = env.clock.now().plus(LEASE);
    assert_eq!(claimed(&env, key, "c", "b", LEASE).await, ClaimOutcome::Held(next), "the lease is over");
    assert_eq!(claimed(&env, key, "c", "a", LEASE).await, ClaimOutcome::Taken(next));
    assert_eq!(claimed(&env, key, "c", "b", LEASE / 4).await, ClaimOutcome::Held(next), "no renewal shortens a lease");
    assert_eq!(claimed(&env, key, "c", "a", LEASE).await, ClaimOutcome::Taken(next));
    let shorter = env.clock.now().plus(LEASE / 4);
    assert_eq!(claimed(&env, key, "e", "b", LEASE / 4).await, ClaimOutcome::Held(shorter), "it is as long as asked");
}

pub async fn a_claim_is_given_up_by_its_holder(env: Env) {
    let key = env.create("t").await.key;
    let until = env.clock.now().plus(LEASE);
    assert_eq!(claimed(&env, key, "c", "a", LEASE).await, ClaimOutcome::Held(until));
    for (call, holder) in [("c", "b"), ("d", "a")] {
        give_up(&env, key, call, holder).await;
        assert_eq!(claimed(&env, key, "c", "b", LEASE).await, ClaimOutcome::Taken(until), "{call} of {holder}");
    }
    give_up(&env, key, "c", "a").await;
    give_up(&env, key, "c", "a").await;
    assert_eq!(claimed(&env, key, "c", "b", LEASE).await, ClaimOutcome::Held(until));
}

pub async fn a_claim_does_not_outlive_a_clock_that_is_set_back(env: Env) {
    let key = env.create("t").await.key;
    claimed(&env, key, "c", "a", MAX_CLAIM_LEASE).await;
    let before = env.clock.now();
    // A claim that has waited for this one has read the time before it.
    env.clock.set(Timestamp(before.0 - 10_000));
    assert!(matches!(claimed(&env, key, "c", "b", LEASE).await, ClaimOutcome::Taken(_)), "the claim is held");
    env.clock.set(Timestamp(before.0 - 3_600_000));
    let until = env.clock.now().plus(LEASE);
    assert_eq!(claimed(&env, key, "c", "b", LEASE).await, ClaimOutcome::Held(until), "no lease is that long");
}

pub async fn claims_go_with_their_thread(env: Env) {
    let key = env.create("t").await.key;
    claimed(&env, key, "c", "a", LEASE).await;
    assert!(env.store.delete_thread(key, None).await.expect("deletes"));
    let again = env.create("t").await.key;
    for purged in [false, true] {
        assert_eq!(claimed(&env, key, "late", "a", LEASE).await, ClaimOutcome::ThreadGone);
        give_up(&env, key, "c", "a").await;
        let held = claimed(&env, again, "c", "b", LEASE).await;
        assert!(matches!(held, ClaimOutcome::Held(_)), "{held:?}: made again it is another thread");
        while !purged && env.purge(10).await {}
    }
    assert_eq!(claimed(&env, ThreadKey(404), "c", "a", LEASE).await, ClaimOutcome::ThreadGone);
}

/// Makes claims that are over and that nobody asks for again, and then four others: which are left is the caller's to look.
pub async fn make_claims_that_are_over(env: &Env) {
    let (key, other) = (env.create("t").await.key, env.create("other").await.key);
    for n in 0..3 * SWEPT_CLAIMS {
        claimed(env, key, &format!("c{n}"), "a", LEASE).await;
    }
    env.clock.advance(LEASE);
    for n in 0..4 {
        claimed(env, other, &format!("c{n}"), "b", LEASE).await;
    }
}

/// Many claim the same few calls, also if they ask different nodes: each call is held by one.
pub async fn check_races(stores: &[DynStore], key: ThreadKey) {
    let mut tasks = JoinSet::new();
    for n in 0..96_usize {
        let store = stores[n % stores.len()].clone();
        tasks.spawn(async move {
            let claim = claim(&format!("c{}", n / 8), &n.to_string());
            store.claim_tool_call(key, &claim, LEASE).await.expect("claims")
        });
    }
    let held = |outcome: &ClaimOutcome| match outcome {
        ClaimOutcome::Held(_) => true,
        ClaimOutcome::Taken(_) => false,
        ClaimOutcome::ThreadGone => panic!("gone"),
    };
    assert_eq!(tasks.join_all().await.iter().filter(|outcome| held(outcome)).count(), 12);
}

pub async fn of_many_concurrent_claims_one_is_held(env: Env) {
    let key = env.create("t").await.key;
    let store: DynStore = env.store.clone();
    check_races(&[store], key).await;
}
