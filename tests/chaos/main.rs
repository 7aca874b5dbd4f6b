//! Chaos: three real nodes on a real Postgres and a real Redis, all of which are killed, stopped, cut off and starved
//! while producers and readers work; then a checker in a process of its own compares the answers to clients with the
//! stored logs. `make chaos MINUTES=10` runs it for long, `make chaos PLANT=name` with a bug that it must find.

mod askers;
mod callee;
mod check;
mod cluster;
mod failover;
mod faults;
mod healing;
mod history;
mod judge;
mod others;
mod plants;
mod probes;
mod producers;
mod readers;
mod run;
mod sockets;
mod world;

use std::{
    env, process,
    time::{Duration, Instant},
};

use history::Kind;
use plants::{PLANTS, Plant};
use run::{Plan, Verdict};
use threadline_backing as backing;
use threadline_testkit::rng::seed;
use world::Size;

/// More than 30 runs and as many readers at any moment.
const SIZE: Size = Size {
    lanes: 32,
    contended: 4,
    rivals: 3,
    agents: 8,
    queues: 4,
    sockets: 36,
    streams: 16,
    pause: 300,
    batch: 50,
    peace: (500, 2_500),
    dropped: 2,
    hops: 5,
    stuck: 8,
    anew: 2,
    rude: 5,
};

/// As many events and faults as a long run is judged by: ten million and three hundred in half an hour on two cores.
const LONG: Size = Size { pause: 60, batch: 80, peace: (100, 700), ..SIZE };

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_event_is_lost_by_any_fault() {
    // One round of all faults.
    let plan = Plan { seed: seed(), lasts: Duration::ZERO, kinds: Kind::ALL.to_vec(), size: SIZE };
    let verdict = plan.carry_out().await;
    println!("{}", verdict.report);
    assert!(verdict.clean, "promises were broken: see above");
}

/// `make chaos`. It ends the process, so that the last line of the report is the last line of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "takes minutes: make chaos"]
async fn for_long() {
    let minutes = |default: f64| {
        let given = env::var("MINUTES").ok().filter(|minutes| !minutes.is_empty());
        let minutes = given.map_or(default, |given| given.parse().expect("MINUTES is a number"));
        Duration::from_secs_f64(60.0 * minutes)
    };
    let plant = env::var("PLANT").ok().filter(|name| !name.is_empty());
    let verdict = match plant.as_deref() {
        None => {
            let kinds = Kind::ALL.to_vec();
            Plan { seed: seed(), lasts: minutes(10.0), kinds, size: LONG }.carry_out().await
        }
        Some("none") => no_plants().await,
        Some(name) => planted(Plant::named(name), minutes(2.0)).await,
    };
    println!("{}", verdict.report);
    process::exit(i32::from(!verdict.clean));
}

/// Runs under the faults that bring this bug out, until it is found or for this long.
async fn planted(plant: &Plant, patience: Duration) -> Verdict {
    let (began, seed) = (Instant::now(), seed());
    let mut round = 0;
    loop {
        let verdict = plant.plan(seed + round, SIZE).carry_out().await;
        if !verdict.clean || began.elapsed() > patience {
            return verdict;
        }
        round += 1;
        println!("{} was not found in round {round}", plant.name);
    }
}

/// Runs under the faults of every planted bug, with nothing planted: a checker that finds bugs must find none where there are none.
async fn no_plants() -> Verdict {
    for plant in PLANTS {
        let verdict = plant.plan(seed(), SIZE).carry_out().await;
        println!("as for {}: {}", plant.name, verdict.report.lines().last().unwrap_or_default());
        if !verdict.clean {
            return verdict;
        }
    }
    Verdict { clean: true, report: format!("planted 0, found 0 in {} runs", PLANTS.len()) }
}

#[test]
#[ignore = "is the other half of the others, in a process of its own"]
fn judge() {
    process::exit(i32::from(!judge::judge()));
}
