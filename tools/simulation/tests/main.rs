//! Deterministic simulation: several nodes, each the product as it runs, over one store, with clients on a simulated
//! network. What breaks, and when, comes from the seed, and the same seed gives the same trace.
//!
//! `THREADLINE_SEEDS=<count>` runs more, `THREADLINE_SEED=<seed>` one of them.

mod auditor;
mod beside;
mod client;
mod network;
mod plan;
mod planted;
mod ports;
mod producer;
mod reader;
mod simulation;
mod trace;
mod world;

use threadline_testkit::{judge, record, reply, rng, seeds, seen, through};

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

use planted::Design;
use simulation::{Outcome, run};

/// A seed takes less than a second. One that takes this long hangs: a task never waits, or waits for itself.
const HANGS: Duration = Duration::from_secs(120);

/// Runs a seed on a thread of its own; what hangs is left behind.
fn watched(seed: u64, design: Design) -> Outcome {
    let (sender, outcome) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(Box::new(run(seed, design))).is_ok());
    match outcome.recv_timeout(HANGS) {
        Ok(outcome) => *outcome,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{}\nit hangs; {}", plan::Plan::of(seed), again(seed)),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let _ = thread.join();
            panic!("{}\nit panicked; {}", plan::Plan::of(seed), again(seed));
        }
    }
}

fn again(seed: u64) -> String {
    format!("run it again with THREADLINE_SEED={seed} make simulation")
}

/// Does something with each seed, on all cores; panics with the first seed that does.
fn on_all_cores<T: Send>(seeds: &[u64], work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, SeqCst)) {
                    let result = work(*seed);
                    done.lock().expect("lock").push(result);
                }
            });
        }
    });
    done.into_inner().expect("lock")
}

/// Panics if a promise was broken, and shows what there is to see.
fn assert_kept(seed: u64, outcome: &Outcome) {
    if std::env::var("THREADLINE_TRACE").is_ok() {
        println!("{}", outcome.trace.join("\n"));
    }
    let last = outcome.trace.len().saturating_sub(25);
    assert!(
        outcome.violations.is_empty(),
        "{}\nbroken: {:#?}\nthe last that happened (THREADLINE_TRACE=1 shows all):\n{}\n{}",
        outcome.plan,
        outcome.violations,
        outcome.trace[last..].join("\n"),
        again(seed)
    );
}

#[test]
fn promises_are_kept_whatever_breaks() {
    let seeds = seeds::seeds(200);
    let outcomes = on_all_cores(&seeds, |seed| {
        let outcome = watched(seed, Design::Real);
        assert_kept(seed, &outcome);
        outcome
    });
    let mut counts = world::Counts::default();
    outcomes.iter().for_each(|outcome| counts.add(&outcome.counts));
    let acked: u64 = outcomes.iter().map(|outcome| outcome.acked).sum();
    let events: usize = outcomes.iter().map(|outcome| outcome.events).sum();
    let time: Duration = outcomes.iter().map(|outcome| outcome.time).sum();
    println!(
        "{} seeds, {} s simulated: {acked} events acknowledged, {events} in the logs; {counts:?}",
        seeds.len(),
        time.as_secs()
    );
    if seeds.len() >= 100 {
        counts.assert_everything_happened();
    }
}

/// Seeds that are run twice.
const TWICE: u64 = 20;

#[test]
fn the_same_seed_gives_the_same_trace() {
    if cfg!(not(tokio_unstable)) {
        panic!(
            "tokio makes choices that no seed decides: run `make simulation`, or build with \
             RUSTFLAGS=\"--cfg tokio_unstable\""
        );
    }
    let seeds: Vec<_> = seeds::seeds(TWICE).into_iter().take(TWICE as usize).collect();
    let digests = on_all_cores(&seeds, |seed| {
        let (first, second) = (watched(seed, Design::Real).trace, watched(seed, Design::Real).trace);
        if let Some(at) = (0..first.len().max(second.len())).find(|at| first.get(*at) != second.get(*at)) {
            let from = at.saturating_sub(5);
            panic!(
                "seed {seed}: line {at} of its trace is {:?} and {:?}, after\n{}\n{}",
                first.get(at),
                second.get(at),
                first[from..at].join("\n"),
                again(seed)
            );
        }
        trace::digest(&first)
    });
    // Different seeds are different.
    let different: std::collections::BTreeSet<_> = digests.iter().collect();
    assert_eq!(different.len(), digests.len());
}

/// The negative controls: each planted bug is found, and soon.
#[test]
fn planted_bugs_are_found() {
    for design in Design::PLANTED {
        let found = (1..=200).find_map(|seed| {
            let violations = watched(seed, design).violations;
            (!violations.is_empty()).then_some((seed, violations))
        });
        let Some((seed, violations)) = found else { panic!("{design:?} was not found in 200 seeds") };
        println!("{design:?} is found by seed {seed}: {}", violations[0]);
    }
}
