//! The plan of a seed: its nodes and clients, the rates of failures, and the faults with their times.

use std::{fmt, time::Duration};

use crate::rng::Rng;

/// Rates of failures of the store, in percent of its calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    /// The call fails and changes nothing.
    pub fails_before: u64,
    /// The call takes effect, but its caller gets an error.
    pub fails_after: u64,
    /// The call takes up to a second instead of some milliseconds.
    pub slow: u64,
}

/// A fault that lasts for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A node is killed, loses all that it has in memory, and is started again.
    Crash(usize),
    /// A node is asked to shut down, drains, and is started again.
    Drain(usize),
    /// A node does not reach the store.
    CutOff(usize),
    /// The store takes long for this node.
    Slow(usize),
    /// No packet passes between a node and a client; packets under way are lost, and neither side is notified.
    Split(usize, usize),
    /// Packets between a node and a client arrive only after the fault.
    Hold(usize, usize),
    /// No client reaches this node.
    Isolate(usize),
    /// A node does not reach the lock.
    NoLock(usize),
    /// Hints from a node to the others are lost.
    NoBus(usize),
    /// All locks vanish.
    Flush,
}

/// A fault with its times, in milliseconds of the simulation.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub from: u64,
    pub to: u64,
    pub what: What,
}

/// Task of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Starts runs and appends to them, each in another style.
    Producer,
    /// Follows all threads over one socket.
    Socket,
    /// Follows one thread as server-sent events.
    Sse(usize),
    /// Follows the feed over a socket.
    Feed,
    /// Stops runs of others now and then.
    Stopper,
}

/// Everything that a seed decides before the simulation starts.
#[derive(Debug)]
pub struct Plan {
    pub seed: u64,
    pub nodes: usize,
    pub threads: usize,
    pub clients: Vec<Role>,
    /// Seconds that a run may be silent.
    pub lease: u64,
    /// Longest latency of a message, in milliseconds.
    pub latency: u64,
    pub weather: Weather,
    /// Percent of the calls of the lock that fail.
    pub lock_fails: u64,
    /// Percent of the hints between nodes that are lost.
    pub bus_loses: u64,
    /// Longest latency of a hint, in milliseconds; later hints may overtake it.
    pub bus_delays: u64,
    /// Differences between the clocks of nodes and the store's, in milliseconds.
    pub skew: Vec<i64>,
    pub faults: Vec<Fault>,
    /// Time after which no fault happens and no run is started, in milliseconds.
    pub calm: u64,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let rng = &mut Rng::new(seed, 1);
        let (nodes, threads) = (rng.between(2, 3) as usize, rng.between(1, 3) as usize);
        let mut clients = vec![Role::Socket, Role::Socket, Role::Feed];
        clients.extend((0..rng.between(1, 2)).map(|_| Role::Sse(rng.between(0, threads as u64 - 1) as usize)));
        clients.extend((0..rng.between(2, 4)).map(|_| Role::Producer));
        if rng.chance(40) {
            clients.push(Role::Stopper);
        }
        let weather = match rng.between(0, 3) {
            0 => Weather::default(),
            1 => Weather { slow: rng.between(1, 10), ..Weather::default() },
            _ => Weather { fails_before: rng.between(0, 6), fails_after: rng.between(1, 8), slow: rng.between(0, 5) },
        };
        let calm = rng.between(5_000, 9_000);
        let count = rng.between(1, 7);
        let mut plan = Self {
            seed,
            nodes,
            threads,
            clients,
            lease: rng.between(1, 3),
            latency: rng.between(1, 40),
            weather,
            lock_fails: if rng.chance(50) { rng.between(1, 20) } else { 0 },
            bus_loses: [0, 10, 50, 100][rng.between(0, 3) as usize],
            bus_delays: rng.between(5, 400),
            skew: (0..nodes).map(|_| if rng.chance(50) { rng.between(0, 4_000) as i64 - 2_000 } else { 0 }).collect(),
            faults: Vec::new(),
            calm,
        };
        for _ in 0..count {
            plan.add_fault(rng);
        }
        plan.faults.sort_by_key(|fault| fault.from);
        plan
    }

    fn add_fault(&mut self, rng: &mut Rng) {
        let node = rng.between(0, self.nodes as u64 - 1) as usize;
        let client = rng.between(0, self.clients.len() as u64 - 1) as usize;
        let what = match rng.between(0, 12) {
            0..=2 => What::Crash(node),
            3 => What::Drain(node),
            4 => What::CutOff(node),
            5 => What::Slow(node),
            6 => What::Split(node, client),
            7 => What::Hold(node, client),
            8 => What::Isolate(node),
            9 => What::NoLock(node),
            10 => What::NoBus(node),
            _ => What::Flush,
        };
        let from = rng.between(200, self.calm - 500);
        let to = (from + rng.between(100, 4_000)).min(self.calm);
        // A link or a node is broken in one way at a time: turmoil does not hold and cut the same link.
        let meets = |other: &Fault| other.from <= to && from <= other.to && conflict(other.what, what);
        if !self.faults.iter().any(meets) {
            self.faults.push(Fault { from, to, what });
        }
    }

    /// The name of a node on the network.
    pub fn node(number: usize) -> String {
        format!("node{number}")
    }

    /// The name of a client on the network.
    pub fn client(number: usize) -> String {
        format!("client{number}")
    }

    /// The number of the client with this name on the network.
    pub fn number(name: &str) -> Option<usize> {
        name.strip_prefix("client")?.parse().ok()
    }

    /// The name of a thread.
    pub fn thread(number: usize) -> String {
        format!("t{number}")
    }

    pub fn is_calm(&self, now: Duration) -> bool {
        now.as_millis() >= u128::from(self.calm)
    }
}

fn conflict(a: What, b: What) -> bool {
    use What::{Crash, CutOff, Drain, Hold, Isolate, NoBus, NoLock, Slow, Split};
    let life = |what| if let Crash(node) | Drain(node) = what { Some(node) } else { None };
    let link = |what| match what {
        Split(node, client) | Hold(node, client) => Some((node, Some(client))),
        Isolate(node) => Some((node, None)),
        _ => None,
    };
    let way = |what| match what {
        CutOff(node) => Some((node, 0)),
        Slow(node) => Some((node, 1)),
        NoLock(node) => Some((node, 2)),
        NoBus(node) => Some((node, 3)),
        _ => None,
    };
    let same = |a: Option<usize>, b: Option<usize>| a.is_some() && a == b;
    let same_link = match (link(a), link(b)) {
        (Some((a, one)), Some((b, other))) => a == b && (one.is_none() || other.is_none() || one == other),
        _ => false,
    };
    same(life(a), life(b)) || same_link || (way(a).is_some() && way(a) == way(b))
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, nodes, threads, clients, lease, latency, weather, faults, calm, .. } = self;
        let Self { lock_fails, bus_loses, bus_delays, skew, .. } = self;
        writeln!(
            f,
            "seed {seed}: {nodes} nodes, {threads} threads, leases of {lease} s, messages take up to {latency} ms\n  \
             clients {clients:?}\n  {weather:?}, {lock_fails} % of the lock's calls fail, \
             {bus_loses} % of the hints are lost, others take up to {bus_delays} ms, clocks are off by {skew:?} ms"
        )?;
        for Fault { from, to, what } in faults {
            writeln!(f, "  {from:>5} to {to:>5} ms: {what:?}")?;
        }
        write!(f, "  calm from {calm} ms on")
    }
}
