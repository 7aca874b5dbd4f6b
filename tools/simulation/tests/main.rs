//! Deterministic simulation: several nodes, each running the product, over one store, with clients on a simulated
//! network. The seed decides all faults and their times, and the same seed gives the same trace.
//!
//! `THREADLINE_SEEDS=<count>` sets the number of seeds, `THREADLINE_SEED=<seed>` runs one of them.

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

/// Time after which a seed counts as hanging; most take less than a second. A task then loops without waiting, or waits
/// for itself.
const HANGS: Duration = Duration::from_secs(120);

/// Runs a seed on an OS thread of its own; a thread that hangs is abandoned.
fn watched(seed: u64, design: Design) -> Outcome {
    let (sender, outcome) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(Box::new(run(seed, design))).is_ok());
    match outcome.recv_timeout(HANGS) {
        Ok(outcome) => *outcome,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{}\nthe seed hangs; {}", plan::Plan::of(seed), again(seed)),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let _ = thread.join();
            panic!("{}\nthe seed panicked; {}", plan::Plan::of(seed), again(seed));
        }
    }
}

fn again(seed: u64) -> String {
    format!("run it again with THREADLINE_SEED={seed} make simulation")
}

/// Applies `work` to each seed, on all cores; a panic of `work` is passed on.
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

/// Panics if a promise was broken, with the end of the trace.
fn assert_kept(seed: u64, outcome: &Outcome) {
    if std::env::var("THREADLINE_TRACE").is_ok() {
        println!("{}", outcome.trace.join("\n"));
    }
    let last = outcome.trace.len().saturating_sub(25);
    assert!(
        outcome.violations.is_empty(),
        "{}\nbroken: {:#?}\nthe end of the trace (THREADLINE_TRACE=1 shows all of it):\n{}\n{}",
        outcome.plan,
        outcome.violations,
        outcome.trace[last..].join("\n"),
        again(seed)
    );
}

#[test]
fn promises_are_kept_whatever_breaks() {
    let seeds = seeds::seeds(100);
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
            let rest = |trace: &[String]| trace.iter().skip(at).take(8).cloned().collect::<Vec<_>>().join("\n");
            panic!(
                "seed {seed}: its trace differs from line {at} on\n{}\n-- and then\n{}\n-- or\n{}\n{}",
                first[from..at].join("\n"),
                rest(&first),
                rest(&second),
                again(seed)
            );
        }
        trace::digest(&first)
    });
    // Different seeds must have different traces.
    let different: std::collections::BTreeSet<_> = digests.iter().collect();
    assert_eq!(different.len(), digests.len());
}

/// Negative controls: each planted bug is found within 200 seeds.
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
