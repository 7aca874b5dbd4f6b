//! Failovers to a standby that lags.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use crate::{
    cluster::NODES,
    faults::Injector,
    history::{Class, Line, Loss, now},
};

/// Longest time until an event is acknowledged while nothing is broken.
const ACKNOWLEDGED: Duration = Duration::from_secs(10);
/// Longest time until all nodes have adopted the history of the standby.
const ADOPTED: Duration = Duration::from_secs(30);

/// Runs of a primary; commits that are lost later are among them.
const FENCES: &str = "SELECT t.id, r.fence, r.id, r.started_at FROM runs r JOIN threads t ON t.key = r.key";

impl Injector {
    /// Lets the standby lag while events are acknowledged, kills the primary, and promotes the standby. Waits until every
    /// node has adopted its history.
    pub fn promote_standby(&mut self, node: usize) -> String {
        let since = now();
        self.cluster.lag();
        let acknowledged = self.world.acknowledged.load(Ordering::Relaxed);
        self.wait((800, 2_500));
        self.until(ACKNOWLEDGED, |it| it.world.acknowledged.load(Ordering::Relaxed) > acknowledged);
        let generation = self.cluster.ask("SELECT max(generation) FROM lineage");
        // A node that is stopped has the lost events in memory when it continues.
        let stopped = self.rng.chance(30);
        if stopped {
            self.cluster.nodes[node].signal(Signal::SIGSTOP);
        }
        self.note_fences();
        self.cluster.postgres.kill();
        let until = now();
        self.cluster.fail_over();
        if stopped {
            self.cluster.nodes[node].signal(Signal::SIGCONT);
        }
        self.loss = Some(Loss { since, until });
        // Each node has committed a beat in the generation that one of them has opened.
        let beats = format!("SELECT count(*) FROM nodes WHERE generation > {generation}");
        let began = Instant::now();
        if !self.until(ADOPTED, |it| it.cluster.ask(&beats).parse().is_ok_and(|beats: usize| beats >= NODES)) {
            let what = format!("not all nodes have adopted the history of the standby in {ADOPTED:?}");
            self.world.wrong(Class::Unfinished, what);
        }
        let adopted = began.elapsed().as_millis();
        let window = (until - since) / 1_000;
        let asleep = if stopped { format!(", node {node} was asleep") } else { String::new() };
        format!("a window of {window} ms, adopted in {adopted} ms{asleep}")
    }

    /// Writes down the runs that the primary has.
    pub fn note_fences(&self) {
        for row in self.cluster.ask(FENCES).lines() {
            let [thread, fence, run, started] = row.split('|').collect::<Vec<_>>()[..] else { continue };
            let (Ok(fence), Ok(started)) = (fence.parse(), started.parse()) else { continue };
            self.history.write(&Line::Fence { thread: thread.to_owned(), fence, run: run.to_owned(), started });
        }
        self.history.flush();
    }
}
