//! Chaos: three real nodes on a real Postgres and a real Redis, all of which are killed, stopped, cut off and starved
//! while producers and readers work; then a checker in a process of its own compares what clients were told with what
//! is there. `make chaos MINUTES=10` runs it for long, `make chaos PLANT=name` with a bug that it must find.

#[path = "../backing/mod.rs"]
mod backing;
mod check;
mod cluster;
mod faults;
mod history;
mod judge;
mod others;
mod producers;
mod readers;
mod run;
mod sockets;
mod world;

use std::{env, process, time::Duration};

use backing::rng::seed;
use history::Kind;
use run::Plan;
use world::Size;

/// More than 30 runs and as many readers at any moment.
const SIZE: Size =
    Size { lanes: 32, contended: 4, rivals: 3, agents: 4, sockets: 28, streams: 12, pause: 300, dropped: 2 };

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_whatever_breaks() {
    // One round of all faults.
    let plan = Plan { seed: seed(), lasts: Duration::ZERO, kinds: Kind::ALL.to_vec(), size: SIZE, plant: None };
    let verdict = plan.carry_out().await;
    println!("{}", verdict.report);
    assert!(verdict.clean, "promises were broken: see above");
}

/// `make chaos`. Ends the process, so that the report's last line is the last line of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "takes minutes: make chaos"]
async fn for_long() {
    let minutes = env::var("MINUTES").unwrap_or_else(|_| "10".to_owned());
    let minutes: f64 = minutes.parse().unwrap_or_else(|_| panic!("MINUTES={minutes} is no number"));
    let lasts = Duration::from_secs_f64(60.0 * minutes);
    let plan = Plan { seed: seed(), lasts, kinds: Kind::ALL.to_vec(), size: SIZE, plant: None };
    let verdict = plan.carry_out().await;
    println!("{}", verdict.report);
    process::exit(i32::from(!verdict.clean));
}

#[test]
#[ignore = "is the other half of the others, in a process of its own"]
fn judge() {
    process::exit(i32::from(!judge::judge()));
}
