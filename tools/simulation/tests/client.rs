//! A client that switches to another node when its node does not answer as expected.

use std::{sync::Arc, time::Duration};

use hyper::Method;
use tokio::time::sleep;

use crate::{network, plan::Plan, reply::Reply, rng::Rng, world::World};

pub struct Client {
    pub world: Arc<World>,
    pub name: String,
    pub rng: Rng,
    node: usize,
}

impl Client {
    pub fn new(world: Arc<World>, name: String, mut rng: Rng) -> Self {
        let node = rng.between(0, world.plan.nodes as u64 - 1) as usize;
        Self { world, name, rng, node }
    }

    /// Name of the client's current node.
    pub fn node(&self) -> String {
        Plan::node(self.node)
    }

    pub fn note(&self, what: impl std::fmt::Display) {
        self.world.trace.note(&self.name, what);
    }

    /// Chooses a node at random, which may be the same one, and waits for a moment.
    pub async fn move_on(&mut self) {
        self.world.counts().reconnects += 1;
        self.node = self.rng.between(0, self.world.plan.nodes as u64 - 1) as usize;
        self.pause(10, 300).await;
    }

    pub async fn pause(&mut self, low: u64, high: u64) {
        sleep(Duration::from_millis(self.rng.between(low, high))).await;
    }

    /// Sends a request once.
    pub async fn send(&mut self, method: Method, path: &str, body: &str) -> Reply {
        let reply = network::ask(&self.node(), method.clone(), path, body).await;
        self.heard(&method, path, reply).await
    }

    /// Sends a request once, with a body that is sent line by line.
    pub async fn stream(&mut self, path: &str, lines: Vec<(u64, String)>) -> Reply {
        let reply = network::stream(&self.node(), path, lines).await;
        self.heard(&Method::POST, path, reply).await
    }

    async fn heard(&mut self, method: &Method, path: &str, reply: Reply) -> Reply {
        match &reply {
            Reply::Done(status, _) => self.note(format_args!("{method} {path}: {status}")),
            Reply::Refused(slug, _) => self.note(format_args!("{method} {path}: {slug}")),
            Reply::Unknown(why) => {
                // A fault outside of a node must not cause an internal error.
                if why.starts_with("500") {
                    self.world.tally.violation(format!("{method} {path}: {why}"));
                }
                self.note(format_args!("{method} {path} of {}: unknown", self.node()));
                self.world.counts().retries += 1;
                self.move_on().await;
            }
        }
        reply
    }

    /// Sends a request until it gets a clear answer.
    pub async fn insist(&mut self, method: Method, path: &str, body: &str) -> Reply {
        loop {
            match self.send(method.clone(), path, body).await {
                Reply::Unknown(_) => {}
                reply => return reply,
            }
        }
    }
}
