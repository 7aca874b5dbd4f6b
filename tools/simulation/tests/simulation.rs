//! Runs a seed: creates the hosts, advances the time, injects the planned faults, and checks the promises.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use threadline::app::App;
use threadline_core::{Limits, Timestamp};
use threadline_engine::{LockTiming, Ports};
use threadline_http::listener::Timeouts;
use threadline_store::DynStore;
use turmoil::Sim;

use crate::{
    auditor,
    beside::{self, Gate},
    client::Client,
    network::{KEY, Port},
    plan::{Fault, Plan, Role, What},
    planted::Design,
    ports::Way,
    producer, reader,
    rng::Rng,
    through::Through,
    world::{BEGIN, Counts, World},
};

/// Step of the simulated time; also the least latency of a message.
const TICK: Duration = Duration::from_millis(10);
/// Time after the last fault within which all clients have to be done.
const REST: Duration = Duration::from_secs(40);

/// The name of the auditor on the network.
const AUDITOR: &str = "auditor";

/// Outcome of a seed.
pub struct Outcome {
    pub plan: String,
    pub violations: Vec<String>,
    pub trace: Vec<String>,
    pub counts: Counts,
    /// Number of events that were acknowledged.
    pub acked: u64,
    /// Number of events in the logs.
    pub events: usize,
    /// Simulated time.
    pub time: Duration,
}

/// Runs a seed.
pub fn run(seed: u64, design: Design) -> Outcome {
    let world = World::new(Plan::of(seed), design);
    let mut builder = turmoil::Builder::new();
    builder
        .rng_seed(seed)
        .tick_duration(TICK)
        .simulation_duration(Duration::from_secs(3_600))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(world.plan.latency))
        .tcp_capacity(1_024)
        .enable_random_order();
    let mut sim = builder.build();
    for node in 0..world.plan.nodes {
        let world = world.clone();
        sim.host(Plan::node(node), move || serve(world.clone(), node));
    }
    for (number, role) in world.plan.clients.iter().enumerate() {
        let rng = Rng::new(seed, 1_000 + number as u64);
        let client = Client::new(world.clone(), Plan::client(number), rng);
        let role = *role;
        if role == Role::Producer {
            world.producing.fetch_add(1, SeqCst);
        }
        sim.client(Plan::client(number), async move {
            match role {
                Role::Producer => producer::work(client).await,
                Role::Socket => reader::socket(client).await,
                Role::Sse(thread) => reader::sse(client, Plan::thread(thread)).await,
                Role::Feed => reader::feed(client).await,
                Role::Stopper => producer::stop(client).await,
            }
            Ok(())
        });
    }
    let audit = Client::new(world.clone(), AUDITOR.into(), Rng::new(seed, 2));
    sim.client(AUDITOR, async move {
        auditor::audit(audit).await;
        Ok(())
    });
    Driver { sim, world: world.clone(), unable: world.clock.now(), broken: BTreeSet::new() }.drive();
    Outcome {
        plan: world.plan.to_string(),
        violations: world.tally.violations(),
        trace: world.trace.take(),
        counts: world.counts().clone(),
        acked: world.tally.acked.load(SeqCst),
        events: world.logs.get().map_or(0, |logs| logs.values().map(Vec::len).sum()),
        time: Duration::from_millis(u64::try_from(world.clock.now().0 - BEGIN.0).unwrap_or(0)),
    }
}

/// Runs a node: the product as `threadline serve` runs it, but on the simulated network and store.
async fn serve(world: Arc<World>, node: usize) -> turmoil::Result {
    let mut told = world.drain[node].subscribe();
    let port = Port::bind(world.clone(), node).await?;
    let store = Through { inner: world.store.clone(), pass: Way { node, world: world.clone() } };
    let store: DynStore = Arc::new(store);
    let clock = world.clocks[node].clone();
    let lock = Arc::new(Gate { node, world: world.clone() });
    let timing = LockTiming { ttl: Duration::from_secs(world.plan.lease), heartbeat: Duration::from_secs(1) };
    let ports = Ports {
        store,
        clock,
        lock,
        bus: beside::join(&world, node),
        witness: None,
        timing,
        limits: Limits::default(),
        node_name: node.to_string(),
        space: None,
    };
    let app = App::over(port, ports, Some(KEY), Vec::new())?;
    // Timeouts of clients are shorter than usual, because a seed simulates only seconds.
    let second = Duration::from_secs(1);
    let patience =
        Timeouts { heartbeat: second, drain: second, header: 5 * second, body: 5 * second, ..Timeouts::default() };
    let sound = app.with_timeouts(patience).run(async { told.changed().await.unwrap_or_default() }).await;
    if !sound {
        world.tally.violation(format!("{} has stopped because one of its tasks failed", Plan::node(node)));
    }
    world.node(node).ended = true;
    // The driver ends the connections, as the end of a process does.
    std::future::pending().await
}

