//! Neighbours: how long small operations of some users take while a user of another project attacks at the full quota.
//!
//! Alone and attacked alternate, so that a machine which is slow for a while is slow for both. `THREADLINE_ATTACK=folds`
//! selects an attack.

mod attacks;
mod foe;
mod victims;
mod world;

use std::{env, fmt, sync::atomic::Ordering::Relaxed, time::Duration};

use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use attacks::Attack;
use victims::Victims;
use world::{BackEnd, POOL, World};

const PAIRS: usize = 5;
const PHASE: Duration = Duration::from_secs(2);
/// Most memory that the server may take beside what its clients share, in KiB.
const BESIDE_POOL_KIB: u64 = 128 * 1_024;
/// Fewest bytes of half-sent messages that the server holds at some time.
const HELD: f64 = 8_000_000.0;

/// How long operations took while the victims were alone, and while one attacked.
struct Pair {
    alone: Latencies,
    attacked: Latencies,
}

#[derive(Clone, Copy)]
struct Latencies {
    half: Duration,
    most: Duration,
}

/// Result of an attack.
struct Measured {
    attack: Attack,
    back_end: BackEnd,
    pairs: Vec<Pair>,
    operations: usize,
    sent: u64,
    served: u64,
    refused: u64,
    /// Number of times that the limits of the attack were reached.
    limited: u64,
    /// Most bytes that the server held for its clients.
    held: f64,
    /// Resident memory before the attack, and the most during it, in KiB.
    rss_kib: (u64, u64),
    /// Attacks that did nothing, and numbers beyond the bounds.
    wrong: Vec<String>,
}

impl Latencies {
    fn of(mut took: Vec<Duration>) -> Self {
        assert!(!took.is_empty(), "the victims did nothing");
        took.sort_unstable();
        let at = |share: f64| took[((took.len() - 1) as f64 * share).round() as usize];
        Self { half: at(0.5), most: at(0.99) }
    }
}

impl Pair {
    fn ratio(&self) -> f64 {
        self.attacked.most.as_secs_f64() / self.alone.most.as_secs_f64()
    }

    fn difference(&self) -> f64 {
        millis(self.attacked.most) - millis(self.alone.most)
    }
}

/// Turns of somebody who does one thing after the other, and the next one at once if the last one has taken long.
fn pace(time: Duration) -> Interval {
    let mut pace = interval(time);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = of.collect();
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

impl Measured {
    fn median(&self, of: impl Fn(&Pair) -> f64) -> f64 {
        median(self.pairs.iter().map(of))
    }

    /// The bounds of the promise.
    fn judge(&mut self) {
        let (ratio, difference) = (self.median(Pair::ratio), self.median(Pair::difference));
        if ratio >= 2.0 && difference >= 25.0 {
            self.wrong.push(format!("p99 is {ratio:.1} times as long, {difference:.0} ms more"));
        }
        let (before, most) = self.rss_kib;
        if most > before + POOL / 1_024 + BESIDE_POOL_KIB {
            self.wrong.push(format!("RSS grew from {before} to {most} KiB"));
        }
    }
}

const COLUMNS: &str = "attack         back-end | alone p50   p99 | attacked p50   p99 |  p99 ratio, difference | operations |     sent   served  refused limited | held MiB | RSS MiB before, most";

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |of: fn(&Pair) -> Duration| self.median(|pair| millis(of(pair)));
        write!(
            f,
            "{:14} {:8} | {:9.1} {:5.1} | {:12.1} {:5.1} | {:10.2} {:8.1} ms | {:10} | {:8} {:8} {:8} {:7} | {:8.1} | {:14} {:5}",
            self.attack.name(),
            self.back_end.name(),
            time(|pair| pair.alone.half),
            time(|pair| pair.alone.most),
            time(|pair| pair.attacked.half),
            time(|pair| pair.attacked.most),
            self.median(Pair::ratio),
            self.median(Pair::difference),
            self.operations,
            self.sent,
            self.served,
            self.refused,
            self.limited,
            self.held / 1_048_576.0,
            self.rss_kib.0 / 1_024,
            self.rss_kib.1 / 1_024,
        )
    }
}

