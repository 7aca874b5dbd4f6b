//! Subscriptions against a model: two nodes over one store, the second one notified of commits by a bus that loses,
//! doubles, delays and reorders; readers that connect, leave, read slowly and cancel reads; threads that are deleted
//! and created again. In every case a reader sees each event once, in order, to the end.

mod checker;
mod planted;
mod reader;
mod world;

use crate::support::{run_seed, seeds};
use checker::Stats;
use planted::Design;
use world::{Options, Outcome};

const READERS: Options = Options { design: Design::Real, loss: 30, recheck: true };

/// All violations over the seeds, and what was seen on the way.
fn run(count: u64, options: Options) -> (usize, Stats) {
    let mut stats = Stats::default();
    let mut bad = 0;
    for seed in seeds(count) {
        let outcome: Outcome = run_seed(seed, world::run(seed, options));
        stats.add(&outcome.stats);
        bad += usize::from(!outcome.violations.is_empty());
        if options.design == Design::Real && options.recheck {
            assert!(
                outcome.violations.is_empty(),
                "THREADLINE_SEED={seed}, {} violations, the first ones: {:#?}",
                outcome.violations.len(),
                &outcome.violations[..outcome.violations.len().min(5)]
            );
        }
    }
    (bad, stats)
}

#[test]
fn every_reader_sees_each_event_once_and_in_order() {
    let (_, stats) = run(1_000, READERS);
    println!("{stats:?}");
    if std::env::var("THREADLINE_SEED").is_err() {
        stats.assert_everything_happened();
    }
}

#[test]
fn without_any_hint_the_recheck_alone_is_enough() {
    run(100, Options { loss: 100, ..READERS });
}

/// The checker is worth something only if it finds what is wrong: each planted bug is found in many of 60 seeds.
fn assert_found(design: Design) {
    let (bad, _) = run(60, Options { design, ..READERS });
    assert!(bad >= 20, "{design:?} was found out in {bad} of 60 seeds only");
}

#[test]
fn a_reader_that_reads_and_then_subscribes_is_found_out() {
    assert_found(Design::ReadThenSubscribe);
}

#[test]
fn a_reader_that_ignores_lag_is_found_out() {
    assert_found(Design::IgnoreLag);
}

#[test]
fn a_reader_that_resumes_at_its_cursor_is_found_out() {
    assert_found(Design::InclusiveCursor);
}

#[test]
fn a_reader_that_does_not_look_at_the_tail_when_it_opens_is_found_out() {
    assert_found(Design::NoHeadAtOpen);
}

#[test]
fn a_reader_that_forgets_what_a_dropped_wait_had_read_is_found_out() {
    assert_found(Design::LosesDropped);
}

#[test]
fn hints_alone_are_found_out() {
    let (bad, _) = run(60, Options { recheck: false, ..READERS });
    assert!(bad >= 20, "lost hints without a recheck were found out in {bad} of 60 seeds only");
}