struct Driver<'a> {
    sim: Sim<'a>,
    world: Arc<World>,
    /// Last time at which no node was able to end a run.
    unable: Timestamp,
    /// Links that are cut or held.
    broken: BTreeSet<(usize, usize)>,
}

impl Driver<'_> {
    fn drive(&mut self) {
        let mut changes: Vec<(u64, bool, What)> = Vec::new();
        for Fault { from, to, what } in &self.world.plan.faults {
            changes.extend([(*from, true, *what), (*to, false, *what)]);
        }
        changes.sort_by_key(|(at, begins, _)| (*at, *begins));
        let mut changes = changes.into_iter().peekable();
        let end = Duration::from_millis(self.world.plan.calm) + REST;
        let mut steps = 0;
        loop {
            let now = self.sim.elapsed();
            while let Some((_, begins, what)) = changes.next_if(|(at, ..)| u128::from(*at) <= now.as_millis()) {
                self.world.trace.note_at(now, "weather", format_args!("{what:?} {begins}"));
                self.change(what, begins);
            }
            self.world.advance(TICK);
            match self.sim.step() {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => return self.world.tally.violation(format!("a host failed: {error}")),
            }
            self.look();
            steps += 1;
            if steps % 10 == 0 {
                self.world.check_ends(self.unable);
            }
            if !self.world.tally.violations().is_empty() {
                return;
            }
            if self.sim.elapsed() > end {
                return self.world.tally.violation("the clients are not done in time".into());
            }
        }
    }

    fn change(&mut self, what: What, begins: bool) {
        let clients = 0..self.world.plan.clients.len();
        match what {
            What::Crash(node) if begins => self.kill(node),
            What::Drain(node) if begins => self.world.drain[node].send_replace(()),
            What::Crash(node) | What::Drain(node) => {
                self.kill(node);
                self.world.node(node).ended = false;
                self.sim.bounce(Plan::node(node));
            }
            What::CutOff(node) => self.world.node(node).cut_off = begins,
            What::Slow(node) => self.world.node(node).slow = begins,
            What::Split(node, client) => self.split(node, client, begins),
            What::Hold(node, client) if begins => {
                self.broken.insert((node, client));
                self.sim.hold(Plan::node(node), Plan::client(client));
            }
            What::Hold(node, client) => {
                self.broken.remove(&(node, client));
                self.sim.release(Plan::node(node), Plan::client(client));
            }
            What::NoLock(node) => self.world.node(node).no_lock = begins,
            What::NoBus(node) => self.world.node(node).no_bus = begins,
            What::Flush => self.world.locks.vanish(),
            What::Isolate(node) => clients.for_each(|client| self.split(node, client, begins)),
        }
    }

    fn split(&mut self, node: usize, client: usize, begins: bool) {
        let (from, to) = (Plan::node(node), Plan::client(client));
        if begins {
            self.broken.insert((node, client));
            self.sim.partition(from, to);
            self.world.cuts[node][client].send_replace(());
        } else {
            self.broken.remove(&(node, client));
            self.sim.repair(from, to);
        }
    }

    /// Kills a node, with all that it has in memory. Its connections are closed in an order that the seed does not
    /// decide, so packets are held until all are closed: latencies must not be drawn in that order.
    fn kill(&mut self, node: usize) {
        let name = Plan::node(node);
        let clients = (0..self.world.plan.clients.len()).filter(|client| !self.broken.contains(&(node, *client)));
        let whole: Vec<_> = clients.map(Plan::client).chain([AUDITOR.to_owned()]).collect();
        whole.iter().for_each(|client| self.sim.hold(name.as_str(), client.as_str()));
        self.sim.crash(name.as_str());
        whole.iter().for_each(|client| self.sim.release(name.as_str(), client.as_str()));
    }

    /// Kills nodes that have shut down, and records whether a node is able to end runs.
    fn look(&mut self) {
        let calm = self.world.plan.is_calm(self.sim.elapsed());
        let weather = self.world.plan.weather;
        let mut able = false;
        for node in 0..self.world.plan.nodes {
            let name = Plan::node(node);
            let running = self.sim.is_host_running(name.as_str());
            let (ended, free) = {
                let node = self.world.node(node);
                (node.ended, !node.cut_off && !node.slow)
            };
            if ended && running {
                self.kill(node);
            }
            able |=
                running && !ended && free && (calm || weather.fails_before + weather.fails_after + weather.slow == 0);
        }
        if !able {
            self.unable = self.world.clock.now();
        }
    }
}
