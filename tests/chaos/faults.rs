//! The faults: what each kind does, and in which order they come.

use std::{
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use threadline_testkit::rng::Rng;

use crate::{
    backing::{Cut, Flow, Proxy, Way},
    cluster::{Cluster, NODES},
    history::{Class, Fault, History, Kind, Line, Loss, now},
    world::World,
};

/// Between two looks at what is waited for.
const PACE: Duration = Duration::from_millis(50);
/// Longer than any lease of the load.
const LONGER_THAN_A_LEASE: (u64, u64) = (5_500, 7_500);

/// Breaks things, and makes them whole again. All of it waits: it wants a thread of its own.
pub struct Injector {
    pub cluster: Cluster,
    pub world: Arc<World>,
    pub history: History,
    pub rng: Rng,
    /// Kinds that are still to come in this round.
    round: Vec<Kind>,
    kinds: Vec<Kind>,
    rounds: u64,
    done: u64,
    /// The commits that the fault of the moment may have lost.
    pub loss: Option<Loss>,
}

impl Injector {
    /// That takes these kinds in turn, each round in another order.
    pub fn new(cluster: Cluster, world: Arc<World>, kinds: Vec<Kind>) -> Self {
        let history = world.history("faults");
        let rng = Rng::new(world.seed, 1_000_000);
        Self { cluster, world, history, rng, round: Vec::new(), kinds, rounds: 0, done: 0, loss: None }
    }

    fn next_kind(&mut self) -> Kind {
        if self.round.is_empty() {
            self.round = self.kinds.clone();
            // Among other faults every second round, because each failover needs a new standby.
            if self.rounds % 2 == 1 && self.kinds.len() > 1 {
                self.round.retain(|kind| *kind != Kind::PromoteStandby);
            }
            self.rounds += 1;
            if self.round.contains(&Kind::PromoteStandby) {
                self.cluster.have_standby();
            }
            for at in (1..self.round.len()).rev() {
                self.round.swap(at, self.rng.between(0, at as u64) as usize);
            }
        }
        self.round.pop().expect("some kinds")
    }

    /// Whether each kind has come, and each as often as the others.
    pub fn has_done_all(&self) -> bool {
        self.done > 0 && self.round.is_empty()
    }

    pub fn wait(&mut self, (least, most): (u64, u64)) {
        sleep(Duration::from_millis(self.rng.between(least, most)));
    }

    /// Waits until something is done; false if it takes too long.
    pub fn until(&self, patience: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let began = Instant::now();
        while !done(self) {
            if began.elapsed() > patience {
                return false;
            }
            sleep(PACE);
        }
        true
    }

    /// The next fault, from its beginning until what it broke is whole again; then a moment of peace.
    pub fn inject(&mut self) -> Fault {
        let kind = self.next_kind();
        let node = self.rng.between(0, NODES as u64 - 1) as usize;
        let begin = now();
        let (hit, note) = self.carry_out(kind, node);
        let fault = Fault { kind, node: hit.then_some(node), begin, end: now(), note, loss: self.loss.take() };
        self.done += 1;
        self.history.write(&Line::Fault(fault.clone()));
        self.history.flush();
        self.look_after_nodes();
        self.wait(self.world.size.peace);
        fault
    }

    /// Whether it hit only that node, and a remark.
    fn carry_out(&mut self, kind: Kind, node: usize) -> (bool, String) {
        match kind {
            Kind::KillNode => {
                self.cluster.nodes[node].kill();
                self.wait((100, 5_000));
                self.start_again(node);
                (true, String::new())
            }
            Kind::RestartNode => {
                if !self.cluster.nodes[node].ask_to_go() {
                    self.world.wrong(Class::Unfinished, format!("node {node} did not go when it was asked to"));
                }
                self.wait((0, 1_000));
                self.start_again(node);
                (true, String::new())
            }
            Kind::StopNode => {
                self.cluster.nodes[node].signal(Signal::SIGSTOP);
                self.wait(LONGER_THAN_A_LEASE);
                self.cluster.nodes[node].signal(Signal::SIGCONT);
                (true, String::new())
            }
            Kind::KillPostgres => {
                self.cluster.postgres.kill();
                if self.rng.chance(50) {
                    self.wait((0, 3_000));
                }
                self.cluster.postgres.restart();
                (false, String::new())
            }
            Kind::StopPostgres => {
                self.cluster.postgres.stop_signal();
                // Now and then for so long that no node may call itself ready.
                let long = self.rng.chance(33);
                self.wait(if long { (8_500, 9_500) } else { (1_000, 4_000) });
                self.cluster.postgres.cont();
                (false, String::new())
            }
            Kind::KillRedis => {
                self.cluster.redis.kill();
                self.wait((0, 6_000));
                self.cluster.redis.restart();
                (false, String::new())
            }
            Kind::Flushall => {
                for _ in 0..self.rng.between(1, 5) {
                    self.cluster.redis.command(&["FLUSHALL"]);
                    self.wait((0, 400));
                }
                (false, String::new())
            }
            Kind::FalseHints => {
                let (heard, sent) = self.false_hints();
                (false, format!("{sent} in place of {heard}"))
            }
            Kind::DiskFull => {
                self.cluster.postgres.fill_disk();
                self.wait((1_000, 4_000));
                self.cluster.postgres.free_disk();
                // It ends itself if it cannot write what it must.
                let ended = !self.cluster.postgres.is_running();
                if ended {
                    self.cluster.postgres.restart();
                }
                (false, if ended { "Postgres ended itself".to_owned() } else { String::new() })
            }
            Kind::PromoteStandby => (false, self.promote_standby(node)),
            Kind::Cut | Kind::Delay | Kind::Stall => (true, self.network(kind, node)),
        }
    }

    /// Listens for a moment, and tells what was heard again: as it was, older, and far ahead. How many of both.
    fn false_hints(&mut self) -> (usize, usize) {
        let heard = self.cluster.redis.overhear(Duration::from_millis(700));
        let mut sent = 0;
        for (channel, hint) in &heard {
            let mut numbers: Vec<u64> = hint.split(' ').filter_map(|number| number.parse().ok()).collect();
            let [_, generation, tail, fence, flags, ..] = numbers[..] else { continue };
            for _ in 0..3 {
                match self.rng.between(0, 4) {
                    0 => {}
                    1 => numbers[2] = tail.saturating_sub(self.rng.between(1, 500)),
                    2 => (numbers[2], numbers[3]) = (tail + self.rng.between(1, 5_000), fence + 1),
                    3 => numbers[1] = generation + 1,
                    // Ended, or asked to stop; not that the thread is gone, which has an answer of its own.
                    _ => numbers[4] = (flags ^ 1) | 2,
                }
                let hint: Vec<_> = numbers.iter().map(u64::to_string).collect();
                self.cluster.redis.command(&["PUBLISH", channel, &hint.join(" ")]);
                sent += 1;
            }
        }
        assert!(sent > 0 || heard.len() < 20, "no hint has the form that is known here: {heard:?}");
        (heard.len(), sent)
    }

    /// Breaks the network of one node: to Postgres, to Redis or to both.
    fn network(&mut self, kind: Kind, number: usize) -> String {
        let which = self.rng.between(0, 2);
        let how = self.rng.between(0, 3);
        let (torn, after) = (self.rng.between(3, 12), self.rng.between(20, 20_000));
        let millis = |rng: &mut Rng, low, high| Duration::from_millis(rng.between(low, high));
        let (late, jitter) = (millis(&mut self.rng, 20, 400), millis(&mut self.rng, 0, 200));
        let node = &self.cluster.nodes[number];
        let ways: Vec<&Proxy> = match which {
            0 => vec![&node.to_postgres],
            1 => vec![&node.to_redis],
            _ => node.ways().to_vec(),
        };
        let name = ["Postgres", "Redis", "both"][which as usize];
        let each = |act: &dyn Fn(&Proxy)| ways.iter().for_each(|way| act(way));
        let note = match (kind, how) {
            (Kind::Delay, _) => {
                each(&|way| way.set(Way::Both, Flow::Delay(late, jitter)));
                format!("{late:?} to {name}")
            }
            (Kind::Stall, 0) => {
                each(&|way| way.set(Way::ToClient, Flow::Stall));
                format!("answers of {name}")
            }
            (Kind::Stall, _) => {
                each(&|way| way.set(Way::Both, Flow::Stall));
                name.to_owned()
            }
            (_, 0) => {
                each(&|way| way.cut(Cut::Fin));
                format!("closed, {name}")
            }
            (_, 1) => {
                for _ in 0..torn {
                    each(&|way| way.cut_after(Way::ToClient, after, Cut::Reset));
                    sleep(Duration::from_millis(200));
                }
                format!("torn {torn} times after {after} bytes, {name}")
            }
            _ => {
                each(&Proxy::partition);
                format!("refused, {name}")
            }
        };
        self.wait((800, 6_000));
        self.cluster.nodes[number].heal();
        note
    }

    fn start_again(&mut self, node: usize) {
        if let Err(said) = self.cluster.nodes[node].start_again() {
            self.world.wrong(Class::Unfinished, format!("node {node} did not start again:\n{said}"));
        }
    }

    /// No node may end by itself.
    fn look_after_nodes(&mut self) {
        for node in 0..NODES {
            if !self.cluster.nodes[node].is_running() {
                let said = self.cluster.nodes[node].said();
                self.world.wrong(Class::Unfinished, format!("node {node} ended by itself; it said last:\n{said}"));
                self.start_again(node);
            }
        }
    }
}