async fn measure(attack: Attack, back_end: BackEnd) -> Measured {
    let world = World::start(back_end, attack.listens_on()).await;
    let mut foes = Vec::new();
    for number in 0..PAIRS {
        foes.push(attack.prepare(&world, number).await);
    }
    let mut victims = Victims::settle(&world).await;
    world.rests().await;
    victims.work(PHASE / 2).await;
    let before = world.server.rss_kib();
    world.server.forget_most_rss();
    let (pairs, wrong) = (Vec::new(), Vec::new());
    let mut measured = Measured {
        attack,
        back_end,
        pairs,
        operations: 0,
        sent: 0,
        served: 0,
        refused: 0,
        limited: 0,
        held: 0.0,
        rss_kib: (before, before),
        wrong,
    };
    for (number, foe) in foes.into_iter().enumerate() {
        let alone = victims.work(PHASE).await;
        let reached = world.metric("threadline_limited_total", attack.limits()).await;
        let begun = Instant::now();
        let attackers = attack.begin(foe);
        let (attacked, held) = tokio::join!(victims.work(PHASE), held(&world, begun + PHASE));
        let counts = attackers.end();
        let limited = world.metric("threadline_limited_total", attack.limits()).await - reached;
        let [sent, served, refused] = [&counts.sent, &counts.served, &counts.refused].map(|count| count.load(Relaxed));
        let mut missed = |what: &str| measured.wrong.push(format!("pair {number}: {what}"));
        if served < 10 {
            missed(&format!("only {served} of {sent} were served: no attack"));
        }
        if limited < 1.0 {
            missed(&format!("none of {} was reached: not the full quota", attack.limits().join(", ")));
        }
        if attack == Attack::HalfMessages && held < HELD {
            missed(&format!("the server held {held} bytes of half messages: no attack"));
        }
        if attack == Attack::Pings && served > attack.most_pongs(begun.elapsed()) {
            missed(&format!("{served} pings were answered"));
        }
        measured.operations += attacked.len();
        measured.pairs.push(Pair { alone: Latencies::of(alone), attacked: Latencies::of(attacked) });
        measured.sent += sent;
        measured.served += served;
        measured.refused += refused;
        measured.limited += limited as u64;
        measured.held = measured.held.max(held);
        world.rests().await;
    }
    measured.rss_kib.1 = world.server.most_rss_kib();
    measured
}

/// The most bytes that clients of the server hold together at some time until this moment.
async fn held(world: &World, until: Instant) -> f64 {
    let (mut most, mut pace) = (0.0_f64, pace(Duration::from_millis(250)));
    while Instant::now() < until {
        pace.tick().await;
        most = most.max(world.metric("threadline_memory_bytes", &["body", "frame", "answer", "fold"]).await);
    }
    most
}

async fn measure_all(back_end: BackEnd) {
    let _turn = crate::turn().await;
    crate::raw::many_files(4_096);
    let wanted = env::var("THREADLINE_ATTACK").ok();
    let chosen: Vec<_> = Attack::ALL
        .into_iter()
        .filter(|attack| wanted.as_deref().is_none_or(|wanted| wanted == attack.name()))
        .collect();
    assert!(!chosen.is_empty(), "THREADLINE_ATTACK is one of {:?}", Attack::ALL.map(Attack::name));
    let mut wrong = Vec::new();
    println!("{COLUMNS}");
    for attack in chosen {
        let mut measured = measure(attack, back_end).await;
        if !cfg!(debug_assertions) {
            measured.judge();
        }
        println!("{measured}");
        wrong.extend(
            measured.wrong.into_iter().map(|wrong| format!("{} on {}: {wrong}", attack.name(), back_end.name())),
        );
    }
    if cfg!(debug_assertions) {
        println!("(a debug build; the bounds are for a release build)");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures for three minutes: make test-full"]
async fn a_user_at_the_full_quota_does_not_slow_neighbours_on_sqlite() {
    measure_all(BackEnd::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures for three minutes: make test-full"]
async fn a_user_at_the_full_quota_does_not_slow_neighbours_on_postgres() {
    measure_all(BackEnd::Postgres).await;
}
