//! The lock and the bus as nodes see them: slow, failing, losing data, and out of order.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use threadline_core::{RunId, Timestamp};
use threadline_engine::cluster::{
    bus::{Bus, BusEnd, BusMessage, Channel, Hint},
    lock::{Acquired, Claim, Lock, LockError, LockName, LockResult},
};
use tokio::{sync::mpsc, time::sleep};

use crate::{plan::Plan, world::World};

/// All locks: run and expiry by name. They expire by the clock of the simulation, as in Redis by its own.
#[derive(Debug, Default)]
pub struct Locks(Mutex<BTreeMap<String, (String, Timestamp)>>);

impl Locks {
    /// Removes all locks, like a restart of Redis without persistence.
    pub fn vanish(&self) {
        self.held().clear();
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, (String, Timestamp)>> {
        self.0.lock().expect("lock")
    }
}

/// Access of one node to the locks.
pub struct Gate {
    pub node: usize,
    pub world: Arc<World>,
}

impl Gate {
    /// Applies `work` to the locks that have not expired, or fails before or after it.
    async fn ask<T: Send + std::fmt::Debug>(
        &self,
        what: &str,
        work: impl FnOnce(&mut BTreeMap<String, (String, Timestamp)>) -> T + Send,
    ) -> LockResult<T> {
        let fails = self.world.plan.lock_fails * u64::from(!self.world.is_calm());
        let (before, after, done, answered) = {
            let mut node = self.world.node(self.node);
            let reached = !node.no_lock;
            let times = [node.rng.between(0, 3), node.rng.between(0, 3)];
            let done = reached && !node.rng.chance(fails);
            (times[0], times[1], done, done && !node.rng.chance(fails))
        };
        sleep(Duration::from_millis(before)).await;
        let result = done.then(|| {
            let now = self.world.clock.now();
            let mut held = self.world.locks.held();
            held.retain(|_, (_, until)| *until > now);
            work(&mut held)
        });
        sleep(Duration::from_millis(after)).await;
        self.world.trace.note(&Plan::node(self.node), format_args!("lock {what}: {result:?} {answered}"));
        result.filter(|_| answered).ok_or_else(|| LockError("the lock is unreachable".into()))
    }

    fn until(&self, claim: &Claim) -> (String, Timestamp) {
        (claim.run.to_string(), self.world.clock.now().plus(claim.ttl))
    }
}

#[async_trait]
impl Lock for Gate {
    async fn acquire(&self, claim: &Claim) -> LockResult<Acquired> {
        self.ask("acquire", |held| match held.get(&claim.name.to_string()) {
            Some((holder, _)) if holder == claim.run.as_str() => Acquired::Mine,
            Some((holder, _)) => Acquired::Held(holder.clone()),
            None => {
                held.insert(claim.name.to_string(), self.until(claim));
                Acquired::Taken
            }
        })
        .await
    }

    async fn take_over(&self, claim: &Claim, holder: &str) -> LockResult<bool> {
        self.ask("take over", |held| {
            let free = held.get(&claim.name.to_string()).is_none_or(|(now, _)| now == holder);
            if free {
                held.insert(claim.name.to_string(), self.until(claim));
            }
            free
        })
        .await
    }

    async fn renew(&self, claims: &[Claim]) -> LockResult<Vec<bool>> {
        self.ask("renew", |held| {
            let renew = claims.iter().map(|claim| {
                let name = claim.name.to_string();
                let mine = held.get(&name).is_none_or(|(holder, _)| holder == claim.run.as_str());
                if mine {
                    held.insert(name, self.until(claim));
                }
                mine
            });
            renew.collect()
        })
        .await
    }

    async fn release(&self, locks: &[(LockName, RunId)]) -> LockResult<()> {
        self.ask("release", |held| {
            for (name, run) in locks {
                let name = name.to_string();
                if held.get(&name).is_some_and(|(holder, _)| holder == run.as_str()) {
                    held.remove(&name);
                }
            }
        })
        .await
    }
}

/// Hints under way between nodes. The driver delivers those that are due.
#[derive(Debug, Default)]
pub struct Ether {
    ends: BTreeMap<usize, mpsc::Sender<BusMessage>>,
    under_way: Vec<(Timestamp, usize, BusMessage)>,
}

impl Ether {
    /// Delivers the hints that are due.
    pub fn deliver(&mut self, now: Timestamp) {
        let (due, later) = std::mem::take(&mut self.under_way).into_iter().partition(|(at, ..)| *at <= now);
        self.under_way = later;
        for (_, node, heard) in due {
            if let Some(end) = self.ends.get(&node) {
                // Hints that do not fit the queue are lost.
                let _ = end.try_send(heard);
            }
        }
    }
}

/// One node's end of the bus.
struct End {
    node: usize,
    world: Arc<World>,
}

/// Connects a node to the bus.
pub fn join(world: &Arc<World>, node: usize) -> BusEnd {
    let (sender, heard) = mpsc::channel(4_096);
    world.ether().ends.insert(node, sender);
    BusEnd { bus: Arc::new(End { node, world: world.clone() }), heard }
}

impl End {
    /// Sends a hint to a node; the hint may be lost, duplicated or delayed.
    fn send(&self, to: usize, heard: &BusMessage) {
        let plan = &self.world.plan;
        let now = self.world.clock.now();
        let copies: Vec<_> = {
            let mut node = self.world.node(self.node);
            let count = match node.rng.between(0, 99) {
                lost if lost < plan.bus_loses || node.no_bus => 0,
                99 | 98 => 2,
                _ => 1,
            };
            (0..count).map(|_| node.rng.between(0, plan.bus_delays)).collect()
        };
        for late in copies {
            self.world.ether().under_way.push((now.plus(Duration::from_millis(late)), to, heard.clone()));
        }
    }
}

impl Bus for End {
    fn tell(&self, hint: Hint) {
        let heard = BusMessage::Hint(hint);
        for node in (0..self.world.plan.nodes).filter(|node| *node != self.node) {
            self.send(node, &heard);
        }
    }

    fn listen(&self, channel: Channel) {
        self.send(self.node, &BusMessage::Listening(channel));
    }

    fn ignore(&self, _: &Channel) {}

    fn has_others(&self) -> bool {
        self.world.plan.nodes > 1
    }
}
